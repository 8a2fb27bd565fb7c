package election_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var errWork = errors.New("there is no more to do")

// TestLeadInTurn: each works once it is elected, until it has done its work.
func TestLeadInTurn(t *testing.T) {
	for name, result := range map[string]error{"nil": nil, "an error": errWork} {
		runInBubble(t, name, lagging, func(w *world) {
			working, works := 0, 0
			last := int64(0)
			for i := range 5 {
				c := w.stand(w.open(i), nil)
				w.readers.Go(func() {
					for range 3 {
						err := c.Lead(w.soon(), func(ctx context.Context, term int64) error {
							working++
							check.True(w, working == 1 && term > last, "%d at work, in term %d after %d", working, term, last)
							last = term
							works++
							<-time.After(300 * time.Millisecond)
							working--
							return result
						})
						check.Is(w, err, result)
					}
				})
			}
			<-time.After(time.Minute / 2)
			check.Equal(w, works, 15, "works")
		})
	}
}

// TestLeadAgain: whatever it is deposed by, the next term begins when the work of the last
// one has ended.
func TestLeadAgain(t *testing.T) {
	for name, depose := range map[string]func(w *world, operator *session.Session, leader *player) error{
		"resignation": func(w *world, _ *session.Session, leader *player) error {
			ctx, end := context.WithTimeout(w.Context(), time.Millisecond)
			defer end()
			if err := leader.Resign(ctx); !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return nil
		},
		"transfer": func(w *world, _ *session.Session, leader *player) error {
			to := w.players[0]
			if to == leader {
				to = w.players[1]
			}
			ctx, end := context.WithTimeout(w.Context(), 10*time.Millisecond)
			defer end()
			if err := leader.Transfer(ctx, to.Node()); !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return nil
		},
		"an operator": func(w *world, operator *session.Session, leader *player) error {
			return operator.Delete(w.soon(), leader.Node(), session.AnyVersion)
		},
		"another operator": func(w *world, operator *session.Session, leader *player) error {
			return operator.Delete(w.soon(), path+"/leader", session.AnyVersion)
		},
	} {
		runInBubble(t, name, lagging, func(w *world) {
			operator := w.open(0)
			ctx, end := context.WithCancel(w.Context())
			var working, works atomic.Int32
			for i := range 2 {
				c := w.stand(w.open(i), nil)
				w.readers.Go(func() {
					err := c.Lead(ctx, func(ctx context.Context, _ int64) error {
						check.Equal(w, working.Add(1), 1, "at work")
						works.Add(1)
						<-ctx.Done()
						if err := context.Cause(ctx); !errors.Is(err, election.ErrDeposed) && !errors.Is(err, context.Canceled) {
							w.Error(err)
						}
						<-time.After(3 * time.Second) // it needs some time to stop
						working.Add(-1)
						return ctx.Err()
					})
					check.Is(w, err, context.Canceled)
				})
			}
			<-time.After(time.Second)
			last := int64(0)
			for range 6 {
				leader, term := w.leader(last)
				last = term
				<-time.After(time.Second)
				check.OK(w, depose(w, operator, leader))
				<-time.After(100 * time.Millisecond)
				check.False(w, leads(leader), "still leading")
				check.Equal(w, working.Load(), 1, "at work")
			}
			w.leader(last)
			<-time.After(time.Second) // it is at work
			end()
			<-time.After(20 * time.Second)
			check.True(w, works.Load() >= 7 && working.Load() == 0, "%d works, %d at work", works.Load(), working.Load())
		})
	}
}

// TestLeadExpired: what it does when the session is lost, and not before.
func TestLeadExpired(t *testing.T) {
	inBubble(t, lagging, func(w *world) {
		ctx, end := context.WithCancel(w.Context())
		defer end()
		a := w.stand(w.open(0), nil)
		starts, stops := make(chan int64, 9), make(chan error, 9)
		w.readers.Go(func() {
			_ = a.Lead(ctx, func(ctx context.Context, term int64) error {
				starts <- term
				<-ctx.Done()
				stops <- context.Cause(ctx)
				return nil
			})
		})
		first := <-starts
		w.Refuse(true)
		w.Disconnect(0)
		suspended, _ := await[election.Suspended](a, 0)
		check.True(w, suspended.Deadline.After(time.Now()), "suspended until %v", suspended.Deadline)
		check.True(w, len(stops) == 0, "stopped while suspended")
		w.Refuse(false)
		await[election.Resumed](a, 0)
		check.True(w, len(stops) == 0, "stopped when resumed")
		b := w.stand(w.open(0), nil)
		<-time.After(time.Second)
		w.Freeze(a.session.ID(), zktest.Both)
		err := <-stops
		check.True(w, errors.Is(err, session.ErrLapsed) && errors.Is(err, election.ErrDeposed), "%v", err)
		await[election.Elected](b, 0)
		w.Thaw(0)
		<-time.After(10 * time.Second)
		b.Close()
		second := <-starts
		check.True(w, second > first, "term %d after %d", second, first)
	})
}

