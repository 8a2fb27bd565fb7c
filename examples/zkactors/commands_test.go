package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // ZooKeeper's scheme digest uses it
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// A result is the outcome of a command line.
type result struct {
	status         int
	stdout, stderr string
}

// runIn runs a command line with the given standard input. terminal says whether the program takes
// its streams for terminals.
func runIn(t *testing.T, stdin string, terminal bool, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := &program{stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr, terminal: func(any) bool { return terminal }}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	status := p.run(ctx, args)
	return result{status, stdout.String(), stderr.String()}
}

// runWith runs a command line against a server.
func runWith(t *testing.T, srv *zktest.Server, line string, more ...string) result {
	t.Helper()
	args := append(strings.Fields(line), more...)
	return runIn(t, "", false, append([]string{"--servers", strings.Join(srv.Addrs(), ",")}, args...)...)
}

// want checks a result: each of the two outputs contains the given text, or is empty if the text is
// empty.
func (r result) want(t *testing.T, status int, stdout, stderr string) {
	t.Helper()
	holds := func(got, want string) bool { return strings.Contains(got, want) && (want != "" || got == "") }
	if r.status != status || !holds(r.stdout, stdout) || !holds(r.stderr, stderr) {
		t.Errorf("status %d, want %d; it says %q, want %q; it complains %q, want %q", r.status, status, r.stdout, stdout, r.stderr, stderr)
	}
}

