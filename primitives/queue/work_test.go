package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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

// This file has what workers of a queue rely on: bad items do not stop good ones, and nobody waits
// beside a worker that has more than it works on.

// TestPoison: items that are always rejected come again after growing delays. Good items are
// delivered meanwhile, however many workers there are.
func TestPoison(t *testing.T) {
	for _, c := range []struct {
		how              string
		poison, prefetch int
	}{{"consume", 1, 1}, {"consume", 2, 2}, {"consume", 16, 16}, {"consume", 1, 16}, {"run", 2, 1}, {"run", 16, 8}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				q := open(t, s[0], nil)
				putAll(t, q, slices.Repeat([]string{"poison"}, c.poison)...)
				put(t, q, numbers(100)...)
				ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
				defer stop()
				good, bad := 0, 0
				var mu sync.Mutex
				work := func(_ context.Context, item queue.Item) error {
					mu.Lock()
					defer mu.Unlock()
					if string(item.Data) == "poison" {
						bad++
						return errors.New("no")
					}
					good++
					return nil
				}
				if c.how == "run" {
					check.Is(t, q.Run(ctx, c.prefetch, work), context.DeadlineExceeded)
				} else {
					con := consume(t, q, c.prefetch)
					context.AfterFunc(ctx, con.Close)
					for item := range con.Items() {
						settle := item.Ack
						if work(ctx, item) != nil {
							settle = item.Reject
						}
						check.True(t, settle(t.Context()) == nil || ctx.Err() != nil, "not settled")
					}
				}
				check.Equal(t, good, 100, "good items")
				check.Within(t, bad, 3*c.poison, 10*c.poison, "deliveries of bad items in 30 s")
			})
		})
	}
}

// TestOutage: nothing that the workers need is there for a while. No good item becomes a dead
// letter, and all are done within a minute after the outage, each with the cause of its failure.
func TestOutage(t *testing.T) {
	for _, outage := range []time.Duration{100 * time.Millisecond, 10 * time.Second, 10 * time.Minute} {
		t.Run(outage.String(), func(t *testing.T) {
			slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				q := open(t, s[0], nil)
				n := hasten.Usually(200, 50)
				putAll(t, q, numbers(n)...)
				ctx, stop := context.WithTimeout(t.Context(), outage+time.Minute)
				defer stop()
				began := time.Now()
				var mu sync.Mutex
				good, bad := 0, 0
				_ = q.Run(ctx, 8, func(_ context.Context, item queue.Item) error {
					mu.Lock()
					defer mu.Unlock()
					if time.Since(began) < outage {
						bad++
						return errors.New("the database is away")
					}
					check.True(t, (item.Attempt > 1) == (item.Cause == "the database is away"), "attempt %d: cause %q", item.Attempt, item.Cause)
					good++
					return nil
				})
				check.Equal(t, good, n, "items are done")
				check.Equal(t, length(t, q), 0, "items are left")
				check.AtMost(t, bad, 25*n, "deliveries that failed")
			})
		})
	}
}

// TestCrashes: consumers crash with the item that they work on. Only such items become dead
// letters.
func TestCrashes(t *testing.T) {
	for _, c := range []struct{ attempts, crashes, prefetch int }{{1, 1, 16}, {1, 3, 16}, {3, 3, 16}, {5, 5, 64}, {2, 5, 2}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			bubble(t, c.crashes+1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				opts := &queue.Options{MaxAttempts: c.attempts, DeadLetter: dead}
				put(t, open(t, s[0], opts), numbers(100)...)
				received := map[string]int{}
				for i := range c.crashes {
					con := consume(t, open(t, s[i], opts), c.prefetch)
					received[string(next(t, con).Data)]++
					synctest.Wait()
					srv.Expire(s[i].ID())
					s[i].Close()
					con.Close()
					kit.Pass(time.Second)
				}
				last := s[c.crashes]
				done := len(acknowledged(t, consume(t, open(t, last, opts), 16), time.Minute))
				letters := drain(t, openAt(t, last, dead, nil))
				for _, x := range letters {
					check.True(t, received[x] >= c.attempts, "%s is a dead letter after %d deliveries", x, received[x])
				}
				check.True(t, done+len(letters) == 100, "%d are done, %d are dead letters", done, len(letters))
				if c.crashes > c.attempts {
					check.True(t, len(letters) > 0, "an item that crashes its consumers is no dead letter")
				}
			})
		})
	}
}

// TestDueIsNext: an item that is due is the next that a consumer delivers, whatever it has listed.
func TestDueIsNext(t *testing.T) {
	for _, backlog := range []int{100, 3000} {
		for _, job := range []time.Duration{10 * time.Millisecond, 10 * time.Second} {
			bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				q := open(t, s[0], nil)
				put(t, q, "first")
				for i := 0; i < backlog; i += 100 {
					putAll(t, q, numbers(100)...)
				}
				c := consume(t, q, 1)
				check.Must(t, next(t, c).Ack(t.Context()))
				kit.Pass(time.Second)
				check.Have(q.PutAfter(t.Context(), []byte("due"), 500*time.Millisecond))(t)
				due := time.Now().Add(500 * time.Millisecond)
				for {
					began := time.Now()
					item := next(t, c)
					if string(item.Data) == "due" {
						break
					}
					check.Require(t, began.Before(due.Add(time.Second)), "backlog of %d, jobs of %v: another item %v late", backlog, job, began.Sub(due))
					kit.Pass(job)
					check.Must(t, item.Ack(t.Context()))
				}
			})
		}
	}
}

