package queue_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestAcknowledge consumes in order, with few requests for each item.
func TestAcknowledge(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		want := numbers(500)
		_, err := q.PutAll(t.Context(), bytesOf(want))
		ok(t, err)
		srv.ResetRequests()
		c := consume(t, q, 64)
		var got []string
		var acks sync.WaitGroup
		for i := range want {
			item := next(t, c)
			if lists := srv.Requests()[zktest.OpGetChildren2]; i < 430 && lists > 4 {
				t.Errorf("%d lists for %d items", lists, i)
			}
			got = append(got, string(item.Data))
			check.True(t, item.Attempt == 1 && item.Priority == 0 && item.ID != "", "%+v", item)
			acks.Go(func() { ok(t, item.Ack(t.Context())) })
		}
		acks.Wait()
		equal(t, "consumed", got, want)
		c.Close()
		if n, err := q.Len(t.Context()); n != 0 || err != nil {
			t.Errorf("Len: %d, %v", n, err)
		}
		if n := left(srv, "claims"); len(n) > 0 {
			t.Errorf("left behind: %q", n)
		}
	})
}

// TestAttempts counts deliveries. What was claimed and not delivered was not attempted.
func TestAttempts(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		put(t, q, "a", "b")
		for attempt := 1; attempt <= 3; attempt++ {
			c := consume(t, q, 10)
			a := next(t, c)
			check.True(t, string(a.Data) == "a" && a.Attempt == attempt, "%s, attempt %d, want %d", a.Data, a.Attempt, attempt)
			c.Close()
			if err := a.Ack(t.Context()); !errors.Is(err, queue.ErrNotClaimed) {
				t.Errorf("a late Ack: %v", err)
			}
		}
		c := consume(t, q, 10)
		a, b := next(t, c), next(t, c)
		check.True(t, a.Attempt == 4 && b.Attempt == 1 && string(b.Data) == "b", "attempts %d and %d", a.Attempt, b.Attempt)
		ok(t, a.Reject(t.Context()))
		if again := next(t, c); again.ID != a.ID || again.Attempt != 5 {
			t.Errorf("%+v", again)
		}
		ok(t, b.Ack(t.Context()))
		if err := b.Ack(t.Context()); !errors.Is(err, queue.ErrNotClaimed) {
			t.Errorf("Ack twice: %v", err)
		}
		if err := b.Reject(t.Context()); !errors.Is(err, queue.ErrNotClaimed) {
			t.Errorf("Reject after Ack: %v", err)
		}
		c.Close()
		if data, err := q.TryTake(t.Context()); string(data) != "a" || err != nil {
			t.Errorf("took %q, %v", data, err)
		}
	})
}

// TestRejectedIsNext: an item that a consumer gives back comes before those that it has listed, and
// not claimed yet.
func TestRejectedIsNext(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		_, err := q.PutAll(t.Context(), bytesOf(numbers(8)))
		ok(t, err)
		c := consume(t, q, 4)
		defer c.Close()
		item := next(t, c)
		ok(t, item.Ack(t.Context()))
		item = next(t, c)
		ok(t, item.RejectAfter(t.Context(), 0, nil))
		var got []string
		for range 7 {
			item = next(t, c)
			got = append(got, fmt.Sprintf("%s %d", item.Data, item.Attempt))
			ok(t, item.Ack(t.Context()))
		}
		equal(t, "after item 1 was rejected", got, []string{"item 2 1", "item 3 1", "item 1 2", "item 4 1", "item 5 1", "item 6 1", "item 7 1"})
	})
}

// TestExpiry has the claims of one consumer go to another.
func TestExpiry(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[1], nil)
		put(t, q, "a")
		first, second := consume(t, open(t, s[0], nil), 1), consume(t, q, 1)
		defer first.Close()
		defer second.Close()
		either := func() (item queue.Item, from *queue.Consumer) {
			select {
			case item = <-first.Items():
				return item, first
			case item = <-second.Items():
				return item, second
			case <-time.After(time.Minute):
				t.Fatal("no item")
				return
			}
		}
		item, from := either()
		holder, free := s[0], s[1]
		if from == second {
			holder, free = free, holder
		}
		srv.Freeze(holder.ID(), zktest.Both)
		again, _ := either()                                                   // the other, or the same in its next session
		check.True(t, again.ID == item.ID && again.Attempt == 1, "%+v", again) // a claim ahead of a delivery does not count
		if err := item.Ack(t.Context()); !errors.Is(err, queue.ErrNotClaimed) {
			t.Errorf("a late Ack: %v", err)
		}
		if _, err := free.Multi(t.Context(), append(item.Guard(), session.CreateOp("/stale", nil, session.Persistent))...); err == nil {
			t.Error("the guard of a late delivery lets pass")
		}
		_, err := free.Multi(t.Context(), append(again.Guard(), session.CreateOp("/done", nil, session.Persistent))...)
		ok(t, err)
		ok(t, again.Ack(t.Context()))
		if _, err := free.Multi(t.Context(), append(again.Guard(), session.CreateOp("/stale", nil, session.Persistent))...); !errors.Is(err, queue.ErrNotClaimed) {
			t.Errorf("the guard of a delivery that is over: %v", err)
		}
		srv.Thaw(holder.ID())
		pass(time.Minute)
		put(t, q, "b")
		item, _ = either()
		ok(t, item.Ack(t.Context()))
	})
}

