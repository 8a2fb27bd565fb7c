package queue_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"runtime"
	"slices"
	"strings"
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

// TestAcknowledge consumes in order, with few requests for each item.
func TestAcknowledge(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		want := numbers(500)
		check.Have(q.PutAll(t.Context(), bytesOf(want)))(t)
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
			acks.Go(func() { check.Must(t, item.Ack(t.Context())) })
		}
		acks.Wait()
		check.EqualSlices(t, got, want, "consumed")
		c.Close()
		check.Equal(t, length(t, q), 0)
		check.Len(t, left(srv, "claims"), 0, "left behind")
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
			check.Is(t, a.Ack(t.Context()), queue.ErrNotClaimed)
		}
		c := consume(t, q, 10)
		a, b := next(t, c), next(t, c)
		check.True(t, a.Attempt == 4 && b.Attempt == 1 && string(b.Data) == "b", "attempts %d and %d", a.Attempt, b.Attempt)
		check.Must(t, a.Reject(t.Context()))
		if again := next(t, c); again.ID != a.ID || again.Attempt != 5 {
			t.Errorf("%+v", again)
		}
		check.Must(t, b.Ack(t.Context()))
		check.Is(t, b.Ack(t.Context()), queue.ErrNotClaimed)
		check.Is(t, b.Reject(t.Context()), queue.ErrNotClaimed)
		c.Close()
		check.Equal(t, string(check.Have(q.TryTake(t.Context()))(t)), "a")
	})
}

// TestRejectedIsNext: an item that a consumer gives back comes before those that it has listed, and
// not claimed yet.
func TestRejectedIsNext(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		putAll(t, q, numbers(8)...)
		c := consume(t, q, 4)
		item := next(t, c)
		check.Must(t, item.Ack(t.Context()))
		item = next(t, c)
		check.Must(t, item.RejectAfter(t.Context(), 0, nil))
		var got []string
		for range 7 {
			item = next(t, c)
			got = append(got, fmt.Sprintf("%s %d", item.Data, item.Attempt))
			check.Must(t, item.Ack(t.Context()))
		}
		check.EqualSlices(t, got, []string{"item 2 1", "item 3 1", "item 1 2", "item 4 1", "item 5 1", "item 6 1", "item 7 1"}, "after item 1 was rejected")
	})
}

// TestExpiry has the claims of one consumer go to another.
func TestExpiry(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[1], nil)
		put(t, q, "a")
		first, second := consume(t, open(t, s[0], nil), 1), consume(t, q, 1)
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
		check.Is(t, item.Ack(t.Context()), queue.ErrNotClaimed)
		guarded := func(item queue.Item) error {
			_, err := free.Multi(t.Context(), append(item.Guard(), session.CheckOp("/", session.AnyVersion))...)
			return err
		}
		check.True(t, guarded(item) != nil, "the guard of a late delivery lets pass")
		ended, end := context.WithCancel(t.Context())
		end()
		check.Is(t, again.Ack(ended), context.Canceled) // which does nothing
		check.Must(t, guarded(again))
		check.Must(t, again.Ack(t.Context()))
		check.Is(t, guarded(again), queue.ErrNotClaimed)
		srv.Thaw(holder.ID())
		kit.Pass(time.Minute)
		put(t, q, "b")
		item, _ = either()
		check.Must(t, item.Ack(t.Context()))
	})
}