// TestBadCommandLines: each bad command line is refused at once, without a server, with status 64.
// The error names the argument.
func TestBadCommandLines(t *testing.T) {
	t.Setenv("ZOOKEEPER", "")
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const at = "--servers 127.0.0.1:1 "
	lines := []struct{ line, word string }{
		{"", "no command"},
		{"lss /", `"lss"`},
		{"--nonsense ls", "--nonsense"},
		{"-z ls", "'z'"},
		{"ls /", "--servers"},
		{"--servers , ls", "--servers"},
		{"--servers zk1:port:2 ls", "--servers"},
		{"--servers zk1/../x ls", "--servers"},
		{"--servers zk1/a/ ls", "--servers"},
		{at + "--timeout 0s ls", "--timeout"},
		{at + "--timeout -1s ls", "--timeout"},
		{at + "--timeout ten ls", "--timeout"},
		{at + "--auth secret ls", "--auth"},
		{at + "--auth digest:user ls", "--auth"},
		{at + "--auth :x ls", "--auth"},
		{at + "--tls-cert c.pem ls", "--tls-key"},
		{at + "--tls-key k.pem ls", "--tls-cert"},
		{at + "--tls-ca /no/such/file ls", "--tls-ca"},
		{at + "--tls-ca " + empty + " ls", "--tls-ca"},
		{at + "--tls-cert " + empty + " --tls-key " + empty + " ls", "--tls-cert"},
		{at + "--tls-server-name zk ls", "--tls-server-name"},
		{at + "--json=perhaps ls", "--json"},
		{at + "ls locks", `"locks"`},
		{at + "ls /locks/", `"/locks/"`},
		{at + "ls /a//b", `"/a//b"`},
		{at + "ls /a/../b", `"/a/../b"`},
		{at + "ls /a /b", `"/b"`},
		{at + "ls --all=maybe", "--all"},
		{at + "watch a", `"a"`},
		{at + "console a", `"a"`},
		{at + "--timeout 600h ls", "--timeout"},
		{at + "--sasl-file /no/such/file ls", "--sasl-file"},
		{at + "--sasl-file " + empty + " ls", "--sasl-file"},
		{at + "ls --sort name /", "--sort"},
		{at + "ls --slow 1h /", "--stuck"},
		{at + "watch --slow 0s /", "--slow"},
		{at + "lock --json /l -- true", "--json"},
		{at + "elect /e --json -- true", "--json"},
		{at + "dead list --dead-letter q /q", "--dead-letter"},
		{at + "console --listen nowhere", "--listen"},
		{at + "console / /b", `"/b"`},
		{at + "watch / --nonsense", "--nonsense"},
		{at + "lock", "PATH"},
		{at + "lock -- true", "PATH"},
		{at + "lock /l", "command"},
		{at + "lock /l --", "command"},
		{at + "lock l -- true", `"l"`},
		{at + "lock /l/ -- true", `"/l/"`},
		{at + "lock /l --also m -- true", `--also "m"`},
		{at + "lock /l --also /m --also /l -- true", `--also "/l"`},
		{at + "lock /l --also /m --limit 2 -- true", "--also"},
		{at + "lock /l -w -1s -- true", "--wait"},
		{at + "lock /l -w 3 -- true", "--wait"},
		{at + "lock /l -n -w 3s -- true", "--wait"},
		{at + "lock /l --grace -1s -- true", "--grace"},
		{at + "lock /l --grace 10s -- true", "--grace"},
		{at + "lock /l -E 256 -- true", "--conflict-exit"},
		{at + "lock /l --conflict-exit -1 -- true", "--conflict-exit"},
		{at + "lock /l -E seventy -- true", "--conflict-exit"},
		{at + "lock /l --limit 0 -- true", "--limit"},
		{at + "lock /l --limit -2 -- true", "--limit"},
		{at + "lock /l --weight 2 -- true", "--limit"},
		{at + "lock /l --limit 2 --weight 3 -- true", "--weight"},
		{at + "lock /l --limit 2 -s -- true", "--shared"},
		{at + "lock /l --nonsense -- true", "--nonsense"},
		{at + "lock /l --timeout 0s -- true", "--timeout"},
		{at + "elect", "PATH"},
		{at + "elect /e", "command"},
		{at + "elect /e -n -- true", "'n'"},
		{at + "elect /e --limit 2 -- true", "--limit"},
		{at + "revoke", "PATH"},
		{at + "revoke /l", "--yes"},
		{at + "revoke -y /l --force-after -1s", "--force-after"},
		{at + "revoke -y l", `"l"`},
		{at + "revoke -y /l --layout curators", "--layout"},
		{at + "break", "PATH"},
		{at + "break /l", "--yes"},
		{at + "break -y /l /m", `"/m"`},
		{at + "retire", "PATH"},
		{at + "retire -y /tx", "--site"},
		{at + "retire -y --site a --transaction x /tx", "--transaction"},
		{at + "retire --site a /tx", "--yes"},
		{at + "retire -y --site a tx", `"tx"`},
		{at + "put", "PATH"},
		{at + "put q x", `"q"`},
		{at + "put --layout zk /q x", "--layout"},
		{at + "put --delay -1s /q x", "--delay"},
		{at + "put --layout kazoo --delay 1s /q x", "--delay"},
		{at + "put --layout kazoo --priority 1 /q x", "--priority"},
		{at + "put --priority 3000000000 /q x", "--priority"},
		{at + "put --lines /q x", "--lines"},
		{at + "take", "PATH"},
		{at + "take /q x", `"x"`},
		{at + "take --count 0 /q", "--count"},
		{at + "take -n -w 1s /q", "--wait"},
		{at + "take -w -1s /q", "--wait"},
		{at + "take --layout none /q", "--layout"},
		{at + "len", "PATH"},
		{at + "len /q 3", `"3"`},
		{at + "pause", "PATH"},
		{at + "resume q", `"q"`},
		{at + "purge /q", "--yes"},
		{at + "drain -w -1s /q", "--wait"},
		{at + "dead", "list"},
		{at + "dead bury /q", `"bury"`},
		{at + "dead list", "PATH"},
		{at + "dead list --count -1 /q", "--count"},
		{at + "dead redrive /q", "--all"},
		{at + "dead redrive --all /q 6b3d", `"6b3d"`},
		{at + "dead purge -y /q", "--all"},
		{at + "dead purge --all /q", "--yes"},
		{at + "barrier", "raise"},
		{at + "config", "get"},
		{at + "config put /c", `"put"`},
		{at + "config get", "PATH"},
		{at + "config get /c x", `"x"`},
		{at + "config set /c x", "--replaces"},
		{at + "config set --create --replaces 1 /c x", "--create"},
		{at + "config set --create /c", "--file"},
		{at + "config set --create /c x y", `"y"`},
		{at + "config set --create --file /no/such/file /c", "--file"},
		{at + "config set --create --file " + empty + " /c", "empty"},
		{at + "config set --replaces one /c x", "--replaces"},
		{at + "config diff /c", "FILE"},
		{at + "config diff /c /no/such/file", "/no/such/file"},
		{at + "set-limit /s 1", "--yes"},
		{at + "set-limit -y /s", "number"},
		{at + "set-limit -y /s 0", `"0"`},
		{at + "set-limit -y /s many", `"many"`},
		{at + "barrier open /b", `"open"`},
		{at + "barrier raise", "PATH"},
		{at + "barrier raise /b /c", `"/c"`},
		{at + "barrier lift b", `"b"`},
		{at + "barrier wait -w -1s /b", "--wait"},
		{at + "barrier wait -w soon /b", "--wait"},
	}
	if len(lines) < 50 {
		t.Error("there are only", len(lines))
	}
	for _, test := range lines {
		t.Run(test.line, func(t *testing.T) {
			r := runIn(t, "", false, strings.Fields(test.line)...)
			if r.status != exitUsage || !strings.Contains(r.stderr, test.word) || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("%+v, want %s", r, test.word)
			}
		})
	}
}

