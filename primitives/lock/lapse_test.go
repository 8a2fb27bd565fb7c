package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// away keeps the sessions of the servers alive while nothing reaches them.
func away(w kit.World, lasts time.Duration) {
	for range lasts / time.Second {
		kit.Pass(time.Second)
		w.Restore(w.Backup())
	}
}

// TestReleaseWithoutAProof: a contender's session lapses before it stands in line, and so
// without a watch. It connects again, and loses the connection before a quorum has proved anything.
// Then the servers are out of reach for good. A release returns.
func TestReleaseWithoutAProof(t *testing.T) {
	kit.Run(t, zktest.Config{Tick: time.Second, Latency: 10 * time.Millisecond}, func(w kit.World) {
		far := w.OpenGated(session.Options{Timeout: 6 * time.Second})
		kit.Pass(10 * time.Second)
		events := far.Events(w.Context())
		<-events
		w.DropReply(zktest.Match{Path: "/l/*", Session: far.ID()})
		contender := check.Have(lock.New(far.Session, "/l", nil))(w)
		far.Refuse()
		check.Must(w, w.AwaitFault(time.Minute))
		away(w, 20*time.Second)
		far.Mend()
		kit.Await[session.Suspended](w, events)
		kit.Await[session.Resumed](w, events)
		kit.Pass(5 * time.Millisecond)
		far.Cut()
		for _, ev := range kit.Drain(events) {
			t.Log(ev)
			if s, is := ev.(session.Suspended); is && s.Deadline.IsZero() {
				t.Errorf("no deadline, though something is contended for")
			}
		}
		kit.Pass(20 * time.Second) // longer than the lease
		releases(w, contender)
		far.Mend()
		kit.Pass(time.Minute)
	})
}

// releases checks that a release returns, though no server is in reach.
func releases(w kit.World, l *lock.Lock) {
	w.Helper()
	released := kit.Begin(func() error { return l.Release(context.Background()) })
	kit.Pass(5 * time.Minute)
	select {
	case err := <-released:
		w.Log("released:", err)
	default:
		w.Errorf("Release hangs: %v", l)
	}
}

// TestResumedBehindALapse: the session connects again just before its lease ends, and a slow
// callback holds its order up until the lease has ended. It tells Lapsed, and no Resumed for the
// connection that the lapse has given up. Then the servers are out of reach for good.
func TestResumedBehindALapse(t *testing.T) {
	kit.Run(t, zktest.Config{Tick: time.Second, Latency: 10 * time.Millisecond}, func(w kit.World) {
		far := w.OpenGated(session.Options{Timeout: 6 * time.Second})
		kit.Pass(10 * time.Second)
		w.DropReply(zktest.Match{Path: "/l/*", Session: far.ID()})
		contender := check.Have(lock.New(far.Session, "/l", nil))(w)
		far.Refuse()
		check.Must(w, w.AwaitFault(time.Minute))
		kit.Pass(100 * time.Millisecond)
		var resumed time.Time
		cancel := far.Subscribe(func(ev session.Event) <-chan struct{} {
			switch ev := ev.(type) {
			case session.Resumed:
				resumed = time.Now()
			case session.Suspended:
				check.True(w, time.Now() != resumed, "resumed on a connection that was given up")
				if !ev.Deadline.IsZero() {
					<-time.After(time.Until(ev.Deadline) + 2*time.Millisecond)
				}
			case session.Connected, session.Lapsed, session.Expired, session.Closed:
			}
			return nil
		})
		defer cancel()
		for range 10 {
			w.Delay(zktest.Match{Op: zktest.OpCheck, Session: far.ID()}, 30*time.Second)
		}
		far.Mend()
		kit.Pass(3 * time.Second)
		far.Refuse()
		kit.Pass(20 * time.Second)
		releases(w, contender)
		w.ClearFaults()
		far.Mend()
		kit.Pass(time.Minute)
	})
}