// TestDeadLetters moves an item after as many rejections, or crashes beside the first: its claim
// was made ahead of a delivery.
func TestDeadLetters(t *testing.T) {
	opts := &queue.Options{MaxAttempts: 2, DeadLetter: dead}
	t.Run("rejected", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q := open(t, s[0], opts)
			put(t, q, "bad", "good")
			c := consume(t, q, 4)
			events := c.Events()
			bad, good := next(t, c), next(t, c)
			check.Must(t, good.Ack(t.Context()))
			check.Must(t, bad.Reject(t.Context()))
			bad = next(t, c)
			check.Must(t, bad.Reject(t.Context()))
			if ev := <-events; ev != (queue.Buried{ID: bad.ID}) {
				t.Error(ev)
			}
			c.Close()
			check.EqualSlices(t, drain(t, openAt(t, s[0], opts.DeadLetter, nil)), []string{"bad"}, "dead")
			check.EqualSlices(t, drain(t, q), nil, "left")
		})
	})
	t.Run("crashed", func(t *testing.T) {
		bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q := open(t, s[0], opts)
			put(t, q, "bad")
			c := consume(t, q, 4)
			for range 3 {
				next(t, c)
				srv.Expire(s[0].ID())
				kit.Pass(time.Minute)
			}
			put(t, q, "good")
			if item := next(t, c); string(item.Data) != "good" {
				t.Errorf("%+v", item)
			}
			check.EqualSlices(t, drain(t, openAt(t, s[1], opts.DeadLetter, nil)), []string{"bad"}, "dead")
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
				check.Must(t, s.EnsurePath(t.Context(), "/queues/dead/locks"))
			},
			func(t *testing.T, _ *zktest.Server, s *session.Session) {
				check.Must(t, s.Delete(t.Context(), "/queues/dead/locks", session.AnyVersion))
			},
		},
		"no right": {
			func(t *testing.T, srv *zktest.Server, s *session.Session) {
				other, err := session.Open(t.Context(), srv.Addrs(), &session.Options{
					Dialer: srv.DialContext, ACL: []session.ACL{{Perms: session.PermRead, Scheme: "world", ID: "anyone"}},
				})
				check.Must(t, err)
				defer other.Close()
				check.Have(other.Create(t.Context(), "/queues/dead", nil, session.Persistent))(t)
			},
			func(t *testing.T, _ *zktest.Server, s *session.Session) {
				check.Must(t, s.Delete(t.Context(), "/queues/dead", session.AnyVersion))
			},
		},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				opts := &queue.Options{MaxAttempts: 2, DeadLetter: dead}
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
				kit.Pass(10 * time.Minute)
				srv.ResetRequests()
				kit.Pass(10 * time.Minute)
				got := srv.Requests()
				check.True(t, good == 100 && bad == 2, "%d good items are done, the bad one was delivered %d times", good, bad)
				check.True(t, got.Total()-got[zktest.OpSync] < 400, "%v in ten minutes", got)
				var data []byte
				for _, p := range srv.Paths() {
					if path.Dir(path.Dir(p)) == at+"/items" {
						var err error
						data, _, err = s[0].Get(t.Context(), p)
						check.Must(t, err)
					}
				}
				check.True(t, strings.Contains(string(data), `"stuck"`), "%s", data)
				how.free(t, srv, s[0])
				kit.Pass(2 * time.Minute)
				check.EqualSlices(t, drain(t, openAt(t, s[0], opts.DeadLetter, nil)), []string{"bad"}, "dead")
				stop()
				running.Wait()
			})
		})
	}
}

// TestDeadLettersFull moves dead letters to a queue that is full, where Put is refused.
func TestDeadLettersFull(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		letters := openAt(t, s[0], dead, &queue.Options{MaxItems: 1, RefuseWhenFull: true})
		put(t, letters, "old")
		q := open(t, s[0], &queue.Options{MaxAttempts: 1, DeadLetter: dead})
		put(t, q, "bad")
		serve(t, q, queue.Item.Reject)
		check.Fails(letters.Put(t.Context(), []byte("new")))(t, queue.ErrFull)
		check.EqualSlices(t, drain(t, letters), []string{"old", "bad"}, "dead")
	})
}

// TestDeadLetterCost moves an item that has been delivered too often once, and does not read it
// again meanwhile.
func TestDeadLetterCost(t *testing.T) {
	slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		plain := open(t, s[0], nil)
		put(t, plain, "bad")
		serve(t, plain, queue.Item.Reject)
		srv.ResetRequests()
		consume(t, open(t, s[0], &queue.Options{MaxAttempts: 1, DeadLetter: dead}), 1)
		kit.Pass(time.Minute)
		if got := srv.Requests(); got[zktest.OpGetData] != 1 || got[zktest.OpMulti] > 3 {
			t.Errorf("%v", got)
		}
	})
}