// TestSecretsAreNotShown: no error contains a secret.
func TestSecretsAreNotShown(t *testing.T) {
	r := runIn(t, "", false, "--servers", "127.0.0.1:1", "--auth", "digest:hunter2", "ls")
	r.want(t, 64, "", "--auth")
	if strings.Contains(r.stderr, "hunter2") {
		t.Error(r.stderr)
	}
}

// TestBadSASL: the credentials for SASL stand in a file or in the environment, and in no error.
func TestBadSASL(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sasl")
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := runIn(t, "", false, "--servers", "127.0.0.1:1", "--sasl-file", file, "ls")
	r.want(t, 64, "", "--sasl-file "+file+": the credentials are not user:password")
	t.Setenv("ZOOKEEPER_SASL", ":hunter2")
	second := runIn(t, "", false, "--servers", "127.0.0.1:1", "ls")
	second.want(t, 64, "", "$ZOOKEEPER_SASL: the credentials are not user:password")
	t.Setenv("ZOOKEEPER_SASL", "operator:hunter2")
	third := runIn(t, "", false, "--servers", "127.0.0.1:1", "--timeout", "300ms", "ls")
	third.want(t, 69, "", "no session within --timeout")
	if all := r.stderr + second.stderr + third.stderr; strings.Contains(all, "hunter2") {
		t.Error(all)
	}
}

// TestRealSASL: on a server that requires SASL, only a user with a password can read.
func TestRealSASL(t *testing.T) {
	jaas := filepath.Join(t.TempDir(), "jaas.conf")
	const users = `Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_operator="se:cret"; };`
	if err := os.WriteFile(jaas, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	ens := zktest.StartEnsemble(t, 1,
		zktest.Setting("authProvider.1", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"),
		zktest.Setting("sessionRequireClientSASLAuth", "true"),
		zktest.JVMFlags("-Djava.security.auth.login.config="+jaas))
	ls := func() result {
		return runIn(t, "", false, "--servers", strings.Join(ens.Addrs(), ","), "--timeout", "6s", "ls")
	}
	if r := ls(); r.status == 0 {
		t.Errorf("%+v", r)
	}
	t.Setenv("ZOOKEEPER_SASL", "operator:hunter2")
	ls().want(t, 77, "", "authentication failed")
	t.Setenv("ZOOKEEPER_SASL", "operator:se:cret")
	ls().want(t, 0, "Nothing stands below /", "")
}

// TestErrorsInWords: errors name what is on the command line, and no names of Go.
func TestErrorsInWords(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	runWith(t, srv, "dead list --dead-letter /q/x /q").want(t, 64, "", `--dead-letter: invalid path "/q/x"`)
	runWith(t, srv, "barrier raise /").want(t, 64, "", "the root cannot be a barrier")
	runIn(t, "", false, "--servers", "127.0.0.1:1", "--timeout", "300ms", "ls").want(t, 69, "", "no session within --timeout")
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"ls", "watch", "len /q", "put /q x", "take /q", "pause /q", "drain /q", "purge -y /q", "dead list /q", "revoke -y /l", "break -y /l", "retire -y --site a /l", "barrier raise /b", "elect /e -- true"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"--servers", "127.0.0.1:1", "--timeout", "300ms"}, strings.Fields(line)...)
			runIn(t, "", false, args...).want(t, 69, "", "127.0.0.1:1")
		})
	}
}

