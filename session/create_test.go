package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestCreateOnABusyServer: the server says that it is busy, and has created the node, or not.
// Create returns a node that stands. If the server is busy until the context ends, none is left.
func TestCreateOnABusyServer(t *testing.T) {
	const operationTimeout, throttled = -7, -127
	for _, mode := range []session.CreateMode{session.Ephemeral, session.EphemeralSequential, session.PersistentSequential} {
		for _, code := range []int32{operationTimeout, throttled} {
			for _, done := range []bool{false, true} {
				for _, always := range []bool{false, true} {
					t.Run(fmt.Sprintf("%d/%d/%v/%v", mode, code, done, always), func(t *testing.T) {
						tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
							s := mustOpen(t, srv.Addrs(), opts)
							check.Have(s.Create(t.Context(), target, nil, session.Persistent))(t)
							busy := forge(func(frame []byte) []byte { return withInt32(frame, 12, code)[:replyHeader] })
							if busy.always = always; !done {
								busy.request = harmless
							}
							tp.strikeWith(busy)
							ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
							defer cancel()
							node, err := s.Create(ctx, target+"/node", nil, mode)
							check.AtMost(t, tp.arrived(), 80, "creates in a minute")
							tp.strikeWith(strike{})
							pass(time.Minute)
							want := 1
							if always && !done {
								check.Is(t, err, context.DeadlineExceeded)
								want = 0
							} else if check.OK(t, err); err == nil {
								check.Have(s.Set(t.Context(), node, nil, session.AnyVersion))(t)
							}
							names, _, err := s.Children(t.Context(), target)
							check.Must(t, err)
							check.Len(t, names, want, "nodes")
						})
					})
				}
			}
		}
	}
}

// TestCreateInDoubtIsNotAnothers: two of one session want the same ephemeral node.
func TestCreateInDoubtIsNotAnothers(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		ctx := t.Context()
		check.Have(s.Create(ctx, "/me", []byte("first"), session.Ephemeral))(t)
		srv.DropReply(zktest.Match{Op: zktest.OpCreate})
		check.Fails(s.Create(ctx, "/me", []byte("second"), session.Ephemeral))(t, session.ErrNodeExists) // the second
		srv.Freeze(s.ID(), zktest.ToClient)
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		check.Fails(s.Create(short, "/me", []byte("third"), session.Ephemeral))(t, session.ErrUnknownOutcome) // the third
		srv.Thaw(0)
		pass(time.Second)
		check.Reads(s.Get(ctx, "/me"))(t, "first", "the node is")
	})
}

// TestCreateEndsInDoubt: the reply to a create was lost, and the context ends before the session
// knows whether the node was made. The error names both.
func TestCreateEndsInDoubt(t *testing.T) {
	for _, mode := range []session.CreateMode{session.Ephemeral, session.EphemeralSequential, session.PersistentSequential} {
		withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
			srv.DropReply(zktest.Match{Op: zktest.OpCreate})
			srv.Refuse(true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := s.Create(ctx, "/a", nil, mode)
			check.Is(t, err, session.ErrUnknownOutcome, "mode ", mode)
			check.Is(t, err, context.DeadlineExceeded, "mode ", mode)
		})
	}
}

// TestEnsureEndsInDoubt: the error has the cause once.
func TestEnsureEndsInDoubt(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		srv.Delay(zktest.Match{Path: "/a"}, 3*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.EnsurePath(ctx, "/a")
		check.Is(t, err, context.DeadlineExceeded)
		check.Equal(t, strings.Count(err.Error(), context.DeadlineExceeded.Error()), 1, err.Error())
	})
}

// TestEndedContextsDoNothing: neither on the server nor in the session.
func TestEndedContextsDoNothing(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			if _, err := s.Create(ended, "/a", nil, session.Persistent); !errors.Is(err, context.Canceled) || errors.Is(err, session.ErrUnknownOutcome) {
				t.Fatal(err)
			}
		}
		// Those that wait for a connection, and give up, leave nothing of themselves.
		srv.Refuse(true)
		srv.Disconnect(0)
		synctest.Wait()
		name := "/" + strings.Repeat("x", 64<<10)
		for range 100 {
			short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			check.Fails(s.Create(short, name, nil, session.Ephemeral))(t, context.DeadlineExceeded)
			cancel()
		}
		srv.Refuse(false)
		check.Have(s.Create(t.Context(), "/b", nil, session.Ephemeral))(t) // afterwards
		isGone(t, s, "/a")
	})
}

// TestOneOfTwoInDoubt: of two creates of one node whose replies were lost, one has made it.
func TestOneOfTwoInDoubt(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		srv.Freeze(s.ID(), zktest.ToClient)
		var wg sync.WaitGroup
		var made atomic.Int32
		for range 2 {
			wg.Go(func() {
				switch _, err := s.Create(t.Context(), "/me", nil, session.Ephemeral); {
				case err == nil:
					made.Add(1)
				case !errors.Is(err, session.ErrNodeExists):
					t.Error(err)
				}
			})
		}
		pass(10 * time.Millisecond) // both are sent, and executed
		srv.Disconnect(s.ID())
		srv.Thaw(0)
		wg.Wait()
		check.Equal(t, made.Load(), 1, "callers were told that they have created the node")
	})
}

// TestMadeByAnother: a create whose reply was lost has not made a node that stands there for
// another reason.
func TestMadeByAnother(t *testing.T) {
	for _, makes := range map[string]func(s, other *session.Session, srv *zktest.Server, done func(string, error)){
		"by another session": func(_, other *session.Session, _ *zktest.Server, done func(string, error)) {
			other.Async(0).Create("/me", nil, session.Ephemeral, done)
		},
		"by an earlier create in doubt": func(s, _ *session.Session, srv *zktest.Server, done func(string, error)) {
			srv.DropReply(zktest.Match{Op: zktest.OpCreate})
			s.Async(0).Create("/me", nil, session.Ephemeral, done)
		},
	} {
		withSessions(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
			done := make(chan struct{})
			earlier := func(string, error) { close(done) }
			makes(s, other, srv, earlier)
			<-done
			srv.DropReply(zktest.Match{Op: zktest.OpCreate, Session: s.ID()})
			check.Fails(s.Create(t.Context(), "/me", nil, session.Ephemeral))(t, session.ErrNodeExists)
			stands(t, s, "/me")
		})
	}
}