// TestDeadLetters moves an item after as many rejections, or crashes beside the first: its claim
// was made ahead of a delivery.
func TestDeadLetters(t *testing.T) {
	opts := &queue.Options{MaxAttempts: 2, DeadLetter: "/queues/dead"}
	t.Run("rejected", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q := open(t, s[0], opts)
			put(t, q, "bad", "good")
			c := consume(t, q, 4)
			events := c.Events()
			bad, good := next(t, c), next(t, c)
			ok(t, good.Ack(t.Context()))
			ok(t, bad.Reject(t.Context()))
			bad = next(t, c)
			ok(t, bad.Reject(t.Context()))
			if ev := <-events; ev != (queue.Buried{ID: bad.ID}) {
				t.Error(ev)
			}
			c.Close()
			dead, err := queue.New(s[0], opts.DeadLetter, nil)
			ok(t, err)
			equal(t, "dead", drain(t, dead), []string{"bad"})
			equal(t, "left", drain(t, q), nil)
		})
	})
	t.Run("crashed", func(t *testing.T) {
		bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q := open(t, s[0], opts)
			put(t, q, "bad")
			c := consume(t, q, 4)
			defer c.Close()
			for range 3 {
				next(t, c)
				srv.Expire(s[0].ID())
				pass(time.Minute)
			}
			put(t, q, "good")
			if item := next(t, c); string(item.Data) != "good" {
				t.Errorf("%+v", item)
			}
			dead, err := queue.New(s[1], opts.DeadLetter, nil)
			ok(t, err)
			equal(t, "dead", drain(t, dead), []string{"bad"})
		})
	})
}

// TestDeadLettersRefused has dead letters that cannot be moved: the path is another recipe's, or
// nobody may create nodes there. Good items are delivered meanwhile, by the same consumers. The bad
// one goes back with the reason, costs little, and moves when the path is free.
func TestDeadLettersRefused(t *testing.T) {
	for what, how := range map[string]struct {
		block, free func(t *testing.T, srv *zktest.Server, s *session.Session)
	}{
		"another recipe's": {
			func(t *testing.T, _ *zktest.Server, s *session.Session) {
				ok(t, s.EnsurePath(t.Context(), "/queues/dead/locks"))
			},
			func(t *testing.T, _ *zktest.Server, s *session.Session) {
				ok(t, s.Delete(t.Context(), "/queues/dead/locks", session.AnyVersion))
			},
		},
		"no right": {
			func(t *testing.T, srv *zktest.Server, s *session.Session) {
				other, err := session.Open(t.Context(), srv.Addrs(), &session.Options{
					Dialer: srv.DialContext, ACL: []session.ACL{{Perms: session.PermRead, Scheme: "world", ID: "anyone"}},
				})
				ok(t, err)
				defer other.Close()
				_, err = other.Create(t.Context(), "/queues/dead", nil, session.Persistent)
				ok(t, err)
			},
			func(t *testing.T, _ *zktest.Server, s *session.Session) {
				ok(t, s.Delete(t.Context(), "/queues/dead", session.AnyVersion))
			},
		},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				opts := &queue.Options{MaxAttempts: 2, DeadLetter: "/queues/dead"}
				put(t, open(t, s[0], nil), "bad")
				how.block(t, srv, s[0])
				put(t, open(t, s[0], nil), numbers(100)...)
				ctx, stop := context.WithCancel(t.Context())
				good, bad := 0, 0
				var mu sync.Mutex
				work := func(_ context.Context, item queue.Item) error {
					mu.Lock()
					defer mu.Unlock()
					if string(item.Data) == "bad" {
						bad++
						return errors.New("no")
					}
					good++
					return nil
				}
				var running sync.WaitGroup
				for i := range 2 {
					running.Go(func() { check.Is(t, open(t, s[i], opts).Run(ctx, 2, work), context.Canceled) })
				}
				pass(10 * time.Minute)
				srv.ResetRequests()
				pass(10 * time.Minute)
				got := srv.Requests()
				check.True(t, good == 100 && bad == 2, "%d good items are done, the bad one was delivered %d times", good, bad)
				check.True(t, got.Total()-got[zktest.OpSync] < 400, "%v in ten minutes", got)
				var data []byte
				for _, p := range srv.Paths() {
					if path.Dir(path.Dir(p)) == at+"/items" {
						var err error
						data, _, err = s[0].Get(t.Context(), p)
						ok(t, err)
					}
				}
				check.True(t, strings.Contains(string(data), `"stuck"`), "%s", data)
				how.free(t, srv, s[0])
				pass(2 * time.Minute)
				dead, err := queue.New(s[0], opts.DeadLetter, nil)
				ok(t, err)
				equal(t, "dead", drain(t, dead), []string{"bad"})
				stop()
				running.Wait()
			})
		})
	}
}