func TestHelp(t *testing.T) {
	for line, words := range map[string][]string{
		"-h": {"zkactors ls", "Exit status", "ZOOKEEPER_AUTH"}, "help": {"Exit status"}, "ls -h": {"--all", "Examples"},
		"lock -h": {"ZK_LOCK_TOKEN", "SIGKILL", "--limit", "Examples"}, "lock /l -n --help": {"ZK_LOCK_TOKEN"}, "elect -h": {"ZK_ELECTION_TERM"},
		"watch -h": {"--json"}, "revoke -h": {"--force-after"}, "break -h": {"token"}, "retire -h": {"--site"}, "put -h": {"--lines"}, "take -h": {"--count"}, "len -h": {"delayed"},
		"pause -h": {"resume"}, "purge -h": {"claimed"}, "dead -h": {"redrive"}, "dead list -h": {"--count"}, "barrier -h": {"raise"}, "barrier wait -h": {"--wait"}, "completion bash": {"bash completion"},
	} {
		r := runIn(t, "", false, strings.Fields(line)...)
		for _, word := range words {
			r.want(t, 0, word, "")
		}
	}
}

// TestCompletion: paths are completed with the nodes on the servers, and flags with their names and
// values.
func TestCompletion(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	acquired(t, open(t, srv), "host-1:42")
	for line, want := range map[string]string{
		"ls /": "/locks\n", "lock /loc": "/locks\n", "break /locks/": "/locks/backup\n", "take --layout ": "standard\ncurator\nkazoo\n",
		"barrier ": "wait\tWait until", "lock --over": "--overlap\t", "ls /none/": ":", "con": "console\t",
	} {
		words := strings.Split(line, " ")
		runWith(t, srv, "__complete", words...).want(t, 0, want, "Completion ended")
	}
}

func TestQueueCommands(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	for _, flags := range []string{"", " --layout kazoo", " --layout curator"} {
		t.Run(flags, func(t *testing.T) {
			q := "/q/" + strings.TrimSpace(strings.TrimPrefix(flags, " --layout")) + "x"
			runWith(t, srv, "len "+q).want(t, 0, "0\n", "")
			runWith(t, srv, "take -n "+q+flags).want(t, 75, "", "empty")
			runWith(t, srv, "take -w 100ms "+q+flags).want(t, 75, "", "the time to wait is over")
			ids := runWith(t, srv, "put "+q+flags, "first one", "second", "third").stdout
			if flags == "" && strings.Count(ids, "\n") != 3 {
				t.Error(ids)
			}
			runWith(t, srv, "len "+q).want(t, 0, "3\n", "")
			runWith(t, srv, "ls "+q).want(t, 0, "3 items, the oldest ", "")
			runWith(t, srv, "take "+q+flags).want(t, 0, "first one\n", "")
			runWith(t, srv, "take --json "+q+flags).want(t, 0, `"second"`, "")
			runWith(t, srv, "len --json "+q).want(t, 0, `"items": 1`, "")
		})
	}
	at := []string{"--servers", strings.Join(srv.Addrs(), ",")}
	if r := runIn(t, "a\nb b\n\nc", false, append(at, "put", "--lines", "/lines")...); r.status != 0 || strings.Count(r.stdout, "\n") != 4 {
		t.Errorf("%+v", r)
	}
	runWith(t, srv, "take --count 4 /lines").want(t, 0, "a\nb b\n\nc\n", "")
	runIn(t, "all of\nit", false, append(at, "put", "/whole")...).want(t, 0, "\n", "")
	runWith(t, srv, "put --priority -1 /whole urgent")
	runWith(t, srv, "take --count 2 /whole").want(t, 0, "urgent\nall of\nit\n", "")
	runWith(t, srv, "put --delay 1h /whole later")
	runWith(t, srv, "take -n /whole").want(t, 75, "", "empty")
	runWith(t, srv, "ls /whole").want(t, 0, "1 item, 0 claimed, 1 delayed", "")
	first := runWith(t, srv, "put --key order-17 /keyed one")
	first.want(t, 0, "\n", "")
	runWith(t, srv, "put --key order-17 /keyed two").want(t, 1, first.stdout, "with this key before")
	runWith(t, srv, "len /keyed").want(t, 0, "1\n", "")
	runWith(t, srv, "put --key a --delay 1m /keyed x").want(t, 64, "", "--key")
	runWith(t, srv, "put --key a /keyed x y").want(t, 64, "", "--key")
	runWith(t, srv, "put --key a --layout kazoo /other x").want(t, 64, "", "--key")
}

