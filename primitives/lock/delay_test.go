package lock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const delayedPath = "/locks/disk"

var delaying = &lock.Options{Delay: time.Minute}

// delays plays with n sessions that can be cut off.
func delays(t *testing.T, n int, play func(w kit.World, all []*kit.Gate)) {
	t.Helper()
	kit.Run(t, zktest.Config{Tick: time.Second}, func(w kit.World) {
		all := make([]*kit.Gate, n)
		for i := range all {
			all[i] = w.OpenGated(session.Options{Timeout: 6 * time.Second, ServerTick: time.Second})
		}
		play(w, all)
	})
}

func delayed(w kit.World, s *kit.Gate, opts *lock.Options) *lock.Lock {
	w.Helper()
	return check.Open(lock.Acquire(w.Context(), s.Session, delayedPath, opts))(w)
}

// TestDelay: after a holder that is lost the next waits, and after a release it does not.
func TestDelay(t *testing.T) {
	for name, lose := range map[string]func(w kit.World, g *kit.Gate, l *lock.Lock){
		"cut off": func(_ kit.World, g *kit.Gate, _ *lock.Lock) { g.Cut() },
		"deleted": func(w kit.World, g *kit.Gate, l *lock.Lock) {
			check.OK(w, g.Delete(w.Context(), l.Node(), session.AnyVersion))
		},
		"expired": func(w kit.World, g *kit.Gate, _ *lock.Lock) { w.Expire(g.ID()) },
	} {
		t.Run(name, func(t *testing.T) {
			delays(t, 3, func(w kit.World, all []*kit.Gate) {
				first := delayed(w, all[0], delaying)
				token := first.Token()
				check.OK(w, first.Release(w.Context()))
				began := time.Now()
				second := delayed(w, all[0], &lock.Options{Delay: 20 * time.Second})
				check.True(w, time.Since(began) < time.Second && second.Token() > token, "after a release: %v", time.Since(began))
				began = time.Now()
				lose(w, all[0], second)
				<-second.Done()
				third := delayed(w, all[1], delaying)
				took := time.Since(began)
				check.True(w, took >= 20*time.Second && took < 40*time.Second && third.Token() > second.Token(), "after a loss: %v", took)
				check.OK(w, third.Release(w.Context()))
				began = time.Now()
				plain := delayed(w, all[2], nil) // it looks at no record, and leaves none
				plain.Close()
				last := delayed(w, all[1], delaying)
				check.True(w, time.Since(began) < time.Second && last.Token() > third.Token(), "%v", time.Since(began))
				last.Close()
				for _, p := range w.Paths() {
					check.False(w, strings.HasPrefix(p, "/locks/_lock-delays/") || strings.HasPrefix(p, delayedPath+"/"), "%s is left", p)
				}
			})
		})
	}
}

// lost has the first session lose the lock, and returns when the servers have noticed.
func lost(w kit.World, g *kit.Gate) {
	w.Helper()
	l := delayed(w, g, delaying)
	check.OK(w, g.Delete(w.Context(), l.Node(), session.AnyVersion))
}

// TestDelayCancelled: a contender that leaves while it waits leaves its place, and the rest of the
// delay to the next, however short each is there.
func TestDelayCancelled(t *testing.T) {
	for _, length := range []time.Duration{30 * time.Second, time.Second, time.Millisecond} {
		delays(t, 3, func(w kit.World, all []*kit.Gate) {
			lost(w, all[0])
			began := time.Now()
			for i := 1; ; i = 3 - i {
				ctx, cancel := context.WithTimeout(w.Context(), length)
				l, err := lock.TryAcquire(ctx, all[i].Session, delayedPath, delaying)
				cancel()
				if err == nil {
					check.OK(w, l.Release(w.Context()))
					break
				}
				check.Is(w, err, context.DeadlineExceeded)
				kit.Pass(time.Second)
			}
			took := time.Since(began)
			check.True(w, took >= time.Minute && took < time.Minute+length+3*time.Second, "%v with contexts of %v", took, length)
		})
	}
}

// TestDelayOnce: a contender that has waited does not wait again if a later request is lost.
func TestDelayOnce(t *testing.T) {
	for _, lose := range []func(*zktest.Server, zktest.Match){(*zktest.Server).DropRequest, (*zktest.Server).DropReply} {
		delays(t, 2, func(w kit.World, all []*kit.Gate) {
			lost(w, all[0])
			began := time.Now()
			var next sync.WaitGroup
			next.Go(func() {
				check.OK(w, delayed(w, all[1], delaying).Release(w.Context()))
			})
			kit.Pass(30 * time.Second)
			lose(w.Server, zktest.Match{Session: all[1].ID(), Op: zktest.OpMulti})
			next.Wait()
			took := time.Since(began)
			check.True(w, took >= time.Minute && took < 80*time.Second, "%v", took)
		})
	}
}

