package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestConfigCommands(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	s := open(t, srv)
	const at = "/config/mail"
	file := filepath.Join(t.TempDir(), "mail")
	check.Must(t, os.WriteFile(file, []byte("from: ann\nretries: 3\n"), 0o600))
	runWith(t, srv, "config get "+at).want(t, 1, "", "there is no value at /config/mail")
	runWith(t, srv, "config set "+at+" --replaces 0 x").want(t, 1, "", "there is no value")
	runWith(t, srv, "config set "+at+" --create --file "+file).want(t, 0, "/config/mail: version 0\n", "")
	runWith(t, srv, "config set "+at+" --create x").want(t, 75, "", "there is a node /config/mail")

	v, err := config.Open(s, at, config.Text, nil)
	check.Must(t, err)
	t.Cleanup(v.Close)
	check.Must(t, v.Set(t.Context(), "from: bob\nretries: 3\nhost: \x1b[2J"))
	runWith(t, srv, "config get "+at).want(t, 0, "from: bob\nretries: 3\nhost: \x1b[2J", "/config/mail: version 1, changed ")
	flags := []string{"--servers", strings.Join(srv.Addrs(), ",")}
	if r := runIn(t, "", true, append(flags, "config", "get", at)...); !strings.HasSuffix(r.stdout, `host: \x1b[2J`+"\n") {
		t.Errorf("%q", r.stdout)
	}
	var got struct {
		Version int
		Data    string
	}
	check.Must(t, json.Unmarshal([]byte(runWith(t, srv, "config get --json "+at).stdout), &got))
	check.Equal(t, got.Version, 1)
	check.Equal(t, got.Data, "from: bob\nretries: 3\nhost: \x1b[2J")

	const difference = "-from: bob\n+from: ann\n-host: \\x1b[2J\n"
	r := runWith(t, srv, "config diff "+at+" "+file)
	r.want(t, 1, difference, "")
	check.Equal(t, r.stdout, difference)
	runWith(t, srv, "config diff --json "+at+" "+file).want(t, 1, `"differs": true`, "")
	runWith(t, srv, "config set "+at+" --replaces 0 --file "+file).want(t, 75, "", "has version 1 by now, not 0")
	runIn(t, "n\n", true, append(flags, "config", "set", at, "--replaces", "1", "-f", file)...).want(t, 1, "", difference+"Replace version 1 of /config/mail? [y/N]")
	runIn(t, "y\n", true, append(flags, "config", "set", at, "--replaces", "1", "-f", file)...).want(t, 0, "version 2\n", "[y/N]")
	runWith(t, srv, "config diff "+at+" "+file).want(t, 0, "", "")
	runIn(t, "z", false, append(flags, "config", "set", at, "--replaces", "2", "-f", "-", "--json")...).want(t, 0, `"version": 3`, "")
	runWith(t, srv, "config get "+at).want(t, 0, "z", "version 3")
	check.Must(t, v.Set(t.Context(), "\xff"))
	runWith(t, srv, "config get --json "+at).want(t, 0, `"base64": "/w=="`, "")
}

// TestConfigRefusesOthers: no command on values changes a node of another recipe.
func TestConfigRefusesOthers(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	s := open(t, srv)
	held := acquired(t, s, "host-1:42")
	check.Must(t, semaphore.SetLimit(t.Context(), s, "/limits/export", 4))
	candidate, err := election.New(s, "/leader", nil)
	check.Must(t, err)
	t.Cleanup(candidate.Close)
	zktest.Await(t, candidate.Events(), func(ev election.Event) bool { _, ok := ev.(election.Elected); return ok })
	runWith(t, srv, "put /q item")
	runWith(t, srv, "barrier raise /b")
	names, _, err := s.Children(t.Context(), "/q")
	check.Must(t, err)
	for at, kind := range map[string]string{
		path: "kind lock", held.Node(): "lives with the session", "/limits/export": "kind semaphore", "/leader": "kind election",
		"/leader/candidates": "kind election", "/q": "kind queue", "/q/" + names[0]: "/q is of the kind queue", "/b": "kind barrier",
	} {
		runWith(t, srv, "config get "+at).want(t, 1, "", kind)
		runWith(t, srv, "config set --replaces 0 "+at+" x").want(t, 1, "", kind)
	}
	runWith(t, srv, "config set --create "+path+"/x x").want(t, 1, "", "kind lock")
	runWith(t, srv, "config set --create /q/x x").want(t, 1, "", "kind queue")
}

// TestSetLimit: the limit of a semaphore is changed, and no other data.
func TestSetLimit(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	s := open(t, srv)
	const at = "/limits/export"
	runWith(t, srv, "set-limit -y "+at+" 3").want(t, 1, "", "there is no semaphore /limits/export: --create")
	runWith(t, srv, "set-limit -y --create "+at+" 2").want(t, 0, "/limits/export: limit 2\n", "")
	for range 2 {
		l, err := semaphore.Acquire(t.Context(), s, at, 2, nil)
		check.Must(t, err)
		t.Cleanup(l.Close)
	}
	next, err := semaphore.New(s, at, 2, nil)
	check.Must(t, err)
	t.Cleanup(next.Close)
	flags := []string{"--servers", strings.Join(srv.Addrs(), ",")}
	runIn(t, "n\n", true, append(flags, "set-limit", at, "1")...).want(t, 1, "", "2 are held, and stay held until they are released. Change the limit of /limits/export from 2 to 1? [y/N]")
	runWith(t, srv, "set-limit -y --json "+at+" 3").want(t, 0, `"was": 2`, "")
	zktest.Await(t, next.Events(), func(ev semaphore.Event) bool { _, ok := ev.(semaphore.Acquired); return ok })
	_, err = s.Create(t.Context(), "/value", []byte("5"), session.Persistent)
	check.Must(t, err)
	runWith(t, srv, "set-limit -y --create /value 3").want(t, 1, "", "/value is no semaphore: it is of the kind values")
	acquired(t, s, "host-1:42")
	runWith(t, srv, "set-limit -y "+path+" 3").want(t, 1, "", "it is of the kind lock")
}

func TestDifference(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		old, next string
		want      []string
	}{
		{"a\nb\n", "a\nb\n", nil},
		{"a\nb", "a\nb\n", []string{"- (no newline at the end)", "+ (a newline at the end)"}},
		{"a\nb\nc\n", "a\nx\nc\n", []string{"-b", "+x"}},
		{"a\nb\nc\nd\n", "b\nc\ne\n", []string{"-a", "-d", "+e"}},
		{"", "a\n", []string{"+a"}},
		{"b\na\n", "a\nb\n", []string{"+a", "-a"}},
		{"\xff", "a", []string{"- 1 byte", "+ 1 byte"}},
		{"\x1b\tx", "", []string{`-\x1b\tx`}},
		{strings.Repeat("a\n", 6000) + "x\n", strings.Repeat("b\n", 6000) + "y\n", nil},
	} {
		got := difference([]byte(test.old), []byte(test.next))
		switch {
		case len(test.old) > 10000:
			check.Equal(t, len(got), 12002, "lines of texts without a common line")
		case !slices.Equal(got, test.want):
			t.Errorf("%q and %q: %q, want %q", test.old, test.next, got, test.want)
		}
	}
}