// TestJSON: each command that acts prints, with --json, on what.
func TestJSON(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	for _, test := range []struct{ line, want string }{
		{"barrier raise /b", `"raised": "/b"`},
		{"barrier lift /b", `"lifted": "/b"`},
		{"barrier wait /b", `"open": "/b"`},
		{"pause /q", `"paused": "/q"`},
		{"resume /q", `"resumed": "/q"`},
		{"drain /q", `"empty": "/q"`},
		{"purge -y /q", `"deleted": 0`},
		{"dead redrive --all /q", `"redriven": 0`},
		{"dead purge -y --all /q", `"deleted": 0`},
		{"--version", `"library": "`},
	} {
		r := runWith(t, srv, test.line+" --json")
		r.want(t, 0, test.want, "")
		if !json.Valid([]byte(r.stdout)) {
			t.Errorf("%s: %s", test.line, r.stdout)
		}
	}
}

// TestVersion: the version is what the Go command has recorded.
func TestVersion(t *testing.T) {
	t.Parallel()
	runIn(t, "", false, "--version").want(t, 0, "zkactors (devel) (library (devel)", "")
	b := buildOf(&debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"}, Deps: []*debug.Module{{Path: "x", Version: "v0.0.1"}, {Path: libraryModule, Version: "v1.2.0"}},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
	})
	if b.Version != "v1.2.3" || b.Library != "v1.2.0" || b.Revision != "abc" || !b.Modified {
		t.Errorf("%+v", b)
	}
}

// TestTerminals: the null device is a character device, and no terminal.
func TestTerminals(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if isTerminal(null) || isTerminal(strings.NewReader("")) {
		t.Error("a question would be asked")
	}
}

func TestBarrierCommands(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	runWith(t, srv, "barrier wait /b").want(t, 0, "", "")
	runWith(t, srv, "barrier raise /b").want(t, 0, "", "")
	runWith(t, srv, "barrier raise /b").want(t, 0, "", "")
	runWith(t, srv, "ls /").want(t, 0, "/b  barrier: raised", "")
	runWith(t, srv, "barrier wait -w 100ms /b").want(t, 75, "", "the time to wait is over")
	runWith(t, srv, "barrier lift /b").want(t, 0, "", "")
	runWith(t, srv, "barrier wait /b").want(t, 0, "", "")
	runWith(t, srv, "config set -y --create /value on").want(t, 0, "/value: version 0", "")
	runWith(t, srv, "barrier lift /value").want(t, 1, "", "the path is of another recipe")
	runWith(t, srv, "config get /value").want(t, 0, "on", "/value: version 0")
}

// TestBreaksWhatNoSessionOwns: a contender's node that lives with no session is shown as such.
func TestBreaksWhatNoSessionOwns(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	s := open(t, srv)
	check.Must(t, s.EnsurePath(t.Context(), path))
	check.Have(s.Create(t.Context(), path+"/_c_5cb19f58-0831-43a3-bc23-23d3a988390d-lock-0000000000", []byte("host:1"), session.Persistent))(t)
	runWith(t, srv, "ls /").want(t, 0, "  holds  host:1  exclusive  ?  no session  to be deleted\n", "")
	runWith(t, srv, "break -y "+path).want(t, 0, "broken "+path, "(0s), and lives with no session")
}

