package barrier_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
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
		ok(t, b.Wait(t.Context())) // none stands
		ok(t, b.Lift(t.Context()))
		ok(t, a.Raise(t.Context()))
		ok(t, b.Raise(t.Context())) // is one barrier
		var calls []<-chan error
		for _, h := range []*barrier.Barrier{a, b, single(t, s[2], &barrier.Options{Sync: true})} {
			calls = append(calls, begin(func() error { return h.Wait(t.Context()) }))
		}
		for _, call := range calls {
			waits(t, "Wait", call)
		}
		ctx, stop := context.WithCancel(t.Context())
		impatient := begin(func() error { return a.Wait(ctx) })
		waits(t, "Wait", impatient)
		stop()
		if err := settled(t, "Wait", impatient); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		ok(t, a.Lift(t.Context()))
		for _, call := range calls {
			ok(t, settled(t, "Wait", call))
		}
		ok(t, a.Raise(t.Context()))
		late := begin(func() error { return b.Wait(t.Context()) })
		waits(t, "Wait", late)
		b.Close()
		if err := settled(t, "Wait", late); !errors.Is(err, barrier.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// A waiter that does not see that the barrier is lifted and raised again waits for the new one,
// and says so.
func TestLiftedAndRaisedUnseen(t *testing.T) {
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		a, b := single(t, s[0], nil), single(t, s[1], nil)
		ok(t, a.Raise(t.Context()))
		first, is := (<-b.Events()).(barrier.Raised)
		if !is { // it has looked before
			first, is = (<-b.Events()).(barrier.Raised)
		}
		waiter := begin(func() error { return b.Wait(t.Context()) })
		waits(t, "Wait", waiter)
		srv.Freeze(s[1].ID(), zktest.Both)
		ok(t, a.Lift(t.Context()))
		ok(t, a.Raise(t.Context()))
		srv.Disconnect(s[1].ID())
		pass(5 * time.Second)
		waits(t, "Wait", waiter)
		again, isAgain := (<-b.Events()).(barrier.Raised)
		check.True(t, is && isAgain && again.Token > first.Token, "%v, then %v", first, again)
		ok(t, a.Lift(t.Context()))
		ok(t, settled(t, "Wait", waiter))
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
		ok(t, err)
		return s
	}
	const follower = 1
	srv.SetLag(follower, 0)
	late, prompt = open(srv.Addrs()[follower:follower+1]), open(srv.Addrs()[:1])
	srv.SetLag(follower, time.Minute)
	return late, prompt
}

// With Sync, a waiter on a server that lags sees what was raised before it asked.
func TestSync(t *testing.T) {
	bubble(t, 0, zktest.Config{Replicas: 3}, func(t *testing.T, srv *zktest.Server, _ []*session.Session) {
		late, prompt := behind(t, srv)
		defer late.Close()
		defer prompt.Close()
		raiser, plain := single(t, prompt, nil), single(t, late, nil)
		ok(t, plain.Wait(t.Context()))
		ok(t, raiser.Raise(t.Context()))
		ok(t, plain.Wait(t.Context()))
		call := begin(func() error { return single(t, late, &barrier.Options{Sync: true}).Wait(t.Context()) })
		waits(t, "Wait", call)
		ok(t, raiser.Lift(t.Context()))
		pass(2 * time.Minute)
		ok(t, settled(t, "Wait", call))
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
					b := single(t, s[0], &barrier.Options{Sync: true})
					synctest.Wait()
					inject := func() {
						srv.ClearFaults()
						fault(srv, zktest.Match{Session: s[0].ID(), Skip: skip})
					}
					inject()
					ok(t, b.Raise(t.Context()))
					inject()
					waiter := begin(func() error { return b.Wait(t.Context()) })
					pass(5 * time.Second)
					waits(t, "Wait", waiter)
					inject()
					ok(t, b.Lift(t.Context()))
					pass(5 * time.Second)
					ok(t, settled(t, "Wait", waiter))
					inject()
					g, err := b.TryRaise(t.Context())
					ok(t, err)
					if _, err := single(t, s[1], nil).TryRaise(t.Context()); !errors.Is(err, barrier.ErrRaised) {
						t.Errorf("a second gate: %v", err)
					}
					inject()
					ok(t, g.Lift(t.Context()))
					srv.ClearFaults()
					pass(5 * time.Second)
					if stat, err := s[1].Exists(t.Context(), path); err != nil || stat != nil {
						t.Errorf("%v is left, %v", stat, err)
					}
				})
			}
		})
	}
}

// One at a time, each with a greater token, and a gate ends with its session or its node.
func TestGates(t *testing.T) {
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		a, b := single(t, s[0], nil), single(t, s[1], nil)
		first, err := a.TryRaise(t.Context())
		ok(t, err)
		if _, err := b.TryRaise(t.Context()); !errors.Is(err, barrier.ErrRaised) {
			t.Errorf("a second gate: %v", err)
		}
		ok(t, first.Lift(t.Context()))
		if <-first.Done(); first.Err() != nil {
			t.Error(first.Err())
		}
		next, err := b.TryRaise(t.Context())
		ok(t, err)
		if next.Token() <= first.Token() {
			t.Errorf("token %d after %d", next.Token(), first.Token())
		}
		ok(t, a.Lift(t.Context()))
		if <-next.Done(); !errors.Is(next.Err(), barrier.ErrNodeGone) {
			t.Error(next.Err())
		}
		last, err := b.TryRaise(t.Context())
		ok(t, err)
		ok(t, next.Lift(t.Context())) // touches nothing
		waits(t, "the gate", begin(func() error { <-last.Done(); return nil }))
		begun := time.Now()
		srv.Freeze(s[1].ID(), zktest.Both)
		<-last.Done()
		if took := time.Since(begun); took > 12*time.Second {
			t.Errorf("lost after %v", took)
		}
		check.Is(t, last.Err(), session.ErrExpired)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, err := a.TryRaise(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}