// TestDeadLettersFull moves dead letters to a queue that is full, where Put is refused.
func TestDeadLettersFull(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		dead, err := queue.New(s[0], "/queues/dead", &queue.Options{MaxItems: 1, RefuseWhenFull: true})
		ok(t, err)
		put(t, dead, "old")
		q := open(t, s[0], &queue.Options{MaxAttempts: 1, DeadLetter: "/queues/dead"})
		put(t, q, "bad")
		c := consume(t, q, 1)
		ok(t, next(t, c).Reject(t.Context()))
		c.Close()
		if _, err := dead.Put(t.Context(), []byte("new")); !errors.Is(err, queue.ErrFull) {
			t.Errorf("Put: %v", err)
		}
		equal(t, "dead", drain(t, dead), []string{"old", "bad"})
	})
}

// TestDeadLetterCost moves an item that has been delivered too often once, and does not read it
// again meanwhile.
func TestDeadLetterCost(t *testing.T) {
	slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		plain := open(t, s[0], nil)
		put(t, plain, "bad")
		c := consume(t, plain, 1)
		ok(t, next(t, c).Reject(t.Context()))
		c.Close()
		srv.ResetRequests()
		c = consume(t, open(t, s[0], &queue.Options{MaxAttempts: 1, DeadLetter: "/queues/dead"}), 1)
		defer c.Close()
		pass(time.Minute)
		if got := srv.Requests(); got[zktest.OpGetData] != 1 || got[zktest.OpMulti] > 3 {
			t.Errorf("%v", got)
		}
	})
}

// TestPriorities delivers by priority, the smallest and the largest included.
func TestPriorities(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		p, err := queue.NewPriority(s[0], at, nil)
		ok(t, err)
		priorities := []int32{5, -5, 0, 2147483647, -2147483648, 5, -5, 10, -1, 1, 0}
		for i, priority := range priorities {
			_, err := p.Put(t.Context(), fmt.Appendf(nil, "%d", i), priority)
			ok(t, err)
		}
		order := make([]int, len(priorities))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			return cmp.Compare(priorities[a], priorities[b])
		})
		c, err := p.Consume(&queue.ConsumeOptions{Prefetch: 3})
		ok(t, err)
		for _, i := range order[:6] {
			item := next(t, c)
			if string(item.Data) != fmt.Sprint(i) || item.Priority != priorities[i] {
				t.Errorf("%s with priority %d, want %d", item.Data, item.Priority, i)
			}
			ok(t, item.Ack(t.Context()))
		}
		c.Close()
		for _, i := range order[6:] {
			data, err := p.Take(t.Context())
			ok(t, err)
			check.True(t, string(data) == fmt.Sprint(i), "took %s, want %d", data, i)
		}
		_, err = p.Put(t.Context(), []byte("x"), 1)
		ok(t, err)
		if _, err := open(t, s[0], nil).TryTake(t.Context()); !errors.Is(err, queue.ErrLayout) {
			t.Errorf("a queue without priorities: %v", err)
		}
	})
}

