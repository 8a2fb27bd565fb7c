package session_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestWithdrawLeavesLaterNodes: a delete whose reply was lost is not repeated on a node that
// the session has made again meanwhile.
func TestWithdrawLeavesLaterNodes(t *testing.T) {
	bubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := mustOpen(t, srv.Addrs(), opts)
		defer s.Close()
		ctx := t.Context()
		if _, err := s.Create(ctx, "/me", []byte("first"), session.Ephemeral); err != nil {
			t.Fatal(err)
		}
		second := make(chan error, 1)
		cancel := s.Subscribe(func(ev session.Event) <-chan struct{} {
			if _, ok := ev.(session.Suspended); ok {
				s.Async(0).Create("/me", []byte("second"), session.Ephemeral, func(_ string, err error) { second <- err })
			}
			return nil
		})
		defer cancel()
		srv.DropReply(zktest.Match{Op: zktest.OpDelete})
		withdrawn := make(chan struct{})
		s.Async(0).Withdraw("/me", func() { close(withdrawn) })
		if err := <-second; err != nil {
			t.Fatalf("the second: %v", err)
		}
		<-withdrawn
		if data, _, err := s.Get(ctx, "/me"); err != nil || string(data) != "second" {
			t.Errorf("of the second node there is %q, %v", data, err)
		}
	})
}

// TestTwoInDoubtMakeOneNode: two creates of the same ephemeral node wait for their replies,
// and both replies are lost. One of them has made it.
func TestTwoInDoubtMakeOneNode(t *testing.T) {
	bubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := mustOpen(t, srv.Addrs(), opts)
		defer s.Close()
		srv.Freeze(s.ID(), zktest.ToClient)
		var wg sync.WaitGroup
		var made atomic.Int32
		for range 2 {
			wg.Go(func() {
				switch _, err := s.Create(t.Context(), "/me", nil, session.Ephemeral); {
				case err == nil:
					made.Add(1)
				case !errors.Is(err, session.ErrNodeExists) && !errors.Is(err, session.ErrUnknownOutcome):
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		pass(10 * time.Millisecond)
		srv.Disconnect(s.ID())
		srv.Thaw(0)
		wg.Wait()
		if n := made.Load(); n > 1 {
			t.Errorf("%d callers have made the one node", n)
		}
		if stat, err := s.Exists(t.Context(), "/me"); err != nil || (stat == nil) != (made.Load() == 0) {
			t.Errorf("%d have made it, and there is %v, %v", made.Load(), stat, err)
		}
	})
}

// TestEphemeralsThatAreGoneDoNotCount: towards what a session may own, whoever deleted them,
// and whether or not the reply came.
func TestEphemeralsThatAreGoneDoNotCount(t *testing.T) {
	const perNode, most = 64 << 10, 1 << 20
	for name, remove := range map[string]func(t *testing.T, srv *zktest.Server, s, other *session.Session, path string){
		"deleted": func(t *testing.T, _ *zktest.Server, s, _ *session.Session, path string) {
			if err := s.Delete(t.Context(), path, session.AnyVersion); err != nil {
				t.Fatal(err)
			}
		},
		"withdrawn, the reply lost": func(_ *testing.T, srv *zktest.Server, s, _ *session.Session, path string) {
			srv.DropReply(zktest.Match{Op: zktest.OpDelete})
			gone := make(chan struct{})
			s.Async(0).Withdraw(path, func() { close(gone) })
			<-gone
		},
		"deleted by another session": func(t *testing.T, _ *zktest.Server, _, other *session.Session, path string) {
			if err := other.Delete(t.Context(), path, session.AnyVersion); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				s := mustOpen(t, srv.Addrs(), opts)
				defer s.Close()
				other := mustOpen(t, srv.Addrs(), opts)
				defer other.Close()
				for i := range 3 * most / perNode {
					path := fmt.Sprintf("/%0*d", perNode, i)
					if _, err := s.Create(t.Context(), path, nil, session.Ephemeral); err != nil {
						t.Fatalf("node %d, when there are none: %v", i, err)
					}
					remove(t, srv, s, other, path)
				}
			})
		})
	}
}

// TestSessionsAreFull: with nodes that are there.
func TestSessionsAreFull(t *testing.T) {
	bubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := mustOpen(t, srv.Addrs(), opts)
		defer s.Close()
		name := strings.Repeat("x", 64<<10)
		for i := range 20 {
			_, err := s.Create(t.Context(), fmt.Sprint("/", i, name), nil, session.Ephemeral)
			if full := errors.Is(err, session.ErrSessionFull); full != (i > 14) || err != nil && !full {
				t.Fatalf("node %d: %v", i, err)
			}
		}
	})
}

// TestRemadeNodesAreGone: a node that was deleted, and made again before the session looked,
// is told as gone to those who watch it until then.
func TestRemadeNodesAreGone(t *testing.T) {
	for name, remake := range map[string]func(t *testing.T, srv *zktest.Server, s, other *session.Session){
		"while suspended": func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
			srv.Refuse(true)
			srv.Disconnect(s.ID())
			synctest.Wait()
			if err := other.Delete(t.Context(), "/me", session.AnyVersion); err != nil {
				t.Fatal(err)
			}
			if _, err := other.Create(t.Context(), "/me", []byte("another"), session.Ephemeral); err != nil {
				t.Fatal(err)
			}
			srv.Refuse(false)
		},
		"in one transaction": func(t *testing.T, _ *zktest.Server, _, other *session.Session) {
			if _, err := other.Multi(t.Context(), session.SetOp("/me", nil, session.AnyVersion),
				session.DeleteOp("/me", session.AnyVersion), session.CreateOp("/me", []byte("another"), session.Ephemeral)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				s := mustOpen(t, srv.Addrs(), opts)
				defer s.Close()
				other := mustOpen(t, srv.Addrs(), opts)
				defer other.Close()
				if _, err := s.Create(t.Context(), "/me", []byte("mine"), session.Ephemeral); err != nil {
					t.Fatal(err)
				}
				var told []string
				read := make(chan struct{})
				s.Async(0).Watch("/me", func([]byte, *session.Stat, error) { close(read) }, func(data []byte, _ *session.Stat, err error) {
					if errors.Is(err, session.ErrNoNode) {
						data = []byte("gone")
					}
					told = append(told, string(data))
				})
				<-read
				remake(t, srv, s, other)
				if err := exists(t, s); err != nil {
					t.Fatal(err)
				}
				pass(time.Minute)
				if len(told) == 0 || told[len(told)-1] != "gone" {
					t.Errorf("told %q", told)
				}
			})
		})
	}
}
