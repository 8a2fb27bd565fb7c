package session

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/wire"
)

func TestParseConnectString(t *testing.T) {
	for _, row := range []struct {
		connect string
		servers []string
		chroot  string
	}{
		{"zk1:2181,zk2:2182/apps/billing", []string{"zk1:2181", "zk2:2182"}, "/apps/billing"},
		{"zk1", []string{"zk1:2181"}, ""},
		{"zk1, zk2/", []string{"zk1:2181", "zk2:2181"}, ""},
		{"[::1]:2181,[::2]", []string{"[::1]:2181", "[::2]:2181"}, ""},
	} {
		servers, chroot, err := ParseConnectString(row.connect)
		check.True(t, err == nil && slices.Equal(servers, row.servers) && chroot == row.chroot, "%q: %q, %q, %v", row.connect, servers, chroot, err)
	}
	for _, bad := range []string{"", "/a", "zk1:0", "zk1:port", "zk1:99999", ":2181", "zk1,,zk2", "zk1/a/", "zk1/a//b", "zk1:2181:3", "zk1/a,zk2/a", "zk1:2181/a,zk2:2181/a"} {
		if servers, chroot, err := ParseConnectString(bad); err == nil {
			t.Errorf("%q is accepted: %q, %q", bad, servers, chroot)
		}
	}
}

// TestServersOfWrongForm: the error names the address, and what is wrong with it.
func TestServersOfWrongForm(t *testing.T) {
	for _, row := range []struct{ server, why string }{
		{"", "it is empty"},
		{":2181", "the host is empty"},
		{"http://zk1:2181", "it is a URL"},
		{"zk1:99999", `the port is "99999"`},
		{"zk1:0", `the port is "0"`},
		{"zk1:", `the port is ""`},
		{"zk1:+2181", `the port is "+2181"`},
		{"zk1:2181:3", "too many colons"},
		{"zk1,zk2", "it is more than one server"},
		{"zk1,zk2:2181", "it is more than one server"},
		{"zk1:2181/apps", "it has a path"},
		{"zk1 zk2", "the character ' '"},
		{"zk1;zk2", "the character ';'"},
		{"user@zk1:2181", "the character '@'"},
		{"zk1\n", `the character '\n'`},
		{"?", "the character '?'"},
		{"\xff", "the character"},
		{"::1", "an IPv6 address stands in brackets"},
		{"[::z]:2181", `"::z" is no IP address`},
		{"10.0.0.256", `"10.0.0.256" is no IP address`},
		{"10.0.0", `"10.0.0" is no IP address`},
		{"zk1..example.com", "the parts of a host"},
		{".", `"." is no IP address`},
		{"a..", "the parts of a host"},
		{strings.Repeat("a", 64) + ".com", "and \"aaaa"},
		{strings.Repeat("a.", 127), "the host has 254 bytes"},
	} {
		_, err := Start([]string{"zk0", row.server}, nil)
		check.True(t, isAny(err, ErrInvalidArgument) && strings.Contains(err.Error(), fmt.Sprintf("servers[1]: %q", row.server)) && strings.Contains(err.Error(), row.why), "%q: %v", row.server, err)
	}
	for _, good := range []string{"zk1", "zk_1", "4242", "zk1.example.com.:2181", "zookeeper.1:2181", "bücher.example", "10.0.0.1", "[fe80::1%eth0]:2181", "[::1]"} {
		check.OK(t, firstOf(checkServers([]string{good})))
	}
	_, _, err := ParseConnectString("http://zk1:2181")
	check.True(t, isAny(err, ErrInvalidArgument) && strings.Contains(err.Error(), "it is a URL"), "%v", err)
}

func firstOf(_ []string, err error) error { return err }

// TestConnectStringAsServer: the error of a list that has a connect string in it names the function
// that splits it.
func TestConnectStringAsServer(t *testing.T) {
	for _, server := range []string{"zk1:2181,zk2:2181", "zk1:2181/apps"} {
		_, err := Start([]string{server}, nil)
		check.True(t, errors.Is(err, ErrInvalidArgument) && strings.Contains(err.Error(), "ParseConnectString"), "%q: %v", server, err)
	}
}