// acquired returns the lock, held by another client with that identity.
func acquired(t *testing.T, s *session.Session, identity string) *lock.Lock {
	t.Helper()
	l, err := lock.Acquire(t.Context(), s, path, &lock.Options{Data: []byte(identity)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func TestLsCommand(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	runWith(t, srv, "ls /none").want(t, 1, "", "/none")
	runWith(t, srv, "ls").want(t, 0, "Nothing stands below /", "")
	acquired(t, open(t, srv), "host-1:42")
	for i := range 12 {
		waiter, err := lock.New(open(t, srv), path, &lock.Options{Data: fmt.Appendf(nil, "host-2:%d\x1b[2J", i)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(waiter.Close)
		line(t, open(t, srv), i+2)
	}
	r := runWith(t, srv, "ls /locks")
	r.want(t, 0, "/locks/backup  lock: held, 12 waiting\n  holds", "")
	r.want(t, 0, "… and 2 more", "")
	if strings.Contains(r.stdout, "\x1b") {
		t.Errorf("%q", r.stdout)
	}
	if r := runWith(t, srv, "ls --all /locks"); strings.Count(r.stdout, "waits") != 12 {
		t.Error(r.stdout)
	}
	r = runWith(t, srv, "ls --json --all /")
	var survey inspect.Survey
	if err := json.Unmarshal([]byte(r.stdout), &survey); err != nil || len(survey.Things) != 1 || len(survey.Things[0].Contenders) != 13 {
		t.Errorf("%v, %+v", err, survey)
	}
}

// TestLsHidesNothing: a recipe in the root, or above others, hides none of them.
func TestLsHidesNothing(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	s := open(t, srv)
	acquired(t, s, "host:1")
	check.Have(s.Create(t.Context(), "/_c_5cb19f58-0831-43a3-bc23-23d3a988390d-lock-", []byte("host:2"), session.EphemeralSequential))(t)
	check.Have(s.Create(t.Context(), path+"/limit", []byte("10"), session.Persistent))(t)
	r := runWith(t, srv, "ls /")
	for _, want := range []string{"/  lock: held", path + "  lock: held", path + "  values: 1\n  limit  10"} {
		r.want(t, 0, want, "")
	}
}

// TestRevokeInAnotherLayout: a mutex of Curator's is asked in the words of Curator.
func TestRevokeInAnotherLayout(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	s := open(t, srv)
	held := acquired(t, s, "host-1:42")
	runWith(t, srv, "revoke -y --layout curator "+path).want(t, 0, "asked "+held.Node()+"\n", "host-1:42 holds it")
	data, _, err := s.Get(t.Context(), held.Node())
	if string(data) != "__REVOKE__" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestRevokeCommand(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	runWith(t, srv, "revoke -y /locks/backup").want(t, 1, "", "no node")
	held := acquired(t, open(t, srv), "host-1:42")
	at := []string{"--servers", strings.Join(srv.Addrs(), ",")}
	for _, no := range []string{"", "n\n", "no\n", "yess\n"} {
		runIn(t, no, true, append(at, "revoke", path)...).want(t, 1, "", "host-1:42 holds it, in line since")
	}
	select {
	case <-held.Revoked():
		t.Error("it was asked")
	default:
	}
	runIn(t, "y\n", true, append(at, "revoke", path)...).want(t, 0, "asked /locks/backup/_c_", "[y/N]")
	<-held.Revoked()
	runWith(t, srv, "ls").want(t, 0, "asked to release", "")
	runWith(t, srv, "revoke -y --force-after 50ms "+path).want(t, 0, "asked", "host-1:42")
	<-held.Done()
	if err := held.Err(); !errors.Is(err, lock.ErrRevoked) {
		t.Error(err)
	}
	runWith(t, srv, "barrier raise /b")
	runWith(t, srv, "revoke -y /b").want(t, 1, "", "/b is no lock: it is of the kind barrier")
}

func TestBreakCommand(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	s := open(t, srv)
	held := acquired(t, s, "host-1:42")
	next, err := lock.New(s, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	nodes := line(t, s, 2)
	at := []string{"--servers", strings.Join(srv.Addrs(), ",")}
	runIn(t, "n\n", true, append(at, "break", path)...).want(t, 1, "", "Break the lock /locks/backup? [y/N]")
	runWith(t, srv, "break -y --node nobody "+path).want(t, 1, "", "--node nobody")
	runWith(t, srv, "break -y "+path).want(t, 0, "broken "+nodes[0].Node, "host-1:42 holds it")
	<-held.Done()
	for ev := range next.Events() {
		if _, ok := ev.(lock.Acquired); ok {
			break
		}
	}
	runWith(t, srv, "break -y --json --node "+nodes[1].Node+" "+path).want(t, 0, `"broken"`, "in line since")
	c, err := election.New(s, "/e", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	events := c.Events()
	zktest.Await(t, events, func(ev election.Event) bool { _, ok := ev.(election.Elected); return ok })
	runWith(t, srv, "break -y /e").want(t, 0, "broken /e/candidates/", "holds it")
	zktest.Await(t, events, func(ev election.Event) bool { _, ok := ev.(election.Deposed); return ok })
}

// digestID returns the id in an ACL for a user of the scheme digest.
func digestID(user, password string) string {
	sum := sha1.Sum([]byte(user + ":" + password)) //nolint:gosec // ZooKeeper's scheme digest uses it
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// watchedOnce returns the first survey that watch prints with the given flags.
func watchedOnce(t *testing.T, srv *zktest.Server, flags string) string {
	t.Helper()
	out, in := io.Pipe()
	p := &program{stdout: in, stderr: io.Discard, terminal: func(any) bool { return false }}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	ended := make(chan int, 1)
	go func() {
		ended <- p.run(ctx, append([]string{"--servers", strings.Join(srv.Addrs(), ",")}, strings.Fields(flags+"watch --json /")...))
		_ = in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	stop()
	_ = out.Close()
	if status := <-ended; err != nil || status != 130 {
		t.Errorf("%v, status %d", err, status)
	}
	return line
}

// TestReadOnly: with credentials that may only read, every command that only reads works. All other
// commands report that the servers forbid it, and so does ls without credentials.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	owner := session.Auth{Scheme: "digest", Secret: []byte("owner:secret")}
	acl := append(session.CreatorAll(), session.ACL{Perms: session.PermRead, Scheme: "digest", ID: digestID("reader", "pw")})
	s, err := session.Open(t.Context(), srv.Addrs(), &session.Options{Auth: []session.Auth{owner}, ACL: acl})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	acquired(t, s, "host-1:42")
	for _, line := range []string{"put /q item", "barrier raise /b"} {
		if r := runWith(t, srv, "--auth digest:owner:secret "+line); r.status != 0 {
			t.Fatal(r)
		}
	}
	all, err := watch.Tree(s, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	<-all.Synced()
	for _, node := range all.Nodes() {
		if node.Path == "/q" || strings.HasPrefix(node.Path, "/q/") || node.Path == "/b" {
			if _, err := s.SetACL(t.Context(), node.Path, acl, session.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
	}
	all.Close()
	if _, err := s.CreateWithACL(t.Context(), "/secret", nil, session.Persistent, session.CreatorAll()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetACL(t.Context(), "/", acl, session.AnyVersion); err != nil {
		t.Fatal(err)
	}
	const reader = "--auth digest:reader:pw "
	runWith(t, srv, reader+"ls").want(t, 0, "host-1:42", "")
	runWith(t, srv, reader+"ls").want(t, 0, "/secret  unreadable: forbidden", "")
	runWith(t, srv, reader+"ls --json").want(t, 0, `"forbidden": true`, "")
	runWith(t, srv, reader+"ls /secret").want(t, 0, "forbidden", "")
	runWith(t, srv, reader+"len /q").want(t, 0, "1\n", "")
	if line := watchedOnce(t, srv, reader); !strings.Contains(line, "host-1:42") || !strings.Contains(line, `"forbidden":true`) {
		t.Errorf("watch says %s", line)
	}
	runWith(t, srv, reader+"barrier wait -w 100ms /b").want(t, 75, "", "the time to wait is over")
	for _, line := range []string{
		"put /q item", "take -n /q", "pause /q", "purge -y /q", "barrier lift /b", "barrier raise /other", "break -y /locks/backup", "revoke -y /locks/backup",
	} {
		r := runWith(t, srv, reader+line)
		if r.status != 77 || !strings.Contains(r.stderr, "forbid") {
			t.Errorf("%s: %+v", line, r)
		}
	}
	runWith(t, srv, reader+"--timeout 2s lock -q /locks/backup -- true").want(t, 77, "", "forbid")
	runWith(t, srv, reader+"--timeout 2s elect -q /leader -- true").want(t, 77, "", "forbid")
	runWith(t, srv, "--auth digest:stranger:pw ls").want(t, 0, "/  unreadable: forbidden", "")
	runWith(t, srv, "--auth digest:stranger:pw len /q").want(t, 77, "", "forbid")
}