// TestDelayMarked: a contender whose mark of the loss is lost, or the reply to it, waits once.
func TestDelayMarked(t *testing.T) {
	for _, lose := range []func(*zktest.Server, zktest.Match){(*zktest.Server).DropRequest, (*zktest.Server).DropReply} {
		delays(t, 2, func(w kit.World, all []*kit.Gate) {
			lost(w, all[0])
			began := time.Now()
			lose(w.Server, zktest.Match{Session: all[1].ID(), Op: zktest.OpSetData})
			check.OK(w, delayed(w, all[1], delaying).Release(w.Context()))
			took := time.Since(began)
			check.True(w, took >= time.Minute && took < 80*time.Second, "%v", took)
		})
	}
}

// TestDelayUnreadable: a contender that may not read the record of another fails, and leaves
// nothing in the line.
func TestDelayUnreadable(t *testing.T) {
	delays(t, 2, func(w kit.World, all []*kit.Gate) {
		lost(w, all[0])
		record := "/locks/_lock-delays/disk"
		_, err := all[0].SetACL(w.Context(), record, []session.ACL{{Perms: session.PermWrite, Scheme: "world", ID: "anyone"}}, session.AnyVersion)
		check.OK(w, err)
		_, err = lock.Acquire(w.Context(), all[1].Session, delayedPath, delaying)
		check.Is(w, err, session.ErrNoAuth)
		check.True(w, strings.Contains(fmt.Sprint(err), record), "%v does not name the record", err)
		synctest.Wait()
		for _, p := range w.Paths() {
			check.False(w, strings.HasPrefix(p, delayedPath+"/"), "%s is left", p)
		}
	})
}

// TestDelayTrouble loses each request, or its reply, of one of two contenders: no release delays
// the other by more than the delay, and nothing is left.
func TestDelayTrouble(t *testing.T) {
	for _, lose := range []func(*zktest.Server, zktest.Match){(*zktest.Server).DropRequest, (*zktest.Server).DropReply} {
		for skip := range 24 {
			delays(t, 2, func(w kit.World, all []*kit.Gate) {
				lose(w.Server, zktest.Match{Session: all[0].ID(), Skip: skip})
				var holding sync.Mutex
				last := int64(0)
				var callers sync.WaitGroup
				for _, g := range all {
					callers.Go(func() {
						for range 3 {
							l, err := lock.Acquire(w.Context(), g.Session, delayedPath, &lock.Options{Delay: time.Second})
							check.Must(w, err)
							check.True(w, holding.TryLock(), "%d: two hold", skip)
							check.True(w, l.Token() > last, "%d: token %d after %d", skip, l.Token(), last)
							last = l.Token()
							holding.Unlock()
							check.OK(w, l.Release(w.Context()))
						}
					})
				}
				began := time.Now()
				callers.Wait()
				check.True(w, time.Since(began) < 15*time.Second, "%d: %v", skip, time.Since(began))
				for _, p := range w.Paths() {
					check.False(w, strings.HasPrefix(p, "/locks/_lock-delays/") || strings.HasPrefix(p, delayedPath+"/"), "%d: %s is left", skip, p)
				}
			})
		}
	}
}

// TestDelayRefused: what has no delay.
func TestDelayRefused(t *testing.T) {
	delays(t, 1, func(w kit.World, all []*kit.Gate) {
		s := all[0].Session
		refused := func(_ any, err error) {
			w.Helper()
			check.Is(w, err, session.ErrInvalidArgument)
			check.True(w, strings.Contains(fmt.Sprint(err), "Delay"), "%v does not name it", err)
		}
		refused(lock.New(s, delayedPath, &lock.Options{Delay: -1}))
		refused(lock.New(s, delayedPath, &lock.Options{Delay: 1, Layout: lock.Prioritized}))
		refused(lock.NewRead(s, delayedPath, delaying))
		refused(lock.NewWrite(s, delayedPath, delaying))
		refused(lock.NewAll(s, exclusively(delayedPath), delaying))
		for _, layout := range []lock.Layout{lock.Curator, lock.Kazoo} {
			l := delayed(kit.World{T: w.T, Server: w.Server}, all[0], &lock.Options{Delay: time.Minute, Layout: layout})
			check.OK(w, l.Release(w.Context()))
		}
	})
}