// TestPriorityOrder has chance put items, also many at once and more than one bucket of them: each
// consumer and each taker gets them in their order.
func TestPriorityOrder(t *testing.T) {
	for seed := range hasten.Sized(hasten.Usually[uint64](20, 6), 2) {
		bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
			random := rand.New(rand.NewPCG(seed, 3))
			p, err := queue.NewPriority(s[0], at, nil)
			ok(t, err)
			type entry struct {
				priority int32
				n        int
			}
			var all []entry
			for len(all) < 100 {
				priority := int32(random.Uint32())
				if random.IntN(2) == 0 {
					priority = int32(random.IntN(5) - 2)
				}
				var batch [][]byte
				for range 1 + random.IntN(4) {
					batch = append(batch, fmt.Appendf(nil, "%d", len(all)))
					all = append(all, entry{priority, len(all)})
				}
				_, err := p.PutAll(t.Context(), batch, priority)
				ok(t, err)
			}
			slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.priority, b.priority) })
			c, err := p.Consume(&queue.ConsumeOptions{Prefetch: 1 + random.IntN(20)})
			ok(t, err)
			half := len(all) / 2
			for _, want := range all[:half] {
				item := next(t, c)
				if string(item.Data) != strconv.Itoa(want.n) || item.Priority != want.priority {
					t.Fatalf("seed %d: %s with priority %d, want %+v", seed, item.Data, item.Priority, want)
				}
				ok(t, item.Ack(t.Context()))
			}
			c.Close()
			for _, want := range all[half:] {
				data, err := p.Take(t.Context())
				ok(t, err)
				check.Require(t, string(data) == strconv.Itoa(want.n), "seed %d: took %s, want %+v", seed, data, want)
			}
		})
	}
}

// TestUrgent has a more urgent item overtake those that are claimed already, and those that fill
// the prefetch.
func TestUrgent(t *testing.T) {
	bubble(t, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		p, err := queue.NewPriority(s[0], at, nil)
		ok(t, err)
		other, err := queue.NewPriority(s[1], at, nil)
		ok(t, err)
		for i := range 5 {
			_, err := other.Put(t.Context(), fmt.Appendf(nil, "%d", i), 0)
			ok(t, err)
		}
		c, err := p.Consume(&queue.ConsumeOptions{Prefetch: 3})
		ok(t, err)
		defer c.Close()
		if item := next(t, c); string(item.Data) != "0" {
			t.Errorf("%+v", item)
		}
		pass(time.Second)
		for _, urgent := range []int32{-1, -3, -2} {
			_, err = other.Put(t.Context(), fmt.Appendf(nil, "%d", urgent), urgent)
			ok(t, err)
		}
		pass(time.Second)
		for _, want := range []string{"-3", "-2", "-1", "1", "2"} {
			item := next(t, c)
			check.True(t, string(item.Data) == want, "%s, want %s", item.Data, want)
			ok(t, item.Ack(t.Context()))
			pass(time.Second)
		}
	})
}

// TestRun has workers work until they are stopped.
func TestRun(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		const n = 200
		_, err := q.PutAll(t.Context(), bytesOf(numbers(n)))
		ok(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var done atomic.Int32
		var seen sync.Map
		err = q.Run(ctx, 8, func(_ context.Context, item queue.Item) error {
			if _, again := seen.LoadOrStore(item.ID, true); !again && done.Load()%3 == 0 {
				return errors.New("not the first time")
			}
			if done.Add(1) == n {
				cancel()
			}
			return nil
		})
		check.Is(t, err, context.Canceled)
		if n, err := q.Len(t.Context()); n != 0 || err != nil {
			t.Errorf("Len: %d, %v", n, err)
		}
		s[1].Close()
		wait := make(chan error)
		go func() { wait <- q.Run(t.Context(), 2, func(context.Context, queue.Item) error { return nil }) }()
		synctest.Wait()
		s[0].Close()
		check.Is(t, <-wait, session.ErrClosed)
	})
}

// TestBackoffOfRun: the delay of Run is that of the queue, and ConsumeOptions have their own.
func TestBackoffOfRun(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		hour := queue.Backoff{First: time.Hour, Most: time.Hour}
		q := open(t, s[0], &queue.Options{Backoff: hour})
		put(t, q, "a")
		ctx, cancel := context.WithCancel(t.Context())
		var times []time.Time
		err := q.Run(ctx, 1, func(context.Context, queue.Item) error {
			if times = append(times, time.Now()); len(times) > 1 {
				cancel()
				return nil
			}
			return errors.New("not yet")
		})
		check.Is(t, err, context.Canceled)
		waited := times[1].Sub(times[0])
		check.True(t, waited >= time.Hour/2 && waited <= time.Hour+time.Second, "Run waited for %v", waited)

		put(t, q, "b")
		c, err := q.Consume(&queue.ConsumeOptions{Backoff: queue.Backoff{First: -1}})
		ok(t, err)
		defer c.Close()
		begun := time.Now()
		ok(t, (<-c.Items()).Reject(t.Context()))
		ok(t, (<-c.Items()).Ack(t.Context()))
		check.True(t, time.Since(begun) < time.Second, "the consumer waited for %v", time.Since(begun))
	})
}

