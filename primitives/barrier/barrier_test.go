package barrier_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func single(t *testing.T, s *session.Session, opts *barrier.Options) *barrier.Barrier {
	t.Helper()
	b := check.Have(barrier.New(s, path, opts))(t)
	t.Cleanup(b.Close)
	return b
}

func TestRaiseWaitLift(t *testing.T) {
	bubble(t, 3, zktest.Config{}, func(t *testing.T, _ *zktest.Server, s []*session.Session) {
		a, b := single(t, s[0], nil), single(t, s[1], nil)
		check.Must(t, b.Wait(t.Context())) // none stands
		check.Must(t, b.Lift(t.Context()))
		check.Must(t, a.Raise(t.Context()))
		check.Must(t, b.Raise(t.Context())) // is one barrier
		var calls []<-chan error
		for _, h := range []*barrier.Barrier{a, b, single(t, s[2], nil)} {
			calls = append(calls, begin(func() error { return h.Wait(t.Context()) }))
		}
		for _, call := range calls {
			kit.Waits(t, "Wait", call)
		}
		ctx, stop := context.WithCancel(t.Context())
		impatient := begin(func() error { return a.Wait(ctx) })
		kit.Waits(t, "Wait", impatient)
		stop()
		if err := kit.Returned(t, "Wait", impatient); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		check.Must(t, a.Lift(t.Context()))
		for _, call := range calls {
			check.Must(t, kit.Returned(t, "Wait", call))
		}
		check.Must(t, a.Raise(t.Context()))
		late := begin(func() error { return b.Wait(t.Context()) })
		kit.Waits(t, "Wait", late)
		b.Close()
		if err := kit.Returned(t, "Wait", late); !errors.Is(err, barrier.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// A waiter that does not see that the barrier is lifted and raised again waits for the new one,
// and says so.
func TestLiftedAndRaisedUnseen(t *testing.T) {
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		a, b := single(t, s[0], nil), single(t, s[1], nil)
		check.Must(t, a.Raise(t.Context()))
		first, is := (<-b.Events()).(barrier.Raised)
		if !is { // it has looked before
			first, is = (<-b.Events()).(barrier.Raised)
		}
		waiter := begin(func() error { return b.Wait(t.Context()) })
		kit.Waits(t, "Wait", waiter)
		srv.Freeze(s[1].ID(), zktest.Both)
		check.Must(t, a.Lift(t.Context()))
		check.Must(t, a.Raise(t.Context()))
		srv.Disconnect(s[1].ID())
		srv.Thaw(0)
		kit.Pass(5 * time.Second)
		kit.Waits(t, "Wait", waiter)
		again, isAgain := (<-b.Events()).(barrier.Raised)
		check.True(t, is && isAgain && again.Token > first.Token, "%v, then %v", first, again)
		check.Must(t, a.Lift(t.Context()))
		check.Must(t, kit.Returned(t, "Wait", waiter))
		if ev := <-b.Events(); ev != (barrier.Released{}) {
			t.Error(ev)
		}
	})
}

// behind returns a session on a server that lags by a minute, and one that is served by the leader.
func behind(t *testing.T, srv *zktest.Server) (late, prompt *session.Session) {
	t.Helper()
	open := func(addrs []string) *session.Session {
		s, err := session.Open(t.Context(), addrs, &session.Options{Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: srv.DialContext})
		check.Must(t, err)
		return s
	}
	const follower = 1
	srv.SetLag(follower, 0)
	late, prompt = open(srv.Addrs()[follower:follower+1]), open(srv.Addrs()[:1])
	srv.SetLag(follower, time.Minute)
	return late, prompt
}

// A waiter on a server that lags sees what was raised before it asked, unless it has NoSync.
func TestSync(t *testing.T) {
	bubble(t, 0, zktest.Config{Replicas: 3}, func(t *testing.T, srv *zktest.Server, _ []*session.Session) {
		late, prompt := behind(t, srv)
		defer late.Close()
		defer prompt.Close()
		raiser, plain := single(t, prompt, nil), single(t, late, &barrier.Options{NoSync: true})
		check.Must(t, plain.Wait(t.Context()))
		check.Must(t, raiser.Raise(t.Context()))
		check.Must(t, plain.Wait(t.Context()))
		call := begin(func() error { return single(t, late, nil).Wait(t.Context()) })
		kit.Waits(t, "Wait", call)
		check.Must(t, raiser.Lift(t.Context()))
		kit.Pass(2 * time.Minute)
		check.Must(t, kit.Returned(t, "Wait", call))
	})
}

// Each command does what it is to do, whatever is lost at whichever of its requests.
func TestFaultAtEveryRequestOfBarrier(t *testing.T) {
	for name, fault := range map[string]func(*zktest.Server, zktest.Match){
		"reply lost":   (*zktest.Server).DropReply,
		"request lost": (*zktest.Server).DropRequest,
		"busy":         func(srv *zktest.Server, m zktest.Match) { srv.AnswerError(m, -127) },
	} {
		t.Run(name, func(t *testing.T) {
			for skip := range 5 {
				bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
					b := single(t, s[0], nil)
					synctest.Wait()
					inject := func() {
						srv.ClearFaults()
						fault(srv, zktest.Match{Session: s[0].ID(), Skip: skip})
					}
					inject()
					check.Must(t, b.Raise(t.Context()))
					inject()
					waiter := begin(func() error { return b.Wait(t.Context()) })
					kit.Pass(5 * time.Second)
					kit.Waits(t, "Wait", waiter)
					inject()
					check.Must(t, b.Lift(t.Context()))
					kit.Pass(5 * time.Second)
					check.Must(t, kit.Returned(t, "Wait", waiter))
					inject()
					g, err := b.TryRaise(t.Context())
					check.Must(t, err)
					if _, err := single(t, s[1], nil).TryRaise(t.Context()); !errors.Is(err, barrier.ErrRaised) {
						t.Errorf("a second gate: %v", err)
					}
					inject()
					check.Must(t, g.Lift(t.Context()))
					srv.ClearFaults()
					kit.Pass(5 * time.Second)
					if stat, err := s[1].Exists(t.Context(), path); err != nil || stat != nil {
						t.Errorf("%v is left, %v", stat, err)
					}
				})
			}
		})
	}
}

