package queue_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestManyDelayed: delayed items that are put at the same time share transactions, whatever their
// delays. So they need few receipts.
func TestManyDelayed(t *testing.T) {
	for name, delay := range map[string]func(i int) time.Duration{
		"one delay":   func(int) time.Duration { return time.Hour },
		"many delays": func(i int) time.Duration { return time.Hour + time.Duration(i%600)*time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, zktest.Config{Latency: 500 * time.Microsecond}, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				n := hasten.Usually(20_000, 6_000)
				q := open(t, s[0], nil)
				put(t, q, "first")
				srv.ResetRequests()
				crowd(t, n, func(i int) error { _, err := q.PutAfter(t.Context(), []byte("x"), delay(i)); return err })
				check.AtMost(t, srv.Requests().Total(), n/100, "requests")
				check.AtMost(t, len(left(srv, "receipts")), 4, "receipts")
				check.Equal(t, length(t, q), n+1)
			})
		})
	}
}

// TestMinute delays into one minute more items than a reply could list. Only the buckets are listed
// in which items may be due, and items come in the order of their seconds.
func TestMinute(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		const each = 500
		n := hasten.Sized(hasten.Usually(60_000, 20_000), 6_000)
		q, other := open(t, s[0], nil), open(t, s[1], nil)
		put(t, q, "good")
		earliest := 60_000
		begins := time.Now().Truncate(time.Minute).Add(10 * time.Minute)
		for i := range n / each {
			ms := rand.New(rand.NewPCG(uint64(i), 1)).IntN(60_000)
			earliest = min(earliest, ms)
			batch := slices.Repeat([]string{fmt.Sprint(ms)}, each)
			by := []*queue.Queue{q, other}[i%2]
			check.Have(by.PutAllAfter(t.Context(), bytesOf(batch), time.Until(begins)+time.Duration(ms)*time.Millisecond))(t)
		}
		check.Equal(t, length(t, q), n+1)
		check.EqualSlices(t, drain(t, other), []string{"good"}, "before")
		cost := func(do func()) int {
			before := srv.Requests().Total()
			do()
			return srv.Requests().Total() - before
		}
		kit.Pass(time.Until(begins.Add(-time.Second)))
		put(t, q, "good")
		kit.Pass(time.Until(begins.Add(50 * time.Second))) // most are due
		first := 0
		requests := cost(func() { first, _ = strconv.Atoi(peek(t, other)) })
		check.Equal(t, first/1000, earliest/1000, "Peek")
		check.AtMost(t, requests, 8, "requests of Peek")
		var taken []int
		requests = cost(func() {
			for range hasten.Sized(5000, 2000) {
				ms := check.Have(strconv.Atoi(string(check.Have(other.TryTake(t.Context()))(t))))(t)
				taken = append(taken, ms/1000)
			}
		})
		check.True(t, slices.IsSorted(taken), "not in the order of their seconds: %v", taken)
		check.AtMost(t, requests, 2*len(taken)+50, "requests of takers")
		put(t, open(t, s[0], &queue.Options{MaxItems: 10 * n}), "x")
		c := consume(t, q, 16)
		for range 100 {
			item := next(t, c)
			check.Have(strconv.Atoi(string(item.Data)))(t) // it was due
			check.Must(t, item.Ack(t.Context()))
		}
		synctest.Wait()
	})
}

// TestEmptyMinutesGo: consumers delete the buckets of times that are over.
func TestEmptyMinutesGo(t *testing.T) {
	bubbled(t, zktest.Config{ReapInterval: 24 * time.Hour}, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		for i := range 20 {
			check.Have(q.PutAfter(t.Context(), []byte("x"), time.Duration(i)*time.Minute))(t)
		}
		kit.Pass(time.Hour)
		check.Equal(t, len(drain(t, q)), 20, "items")
		drain(t, q)
		check.Equal(t, len(left(srv, "items")), 1, "buckets")
		check.Have(q.PutAfter(t.Context(), []byte("again"), time.Nanosecond))(t)
		kit.Pass(time.Second)
		check.EqualSlices(t, drain(t, q), []string{"again"}, "taken")
	})
}

// A skewed clock is ahead of that of the clients.
type skewed time.Duration