// TestLeadOverrun: who does not stop is reported, and keeps the leadership from others.
func TestLeadOverrun(t *testing.T) {
	inBubble(t, lagging, func(w *world) {
		a := w.stand(w.open(0), &election.Options{LeadGrace: 2 * time.Second})
		end, result := make(chan struct{}), make(chan error, 1)
		w.readers.Go(func() {
			result <- a.Lead(w.Context(), func(context.Context, int64) error {
				<-end
				return errWork
			})
		})
		elected, n := await[election.Elected](a, 0)
		b := w.stand(w.open(1), nil)
		<-time.After(time.Second)
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
		defer cancel()
		begun := time.Now()
		check.Is(w, a.Resign(ctx), context.DeadlineExceeded)
		overrun, _ := await[election.Overrun](a, n)
		check.True(w, overrun.Term == elected.Term && len(result) == 0 && count[election.Elected](b) <= 0, "somebody else was elected before the work had ended")
		for _, e := range a.log {
			_, ok := e.Event.(election.Overrun)
			check.False(w, ok && e.at.Sub(begun) != 2*time.Second, "reported after %v", e.at.Sub(begun))
		}
		close(end)
		err := <-result
		check.True(w, errors.Is(err, election.ErrOverrun) && errors.Is(err, errWork), "%v", err)
		await[election.Elected](b, 0)
	})
}

// TestCloseDuringLead: Close waits for the function, for a while.
func TestCloseDuringLead(t *testing.T) {
	for _, test := range []struct {
		work, want time.Duration
	}{
		{time.Second, time.Second},
		{10 * time.Second, 3 * time.Second},
	} {
		for name, closing := range map[string]struct {
			close func(p *player)
			cause error
		}{
			"candidate": {func(p *player) { p.Close() }, election.ErrResigned},
			"session":   {func(p *player) { p.session.Close() }, session.ErrClosed},
		} {
			runInBubble(t, name+" "+test.work.String(), lagging, func(w *world) {
				s := check.Have(session.Open(w.Context(), w.Addrs()[:1], &session.Options{
					Timeout: 6 * time.Second, ServerTick: 100 * time.Millisecond, Dialer: w.DialContext, CloseTimeout: 5 * time.Second,
				}))(w)
				a := w.stand(s, &election.Options{LeadGrace: 3 * time.Second})
				result := make(chan error, 1)
				w.readers.Go(func() {
					result <- a.Lead(w.Context(), func(ctx context.Context, _ int64) error {
						<-ctx.Done()
						check.Is(w, context.Cause(ctx), closing.cause)
						<-time.After(test.work)
						return nil
					})
				})
				await[election.Elected](a, 0)
				b := w.stand(w.open(1), nil)
				<-time.After(time.Second)
				begun := time.Now()
				closing.close(a)
				check.Within(w, time.Since(begun), test.want, test.want+200*time.Millisecond, "it took")
				await[election.Elected](b, 0)
				err := <-result
				check.False(w, test.work == test.want && !errors.Is(err, election.ErrLeft) || test.work != test.want && !errors.Is(err, election.ErrOverrun), "%v", err)
			})
		}
	}
}

func TestLeadRefusals(t *testing.T) {
	inBubble(t, lagging, func(w *world) {
		s := w.open(0)
		a := w.elect(s, nil)
		b := w.stand(s, nil)
		<-time.After(time.Second)
		ctx, end := context.WithTimeout(w.Context(), time.Second)
		defer end()
		never := func(context.Context, int64) error {
			w.Error("called")
			return errWork
		}
		result := make(chan error, 1)
		w.readers.Go(func() { result <- b.Lead(ctx, never) })
		<-time.After(time.Millisecond)
		check.Is(w, b.Lead(w.soon(), never), election.ErrBusy)
		check.Is(w, <-result, context.DeadlineExceeded)
		w.readers.Go(func() { result <- b.Lead(w.soon(), never) })
		<-time.After(time.Millisecond)
		b.Close()
		check.Is(w, <-result, election.ErrLeft)
		check.Is(w, b.Lead(w.soon(), never), election.ErrLeft)
		check.Is(w, b.Resign(w.soon()), election.ErrLeft)
		// One that resigns by itself.
		err := a.Lead(w.soon(), func(ctx context.Context, _ int64) error {
			check.Is(w, a.Resign(ctx), election.ErrResigned)
			return errWork
		})
		check.Is(w, err, errWork)
	})
}

