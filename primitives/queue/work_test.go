package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
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
				for range c.poison {
					put(t, q, "poison")
				}
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
					defer con.Close()
					for items := con.Items(); ctx.Err() == nil; {
						select {
						case item := <-items:
							if work(ctx, item) != nil {
								ok(t, item.Reject(t.Context()))
							} else {
								ok(t, item.Ack(t.Context()))
							}
						case <-ctx.Done():
						}
					}
				}
				check.True(t, good == 100, "%d of 100 good items are done", good)
				check.True(t, bad >= 3*c.poison && bad <= 10*c.poison, "%d deliveries of %d bad items in 30 s", bad, c.poison)
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
				const n = 200
				_, err := q.PutAll(t.Context(), bytesOf(numbers(n)))
				ok(t, err)
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
				left, err := q.Len(t.Context())
				ok(t, err)
				check.True(t, good == n && left == 0, "%d of %d items are done, %d are left", good, n, left)
				check.True(t, bad <= 25*n, "%d deliveries failed", bad)
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
				opts := &queue.Options{MaxAttempts: c.attempts, DeadLetter: "/queues/dead"}
				put(t, open(t, s[0], opts), numbers(100)...)
				received := map[string]int{}
				for i := range c.crashes {
					con := consume(t, open(t, s[i], opts), c.prefetch)
					received[string(next(t, con).Data)]++
					synctest.Wait()
					srv.Expire(s[i].ID())
					s[i].Close()
					con.Close()
					pass(time.Second)
				}
				con := consume(t, open(t, s[c.crashes], opts), 16)
				defer con.Close()
				done := 0
				for more := true; more; {
					select {
					case item := <-con.Items():
						ok(t, item.Ack(t.Context()))
						done++
					case <-time.After(time.Minute):
						more = false
					}
				}
				dead, err := queue.New(s[c.crashes], "/queues/dead", nil)
				ok(t, err)
				letters := drain(t, dead)
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
					_, err := q.PutAll(t.Context(), bytesOf(numbers(100)))
					ok(t, err)
				}
				c := consume(t, q, 1)
				defer c.Close()
				ok(t, next(t, c).Ack(t.Context()))
				pass(time.Second)
				_, err := q.PutAfter(t.Context(), []byte("due"), 500*time.Millisecond)
				ok(t, err)
				due := time.Now().Add(500 * time.Millisecond)
				for {
					began := time.Now()
					item := next(t, c)
					if string(item.Data) == "due" {
						break
					}
					check.Require(t, began.Before(due.Add(time.Second)), "backlog of %d, jobs of %v: another item %v late", backlog, job, began.Sub(due))
					pass(job)
					ok(t, item.Ack(t.Context()))
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
			var p [3]*queue.Priority
			for i := range p {
				var err error
				p[i], err = queue.NewPriority(s[i], at, nil)
				ok(t, err)
			}
			for range 2 {
				_, err := p[2].Put(t.Context(), []byte("low"), 1000)
				ok(t, err)
			}
			busy, err := p[0].Consume(&queue.ConsumeOptions{Prefetch: prefetch})
			ok(t, err)
			defer busy.Close()
			next(t, busy) // the reader works for an hour
			pass(time.Second)
			for i := range 20 {
				_, err := p[2].Put(t.Context(), []byte("x"), int32(-i))
				ok(t, err)
				pass(time.Second)
				check.True(t, len(left(srv, "claims")) <= prefetch, "Prefetch %d: %d claims", prefetch, len(left(srv, "claims")))
			}
			idle, err := p[1].Consume(&queue.ConsumeOptions{Prefetch: prefetch})
			ok(t, err)
			defer idle.Close()
			done := make(chan string, 1000)
			go func() {
				for item := range idle.Items() {
					_ = item.Ack(t.Context())
					done <- string(item.Data)
				}
			}()
			pass(time.Minute)
			for len(done) > 0 {
				<-done
			}
			for i := range 20 {
				x := fmt.Sprint("urgent ", i)
				_, err := p[2].Put(t.Context(), []byte(x), int32(-100-i))
				ok(t, err)
				pass(time.Second)
				found := false
				for len(done) > 0 {
					found = <-done == x || found
				}
				check.True(t, found, "Prefetch %d: the idle consumer has not done %s", prefetch, x)
			}
		})
	}
}