// TestLiftWhileSessionEnds: a gate whose session expires while it is lifted is lifted when the node
// is gone, not before: the server keeps the node for a while.
func TestLiftWhileSessionEnds(t *testing.T) {
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		g := check.Have(single(t, s[0], nil).TryRaise(t.Context()))(t)
		srv.Freeze(s[0].ID(), zktest.Both)
		expired := s[0].ID()
		time.AfterFunc(time.Minute, func() { srv.Thaw(0) })
		check.Must(t, g.Lift(t.Context()))
		check.True(t, s[0].ID() != expired, "the session has not expired")
		if stat, err := s[1].Exists(t.Context(), path); stat != nil || err != nil {
			t.Error("the node stands when Lift returns:", stat, err)
		}
		check.True(t, g.Err() == nil, "%v", g.Err())
	})
}

// One at a time, each with a greater token, and a gate ends with its session or its node.
func TestGates(t *testing.T) {
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		a, b := single(t, s[0], nil), single(t, s[1], nil)
		first, err := a.TryRaise(t.Context())
		check.Must(t, err)
		if _, err := b.TryRaise(t.Context()); !errors.Is(err, barrier.ErrRaised) {
			t.Errorf("a second gate: %v", err)
		}
		check.Must(t, first.Lift(t.Context()))
		if <-first.Done(); first.Err() != nil {
			t.Error(first.Err())
		}
		next, err := b.TryRaise(t.Context())
		check.Must(t, err)
		if next.Token() <= first.Token() {
			t.Errorf("token %d after %d", next.Token(), first.Token())
		}
		check.Must(t, a.Lift(t.Context()))
		if <-next.Done(); !errors.Is(next.Err(), barrier.ErrNodeGone) {
			t.Error(next.Err())
		}
		last, err := b.TryRaise(t.Context())
		check.Must(t, err)
		check.Must(t, next.Lift(t.Context())) // touches nothing
		kit.Waits(t, "the gate", begin(func() error { <-last.Done(); return nil }))
		begun := time.Now()
		srv.Freeze(s[1].ID(), zktest.Both)
		<-last.Done()
		if took := time.Since(begun); took > 12*time.Second {
			t.Errorf("lost after %v", took)
		}
		check.Is(t, last.Err(), session.ErrLapsed)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, err := a.TryRaise(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// A server that lags does not hide a barrier from Lift, nor a lost request.
func TestLiftUnseen(t *testing.T) {
	bubble(t, 0, zktest.Config{Replicas: 3}, func(t *testing.T, srv *zktest.Server, _ []*session.Session) {
		late, prompt := behind(t, srv)
		defer late.Close()
		defer prompt.Close()
		b := single(t, late, nil)
		check.Must(t, b.Wait(t.Context()))
		check.Must(t, single(t, prompt, nil).Raise(t.Context()))
		srv.DropRequest(zktest.Match{Op: zktest.OpDelete, Session: late.ID()})
		check.Must(t, b.Lift(t.Context()))
		if stat, err := prompt.Exists(t.Context(), path); err != nil || stat != nil {
			t.Errorf("%v is left, %v", stat, err)
		}
	})
}

// What comes between the reading of Lift and its deletion stays, unless it is another barrier of
// the same version.
func TestLiftRace(t *testing.T) {
	create := func(t *testing.T, s *session.Session, node string, data []byte, mode session.CreateMode) {
		t.Helper()
		check.Have(s.Create(t.Context(), node, data, mode))(t)
	}
	for name, row := range map[string]struct {
		comes func(t *testing.T, s *session.Session)
		want  error
		left  string // "none" if no node is left
	}{
		"nothing": {func(*testing.T, *session.Session) {}, nil, "none"},
		"a value": {func(t *testing.T, s *session.Session) {
			check.Have(s.Set(t.Context(), path, []byte("on"), session.AnyVersion))(t)
		}, barrier.ErrForeign, "on"},
		"a child": {func(t *testing.T, s *session.Session) { create(t, s, path+"/notes", nil, session.Persistent) }, barrier.ErrForeign, ""},
		"a child of a moment": {func(t *testing.T, s *session.Session) {
			create(t, s, path+"/notes", nil, session.Persistent)
			<-time.After(time.Second) // the deletion is refused
			check.Must(t, s.Delete(t.Context(), path+"/notes", session.AnyVersion))
		}, nil, "none"},
		"a gate in its place": {func(t *testing.T, s *session.Session) {
			check.Must(t, s.Delete(t.Context(), path, session.AnyVersion))
			check.Have(single(t, s, nil).TryRaise(t.Context()))(t)
		}, nil, "gate"},
		"it is lifted": {func(t *testing.T, s *session.Session) { check.Must(t, s.Delete(t.Context(), path, session.AnyVersion)) }, nil, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
				a := single(t, s[0], nil)
				check.Must(t, a.Raise(t.Context()))
				srv.Delay(zktest.Match{Op: zktest.OpDelete, Session: s[0].ID()}, time.Second)
				srv.Delay(zktest.Match{Op: zktest.OpGetChildren2, Session: s[0].ID()}, time.Second)
				call := begin(func() error { return a.Lift(t.Context()) })
				<-time.After(100 * time.Millisecond)
				row.comes(t, s[1])
				kit.Pass(time.Minute)
				check.Is(t, kit.Returned(t, "Lift", call), row.want)
				data, _, err := s[1].Get(t.Context(), path)
				left := string(data[:min(len(data), len("gate"))])
				if errors.Is(err, session.ErrNoNode) {
					left = "none"
				}
				check.Equal(t, left, row.left)
			})
		})
	}
}