// TestLeadGivenUpBesideAnother: who gives up Lead says nothing about the function of
// another call.
func TestLeadGivenUpBesideAnother(t *testing.T) {
	inBubble(t, lagging, func(w *world) {
		a := w.stand(w.open(0), nil)
		end := make(chan struct{})
		w.readers.Go(func() {
			_ = a.Lead(w.Context(), func(ctx context.Context, _ int64) error {
				<-end
				return ctx.Err()
			})
		})
		await[election.Elected](a, 0)
		b := w.stand(w.open(1), nil)
		<-time.After(time.Second)
		ended, cancel := context.WithCancel(w.Context())
		cancel()
		for range 10 {
			err := a.Lead(ended, func(context.Context, int64) error { return errWork })
			check.False(w, !errors.Is(err, context.Canceled) && !errors.Is(err, election.ErrBusy), "%v", err)
		}
		ctx, over := context.WithTimeout(w.Context(), 5*time.Second)
		defer over()
		check.Is(w, a.Resign(ctx), context.DeadlineExceeded)
		check.Equal(w, count[election.Elected](b), 0, "another was elected while the function of the last leader was running")
		close(end)
		await[election.Elected](b, 0)
	})
}

// TestLeadEnds: when Lead has returned because of its context, the candidate does not lead.
func TestLeadEnds(t *testing.T) {
	inBubble(t, lagging, func(w *world) {
		for range 50 {
			a := w.stand(w.open(0), nil)
			ctx, end := context.WithCancel(w.Context())
			err := a.Lead(ctx, func(ctx context.Context, _ int64) error {
				end()
				return ctx.Err()
			})
			_, leading := a.Leading()
			check.True(w, !leading && errors.Is(err, context.Canceled), "leads: %v, %v", leading, err)
			a.Close()
		}
	})
}

// TestLeadNothing: a function that cannot be called is refused, before an election.
func TestLeadNothing(t *testing.T) {
	inBubble(t, lagging, func(w *world) {
		a := w.stand(w.open(0), nil)
		check.Is(w, a.Lead(w.soon(), nil), session.ErrInvalidArgument)
	})
}

// TestLeadPanic: no candidate leads on behalf of a function that is gone, and has not
// returned.
func TestLeadPanic(t *testing.T) {
	for name, f := range map[string]func(){"panic": func() { panic(errWork) }, "exit": runtime.Goexit} {
		runInBubble(t, name, lagging, func(w *world) {
			a := w.elect(w.open(0), nil)
			b := w.stand(w.open(1), nil)
			<-time.After(time.Second)
			w.readers.Go(func() {
				defer func() { _ = recover() }()
				_ = a.Lead(w.Context(), func(context.Context, int64) error {
					f()
					return nil
				})
			})
			await[election.Elected](b, 0)
		})
	}
}

// TestLeadLate: when Lead returns for good, the candidate does not lead in a later term.
func TestLeadLate(t *testing.T) {
	for name, grace := range map[string]time.Duration{"in time": time.Hour, "overrun": time.Second} {
		runInBubble(t, name, lagging, func(w *world) {
			a := w.stand(w.open(0), &election.Options{LeadGrace: grace})
			end, result := make(chan struct{}), make(chan error, 1)
			w.readers.Go(func() {
				result <- a.Lead(w.Context(), func(context.Context, int64) error {
					<-end
					return errWork
				})
			})
			_, n := await[election.Elected](a, 0)
			w.Expire(a.session.ID())
			await[election.Elected](a, n)
			b := w.stand(w.open(1), nil)
			<-time.After(5 * time.Second)
			close(end)
			check.Is(w, <-result, errWork)
			await[election.Elected](b, 0)
		})
	}
}

// TestLeadCalledOff: a leader is deposed when the context of Lead ends. Its place is given up when
// the function has returned.
func TestLeadCalledOff(t *testing.T) {
	inBubble(t, lagging, func(w *world) {
		a := w.elect(w.open(0), nil)
		b := w.stand(w.open(1), nil)
		ctx, cancel := context.WithCancel(w.Context())
		end, result := make(chan struct{}), make(chan error, 1)
		w.readers.Go(func() {
			result <- a.Lead(ctx, func(ctx context.Context, _ int64) error {
				<-end
				return ctx.Err()
			})
		})
		<-time.After(time.Second)
		cancel()
		<-time.After(time.Second)
		check.Equal(w, count[election.Deposed](a), 1, "times that it was deposed")
		check.Equal(w, count[election.Elected](b), 0, "elections of another while the function works")
		close(end)
		check.Is(w, <-result, context.Canceled)
		await[election.Elected](b, 0)
	})
}