func (s skewed) Now() time.Time { return time.Now().Add(time.Duration(s)) }
func (skewed) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// TestPutAfter delivers an item when its delay has passed, whatever the difference between the
// clocks is, and not later than the round trips that the clients cannot measure.
func TestPutAfter(t *testing.T) {
	chosen := hasten.OneIn(2, 5)
	for _, skew := range []time.Duration{0, -48 * time.Hour, 1234567 * time.Microsecond, 48 * time.Hour} {
		for _, wait := range []time.Duration{time.Millisecond, time.Second, 59 * time.Second, 150 * time.Minute} {
			if !chosen() {
				continue
			}
			const latency = 5 * time.Millisecond
			bubbled(t, zktest.Config{Latency: latency, Clock: skewed(skew)}, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
				producer, consumer := open(t, s[0], nil), open(t, s[1], nil)
				c := consume(t, consumer, 4)
				put(t, producer, "the first makes directories")
				check.Must(t, next(t, c).Ack(t.Context()))
				began := time.Now()
				id := check.Have(producer.PutAfter(t.Context(), []byte("x"), wait))(t)
				check.Equal(t, length(t, consumer), 1)
				item := <-c.Items()
				late := time.Since(began) - wait
				check.True(t, item.ID == id && late >= 0 && late <= 30*latency, "skew %v: %s after %v comes %v late", skew, item.Data, wait, late)
				check.Must(t, item.Reject(t.Context()))
				item = <-c.Items()
				check.True(t, item.Attempt == 2, "%+v", item)
				check.Must(t, item.Ack(t.Context()))
			})
		}
	}
}

// TestPutAfterByAnotherClock: another leader has another clock. Items that were put before are due
// by that: early or late by the difference. Those that are put by a client that has read it are in
// time.
func TestPutAfterByAnotherClock(t *testing.T) {
	for name, step := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour, "the same time": 0} {
		t.Run(name, func(t *testing.T) {
			clock := new(kit.SteppingClock)
			bubbled(t, zktest.Config{Clock: clock}, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
				q := open(t, s[0], nil)
				began := time.Now()
				due := func(want string, put time.Time, delay time.Duration) {
					t.Helper()
					for {
						data, err := q.TryTake(t.Context())
						if err == nil {
							check.Equal(t, string(data), want)
							check.Within(t, time.Since(put), delay, delay+20*time.Second, want)
							return
						}
						check.Is(t, err, queue.ErrEmpty)
						kit.Pass(10 * time.Second)
					}
				}
				check.Have(q.PutAfter(t.Context(), []byte("before"), 70*time.Minute))(t)
				clock.Step(step)
				kit.Pass(11 * time.Second) // an estimate of the clock is of ten seconds at most
				again := time.Now()
				check.Have(q.PutAfter(t.Context(), []byte("after"), time.Minute))(t)
				due("after", again, time.Minute)
				due("before", began, 70*time.Minute-step)

				began = time.Now() // now a consumer waits
				check.Have(q.PutAfter(t.Context(), []byte("before"), 70*time.Minute))(t)
				c := consume(t, q, 1)
				kit.Pass(time.Second)
				clock.Step(step)
				item := <-c.Items()
				check.Within(t, time.Since(began), 70*time.Minute-step, 70*time.Minute-step+20*time.Second, "consumed")
				check.Must(t, item.Ack(t.Context()))
			})
		})
	}
}

// TestDelayedOrder: items that are not delayed do not wait for delayed ones, and those come in the
// order in which they are due, before all others of their priority.
func TestDelayedOrder(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		p := ranked(t, s[0], nil)
		after := func(data string, priority int32, delay time.Duration) {
			check.Have(p.PutAfter(t.Context(), []byte(data), priority, delay))(t)
		}
		after("third", 0, 3*time.Minute)
		after("first", 0, 90*time.Second)
		after("second", 0, 91*time.Second)
		after("urgent", -1, 2*time.Hour)
		after("now", 0, 0)
		take := func() string {
			data, err := p.TryTake(t.Context())
			if errors.Is(err, queue.ErrEmpty) {
				return "nothing"
			}
			check.Must(t, err)
			return string(data)
		}
		check.EqualSlices(t, []string{take(), take()}, []string{"now", "nothing"}, "at once")
		kit.Pass(92 * time.Second)
		after("later", 0, 0)
		check.Equal(t, peek(t, p), "first")
		check.EqualSlices(t, []string{take(), take(), take(), take()}, []string{"first", "second", "later", "nothing"}, "after 92 s")
		began := time.Now()
		data, err := p.Take(t.Context()) // waits by the clock
		if string(data) != "third" || err != nil || time.Since(began) > 89*time.Second {
			t.Errorf("%s, %v, after %v", data, err, time.Since(began))
		}
		kit.Pass(2 * time.Hour)
		after("less urgent", 0, 0)
		check.EqualSlices(t, []string{take(), take(), take()}, []string{"urgent", "less urgent", "nothing"}, "after hours")
		kit.Pass(5 * time.Minute)
		check.Len(t, left(srv, "items"), 0, "left behind")
	})
}

