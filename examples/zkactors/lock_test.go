//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session/zktest"
)

// A process is a running zkactors lock.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr notes
}

// notes collects the output of a process.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed at the next output; nil if no caller waits
}

// Write implements [io.Writer].
func (n *notes) Write(text []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.more != nil {
		close(n.more)
		n.more = nil
	}
	return n.text.Write(text)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// start runs zkactors lock with a session timeout of two seconds. args are flags, and the command
// after them.
func start(t *testing.T, srv *zktest.Server, args ...string) *process {
	t.Helper()
	return startAs(t, srv, []string{os.Args[0]}, args...)
}

func startAs(t *testing.T, srv *zktest.Server, program []string, args ...string) *process {
	t.Helper()
	return startCommand(t, srv, program, append([]string{"lock", path, "--quiet", "--timeout", "2s"}, args...)...)
}

// startAt is like start, with another path.
func startAt(t *testing.T, srv *zktest.Server, path string, args ...string) *process {
	t.Helper()
	return startCommand(t, srv, []string{os.Args[0]}, append([]string{"lock", "--timeout", "2s", path}, args...)...)
}

// startCommand runs program with args.
func startCommand(t *testing.T, srv *zktest.Server, program []string, args ...string) *process {
	t.Helper()
	p := &process{t: t}
	p.cmd = exec.Command(program[0], append(program[1:], args...)...)
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0", "ZOOKEEPER="+strings.Join(srv.Addrs(), ","))
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = patience // in case its children keep the output open
	var stdout io.ReadCloser
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err == nil {
		stdout, err = p.cmd.StdoutPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := stdout.(*os.File).SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(stdout)
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil { // the test has failed
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	return p
}

// expect waits until the command has printed that line.
func (p *process) expect(want string) {
	p.t.Helper()
	if line, err := p.stdout.ReadString('\n'); strings.TrimSpace(line) != want {
		p.t.Fatalf("it says %q (%v), want %q", line, err, want)
	}
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// rest waits until zkactors, and all processes that it has started, have ended. It returns the rest
// of their output.
func (p *process) rest() string {
	p.t.Helper()
	rest, err := io.ReadAll(p.stdout)
	if err != nil {
		p.t.Error("it does not end: ", err)
		_ = p.cmd.Process.Kill()
	}
	return string(rest)
}

// exits waits for zkactors to end. It checks the exit status, and that the reason is in its
// complaint, or that it has none.
func (p *process) exits(status int, reason string) (rest string) {
	p.t.Helper()
	rest = p.rest()
	err := p.cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		p.t.Fatal(err)
	}
	said := p.stderr.String()
	if got := p.cmd.ProcessState.ExitCode(); got != status {
		p.t.Errorf("exit status %d, want %d; it says %q", got, status, said)
	}
	if !strings.Contains(said, reason) || (reason == "") != (said == "") {
		p.t.Errorf("it says %q, want %q", said, reason)
	}
	return rest
}

func TestStatus(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	for _, test := range []struct {
		args   []string
		status int
		reason string
	}{
		{[]string{"true"}, 0, ""},
		{[]string{"--", "sh", "-c", "exit 3"}, 3, ""},
		{[]string{"sh", "-c", "exit 255"}, 255, ""},
		{[]string{"--", "sh", "-c", "kill -TERM $$"}, 128 + 15, ""},
		{[]string{"--", "sh", "-c", "kill -KILL $$"}, 128 + 9, ""},
		{[]string{"--", "no-such-command"}, 127, "not found"},
		{[]string{"--", "/no/such/command"}, 127, "no such file"},
		{[]string{"--", "/"}, 126, "directory"},
		{[]string{"--", "/dev/null"}, 126, "permission denied"},
		{[]string{"--servers", "127.0.0.1:1", "--timeout", "200ms", "true"}, 69, "127.0.0.1:1"},
		{[]string{"--servers", "127.0.0.1:1", "--wait", "200ms", "true"}, 69, "127.0.0.1:1"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			t.Parallel()
			start(t, srv, test.args...).exits(test.status, test.reason)
		})
	}
}

// TestNotExecutable: a program with an unknown format is detected only when it is executed.
func TestNotExecutable(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	file := t.TempDir() + "/nonsense"
	if err := os.WriteFile(file, []byte("\x00\x01\x02"), 0o700); err != nil {
		t.Fatal(err)
	}
	start(t, srv, file).exits(126, "exec format error")
	line(t, open(t, srv), 0)
}

func TestNoServerIsAskedInVain(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	start(t, srv, "no-such-command").exits(127, "not found")
	if n := len(srv.Paths()); n > 1 || srv.Requests().Total() > 0 {
		t.Errorf("%v, %v", srv.Paths(), srv.Requests())
	}
}

// TestCommand: the command has its variables, and its zkactors stands in line as long as it runs.
func TestCommand(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	s := open(t, srv)
	const script = `echo $ZK_LOCK_PATH $ZK_LOCK_NODE $ZK_LOCK_TOKEN; cat`
	token := int64(0)
	for range 2 {
		p := start(t, srv, "--timeout", "5s", "sh", "-c", script)
		c := line(t, s, 1)[0]
		stat, err := s.Exists(t.Context(), c.Node)
		if err != nil || stat == nil || stat.Czxid <= token {
			t.Fatalf("%+v, %v, after token %d", stat, err, token)
		}
		token = stat.Czxid
		p.expect(fmt.Sprint(path, " ", c.Node, " ", token))
		if data := string(c.Data); !strings.HasSuffix(data, fmt.Sprintf(":%d sh", p.cmd.Process.Pid)) {
			t.Errorf("in line stands %q", data)
		}
		_, _ = p.stdin.Write([]byte("what it reads"))
		_ = p.stdin.Close()
		if rest := p.exits(0, ""); rest != "what it reads" {
			t.Errorf("it says %q", rest)
		}
		if all, err := lock.Contenders(t.Context(), s, path, nil); len(all) > 0 || err != nil {
			t.Errorf("%v, %v", all, err)
		}
	}
}

// TestAlso: a command runs while its zkactors holds several locks, and the error of another names
// the lock that it did not get.
func TestAlso(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	s := open(t, srv)
	other, err := lock.Acquire(t.Context(), s, "/other", nil)
	if err != nil {
		t.Fatal(err)
	}
	start(t, srv, "--also", "/other", "-n", "true").exits(exitConflict, "zkactors: /other: ")
	other.Close()
	p := start(t, srv, "--also", "/other", "sh", "-c", "echo $ZK_LOCK_PATH $ZK_LOCK_NODE $ZK_LOCK_TOKEN; cat")
	c := line(t, s, 1)[0]
	stat, err := s.Exists(t.Context(), c.Node)
	if err != nil || stat == nil {
		t.Fatal(stat, err)
	}
	p.expect(fmt.Sprint(path, " ", c.Node, " ", stat.Czxid))
	if _, err := lock.TryAcquire(t.Context(), s, "/other", nil); !errors.Is(err, lock.ErrHeld) {
		t.Error(err)
	}
	_ = p.stdin.Close()
	p.exits(0, "")
}

func TestExclusion(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	inside := t.TempDir() + "/inside"
	var all []*process
	for range 5 {
		all = append(all, start(t, srv, "sh", "-c", `mkdir "$0" || exit; sleep 0.05; rmdir "$0"`, inside))
	}
	for _, p := range all {
		p.exits(0, "")
	}
}

func TestConflict(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	holder := start(t, srv, "sh", "-c", "echo held; cat")
	holder.expect("held")
	for _, test := range []struct {
		args   string
		status int
		reason string
	}{
		{"-n", 75, "held by another"},
		{"--try --conflict-exit 1", 1, "held by another"},
		{"-n -E 0", 0, "held by another"},
		{"--wait 2s", 75, "the time to wait is over"},
		{"-w 2s -E 9", 9, "the time to wait is over"},
		{"-w 10s -n", 64, "--try (-n) does not wait"},
	} {
		t.Run(test.args, func(t *testing.T) {
			start(t, srv, append(strings.Fields(test.args), "echo", "not to be run")...).exits(test.status, test.reason)
		})
	}
	_ = holder.stdin.Close()
	holder.exits(0, "")
	start(t, srv, "-n", "true").exits(0, "")
}

func TestShared(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	one := start(t, srv, "-s", "sh", "-c", "echo held; cat")
	one.expect("held")
	two := start(t, srv, "--shared", "-n", "sh", "-c", "echo held; cat")
	two.expect("held")
	start(t, srv, "-n", "true").exits(75, "held by another")
	for _, p := range []*process{one, two} {
		_ = p.stdin.Close()
		p.exits(0, "")
	}
	start(t, srv, "-n", "true").exits(0, "")
}

var forwarded = map[string]syscall.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH,
}

// init has the test catch signals that are ignored, as under nohup: a program that it starts
// inherits that they are ignored, but not that they are caught.
func init() { //nolint:gochecknoinits // TestMain is for other platforms, too
	if os.Getenv(asProgram) != "" {
		return
	}
	for _, sig := range forwarded {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t, zktest.Tick(100*time.Millisecond))
	for name, sig := range forwarded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startAt(t, srv, "/"+name, "sh", "-c", "trap 'exit 42' "+name+"; echo ready; exec 2>/dev/null; while :; do sleep 0.02; done")
			p.expect("ready")
			p.signal(syscall.SIGTSTP) // without effect
			p.signal(sig)
			p.exits(42, "")
		})
	}
}