// TestPriorityOrder has chance put items of all priorities, also many at once and more than one
// bucket of them: each consumer and each taker gets them in their order.
func TestPriorityOrder(t *testing.T) {
	for seed := range hasten.Sized(hasten.Usually[uint64](20, 6), 2) {
		bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
			random := rand.New(rand.NewPCG(seed, 3))
			p := ranked(t, s[0], nil)
			type entry struct {
				priority int32
				data     string
			}
			var all []entry
			for len(all) < 100 {
				priority := []int32{math.MinInt32, math.MaxInt32, int32(random.Uint32()), int32(random.IntN(5) - 2)}[random.IntN(4)]
				var batch []string
				for range 1 + random.IntN(4) {
					batch = append(batch, fmt.Sprint(len(all)))
					all = append(all, entry{priority, fmt.Sprint(len(all))})
				}
				check.Have(p.PutAll(t.Context(), bytesOf(batch), priority))(t)
			}
			slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.priority, b.priority) })
			c := consume(t, p, 1+random.IntN(20))
			half := len(all) / 2
			for _, want := range all[:half] {
				item := next(t, c)
				check.Require(t, entry{item.Priority, string(item.Data)} == want, "seed %d: %s with priority %d, want %+v", seed, item.Data, item.Priority, want)
				check.Must(t, item.Ack(t.Context()))
			}
			c.Close()
			for _, want := range all[half:] {
				check.Equal(t, takeOne(t, p), want.data, "seed", seed)
			}
			putAt(t, p, 1, "x")
			check.Fails(open(t, s[0], nil).TryTake(t.Context()))(t, queue.ErrLayout) // a queue without priorities
		})
	}
}

// TestUrgent has a more urgent item overtake those that are claimed already, and those that fill
// the prefetch.
func TestUrgent(t *testing.T) {
	bubble(t, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		p, other := ranked(t, s[0], nil), ranked(t, s[1], nil)
		for i := range 5 {
			putAt(t, other, 0, fmt.Sprint(i))
		}
		c := consume(t, p, 3)
		check.Equal(t, string(next(t, c).Data), "0")
		kit.Pass(time.Second)
		for _, urgent := range []int32{-1, -3, -2} {
			putAt(t, other, urgent, fmt.Sprint(urgent))
		}
		kit.Pass(time.Second)
		for _, want := range []string{"-3", "-2", "-1", "1", "2"} {
			item := next(t, c)
			check.Equal(t, string(item.Data), want)
			check.Must(t, item.Ack(t.Context()))
			kit.Pass(time.Second)
		}
	})
}

// TestRun has workers work until they are stopped.
func TestRun(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		const n = 200
		putAll(t, q, numbers(n)...)
		ctx, cancel := context.WithCancel(t.Context())
		var done atomic.Int32
		var seen sync.Map
		err := q.Run(ctx, 8, func(_ context.Context, item queue.Item) error {
			if _, again := seen.LoadOrStore(item.ID, true); !again && done.Load()%3 == 0 {
				return errors.New("not the first time")
			}
			if done.Add(1) == n {
				cancel()
			}
			return nil
		})
		check.Is(t, err, context.Canceled)
		check.Equal(t, length(t, q), 0)
		waits := kit.Begin(func() error { return q.Run(t.Context(), 2, func(context.Context, queue.Item) error { return nil }) })
		s[0].Close()
		check.Is(t, <-waits, session.ErrClosed)
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
		check.Within(t, times[1].Sub(times[0]), time.Hour/2, time.Hour+time.Second, "Run waited for")

		put(t, q, "b")
		c := check.Open(q.Consume(&queue.ConsumeOptions{Backoff: queue.Backoff{First: -1}}))(t)
		begun := time.Now()
		check.Must(t, (<-c.Items()).Reject(t.Context()))
		check.Must(t, (<-c.Items()).Ack(t.Context()))
		check.AtMost(t, time.Since(begun), time.Second, "the consumer waited for")
	})
}