// TestMuteWaiter: the answers of the servers do not reach a session that waits in line, while its
// handshakes reach them. It holds nothing, and is first in line when the holder has left. Those
// behind it are granted the lock in the end.
func TestMuteWaiter(t *testing.T) {
	for _, dir := range []zktest.Direction{zktest.ToClient, zktest.Both} {
		for _, leaves := range []time.Duration{time.Second, 30 * time.Second} {
			kit.Run(t, zktest.Config{Tick: time.Second}, func(w kit.World) {
				near, next := w.Open(session.Options{Timeout: 6 * time.Second}), w.Open(session.Options{Timeout: 6 * time.Second})
				far := w.OpenGated(session.Options{Timeout: 6 * time.Second})
				holder := check.Have(lock.Acquire(w.Context(), near, "/l", nil))(w)
				waiter := check.Have(lock.New(far.Session, "/l", nil))(w)
				kit.Pass(time.Second)
				last := check.Have(lock.New(next, "/l", nil))(w)
				kit.Pass(10 * time.Second)
				w.Freeze(far.ID(), dir)
				kit.Pass(leaves)
				check.OK(w, holder.Release(w.Context()))
				got := kit.Begin(func() error { awaitWaiting(last); return nil })
				for i := range 20 {
					kit.Pass(30 * time.Second)
					select {
					case err := <-got:
						check.OK(w, err)
						t.Log(dir, leaves, "granted within", (i+1)*30, "s")
						w.Thaw(far.ID())
						waiter.Close()
						return
					default:
					}
				}
				t.Errorf("direction %v, the holder leaves after %v: the lock is granted to nobody for 10 minutes; %v", dir, leaves, far.Session)
				w.Thaw(far.ID())
				kit.Pass(time.Minute)
				waiter.Close()
				last.Close()
			})
		}
	}
}

func awaitWaiting(l *lock.Lock) {
	for ev := range l.Events() {
		if _, is := ev.(lock.Acquired); is {
			return
		}
	}
}

// TestUnrestored: a holder loses its connection, and from then on each connection is taken, and
// fails while watches are set again. The grant is lost with the lease, and others are granted the
// lock in the end.
func TestUnrestored(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpSetWatches, zktest.OpCheck} {
		for _, holds := range []bool{true, false} {
			kit.Run(t, zktest.Config{Tick: time.Second}, func(w kit.World) {
				near := w.Open(session.Options{Timeout: 6 * time.Second})
				far := w.Open(session.Options{Timeout: 6 * time.Second})
				first := check.Have(lock.Acquire(w.Context(), near, "/l", nil))(w)
				mine := check.Have(lock.New(far, "/l", nil))(w)
				kit.Pass(10 * time.Second)
				if holds {
					check.OK(w, first.Release(w.Context()))
					awaitWaiting(mine)
					kit.Pass(time.Second)
				}
				last := check.Have(lock.New(near, "/l", nil))(w)
				kit.Pass(10 * time.Second)
				for range 1000 {
					w.Delay(zktest.Match{Op: op, Session: far.ID()}, time.Hour)
				}
				id := far.ID()
				w.Disconnect(id)
				if !holds {
					kit.Pass(time.Second)
					check.OK(w, first.Release(w.Context()))
				}
				got := kit.Begin(func() error { awaitWaiting(last); return nil })
				granted := false
				for i := 0; i < 20 && !granted; i++ {
					kit.Pass(30 * time.Second)
					select {
					case err := <-got:
						check.OK(w, err)
						t.Log(op, holds, "granted within", (i+1)*30, "s")
						granted = true
					default:
					}
				}
				if !granted {
					t.Errorf("operation %v fails, holds %v: the lock is granted to nobody for 10 minutes; %v, %v", op, holds, far, mine.Err())
				}
				w.ClearFaults()
				kit.Pass(time.Minute)
				mine.Close()
				last.Close()
			})
		}
	}
}

// TestUnprovedBeside: the session of a holder lapses, resumes, and fails before a quorum has proved
// anything, again and again. Another contender of the session waits beside. The lost grant is given
// back in the end, or the session is over.
func TestUnprovedBeside(t *testing.T) {
	kit.Run(t, zktest.Config{Tick: time.Second}, func(w kit.World) {
		near := w.Open(session.Options{Timeout: 6 * time.Second})
		far := w.Open(session.Options{Timeout: 6 * time.Second})
		mine := check.Have(lock.Acquire(w.Context(), far, "/l", nil))(w)
		other := check.Have(lock.Acquire(w.Context(), near, "/other", nil))(w)
		beside := check.Have(lock.New(far, "/other", nil))(w)
		kit.Pass(10 * time.Second)
		last := check.Have(lock.New(near, "/l", nil))(w)
		kit.Pass(10 * time.Second)
		for range 1000 {
			w.Delay(zktest.Match{Op: zktest.OpCheck, Session: far.ID()}, time.Hour)
		}
		w.Disconnect(far.ID())
		got := kit.Begin(func() error { awaitWaiting(last); return nil })
		granted := false
		for i := 0; i < 20 && !granted; i++ {
			kit.Pass(30 * time.Second)
			select {
			case err := <-got:
				check.OK(w, err)
				t.Log("granted within", (i+1)*30, "s")
				granted = true
			default:
			}
		}
		if !granted {
			t.Errorf("the lock is granted to nobody for 10 minutes; %v, %v", far, mine.Err())
		}
		w.ClearFaults()
		kit.Pass(time.Minute)
		for _, l := range []*lock.Lock{mine, other, beside, last} {
			l.Close()
		}
	})
}