// A gate whose data another gate has overwritten, which was lifting its own at that moment, is
// recognised: also when the reply to its creation was lost.
func TestGateOverwritten(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		bubble(t, 3, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
			a, b, c := single(t, s[0], nil), single(t, s[1], nil), single(t, s[2], nil)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			first, err := a.TryRaise(t.Context())
			check.Must(t, err)
			srv.Delay(zktest.Match{Op: zktest.OpSetData, Session: s[0].ID()}, 100*time.Millisecond)
			lifting := begin(func() error { return first.Lift(t.Context()) })
			kit.Waits(t, "Lift", lifting)
			check.Must(t, c.Lift(t.Context()))
			srv.DropReply(zktest.Match{Op: zktest.OpMulti, Session: s[1].ID()})
			srv.Refuse(true) // it reconnects later
			var second *barrier.Gate
			raising := begin(func() (err error) {
				second, err = b.TryRaise(ctx)
				return err
			})
			kit.Pass(500 * time.Millisecond)
			if _, stat, err := s[2].Get(t.Context(), path); err != nil || stat.EphemeralOwner != s[1].ID() || stat.Version != 2 {
				t.Fatalf("the node was not overwritten: %v, %v", stat, err)
			}
			kit.Waits(t, "TryRaise", raising)
			srv.Refuse(false)
			if cancelled {
				stop()
			}
			kit.Pass(10 * time.Second)
			check.Must(t, kit.Returned(t, "Lift", lifting))
			if err := kit.Returned(t, "TryRaise", raising); cancelled != errors.Is(err, context.Canceled) || !cancelled && err != nil {
				t.Errorf("TryRaise: %v", err)
			}
			if second != nil {
				check.Must(t, second.Lift(t.Context()))
			}
			if stat, err := s[2].Exists(t.Context(), path); err != nil || stat != nil {
				t.Errorf("%v is left, %v", stat, err)
			}
		})
	}
}