// TestDelayKept: another client deletes the holder's node, and the withdrawal of the lost holder,
// or the reply to it, is lost: the record of the loss stays, and the next waits for the delay.
func TestDelayKept(t *testing.T) {
	for name, lose := range map[string]func(*zktest.Server, zktest.Match){"request": (*zktest.Server).DropRequest, "reply": (*zktest.Server).DropReply} {
		for _, inLine := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " in line ", inLine), func(t *testing.T) {
				delays(t, 3, func(w kit.World, all []*kit.Gate) {
					first := delayed(w, all[0], delaying)
					next := make(chan *lock.Lock, 1)
					join := func() { next <- join(w, all[1].Session, delayedPath, delaying) }
					if inLine {
						join()
						synctest.Wait()
					}
					lose(w.Server, zktest.Match{Session: all[0].ID(), Op: zktest.OpMulti, Path: first.Node()})
					began := time.Now()
					check.OK(w, all[2].Delete(w.Context(), first.Node(), session.AnyVersion))
					check.OK(w, w.AwaitFault(10*time.Second))
					if !inLine {
						kit.Pass(5 * time.Second)
						join()
					}
					kit.Await[lock.Acquired](w, (<-next).Events())
					check.AtLeast(w, time.Since(began), time.Minute, "the next holds after the loss")
				})
			})
		}
	}
}

// TestDelayRest: contenders that give up in their turn leave the rest of the delay to the next,
// whenever that has joined.
func TestDelayRest(t *testing.T) {
	for name, test := range map[string]struct {
		before, after int           // contenders that join before the loss, and after it, but for the holder
		gives         time.Duration // each of them but the last gives up after so long
	}{
		"in line":         {2, 0, 50 * time.Second},
		"through a line":  {5, 0, 10 * time.Second},
		"joined later":    {1, 1, 50 * time.Second},
		"many came later": {1, 4, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			n := 1 + test.before + test.after
			delays(t, n+1, func(w kit.World, all []*kit.Gate) {
				var line []*lock.Lock
				joins := func(more int) {
					for range more {
						line = append(line, join(w, all[len(line)].Session, delayedPath, delaying))
						kit.Pass(time.Second)
					}
				}
				joins(1 + test.before)
				began := time.Now()
				check.OK(w, all[n].Delete(w.Context(), line[0].Node(), session.AnyVersion))
				joins(test.after)
				for _, l := range line[1 : n-1] {
					kit.Pass(test.gives)
					check.OK(w, l.Release(w.Context()))
				}
				kit.Await[lock.Acquired](w, line[n-1].Events())
				check.Within(w, time.Since(began), time.Minute, time.Minute+2*time.Second, "the last holds after the loss")
			})
		})
	}
}

// TestDelayByAnotherClock: the clock of the servers' leader steps while a contender waits. That one
// waits by its own clock. One that comes first later waits for no rest if the clock went forward,
// and for the whole delay if it went back; so does one that has lost the reply to its mark.
func TestDelayByAnotherClock(t *testing.T) {
	for name, test := range map[string]struct {
		step        time.Duration
		gives       bool          // the first that waits gives up after the step, after 30 seconds
		lost        bool          // it receives no reply to its mark before the step
		least, most time.Duration // from the loss to the next grant
	}{
		"forward, one waits":    {step: time.Hour, least: time.Minute, most: 62 * time.Second},
		"back, one waits":       {step: -time.Hour, least: time.Minute, most: 62 * time.Second},
		"forward":               {step: time.Hour, gives: true, least: 30 * time.Second, most: 32 * time.Second},
		"back":                  {step: -time.Hour, gives: true, least: 90 * time.Second, most: 92 * time.Second},
		"no step":               {gives: true, least: time.Minute, most: 62 * time.Second},
		"forward, a lost reply": {step: time.Hour, lost: true, most: 10 * time.Second},
		"back, a lost reply":    {step: -time.Hour, lost: true, least: time.Minute, most: 70 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			clock := new(kit.SteppingClock)
			kit.Run(t, zktest.Config{Tick: time.Second, Clock: clock}, func(w kit.World) {
				var line []*lock.Lock
				all := make([]*session.Session, 3)
				for i := range all {
					all[i] = w.Open(session.Options{Timeout: 6 * time.Second, ServerTick: time.Second})
					line = append(line, join(w, all[i], delayedPath, delaying))
					synctest.Wait()
				}
				if test.lost {
					w.SwallowReply(zktest.Match{Session: all[1].ID(), Op: zktest.OpSetData})
				}
				began := time.Now()
				check.OK(w, all[2].Delete(w.Context(), line[0].Node(), session.AnyVersion))
				if test.lost {
					check.OK(w, w.AwaitFault(time.Second))
				} else {
					kit.Pass(30 * time.Second)
				}
				clock.Step(test.step)
				next := line[1]
				if test.gives {
					check.OK(w, next.Release(w.Context()))
					next = line[2]
				}
				kit.Await[lock.Acquired](w, next.Events())
				check.Within(w, time.Since(began), test.least, test.most, "it holds after the loss")
			})
		})
	}
}
