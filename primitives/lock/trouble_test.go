package lock_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// This file keeps what once went wrong.

// inBubble runs f with two sessions on a server in memory, in a bubble.
func inBubble(t *testing.T, opts session.Options, f func(t *testing.T, srv *zktest.Server, a, b *session.Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv, err := zktest.NewServer(zktest.Config{InProcess: true})
		if err != nil {
			t.Fatal(err)
		}
		defer srv.Close()
		opts.Dialer = srv.DialContext
		var both [2]*session.Session
		for i := range both {
			if both[i], err = session.Open(t.Context(), srv.Addrs(), &opts); err != nil {
				t.Fatal(err)
			}
			defer both[i].Close()
		}
		f(t, srv, both[0], both[1])
	})
}

func mustAcquire(t *testing.T, s *session.Session, path string) *lock.Lock {
	t.Helper()
	l, err := lock.Acquire(t.Context(), s, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestHolderIsToldAfterThrottling: the read after a change of the holder's node fails, and
// then the node is deleted.
func TestHolderIsToldAfterThrottling(t *testing.T) {
	inBubble(t, session.Options{}, func(t *testing.T, srv *zktest.Server, a, b *session.Session) {
		held := mustAcquire(t, a, "/l")
		defer held.Close()
		synctest.Wait() // until its node is watched
		const throttled = -127
		srv.AnswerError(zktest.Match{Op: zktest.OpGetData, Session: a.ID()}, throttled)
		if _, err := b.Set(t.Context(), held.Node(), []byte("x"), session.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if err := b.Delete(t.Context(), held.Node(), session.AnyVersion); err != nil {
			t.Fatal(err)
		}
		<-held.Done()
		if err := held.Err(); !errors.Is(err, lock.ErrNodeDeleted) {
			t.Error(err)
		}
	})
}

// TestForeignParent: every create by the published recipe that fails.
func TestForeignParent(t *testing.T) {
	for name, fault := range map[string]func(*zktest.Server){
		"lost reply":   func(srv *zktest.Server) { srv.DropReply(zktest.Match{Op: zktest.OpCreate}) },
		"lost request": func(srv *zktest.Server) { srv.DropRequest(zktest.Match{Op: zktest.OpCreate}) },
		"throttled":    func(srv *zktest.Server) { srv.AnswerError(zktest.Match{Op: zktest.OpCreate}, -101) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, session.Options{}, func(t *testing.T, srv *zktest.Server, a, b *session.Session) {
				if _, err := b.Create(t.Context(), "/l", []byte("data"), session.Persistent); err != nil {
					t.Fatal(err)
				}
				fault(srv)
				held := mustAcquire(t, a, "/l")
				if data, _, err := b.Get(t.Context(), "/l"); err != nil || string(data) != "data" {
					t.Errorf("the path carries %q, %v", data, err)
				}
				held.Close()
				if names, _, err := b.Children(t.Context(), "/l"); err != nil || len(names) != 0 {
					t.Errorf("%q are left, %v", names, err)
				}
			})
		})
	}
}

// TestAccessorsInAnswers: they are called where the session tells its answers.
func TestAccessorsInAnswers(t *testing.T) {
	inBubble(t, session.Options{}, func(t *testing.T, _ *zktest.Server, a, _ *session.Session) {
		for range 300 {
			l, err := lock.New(a, "/l", nil)
			if err != nil {
				t.Fatal(err)
			}
			answered := make(chan struct{}, 20)
			for range cap(answered) {
				a.Async(0).Exists("/", func(*session.Stat, error) {
					_, _, _, _ = l.Token(), l.Node(), l.Err(), l.Guard()
					_, end := l.Context(t.Context())
					end()
					answered <- struct{}{}
				})
			}
			l.Close()
			for range cap(answered) {
				<-answered
			}
		}
	})
}

// TestCloseWithoutPermissionToDelete: Close is bounded, and the janitor goes on.
func TestCloseWithoutPermissionToDelete(t *testing.T) {
	acl := []session.ACL{{Perms: session.PermRead | session.PermWrite | session.PermCreate, Scheme: "world", ID: "anyone"}}
	inBubble(t, session.Options{ACL: acl, Timeout: 6 * time.Second}, func(t *testing.T, _ *zktest.Server, a, _ *session.Session) {
		held := mustAcquire(t, a, "/l")
		begun := time.Now()
		held.Close()
		if took := time.Since(begun); took > 12*time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

// TestDataAtTheLimit: what New accepts can be sent.
func TestDataAtTheLimit(t *testing.T) {
	inBubble(t, session.Options{MaxRequest: 8 << 10}, func(t *testing.T, _ *zktest.Server, a, _ *session.Session) {
		refused := 0
		for n := 6 << 10; n < 9<<10; n += 10 {
			l, err := lock.New(a, "/l", &lock.Options{Data: make([]byte, n)})
			if err != nil {
				if !errors.Is(err, session.ErrTooLarge) {
					t.Fatal(err)
				}
				refused++
				continue
			}
			for ev := range l.Events() {
				if _, ok := ev.(lock.Acquired); ok {
					break
				}
				if lost, ok := ev.(lock.Lost); ok {
					t.Fatalf("%d bytes: %v", n, lost.Err)
				}
			}
			l.Close()
		}
		if refused == 0 {
			t.Error("everything is accepted")
		}
	})
}