// Of gates in one session one is raised, whatever reply is lost.
func TestGatesOfOneSession(t *testing.T) {
	bubble(t, 1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		b := single(t, s[0], nil)
		check.Must(t, s[0].EnsurePath(t.Context(), "/barriers"))
		for range 2 {
			srv.DropReply(zktest.Match{Op: zktest.OpMulti})
			gates := make(chan *barrier.Gate, 3)
			for range 3 {
				go func() {
					g, err := b.TryRaise(t.Context())
					if err != nil && !errors.Is(err, barrier.ErrRaised) {
						t.Error(err)
					}
					gates <- g
				}()
			}
			kit.Pass(5 * time.Second)
			raised := 0
			for range 3 {
				if g := <-gates; g != nil {
					raised++
					check.Must(t, g.Lift(t.Context()))
				}
			}
			check.Equal(t, raised, 1, "gates are raised")
			if stat, err := s[0].Exists(t.Context(), path); err != nil || stat != nil {
				t.Errorf("%v is left, %v", stat, err)
			}
		}
	})
}

// The reply to the creation is lost, and the context ends before Raise can try again: the barrier
// may stand.
func TestRaiseEndsInDoubt(t *testing.T) {
	bubble(t, 1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		check.Must(t, s[0].EnsurePath(t.Context(), "/barriers"))
		b := check.Have(barrier.New(s[0], path, nil))(t)
		defer b.Close()
		srv.DropReply(zktest.Match{Op: zktest.OpCreate})
		srv.Refuse(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := b.Raise(ctx)
		check.Is(t, err, session.ErrUnknownOutcome)
		check.Is(t, err, context.DeadlineExceeded)
		srv.Refuse(false)
	})
}

// A gate whose node could not be deleted is over, but its removal goes on. The next TryRaise of the
// session, which is in doubt, does not take that node for its own.
func TestGateNotLifted(t *testing.T) {
	bubble(t, 1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		above := func(perms session.Perms) {
			check.Have(s[0].SetACL(t.Context(), "/barriers", []session.ACL{{Perms: perms, Scheme: "world", ID: "anyone"}}, session.AnyVersion))(t)
		}
		b := check.Have(barrier.New(s[0], path, nil))(t)
		defer b.Close()
		first := check.Have(b.TryRaise(t.Context()))(t)
		above(session.PermAll &^ session.PermDelete)
		check.Is(t, first.Lift(t.Context()), session.ErrNoAuth)
		srv.DropReply(zktest.Match{Op: zktest.OpMulti})
		_, err := b.TryRaise(t.Context())
		check.Is(t, err, barrier.ErrRaised)
		above(session.PermAll)
		kit.Pass(time.Minute)
		second := check.Have(b.TryRaise(t.Context()))(t)
		check.True(t, second.Token() > first.Token(), "%d follows %d", second.Token(), first.Token())
		check.Must(t, second.Lift(t.Context()))
	})
}

// A gate that could not be lifted stays the holder of its node as long as its session, and no
// longer: servers that come back with older data give the same token to a node of the next one.
func TestGateNotLiftedBeforeRestore(t *testing.T) {
	bubble(t, 1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		check.Must(t, s[0].EnsurePath(t.Context(), "/barriers"))
		backup := srv.Backup()
		write := func() int64 { return check.Have(s[0].Set(t.Context(), "/", nil, session.AnyVersion))(t).Mzxid }
		for range 10 {
			write()
		}
		b := check.Have(barrier.New(s[0], path, nil))(t)
		defer b.Close()
		first := check.Have(b.TryRaise(t.Context()))(t)
		check.Have(s[0].SetACL(t.Context(), "/barriers", []session.ACL{{Perms: session.PermAll &^ session.PermDelete, Scheme: "world", ID: "anyone"}}, session.AnyVersion))(t)
		check.Is(t, first.Lift(t.Context()), session.ErrNoAuth)

		srv.Restore(backup)
		kit.Pass(time.Minute)
		for write() < first.Token()-1 {
		}
		srv.DropReply(zktest.Match{Op: zktest.OpMulti})
		second := check.Have(b.TryRaise(t.Context()))(t)
		check.Equal(t, second.Token(), first.Token(), "is the token")
		check.Must(t, second.Lift(t.Context()))
		stat := check.Have(s[0].Exists(t.Context(), path))(t)
		check.True(t, stat == nil, "%v is left", stat)
	})
}
