//go:build unix

package main

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session/zktest"
)

// Scripts for the command. Each starts a child, and prints ready when the child runs.
const (
	obedient = `trap 'echo told; exit 5' TERM; sh -c 'echo ready; while :; do echo alive; sleep 0.02; done' & wait`
	polite   = `trap 'echo told; exit 0' TERM; sh -c 'echo ready; sleep 600' & wait`
	stubborn = `trap '' TERM; sh -c 'echo ready; while :; do echo alive; sleep 0.02; done' & while :; do wait; done`
	childish = `sh -c 'trap "" TERM; echo ready; sleep 600' & wait`
)

// startScript runs zkactors with a script as its command, and returns when the script is ready.
func startScript(t *testing.T, srv *zktest.Server, script string, flags ...string) *process {
	t.Helper()
	p := start(t, srv, append(flags, "sh", "-c", script)...)
	p.expect("ready")
	return p
}

// TestFrozen: while the connection is frozen, the command and its children end before another
// client can hold the lock.
func TestFrozen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		status       int
		told         bool
	}{
		{"obedient", obedient, 5, true},
		{"polite", polite, 125, true},
		{"stubborn", stubborn, 128 + 9, false},
		{"with a stubborn child", childish, 128 + 15, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			// A tenth of the timeout is what the command has: a second, on a busy machine, too.
			srv := zktest.Start(t, zktest.Tick(500*time.Millisecond))
			s := open(t, srv)
			fifo := t.TempDir() + "/fifo"
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			p := start(t, srv, "--timeout", "10s", "sh", "-c", `exec >"$0"; `+test.script, fifo)
			said, err := os.Open(fifo) // ends with the command and its child
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = said.Close() }()
			if err := said.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			rival, err := lock.New(s, path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer rival.Close()
			holder := line(t, s, 2)[0]
			// The command and its child are ready.
			begun := make([]byte, len("ready\n"))
			if _, err := io.ReadFull(said, begun); err != nil {
				t.Fatal(err)
			}

			srv.Freeze(holder.Session, zktest.Both)
			for ev := range rival.Events() {
				if _, ok := ev.(lock.Acquired); ok {
					break
				}
			}
			if rest, ended := unread(t, said); !ended {
				t.Error("the command runs, and another holds the lock")
			} else if strings.Contains(rest, "told") != test.told {
				t.Errorf("it says %q", rest)
			}
			p.exits(test.status, "the connection is lost")
		})
	}
}

// unread returns the unread text in the pipe, and whether all its writers have ended. It asks the
// kernel, so it does not depend on when goroutines run.
func unread(t *testing.T, pipe *os.File) (rest string, ended bool) {
	t.Helper()
	conn, err := pipe.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	n, buffer := 1, make([]byte, 4<<10)
	for err == nil && n > 0 {
		if failed := conn.Read(func(fd uintptr) bool {
			n, err = syscall.Read(int(fd), buffer)
			return true
		}); failed != nil {
			t.Fatal(failed)
		}
		rest += string(buffer[:max(n, 0)])
	}
	return rest, err == nil
}

// TestLost: when the node is deleted, another client may hold the lock at once.
func TestLost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, flags, script string
		status              int
		told                bool
	}{
		{"obedient", "", obedient, 128 + 9, false},
		{"stubborn", "", stubborn, 128 + 9, false},
		{"obedient, overlap", "--overlap", obedient, 5, true},
		{"polite, overlap", "--overlap", polite, 125, true},
		{"stubborn, overlap", "--overlap --grace 100ms", stubborn, 128 + 9, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			srv := zktest.Start(t)
			s := open(t, srv)
			lose := map[string]func(lock.Contender){
				"expired": func(c lock.Contender) { srv.Expire(c.Session) },
				"deleted": func(c lock.Contender) {
					if err := s.Delete(t.Context(), c.Node, -1); err != nil {
						t.Error(err)
					}
				},
			}
			for name, lose := range lose {
				t.Run(name, func(t *testing.T) {
					p := startScript(t, srv, test.script, strings.Fields(test.flags)...)
					lose(line(t, s, 1)[0])
					if said := p.exits(test.status, "lock lost"); strings.Contains(said, "told") != test.told {
						t.Errorf("it says %q", said)
					}
					line(t, s, 0)
				})
			}
		})
	}
}

// TestRevoked: another client asks the holder to release.
func TestRevoked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		force        time.Duration
		status       int
	}{
		{"obedient", obedient, 0, 5},
		{"polite", polite, 0, 125},
		{"stubborn", stubborn, time.Second, 128 + 9},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			srv := zktest.Start(t)
			s := open(t, srv)
			p := startScript(t, srv, test.script)
			if err := lock.Revoke(t.Context(), s, path, &lock.RevokeOptions{ForceAfter: test.force}); err != nil {
				t.Error(err)
			}
			p.exits(test.status, "asks for the lock")
		})
	}
}

// TestFrozenOverlap: with -overlap the command goes on until the lock is lost.
func TestFrozenOverlap(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t, zktest.Tick(100*time.Millisecond))
	s := open(t, srv)
	p := startScript(t, srv, obedient, "--overlap")
	srv.Freeze(line(t, s, 1)[0].Session, zktest.Both)
	p.exits(5, "lock lost")
}

// TestResumed: the command does not notice a short outage of the connection.
func TestResumed(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t, zktest.Tick(300*time.Millisecond))
	s := open(t, srv)
	p := startScript(t, srv, "trap 'exit 5' TERM; echo ready; cat; echo done")
	id := line(t, s, 1)[0].Session
	srv.Disconnect(id)
	// Each sync follows the answer to the one before, and six of them fit into the timeout of 6 s.
	// The process has 4 s of that to come back.
	late := time.After(patience)
	for want := srv.RequestsOf(id)[zktest.OpSync] + 7; srv.RequestsOf(id)[zktest.OpSync] < want; {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			t.Fatal("it does not come back")
		}
	}
	_ = p.stdin.Close()
	if said := p.exits(0, ""); said != "done\n" {
		t.Errorf("it says %q", said)
	}
}