// TestDelayedAreBounded: an item that is not due takes room, and moves to the dead letters as any
// other.
func TestDelayedAreBounded(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], &queue.Options{MaxItems: 1, RefuseWhenFull: true, MaxAttempts: 1, DeadLetter: dead})
		check.Have(q.PutAfter(t.Context(), []byte("x"), time.Hour))(t)
		check.Fails(q.Put(t.Context(), []byte("y")))(t, queue.ErrFull)
		item := <-consume(t, q, 1).Items()
		check.Must(t, item.Reject(t.Context()))
		check.EqualSlices(t, drain(t, openAt(t, s[0], dead, nil)), []string{"x"}, "dead")
		long := open(t, s[0], nil)
		check.Have(long.PutAfter(t.Context(), []byte("in 292 years"), math.MaxInt64))(t)
		check.Fails(long.TryTake(t.Context()))(t, queue.ErrEmpty)
	})
}

// TestDelayBegins: the delay of an item whose turn to be put comes late began when PutAfter was
// called.
func TestDelayBegins(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], &queue.Options{MaxItems: 1})
		put(t, q, "first")
		began := time.Now()
		confirmed := make(chan error, 2)
		go func() {
			_, err := q.Put(t.Context(), []byte("waits for room"))
			confirmed <- err
		}()
		synctest.Wait()
		go func() {
			_, err := q.PutAfter(t.Context(), []byte("delayed"), time.Hour)
			confirmed <- err
		}()
		kit.Pass(50 * time.Minute)
		for _, want := range []string{"first", "waits for room"} {
			data := check.Have(q.Take(t.Context()))(t)
			check.Equal(t, string(data), want, "taken")
			check.Must(t, <-confirmed)
		}
		data := check.Have(q.Take(t.Context()))(t)
		if late := time.Since(began) - time.Hour; string(data) != "delayed" || late < 0 || late > time.Second {
			t.Errorf("%s comes %v late", data, late)
		}
		// The time has passed before there is room.
		put(t, q, "again")
		go func() {
			_, err := q.PutAfter(t.Context(), []byte("delayed"), time.Minute)
			confirmed <- err
		}()
		kit.Pass(time.Hour)
		check.Have(q.Take(t.Context()))(t)
		check.Must(t, <-confirmed)
		check.Equal(t, string(check.Have(q.TryTake(t.Context()))(t)), "delayed")
	})
}

// TestPutAfterThePast: a time that has passed means now, as with [time.Until] of a moment ago.
func TestPutAfterThePast(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		put(t, q, "first")
		for _, delay := range []time.Duration{-time.Nanosecond, -time.Hour, math.MinInt64} {
			check.Have(q.PutAfter(t.Context(), []byte(delay.String()), delay))(t)
		}
		put(t, q, "last")
		check.EqualSlices(t, drain(t, q), []string{"first", "-1ns", "-1h0m0s", "-2562047h47m16.854775808s", "last"}, "in order")
	})
}

// A drifting clock runs at another rate than those of the clients.
type drifting struct {
	start time.Time
	rate  float64
}

func (d drifting) Now() time.Time {
	return d.start.Add(time.Duration(float64(time.Since(d.start)) * d.rate))
}

func (d drifting) AfterFunc(wait time.Duration, f func()) func() bool {
	return time.AfterFunc(time.Duration(float64(wait)/d.rate)+time.Microsecond, f).Stop
}

// TestPutAfterByDriftingClocks: no item is delivered before its delay has passed by the server's
// clock, which runs one percent faster or slower, although the client has not read it for seconds:
// the producer of a fast one, and the taker of a slow one.
func TestPutAfterByDriftingClocks(t *testing.T) {
	for _, rate := range []float64{0.99, 1.01} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			clock := drifting{time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC), rate} // from the beginning of the bubble
			bubbled(t, zktest.Config{Latency: time.Millisecond, Clock: clock}, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
				producer, taker := open(t, s[0], nil), open(t, s[0], nil)
				for _, q := range []*queue.Queue{producer, taker} { // both read the clock
					put(t, q, "first")
					check.Equal(t, takeOne(t, taker), "first", "the first")
				}
				kit.Pass(6 * time.Second)
				const delay = 3 * time.Second
				began := clock.Now()
				check.Have(producer.PutAfter(t.Context(), []byte("delayed"), delay))(t)
				if rate > 1 {
					kit.Pass(delay / 2)
					put(t, taker, "second") // reads the clock again
					check.Equal(t, takeOne(t, taker), "second", "the second")
				}
				check.Equal(t, takeOne(t, taker), "delayed", "the delayed")
				late := clock.Now().Sub(began) - delay
				check.True(t, late >= 0 && late < 300*time.Millisecond, "comes %v late", late)
			})
		})
	}
}
