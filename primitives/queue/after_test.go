package queue_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

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
			synctest.Test(t, func(t *testing.T) {
				const latency = 5 * time.Millisecond
				srv, err := zktest.NewServer(zktest.Config{InProcess: true, Tick: time.Second, Latency: latency, Clock: skewed(skew)})
				ok(t, err)
				defer srv.Close()
				var s [2]*session.Session
				for i := range s {
					s[i], err = session.Open(t.Context(), srv.Addrs(), &session.Options{Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: srv.DialContext})
					ok(t, err)
					defer s[i].Close()
				}
				producer, consumer := open(t, s[0], nil), open(t, s[1], nil)
				c := consume(t, consumer, 4)
				defer c.Close()
				put(t, producer, "the first makes directories")
				ok(t, next(t, c).Ack(t.Context()))
				began := time.Now()
				id, err := producer.PutAfter(t.Context(), []byte("x"), wait)
				ok(t, err)
				if n, err := consumer.Len(t.Context()); n != 1 || err != nil {
					t.Errorf("Len: %d, %v", n, err)
				}
				item := <-c.Items()
				late := time.Since(began) - wait
				check.True(t, item.ID == id && late >= 0 && late <= 30*latency, "skew %v: %s after %v comes %v late", skew, item.Data, wait, late)
				ok(t, item.Reject(t.Context()))
				item = <-c.Items()
				check.True(t, item.Attempt == 2, "%+v", item)
				ok(t, item.Ack(t.Context()))
			})
		}
	}
}

// TestDelayedOrder: items that are not delayed do not wait for delayed ones, and those come in the
// order in which they are due, before all others of their priority.
func TestDelayedOrder(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		p, err := queue.NewPriority(s[0], at, nil)
		ok(t, err)
		after := func(data string, priority int32, delay time.Duration) {
			_, err := p.PutAfter(t.Context(), []byte(data), priority, delay)
			ok(t, err)
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
			ok(t, err)
			return string(data)
		}
		equal(t, "at once", []string{take(), take()}, []string{"now", "nothing"})
		pass(92 * time.Second)
		after("later", 0, 0)
		if data, err := p.Peek(t.Context()); string(data) != "first" || err != nil {
			t.Errorf("Peek: %s, %v", data, err)
		}
		equal(t, "after 92 s", []string{take(), take(), take(), take()}, []string{"first", "second", "later", "nothing"})
		began := time.Now()
		data, err := p.Take(t.Context()) // waits by the clock
		if string(data) != "third" || err != nil || time.Since(began) > 89*time.Second {
			t.Errorf("%s, %v, after %v", data, err, time.Since(began))
		}
		pass(2 * time.Hour)
		after("less urgent", 0, 0)
		equal(t, "after hours", []string{take(), take(), take()}, []string{"urgent", "less urgent", "nothing"})
		pass(5 * time.Minute)
		if n := left(srv, "items"); len(n) > 0 {
			t.Errorf("left behind: %q", n)
		}
	})
}

// TestDelayedAreBounded: an item that is not due takes room, and moves to the dead letters as any
// other.
func TestDelayedAreBounded(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], &queue.Options{MaxItems: 1, RefuseWhenFull: true, MaxAttempts: 1, DeadLetter: "/queues/dead"})
		_, err := q.PutAfter(t.Context(), []byte("x"), time.Hour)
		ok(t, err)
		check.Fails(q.Put(t.Context(), []byte("y")))(t, queue.ErrFull)
		c := consume(t, q, 1)
		item := <-c.Items()
		ok(t, item.Reject(t.Context()))
		c.Close()
		dead, err := queue.New(s[0], "/queues/dead", nil)
		ok(t, err)
		equal(t, "dead", drain(t, dead), []string{"x"})
		long := open(t, s[0], nil)
		_, err = long.PutAfter(t.Context(), []byte("in 292 years"), math.MaxInt64)
		ok(t, err)
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
		pass(50 * time.Minute)
		for _, want := range []string{"first", "waits for room"} {
			data, err := q.Take(t.Context())
			ok(t, err)
			equal(t, "taken", []string{string(data)}, []string{want})
			ok(t, <-confirmed)
		}
		data, err := q.Take(t.Context())
		ok(t, err)
		if late := time.Since(began) - time.Hour; string(data) != "delayed" || late < 0 || late > time.Second {
			t.Errorf("%s comes %v late", data, late)
		}
		// The time has passed before there is room.
		put(t, q, "again")
		go func() {
			_, err := q.PutAfter(t.Context(), []byte("delayed"), time.Minute)
			confirmed <- err
		}()
		pass(time.Hour)
		_, err = q.Take(t.Context())
		ok(t, err)
		ok(t, <-confirmed)
		if data, err = q.TryTake(t.Context()); string(data) != "delayed" || err != nil {
			t.Errorf("%s, %v", data, err)
		}
	})
}

// TestPutAfterThePast: a time that has passed means now, as with [time.Until] of a moment ago.
func TestPutAfterThePast(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		put(t, q, "first")
		for _, delay := range []time.Duration{-time.Nanosecond, -time.Hour, math.MinInt64} {
			_, err := q.PutAfter(t.Context(), []byte(delay.String()), delay)
			ok(t, err)
		}
		put(t, q, "last")
		equal(t, "in order", drain(t, q), []string{"first", "-1ns", "-1h0m0s", "-2562047h47m16.854775808s", "last"})
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
			synctest.Test(t, func(t *testing.T) {
				clock := drifting{time.Now(), rate}
				srv, err := zktest.NewServer(zktest.Config{InProcess: true, Tick: time.Second, Latency: time.Millisecond, Clock: clock})
				ok(t, err)
				defer srv.Close()
				s, err := session.Open(t.Context(), srv.Addrs(), &session.Options{Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: srv.DialContext})
				ok(t, err)
				defer s.Close()
				producer, taker := open(t, s, nil), open(t, s, nil)
				take := func() string {
					data, err := taker.Take(t.Context())
					ok(t, err)
					return string(data)
				}
				for _, q := range []*queue.Queue{producer, taker} { // both read the clock
					put(t, q, "first")
					equal(t, "the first", []string{take()}, []string{"first"})
				}
				pass(6 * time.Second)
				const delay = 3 * time.Second
				began := clock.Now()
				_, err = producer.PutAfter(t.Context(), []byte("delayed"), delay)
				ok(t, err)
				if rate > 1 {
					pass(delay / 2)
					put(t, taker, "second") // reads the clock again
					equal(t, "the second", []string{take()}, []string{"second"})
				}
				equal(t, "the delayed", []string{take()}, []string{"delayed"})
				late := clock.Now().Sub(began) - delay
				check.True(t, late >= 0 && late < 300*time.Millisecond, "comes %v late", late)
			})
		})
	}
}