func TestOptionsAreRefused(t *testing.T) {
	for _, row := range []struct {
		opts Options
		name string
	}{
		{Options{Timeout: -time.Second}, "Timeout"},
		{Options{Timeout: 1}, "Timeout"},
		{Options{ServerTick: -1}, "ServerTick"},
		{Options{Timeout: 2 * time.Second, ServerTick: 10 * time.Second}, "ServerTick 10s: must be at most 1.3 times the Timeout, which is 2s"},
		{Options{CloseTimeout: -1}, "CloseTimeout"},
		{Options{RequestTimeout: -1}, "RequestTimeout"},
		{Options{ResolveEvery: -1}, "ResolveEvery"},
		{Options{MaxRequest: 10}, "MaxRequest"},
		{Options{MaxReply: -1}, "MaxReply"},
		{Options{Chroot: "apps"}, "Chroot"},
		{Options{Chroot: "/apps/"}, "Chroot"},
		{Options{Auth: []Auth{{Secret: []byte("x")}}}, "Auth[0]"},
		{Options{Auth: []Auth{{Scheme: "digest", Secret: []byte("hunter2")}}}, "Auth[0]: the secret of a digest is user:password"},
	} {
		_, err := Open(t.Context(), []string{"127.0.0.1:1"}, &row.opts)
		check.True(t, isAny(err, ErrInvalidArgument, ErrInvalidPath) && strings.Contains(err.Error(), "Options."+row.name) && !strings.Contains(err.Error(), "hunter2"), "%s: %v", row.name, err)
	}
	for _, servers := range [][]string{nil, {""}, {"a:b"}, {"a:1", "b:-1"}} {
		if _, err := Open(t.Context(), servers, nil); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "servers") {
			t.Errorf("%q: %v", servers, err)
		}
	}
}

func TestAuthIsSecret(t *testing.T) {
	a := Auth{Scheme: "digest", Secret: []byte("user:password")}
	mechanism := DigestMD5("user", "password")
	opts, withSASL := Options{Auth: []Auth{a}}, Options{SASL: mechanism}
	writers := map[string]func(v any) string{
		"JSON": func(v any) string {
			text, err := json.Marshal(v)
			return fmt.Sprint(string(text), err)
		},
		"slog as text": func(v any) string {
			var b strings.Builder
			slog.New(slog.NewTextHandler(&b, nil)).Info("opened", "with", v)
			return b.String()
		},
		"slog as JSON": func(v any) string {
			var b strings.Builder
			slog.New(slog.NewJSONHandler(&b, nil)).Info("opened", "with", v)
			return b.String()
		},
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		writers[verb] = func(v any) string { return fmt.Sprintf(verb, v) }
	}
	const secret = "password"
	check.Equal(t, fmt.Sprintf("%d", mechanism), fmt.Sprint(mechanism))
	for name, write := range writers {
		for _, v := range []any{a, &a, []Auth{a}, map[string]Auth{"a": a}, struct{ A Auth }{a}, opts, &opts, mechanism, withSASL, &withSASL, []SASL{mechanism}} {
			text := write(v)
			for _, leak := range []string{
				secret, fmt.Sprintf("%x", secret), strings.Trim(fmt.Sprintf("%d", []byte(secret)), "[]"),
				base64.StdEncoding.EncodeToString(a.Secret)[4:12],
			} {
				check.True(t, !strings.Contains(text, leak), "%s of %T shows the secret: %s", name, v, text)
			}
		}
	}
}

func TestCreateModes(t *testing.T) {
	for _, good := range []CreateMode{Persistent, Ephemeral, PersistentSequential, EphemeralSequential, Container, TTL(time.Second), SequentialTTL(time.Hour)} {
		check.OK(t, good.validate(), good)
	}
	for _, bad := range []CreateMode{-1, 7, 77, 4 << 3, TTL(0), TTL(-time.Second), Persistent | 1<<modeBits, modeSequentialTTL} {
		check.Is(t, bad.validate(), ErrInvalidArgument, bad, "is accepted")
	}
	check.Equal(t, TTL(time.Minute).ttl(), time.Minute, "TTL(1m).ttl()")
}

// TestOwnerOfContainers: no session owns a container, though ClickHouse Keeper says so with a
// number.
func TestOwnerOfContainers(t *testing.T) {
	for told, want := range map[int64]int64{0: 0, math.MinInt64: 0, 42: 42, -42: -42} {
		check.Equal(t, statOf(&wire.Stat{EphemeralOwner: told}).EphemeralOwner, want)
	}
}

// A request that a busy server has refused, and whose context has ended by then, fails with the
// cause too.
func TestRefusedAtTheEnd(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	_, err := repeatPassing(ctx, Async{}, func() (int, error) {
		end(enough)
		return 0, &ServerError{Code: -127}
	})
	check.Is(t, err, enough)
	check.Is(t, err, ErrBusy)
}

// TestSRV: only records of the smallest priority are used.
func TestSRV(t *testing.T) {
	got := serversIn([]*net.SRV{
		{Target: "zk1.example.com.", Port: 2181, Priority: 1, Weight: 9},
		{Target: "zk2.example.com.", Port: 2182, Priority: 1},
		{Target: "spare.example.com.", Port: 2181, Priority: 2},
	})
	if want := []string{"zk1.example.com:2181", "zk2.example.com:2182"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	check.Len(t, serversIn(nil), 0)
	check.Fails(checkServers(nil))(t, ErrInvalidArgument)
}