// TestInversion: a consumer works on a long job, and another is idle. That one gets an urgent item.
func TestInversion(t *testing.T) {
	for _, prefetch := range []int{1, 2, 4, 16} {
		for round := range 6 {
			bubble(t, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				var c [2]*queue.Consumer
				producer, err := queue.NewPriority(s[2], at, nil)
				ok(t, err)
				for i := range c {
					p, err := queue.NewPriority(s[i], at, nil)
					ok(t, err)
					c[i], err = p.Consume(&queue.ConsumeOptions{Prefetch: prefetch})
					ok(t, err)
					defer c[i].Close()
					synctest.Wait()
				}
				for range 1 + round%3 {
					_, err = producer.Put(t.Context(), []byte("long"), 10)
					ok(t, err)
				}
				pass(time.Second)
				busy := 0
				select {
				case <-c[0].Items():
				case <-c[1].Items():
					busy = 1
				}
				idle := c[1-busy]
				pass(time.Second)
				for more := true; more; {
					select {
					case item := <-idle.Items():
						ok(t, item.Ack(t.Context()))
						pass(time.Second)
					default:
						more = false
					}
				}
				_, err = producer.Put(t.Context(), []byte("urgent"), -10)
				ok(t, err)
				for {
					item := next(t, idle)
					ok(t, item.Ack(t.Context()))
					if string(item.Data) == "urgent" {
						break
					}
				}
			})
		}
	}
}

// TestLongJobs: jobs are spread over all consumers that have the default options.
func TestLongJobs(t *testing.T) {
	bubble(t, 4, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var working sync.WaitGroup
		var mu sync.Mutex
		done := 0
		began, last := time.Now(), time.Duration(0)
		for i := range 4 {
			c, err := open(t, s[i], nil).Consume(nil)
			ok(t, err)
			working.Go(func() {
				defer c.Close()
				for items := c.Items(); ctx.Err() == nil; {
					select {
					case item := <-items:
						<-time.After(10 * time.Minute)
						ok(t, item.Ack(t.Context())) //nolint:contextcheck // ctx ends with the last item
						mu.Lock()
						if done++; done == 16 {
							last = time.Since(began)
							stop()
						}
						mu.Unlock()
					case <-ctx.Done():
					}
				}
			})
		}
		put(t, open(t, s[0], nil), numbers(16)...)
		working.Wait()
		check.True(t, last < 41*time.Minute, "16 jobs of 10 minutes take 4 consumers %v", last)
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
				pass(time.Second)
				srv.Expire(s[0].ID())
				s[0].Close()
				crashes.Close()
				ctx, stop := context.WithTimeout(t.Context(), 51*time.Minute)
				defer stop()
				var working sync.WaitGroup
				var done atomic.Int64
				work := func(item queue.Item) {
					check.Equal(t, item.Attempt, 1) // nobody has received it before
					<-time.After(10 * time.Minute)
					done.Add(1)
				}
				if how == "run" {
					check.Is(t, q.Run(ctx, readers, func(_ context.Context, item queue.Item) error {
						work(item)
						return nil
					}), context.DeadlineExceeded)
				} else {
					c, err := q.Consume(&queue.ConsumeOptions{Readers: readers})
					ok(t, err)
					for range readers {
						working.Go(func() {
							for item := range c.Items() {
								work(item)
								ok(t, item.Ack(context.WithoutCancel(ctx)))
							}
						})
					}
					<-ctx.Done()
					c.Close()
					working.Wait()
				}
				check.Equal(t, done.Load(), n)
			})
		})
	}
}

// TestLargeItems: an item is read once or twice, whatever its size.
func TestLargeItems(t *testing.T) {
	for _, size := range []int{10_000, 100_000, 300_000, 900_000} {
		for _, prefetch := range []int{1, 16, 64} {
			bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				q := open(t, s[0], nil)
				const n = 64
				for range n {
					_, err := q.Put(t.Context(), make([]byte, size))
					ok(t, err)
				}
				srv.ResetRequests()
				c := consume(t, q, prefetch)
				for range n {
					ok(t, next(t, c).Ack(t.Context()))
				}
				reads := srv.Requests()[zktest.OpGetData]
				check.True(t, reads <= 2*n, "%d items of %d bytes, Prefetch %d: %d reads", n, size, prefetch, reads)
				c.Close()
			})
		}
	}
}