// TestHoard: each item is more urgent than the last. A consumer has no more claims than Prefetch,
// and the items go to whoever is free.
func TestHoard(t *testing.T) {
	for _, prefetch := range []int{1, 2, 16} {
		bubble(t, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			producer := ranked(t, s[2], nil)
			putAt(t, producer, 1000, "low")
			putAt(t, producer, 1000, "low")
			next(t, consume(t, ranked(t, s[0], nil), prefetch)) // its reader works for an hour
			kit.Pass(time.Second)
			for i := range int32(20) {
				putAt(t, producer, -i, "x")
				kit.Pass(time.Second)
				check.AtMost(t, len(left(srv, "claims")), prefetch, "claims")
			}
			idle := consume(t, ranked(t, s[1], nil), prefetch)
			acknowledged(t, idle, time.Minute)
			for i := range int32(20) {
				x := fmt.Sprint("urgent ", i)
				putAt(t, producer, -100-i, x)
				check.True(t, slices.Contains(acknowledged(t, idle, time.Second), x), "Prefetch %d: the idle consumer has not done %s", prefetch, x)
			}
		})
	}
}

// TestInversion: a consumer works on a long job, and another is idle. That one gets an urgent item.
func TestInversion(t *testing.T) {
	for _, prefetch := range []int{1, 2, 4, 16} {
		for long := 1; long <= 3; long++ {
			bubble(t, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				producer := ranked(t, s[2], nil)
				busy := consume(t, ranked(t, s[0], nil), prefetch)
				synctest.Wait()
				idle := consume(t, ranked(t, s[1], nil), prefetch)
				synctest.Wait()
				for range long {
					putAt(t, producer, 10, "long")
				}
				kit.Pass(time.Second)
				select {
				case <-busy.Items():
				case <-idle.Items():
					idle = busy
				}
				acknowledged(t, idle, time.Second)
				putAt(t, producer, -10, "urgent")
				check.True(t, slices.Contains(acknowledged(t, idle, time.Minute), "urgent"), "Prefetch %d, %d long jobs: the idle consumer has nothing", prefetch, long)
			})
		}
	}
}

// TestLongJobs: jobs are spread over all consumers that have the default options.
func TestLongJobs(t *testing.T) {
	bubble(t, 4, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		var working sync.WaitGroup
		var done atomic.Int32
		for i := range 4 {
			c := check.Open(open(t, s[i], nil).Consume(nil))(t)
			working.Go(func() {
				for item := range c.Items() {
					<-time.After(10 * time.Minute)
					check.Must(t, item.Ack(t.Context()))
					done.Add(1)
				}
			})
			time.AfterFunc(41*time.Minute, c.Close)
		}
		put(t, open(t, s[0], nil), numbers(16)...)
		working.Wait()
		check.Equal(t, done.Load(), 16, "jobs of ten minutes, in 41 minutes")
	})
}

// TestLeftByACrash: a crash has left the items that a consumer had claimed. All readers of another
// consumer work on them, from the start.
func TestLeftByACrash(t *testing.T) {
	const n, readers = 40, 8
	for _, how := range []string{"run", "consume"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				q := open(t, s[1], nil)
				put(t, q, numbers(n)...)
				crashes := consume(t, open(t, s[0], nil), n)
				crashes.Items() // which nobody receives
				kit.Pass(time.Second)
				srv.Expire(s[0].ID())
				s[0].Close()
				ctx, stop := context.WithTimeout(t.Context(), 51*time.Minute)
				defer stop()
				var done atomic.Int64
				work := func(item queue.Item) {
					check.Equal(t, item.Attempt, 1) // no reader has received it before
					<-time.After(10 * time.Minute)
					done.Add(1)
				}
				if how == "run" {
					check.Is(t, q.Run(ctx, readers, func(_ context.Context, item queue.Item) error { work(item); return nil }), context.DeadlineExceeded)
				} else {
					c := check.Have(q.Consume(&queue.ConsumeOptions{Readers: readers}))(t)
					context.AfterFunc(ctx, c.Close)
					var working sync.WaitGroup
					for range readers {
						working.Go(func() {
							for item := range c.Items() {
								work(item)
								check.Must(t, item.Ack(context.WithoutCancel(ctx)))
							}
						})
					}
					working.Wait()
				}
				check.Equal(t, done.Load(), n)
			})
		})
	}
}

// TestLargeItems: an item is read once or twice, whatever its size.
func TestLargeItems(t *testing.T) {
	const n = 32
	for _, size := range []int{10_000, 300_000, 900_000} {
		for _, prefetch := range []int{1, 16, n} {
			bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				q := open(t, s[0], nil)
				for range n {
					put(t, q, string(make([]byte, size)))
				}
				srv.ResetRequests()
				c := consume(t, q, prefetch)
				for range n {
					check.Must(t, next(t, c).Ack(t.Context()))
				}
				check.AtMost(t, srv.Requests()[zktest.OpGetData], 2*n, "reads of items of", size, "bytes, Prefetch", prefetch)
			})
		}
	}
}