// TestIgnoredSignal: a signal that zkactors inherits as ignored stays ignored, and is not passed
// on.
func TestIgnoredSignal(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	nohup := []string{"sh", "-c", `trap '' HUP; exec "$0" "$@"`, os.Args[0]}
	p := startAs(t, srv, nohup, "sh", "-c", "trap 'exit 42' USR1; echo ready; exec 2>/dev/null; while :; do sleep 0.02; done")
	p.expect("ready")
	p.signal(syscall.SIGHUP)
	p.signal(syscall.SIGUSR1)
	p.exits(42, "")
}

func TestSignalWhileWaiting(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	s := open(t, srv)
	holder, err := lock.Acquire(t.Context(), s, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	for name, sig := range forwarded {
		if sig == syscall.SIGWINCH {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p := start(t, srv, "echo", "not to be run")
			line(t, s, 2)
			p.signal(syscall.SIGWINCH) // without effect
			p.signal(sig)
			if said := p.exits(128+int(sig), "signal received"); said != "" {
				t.Error(said)
			}
			line(t, s, 1)
		})
	}
	t.Run("while connecting", func(t *testing.T) {
		srv.Delay(zktest.Match{Op: zktest.OpCreateSession}, time.Minute)
		p := start(t, srv, "--timeout", "50s", "echo", "not to be run")
		if err := srv.AwaitFault(patience); err != nil {
			t.Fatal(err)
		}
		p.signal(syscall.SIGTERM)
		p.exits(128+15, "signal received")
	})
}

// TestLeftovers: no process of the command's group outlives the lock.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	start(t, zktest.Start(t), "sh", "-c", "sleep 600 & exit 3").exits(3, "")
}