// TestRunEndsWhileItWorks: when its context has ended, Run claims nothing more, and gives back what
// no worker has received, though a worker still works. That worker's item can be acknowledged.
func TestRunEndsWhileItWorks(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		mine, err := queue.NewPriority(s[0], at, nil)
		ok(t, err)
		others, err := queue.NewPriority(s[1], at, nil)
		ok(t, err)
		put := func(data string, priority int32) {
			_, err := mine.Put(t.Context(), []byte(data), priority)
			ok(t, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		begun, works, ended := make(chan struct{}, 2), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			_ = mine.Run(ctx, 2, func(context.Context, queue.Item) error {
				begun <- struct{}{}
				<-works
				return nil
			})
		}()
		put("slow", 5)
		<-begun
		cancel()
		synctest.Wait()
		put("later", 5)
		pass(time.Second)
		put("urgent", 1)
		c, err := others.Consume(&queue.ConsumeOptions{Prefetch: 2})
		ok(t, err)
		defer c.Close()
		for _, want := range []string{"urgent", "later"} {
			item := next(t, c)
			check.True(t, string(item.Data) == want && item.Attempt == 1, "%+v", item)
			ok(t, item.Ack(t.Context()))
		}
		close(works)
		<-ended
		pass(time.Second)
		n, err := others.Len(t.Context())
		ok(t, err)
		check.Equal(t, n, 0)
		check.Equal(t, len(left(srv, "claims")), 0)
	})
}

// TestRunEndsWithItsClaim: when the session is lost, the function that works on an item is told,
// before another has it. Its context does not end with a claim of another session.
func TestRunEndsWithItsClaim(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		put(t, open(t, s[1], nil), "job")
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		working, ended := make(chan int, 3), make(chan error, 3)
		work := func(i int) {
			err := open(t, s[i], nil).Run(ctx, 1, func(ctx context.Context, _ queue.Item) error {
				working <- i
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return ctx.Err()
			})
			check.True(t, errors.Is(err, context.Canceled), "Run: %v", err)
		}
		running.Go(func() { work(0) })
		check.Equal(t, <-working, 0)
		running.Go(func() { work(1) })
		pass(time.Minute)
		check.Equal(t, len(ended), 0)
		srv.Freeze(s[0].ID(), zktest.Both)
		check.Equal(t, <-working, 1)
		select {
		case err := <-ended:
			check.Fails(0, err)(t, queue.ErrNotClaimed)
			check.Fails(0, err)(t, session.ErrExpired)
		default:
			t.Error("two work on one item, and the first is not told")
		}
		srv.Thaw(0)
		pass(time.Minute)
		check.Equal(t, len(ended), 0)
		stop()
		running.Wait()
		check.True(t, errors.Is(<-ended, context.Canceled), "the context of the second does not end with that of Run")
	})
}

// TestNobodyReads: a consumer of a queue with priorities whose items nobody receives looks rarely
// after a while, and no item that a reader receives then is from an old list.
func TestNobodyReads(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		p, err := queue.NewPriority(s[0], at, nil)
		ok(t, err)
		putAt := func(x string, priority int32) { check.Have(p.Put(t.Context(), []byte(x), priority))(t) }
		putAt("a", 5)
		putAt("b", 5)
		c, err := p.Consume(&queue.ConsumeOptions{Prefetch: 1})
		ok(t, err)
		defer c.Close()
		pass(time.Minute)
		srv.ResetRequests()
		pass(time.Hour)
		got := srv.Requests()
		delete(got, zktest.OpSync) // of the lease
		total := 0
		for _, n := range got {
			total += n
		}
		check.True(t, total <= 150, "%v in an hour", got)
		putAt("urgent", 1)
		pass(2 * time.Minute)
		first := next(t, c)
		check.Equal(t, string(first.Data), "urgent")
		ok(t, first.Ack(t.Context()))
		for range 2 {
			ok(t, next(t, c).Ack(t.Context()))
		}
	})
}