// TestRunEndsWhileItWorks: when its context has ended, Run claims nothing more, and gives back what
// no worker has received, though a worker still works. That worker's item can be acknowledged.
func TestRunEndsWhileItWorks(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		mine, others := ranked(t, s[0], nil), ranked(t, s[1], nil)
		ctx, cancel := context.WithCancel(t.Context())
		begun, works := make(chan struct{}, 2), make(chan struct{})
		ended := kit.Begin(func() error {
			return mine.Run(ctx, 2, func(context.Context, queue.Item) error {
				begun <- struct{}{}
				<-works
				return nil
			})
		})
		putAt(t, mine, 5, "slow")
		<-begun
		cancel()
		synctest.Wait()
		putAt(t, mine, 5, "later")
		kit.Pass(time.Second)
		putAt(t, mine, 1, "urgent")
		c := consume(t, others, 2)
		for _, want := range []string{"urgent", "later"} {
			item := next(t, c)
			check.True(t, string(item.Data) == want && item.Attempt == 1, "%+v", item)
			check.Must(t, item.Ack(t.Context()))
		}
		close(works)
		check.Is(t, <-ended, context.Canceled)
		kit.Pass(time.Second)
		check.Equal(t, length(t, others), 0)
		check.Len(t, left(srv, "claims"), 0)
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
		kit.Pass(time.Minute)
		check.Equal(t, len(ended), 0)
		srv.Freeze(s[0].ID(), zktest.Both)
		check.Equal(t, <-working, 1)
		select {
		case err := <-ended:
			check.Fails(0, err)(t, queue.ErrNotClaimed)
			check.Fails(0, err)(t, session.ErrLapsed)
		default:
			t.Error("two work on one item, and the first is not told")
		}
		srv.Thaw(0)
		kit.Pass(time.Minute)
		check.Equal(t, len(ended), 0)
		stop()
		running.Wait()
		check.Is(t, <-ended, context.Canceled, "the context of the second")
	})
}

// TestHungReaders: readers hang, deaf to their contexts, and their session expires once. In the
// next one no item is claimed for them that others could work on: but for a second now and then, if
// they might be back without having said so. Those that are back are given items at once.
func TestHungReaders(t *testing.T) {
	for _, n := range []int{1, 2, 8} {
		for name, serve := range map[string]func(ctx context.Context, q *queue.Queue, f func(queue.Item)){
			"Run": func(ctx context.Context, q *queue.Queue, f func(queue.Item)) {
				_ = q.Run(ctx, n, func(_ context.Context, item queue.Item) error { f(item); return nil })
			},
			"Consumer": func(ctx context.Context, q *queue.Queue, f func(queue.Item)) {
				c := check.Have(q.Consume(&queue.ConsumeOptions{Readers: n}))(t)
				defer c.Close()
				defer context.AfterFunc(ctx, c.Close)()
				var all sync.WaitGroup
				for range n {
					all.Go(func() { //nolint:contextcheck // the item is acknowledged in any case
						for item := range c.Items() {
							f(item)
							if item.Context().Err() == nil { // else there is nothing to acknowledge
								check.OK(t, item.Ack(context.Background()))
							}
						}
					})
				}
				all.Wait()
			},
		} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					hangs, works := open(t, s[0], nil), open(t, s[1], nil)
					ctx, stop := context.WithCancel(t.Context())
					var all sync.WaitGroup
					free := make(chan struct{})
					var hung, back atomic.Int32
					all.Go(func() {
						serve(ctx, hangs, func(item queue.Item) {
							if string(item.Data) == "hang" && item.Attempt == 1 {
								hung.Add(1)
								<-free
								return
							}
							back.Add(1)
						})
					})
					for range n {
						put(t, works, "hang")
					}
					kit.Pass(time.Minute)
					check.Equal(t, hung.Load(), int32(n))
					srv.Expire(s[0].ID())
					kit.Pass(time.Minute)
					var worked atomic.Int32
					healthy, ill := context.WithCancel(ctx)
					all.Go(func() {
						_ = works.Run(healthy, 1, func(context.Context, queue.Item) error { worked.Add(1); return nil })
					})
					const more = 40
					for range more {
						put(t, works, "item")
						kit.Pass(2 * time.Second) // longer than a trial
					}
					check.Equal(t, worked.Load(), int32(more+n))
					check.Equal(t, back.Load(), 0)
					check.Equal(t, length(t, works), 0)
					close(free)
					ill()
					kit.Pass(time.Second)
					for range more {
						put(t, works, "item")
					}
					kit.Pass(10 * time.Minute) // between two trials
					check.Equal(t, back.Load(), more)
					stop()
					all.Wait()
				})
			})
		}
	}
}

