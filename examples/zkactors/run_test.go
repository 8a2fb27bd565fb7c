//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// startLine runs zkactors with a command line, and a script as its command.
func startLine(t *testing.T, srv *zktest.Server, line, script string) *process {
	t.Helper()
	args := append(strings.Fields("--timeout 2s "+line), "--", "sh", "-c", script)
	return startCommand(t, srv, []string{os.Args[0]}, args...)
}

// TestLimit: as many commands run at once as the limit allows, and their environment has no token.
func TestLimit(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	var held []*process
	for range 2 {
		p := startLine(t, srv, "lock -q /limits/export --limit 2", "echo held ${ZK_LOCK_TOKEN-none} $ZK_LOCK_PATH; cat")
		p.expect("held none /limits/export")
		held = append(held, p)
	}
	startLine(t, srv, "lock -q -n --limit 2 /limits/export", "true").exits(75, "held by another")
	startLine(t, srv, "lock -q -w 2s --limit 2 /limits/export", "true").exits(75, "the time to wait is over")
	startLine(t, srv, "lock -q --limit 3 /limits/export", "true").exits(125, "limit is 2, not 3")
	runWith(t, srv, "ls /limits").want(t, 0, "/limits/export  semaphore: 2 of 2 held, 0 waiting", "")
	_ = held[0].stdin.Close()
	held[0].exits(0, "")
	startLine(t, srv, "lock -q -n --limit 2 /limits/export", "exit 7").exits(7, "")
	for _, c := range mustHolders(t, open(t, srv)) { // whose command zkactors must end
		if err := open(t, srv).Delete(t.Context(), c.Node, session.AnyVersion); err != nil {
			t.Error(err)
		}
	}
	held[1].exits(128+9, "lease lost")
}

func mustHolders(t *testing.T, s *session.Session) []semaphore.Holder {
	t.Helper()
	all, err := semaphore.Holders(t.Context(), s, "/limits/export")
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all
}

// TestElect: one command leads at a time, and the next one after it has ended.
func TestElect(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	first := startLine(t, srv, "elect -q /leader", "echo leads $ZK_ELECTION_PATH $ZK_ELECTION_NODE $ZK_ELECTION_TERM; cat")
	words := strings.Fields(first.line())
	s := open(t, srv)
	all, err := election.Candidates(t.Context(), s, "/leader", nil)
	if err != nil || len(all) != 1 || len(words) != 4 || words[0] != "leads" || words[1] != "/leader" || words[2] != all[0].Node {
		t.Fatal(words, all, err)
	}
	startLine(t, srv, "elect -q -w 2s -E 3 /leader", "true").exits(3, "the time to wait is over")
	second := startLine(t, srv, "elect /leader", "echo leads; cat")
	second.says("waiting for /leader, led by")
	_ = first.stdin.Close()
	first.exits(0, "")
	second.expect("leads")
	runWith(t, srv, "ls /leader").want(t, 0, "1 candidate", "")
	leader := all[0]
	if all, err = election.Candidates(t.Context(), s, "/leader", nil); err != nil || len(all) != 1 || all[0].Node == leader.Node {
		t.Fatal(all, err)
	}
	if err := s.Delete(t.Context(), all[0].Node, session.AnyVersion); err != nil {
		t.Fatal(err)
	}
	second.exits(128+9, "deposed")
}

// line returns the next line that the command prints.
func (p *process) line() string {
	p.t.Helper()
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// says waits until zkactors itself prints a text.
func (p *process) says(want string) {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		said, more := p.stderr.next()
		if strings.Contains(said, want) {
			return
		}
		select {
		case <-more:
		case <-deadline:
			p.t.Fatalf("it says %q, want %q", said, want)
		}
	}
}

// next returns the output so far, and a channel that is closed when there is more.
func (n *notes) next() (string, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.more == nil {
		n.more = make(chan struct{})
	}
	return n.text.String(), n.more
}

// TestWaiting: while zkactors waits it prints the holder, and again when the holder changes.
func TestWaiting(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	s := open(t, srv)
	one := acquired(t, s, "host-1:42")
	two, err := lock.New(s, path, &lock.Options{Data: []byte("host-2:43")})
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	line(t, s, 2)
	p := startLine(t, srv, "lock "+path, "echo held")
	p.says("zkactors: waiting for /locks/backup, held by host-1:42, in line since ")
	one.Close()
	p.says("held by host-2:43, in line since ")
	two.Close()
	p.expect("held")
	p.exits(0, "waiting")
	three := acquired(t, s, "host-3:44")
	startLine(t, srv, "lock -n "+path, "true").exits(75, "held by another: host-3:44, in line since ")
	three.Close()
}

// TestWatchCommand: watch prints again after each change, until it is interrupted.
func TestWatchCommand(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	s := open(t, srv)
	held := acquired(t, s, "host-1:42")
	p := startCommand(t, srv, []string{os.Args[0]}, "watch", "--json", "/locks")
	next := func() (survey inspect.Survey) {
		t.Helper()
		if err := json.Unmarshal([]byte(p.line()), &survey); err != nil {
			t.Fatal(err)
		}
		return survey
	}
	if things := next().Things; len(things) != 1 || things[0].Contenders[0].Identity != "host-1:42" {
		t.Errorf("%+v", things)
	}
	human := startCommand(t, srv, []string{os.Args[0]}, "watch", "/locks")
	human.line() // the time
	human.expect("1 recipe, 1 held; nobody waits")
	human.expect("")
	human.expect("/locks/backup  lock: held, 0 waiting")
	acquiredAfter(t, s, held)
	for things := next().Things; len(things) != 1 || things[0].Contenders[0].Identity != "host-2:43"; things = next().Things {
	}
	for !strings.Contains(human.line(), "host-2:43") {
	}
	for _, p := range []*process{p, human} {
		p.signal(syscall.SIGINT)
		p.exits(130, "")
	}
}

// acquiredAfter returns the lock, acquired by another contender after the holder has left.
func acquiredAfter(t *testing.T, s *session.Session, held *lock.Lock) {
	t.Helper()
	held.Close()
	acquired(t, s, "host-2:43")
}

// TestInterrupted: a command ends when it is interrupted.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	p := startCommand(t, srv, []string{os.Args[0]}, "take", "/q")
	s := open(t, srv)
	deadline := time.After(patience)
	for {
		if names, _, err := s.Children(t.Context(), "/q/waiters"); err == nil && len(names) == 1 {
			break
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatal("it does not wait")
		}
	}
	p.signal(syscall.SIGTERM)
	p.exits(130, "")
}

// TestScreen: on a terminal watch redraws the screen, and the ages advance.
func TestScreen(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	s := open(t, srv)
	acquired(t, s, "host-1:42")
	screen, writer := io.Pipe()
	p := &program{stdout: writer, stderr: io.Discard, terminal: func(any) bool { return true }}
	ended := make(chan error, 1)
	go func() {
		err := (&watching{program: p, session: s, path: "/", look: view{sort: byPath}}).run(t.Context())
		_ = writer.Close()
		ended <- err
	}()
	lines := bufio.NewReader(screen)
	for range 2 { // the second one is drawn by the clock
		head, err := lines.ReadString('\n')
		if err != nil || !strings.HasPrefix(head, clearScreen+"/  ") {
			t.Fatalf("%q, %v", head, err)
		}
		for range 5 {
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = screen.Close()
	if err := <-ended; err == nil {
		t.Error("it goes on without a screen")
	}
}