// TestLeadInTheNextSession: a function that returns because its session was lost is called again in
// the term that has begun meanwhile.
func TestLeadInTheNextSession(t *testing.T) {
	inBubble(t, lagging, func(w *world) {
		a := w.stand(w.open(0), nil)
		ctx, cancel := context.WithCancel(w.Context())
		terms, next, result := make(chan int64, 9), make(chan struct{}), make(chan error, 1)
		w.readers.Go(func() {
			result <- a.Lead(ctx, func(ctx context.Context, term int64) error {
				terms <- term
				<-ctx.Done()
				<-next
				return ctx.Err()
			})
		})
		<-terms
		_, n := await[election.Elected](a, 0)
		w.Expire(a.session.ID())
		second, _ := await[election.Elected](a, n)
		close(next)
		check.Equal(w, <-terms, second.Term, "the term of the second call")
		check.Equal(w, count[election.Deposed](a), 1, "times that it was deposed")
		cancel()
		check.Is(w, <-result, context.Canceled)
	})
}

// lossObserver keeps what the observer of a session receives as a loss, and for how long those have
// waited that have given up.
type lossObserver struct {
	session.NopObserver
	losses, failures chan error
	gaveUp           chan time.Duration
}

func (o lossObserver) Lost(_, _ string, err error)              { o.losses <- err }
func (o lossObserver) Failed(_, _ string, err error)            { o.failures <- err }
func (o lossObserver) GaveUp(_, _ string, waited time.Duration) { o.gaveUp <- waited }

// TestLeadSaysWhy: a candidate that cannot stand is a failure, no loss, and each call of Lead says
// why. A leader whose session is closed is one loss, not two, and has not waited since.
func TestLeadSaysWhy(t *testing.T) {
	inBubble(t, zktest.Config{Latency: time.Millisecond}, func(w *world) {
		w.elect(w.open(0), nil)
		never := func(context.Context, int64) error { return errWork }
		o := lossObserver{losses: make(chan error, 10), failures: make(chan error, 10), gaveUp: make(chan time.Duration, 10)}
		s := w.OpenAt(0, session.Options{Timeout: 6 * time.Second, Observer: o})
		b := w.stand(s, &election.Options{Layout: election.Kazoo})
		for range 2 { // the first call waits, the second comes too late
			err := b.Lead(w.soon(), never)
			check.Is(w, err, election.ErrLeft)
			check.Is(w, err, election.ErrLayout)
		}
		<-time.After(time.Minute)
		check.Require(w, len(o.failures) == 1 && len(o.losses) == 0, "failures: %d, losses: %d", len(o.failures), len(o.losses))
		check.Is(w, <-o.failures, election.ErrLayout)

		leader := check.Have(election.New(s, "/another", nil))(w)
		for _, leads := leader.Leading(); !leads; _, leads = leader.Leading() {
			<-time.After(time.Second)
		}
		s.Close()
		leader.Close()
		check.Is(w, <-o.losses, session.ErrClosed)
		check.None(w, o.losses)
		<-o.gaveUp // b
		check.Equal(w, <-o.gaveUp, 0, "the time that a former leader has waited")
	})
}

// TestLapsedWhileWorking: a leader whose lease ends gives up its node when it is connected again,
// also while its function works on, deaf to its context: others are elected then.
func TestLapsedWhileWorking(t *testing.T) {
	for _, resigns := range []bool{false, true} {
		inBubble(t, lagging, func(w *world) {
			ctx, end := context.WithCancel(w.Context())
			defer end()
			gate := w.OpenGated(session.Options{Timeout: 6 * time.Second})
			a := w.stand(gate.Session, nil)
			starts, ends := make(chan struct{}, 9), make(chan struct{})
			w.readers.Go(func() {
				_ = a.Lead(ctx, func(context.Context, int64) error {
					starts <- struct{}{}
					<-ends
					return nil
				})
			})
			<-starts
			b := w.stand(w.open(0), nil)
			<-time.After(time.Second)
			if resigns { // its node stands while the function works
				go func() { _ = a.Resign(ctx) }()
				<-time.After(time.Second)
			}
			id := gate.ID()
			gate.Cut()
			for range 20 { // elections of servers, which keep the sessions
				<-time.After(time.Second)
				w.Restore(w.Backup())
			}
			check.True(w, !leads(b), "another leads while the node stands")
			gate.Mend()
			await[election.Elected](b, 0)
			check.Equal(w, gate.ID(), id, "the session")
			close(ends)
		})
	}
}