// TestHungReaderAndBacklog: of items that wait, a consumer whose only reader may hang claims one
// for a second now and then, however many it may hold.
func TestHungReaderAndBacklog(t *testing.T) {
	for _, prefetch := range []int{1, 20} {
		bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			hangs, works := open(t, s[0], nil), open(t, s[1], nil)
			const items = 40
			put(t, works, "hang")
			next(t, consume(t, hangs, prefetch))
			srv.Expire(s[0].ID())
			kit.Pass(time.Minute)
			putAll(t, works, numbers(items-1)...) // no crash has left these
			kit.Pass(time.Hour)
			ctx, stop := context.WithCancel(t.Context())
			var worked atomic.Int32
			ended := kit.Begin(func() error {
				return works.Run(ctx, 1, func(context.Context, queue.Item) error { worked.Add(1); return nil })
			})
			kit.Pass(2 * time.Second)
			check.Equal(t, worked.Load(), items, "prefetch", prefetch)
			stop()
			check.Is(t, <-ended, context.Canceled)
		})
	}
}

// TestReadersAreBack: readers drop deliveries that are lost, without a word, and receive others
// soon. It does not matter that another reader works, or that one was tried rarely before.
func TestReadersAreBack(t *testing.T) {
	for _, prefetch := range []int{2, 4} {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q := open(t, s[0], nil)
			putAll(t, q, numbers(10)...)
			c := check.Open(q.Consume(&queue.ConsumeOptions{Readers: 2, Prefetch: prefetch}))(t)
			soon := func() (item queue.Item) {
				t.Helper()
				began := time.Now()
				item = next(t, c)
				check.AtMost(t, time.Since(began), 2*time.Second, "prefetch", prefetch)
				return item
			}
			soon()
			late := soon()
			for range 2 {
				srv.Expire(s[0].ID())
				kit.Pass(3 * time.Hour)
				check.Is(t, late.Ack(t.Context()), queue.ErrNotClaimed)
				soon()
				late = soon()
			}
		})
	}
}

// TestRunExits: a function that ends its goroutine has failed, and its worker goes on.
func TestRunExits(t *testing.T) {
	for _, workers := range []int{1, 2} {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q := open(t, s[0], nil)
			putAll(t, q, numbers(10)...)
			ctx, stop := context.WithCancel(t.Context())
			var done atomic.Int32
			var causes sync.Map
			ended := kit.Begin(func() error {
				return q.Run(ctx, workers, func(_ context.Context, item queue.Item) error {
					if item.Attempt == 1 {
						runtime.Goexit()
					}
					causes.Store(item.Cause, true)
					done.Add(1)
					return nil
				})
			})
			kit.Pass(time.Hour)
			check.Equal(t, done.Load(), 10)
			check.Equal(t, length(t, q), 0)
			_, says := causes.Load("the function has called runtime.Goexit")
			check.True(t, says, "the next delivery does not say why the first has failed")
			check.Equal(t, len(ended), 0)
			stop()
			check.Is(t, <-ended, context.Canceled)
		})
	}
}

// TestNobodyReads: a consumer of a queue with priorities whose items nobody receives looks rarely
// after a while, and no item that a reader receives then is from an old list.
func TestNobodyReads(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		p := ranked(t, s[0], nil)
		putAt(t, p, 5, "a")
		putAt(t, p, 5, "b")
		c := consume(t, p, 1)
		kit.Pass(time.Minute)
		srv.ResetRequests()
		kit.Pass(time.Hour)
		check.AtMost(t, kit.WithoutSyncs(srv.Requests()).Total(), 150, "requests in an hour")
		putAt(t, p, 1, "urgent")
		kit.Pass(2 * time.Minute)
		first := next(t, c)
		check.Equal(t, string(first.Data), "urgent")
		check.Must(t, first.Ack(t.Context()))
		for range 2 {
			check.Must(t, next(t, c).Ack(t.Context()))
		}
	})
}

// TestAge: the age of an item counts from its put, whatever has happened to it.
func TestAge(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		begun := time.Now()
		put(t, q, "a")
		for _, age := range []time.Duration{time.Minute, 2 * time.Minute} {
			kit.Pass(time.Minute)
			item := serve(t, q, queue.Item.Reject)
			check.True(t, item.Put.Sub(begun).Abs() < time.Second, "put at %v, want %v", item.Put, begun)
			check.Within(t, item.Age(), age-time.Second, age+time.Second)
			check.Equal(t, item.Cause, "")
		}
		check.Equal(t, queue.Item{}.Age(), 0)
	})
}
