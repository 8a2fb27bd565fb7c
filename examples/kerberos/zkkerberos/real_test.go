package zkkerberos_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/examples/kerberos/internal/kdc"
	"github.com/zkactors/zkactors/examples/kerberos/zkkerberos"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// have returns v, unless there is an error.
func have[T any](v T, err error) func(tb testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// A stage has a KDC, and a server that requires its tickets.
type stage struct {
	*kdc.KDC

	keytab  string // of the server
	servers *zktest.Ensemble
	opts    *zkkerberos.Options
}

// TestReal tells the stories on a real KDC and a real server.
func TestReal(t *testing.T) {
	k := kdc.Start(t)
	s := &stage{KDC: k, keytab: k.Principal(kdc.Service), opts: &zkkerberos.Options{Config: k.Config}}
	s.servers = k.Servers(1, s.keytab)
	for name, story := range map[string]func(*testing.T, context.Context, *stage){
		"session": sessionStory, "refused": refusedStory, "expiry": expiryStory, "outage": outageStory, "rotation": rotationStory,
	} {
		t.Run(name, func(t *testing.T) {
			story(t, check.Patient(t), s)
		})
	}
}

// sessionStory: a session authenticates each of its connections, and recipes work with it. One
// ticket does for all connections.
func sessionStory(t *testing.T, ctx context.Context, st *stage) { //nolint:revive // t stands first everywhere
	alice := have(zkkerberos.FromKeytab(st.Principal("alice"), "alice@"+kdc.Realm, st.opts))(t)
	proxy := zktest.NewProxy(t, st.servers.Addrs()...)
	s := have(session.Open(ctx, kdc.Addrs(proxy.Addrs()), &session.Options{Timeout: 10 * time.Second, SASL: alice}))(t)
	defer s.Close()

	acl := []session.ACL{{Perms: session.PermAll, Scheme: "sasl", ID: "alice@" + kdc.Realm}}
	have(s.CreateWithACL(ctx, "/alice", []byte("x"), session.Persistent, acl))(t)
	m := have(lock.NewMutex(s, "/locks/alice", nil))(t)
	if err := m.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	const cuts = 3
	for range cuts {
		proxy.Disconnect(0)
		if data, _, err := s.Get(ctx, "/alice"); err != nil || string(data) != "x" {
			t.Fatalf("after a reconnect: %q, %v", data, err)
		}
	}
	if err := m.Err(); err != nil {
		t.Error(err)
	}
	if err := m.Unlock(ctx); err != nil {
		t.Error(err)
	}
	if logins, tickets := st.Logins("alice"), st.Tickets("alice"); logins > cuts || tickets > cuts {
		t.Errorf("%d logins and %d tickets for %d connections: no ticket was used twice", logins, tickets, 1+cuts)
	}

	bob := have(zkkerberos.FromCache("FILE:"+st.Cache("bob", st.Principal("bob")), st.opts))(t)
	other := have(session.Open(ctx, kdc.Addrs(st.servers.Addrs()), &session.Options{SASL: bob}))(t)
	defer other.Close()
	if _, _, err := other.Get(ctx, "/alice"); !errors.Is(err, session.ErrNoAuth) {
		t.Errorf("bob reads what is alice's: %v", err)
	}
}

// refusedStory: a client without a ticket is refused, with an error that says why and has no
// secrets.
func refusedStory(t *testing.T, ctx context.Context, st *stage) { //nolint:revive // t stands first everywhere
	stale, eve := st.Principal("stale"), st.Principal("eve")
	st.Keys("stale") // the keys in the first keytab are not its keys any more
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unknown := *st.opts
	unknown.Service = func(host string) string { return "zookeeper/other." + host }
	missing := *st.opts
	missing.Config = filepath.Join(t.TempDir(), "krb5.conf")
	for _, c := range []struct {
		name string
		from func() (*zkkerberos.Mechanism, error)
		says string
	}{
		{"old keys", func() (*zkkerberos.Mechanism, error) { return zkkerberos.FromKeytab(stale, "stale", st.opts) }, "stale"},
		{"no such key", func() (*zkkerberos.Mechanism, error) { return zkkerberos.FromKeytab(eve, "mallory", st.opts) }, "mallory"},
		{"no keytab", func() (*zkkerberos.Mechanism, error) { return zkkerberos.FromKeytab(empty+"2", "eve", st.opts) }, "no such file"},
		{"an empty keytab", func() (*zkkerberos.Mechanism, error) { return zkkerberos.FromKeytab(empty, "eve", st.opts) }, empty},
		{"no cache", func() (*zkkerberos.Mechanism, error) { return zkkerberos.FromCache(empty+"2", st.opts) }, "kinit"},
		{"an empty cache", func() (*zkkerberos.Mechanism, error) { return zkkerberos.FromCache(empty, st.opts) }, "damaged"},
		{"no such service", func() (*zkkerberos.Mechanism, error) { return zkkerberos.FromKeytab(eve, "eve", &unknown) }, "zookeeper/other.localhost"},
		{"no krb5.conf", func() (*zkkerberos.Mechanism, error) { return zkkerberos.FromKeytab(eve, "eve", &missing) }, missing.Config},
	} {
		_, _, err := have(c.from())(t).Start(ctx, "localhost:2181")
		if !errors.Is(err, zkkerberos.ErrNoTicket) || !errors.Is(err, session.ErrAuthFailed) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	sasl := have(zkkerberos.FromKeytab(stale, "stale", st.opts))(t)
	_, err := session.Open(ctx, kdc.Addrs(st.servers.Addrs()), &session.Options{SASL: sasl})
	if !errors.Is(err, session.ErrAuthFailed) || !strings.Contains(err.Error(), zkkerberos.ErrNoTicket.Error()) {
		t.Errorf("a session with old keys: %v", err)
	}
	// The server does not refuse a session without SASL, but its first request.
	nobody := have(session.Start(kdc.Addrs(st.servers.Addrs()), nil))(t)
	defer nobody.Close()
	if _, err := nobody.Exists(ctx, "/"); !errors.Is(err, session.ErrAuthFailed) {
		t.Errorf("without a ticket: %v", err)
	}
}

// expiryStory: when its ticket has expired, a client logs in again by itself. A session that stays
// connected does not notice.
func expiryStory(t *testing.T, ctx context.Context, st *stage) { //nolint:revive // t stands first everywhere
	keytab := st.Principal("carol", "-maxlife", `"3 seconds"`)
	opts := *st.opts
	opts.Service = func(string) string { return kdc.Service } // the servers are named by address
	carol := have(zkkerberos.FromKeytab(keytab, "carol", &opts))(t)
	proxy := zktest.NewProxy(t, st.servers.Addrs()...)
	s := have(session.Open(ctx, proxy.Addrs(), &session.Options{Timeout: 10 * time.Second, SASL: carol}))(t)
	defer s.Close()
	have(s.Create(ctx, "/carol", nil, session.Ephemeral))(t)
	for st.Logins("carol") < 2 {
		proxy.Disconnect(0)
		have(s.Exists(ctx, "/carol"))(t) // after a reconnect; fails at the end of ctx
	}
	if stat := have(s.Exists(ctx, "/carol"))(t); stat == nil {
		t.Error("the session expired with its ticket")
	}

	// Nobody but the user can renew the ticket in a cache: the error says how.
	var err error
	for cache := have(zkkerberos.FromCache(st.Cache("carol", keytab), &opts))(t); err == nil; {
		_, _, err = cache.Start(ctx, "localhost:2181") // a new ticket each time, until the cache's has expired
	}
	if !errors.Is(err, zkkerberos.ErrNoTicket) || !errors.Is(err, session.ErrAuthFailed) || !strings.Contains(err.Error(), "has expired") || !strings.Contains(err.Error(), "kinit") {
		t.Errorf("an expired cache: %v", err)
	}
}

// An overheard mechanism reports the errors of its beginnings.
type overheard struct {
	session.SASL

	begun chan error
}

func (o *overheard) Start(ctx context.Context, server string) (session.SASLExchange, []byte, error) {
	x, token, err := o.SASL.Start(ctx, server)
	select {
	case o.begun <- err:
	default:
	}
	return x, token, err
}

// outageStory: while the KDC is down requests wait, and a session that has a ticket reconnects.
func outageStory(t *testing.T, ctx context.Context, st *stage) { //nolint:revive // t stands first everywhere
	keytab := st.Principal("dave")
	dave := have(zkkerberos.FromKeytab(keytab, "dave", st.opts))(t)
	proxy := zktest.NewProxy(t, st.servers.Addrs()...)
	s := have(session.Open(ctx, kdc.Addrs(proxy.Addrs()), &session.Options{Timeout: 10 * time.Second, SASL: dave}))(t)
	defer s.Close()
	have(s.Create(ctx, "/dave", nil, session.Ephemeral))(t)
	st.Stop()
	proxy.Disconnect(0)
	if stat := have(s.Exists(ctx, "/dave"))(t); stat == nil {
		t.Error("the session did not survive a reconnect without a KDC")
	}

	late := &overheard{SASL: have(zkkerberos.FromKeytab(keytab, "dave", st.opts))(t), begun: make(chan error)}
	other := have(session.Start(kdc.Addrs(st.servers.Addrs()), &session.Options{SASL: late}))(t)
	defer other.Close()
	for range 2 {
		if err := <-late.begun; !errors.Is(err, zkkerberos.ErrNoTicket) || errors.Is(err, session.ErrAuthFailed) {
			t.Errorf("without a KDC: %v", err)
		}
	}
	st.Restart()
	have(other.Exists(ctx, "/"))(t)
}

// rotationStory: when the server has new keys, one connection fails, and the next has a new ticket.
func rotationStory(t *testing.T, ctx context.Context, st *stage) { //nolint:revive // t stands first everywhere
	erin := have(zkkerberos.FromKeytab(st.Principal("erin"), "erin", st.opts))(t)
	proxy := zktest.NewProxy(t, st.servers.Addrs()...)
	s := have(session.Open(ctx, kdc.Addrs(proxy.Addrs()), &session.Options{Timeout: 10 * time.Second, SASL: erin}))(t)
	defer s.Close()
	have(s.Create(ctx, "/erin", nil, session.Ephemeral))(t)
	if err := os.Rename(st.Keys(kdc.Service), st.keytab); err != nil {
		t.Fatal(err)
	}
	events := s.Events(ctx)
	proxy.Disconnect(0)
	zktest.Await(t, events, func(ev session.Event) bool {
		_, ok := ev.(session.Resumed)
		return ok
	})
	if stat := have(s.Exists(ctx, "/erin"))(t); stat == nil {
		t.Error("the session did not survive the server's new keys")
	}
	if logins := st.Logins("erin"); logins < 2 {
		t.Errorf("%d logins", logins)
	}
	if text := fmt.Sprintf("%v", erin); text != "GSSAPI:erin" {
		t.Error(text)
	}
}
