package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestSequenceWrap: the server's numbers go on from 2147483647 to -2147483648, and the order of the
// items does not change there, nor at any other number, in any layout.
func TestSequenceWrap(t *testing.T) {
	for seed := range uint64(30) {
		bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
			random := rand.New(rand.NewPCG(seed, 4))
			first := int32(math.MaxInt32 - random.IntN(12))
			switch random.IntN(4) {
			case 0:
				first = -1000000005 // where the names become shorter
			case 1:
				first = -5
			case 2:
				first = int32(random.Uint32())
			}
			layouts := map[queue.Layout]string{
				standard:      at + "/items/2147483648-0000000000/_c_%s-queue-%010d",
				queue.Curator: at + "/qn-%010d", queue.Kazoo: at + "/entry-100-%010d",
			}
			layout := queue.Layout(seed % 3)
			if layout == standard {
				check.Must(t, s[0].EnsurePath(t.Context(), at+"/items/2147483648-0000000000"))
			}
			const n = 10
			want := make([]string, n)
			for _, i := range random.Perm(n) {
				want[i] = fmt.Sprint(i)
				check.Must(t, s[0].EnsurePath(t.Context(), at))
				node := fmt.Sprintf(layouts[layout], first+int32(i))
				if layout == standard {
					node = fmt.Sprintf(layouts[layout], znode.NewGUID(), first+int32(i))
				}
				check.Have(s[0].Create(t.Context(), node, []byte(want[i]), session.Persistent))(t)
			}
			check.EqualSlices(t, drain(t, openAs(t, s[0], at, layout)), want, fmt.Sprintf("layout %d, from %d", layout, first))
		})
	}
}

// TestMostUrgentFirst has chance put items of any priority, some of them delayed, through several
// handles. Takers take them, or a consumer receives them when it has come to rest: each is the most
// urgent that there is. Some go back. Of the others, those with one priority come to the consumer
// in the order in which they were put, and so do delayed items. Takers may begin at different
// items.
func TestMostUrgentFirst(t *testing.T) {
	type entry struct {
		n        int
		priority int32
		delayed  bool
		back     bool // it was rejected
	}
	for seed := range hasten.Sized(hasten.Usually[uint64](80, 16), 8) {
		bubble(t, 3, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
			random := rand.New(rand.NewPCG(seed, 6))
			var handles []*queue.Priority
			for i := range 4 {
				handles = append(handles, ranked(t, s[i%3], nil))
			}
			var c *queue.Consumer
			if seed%2 == 0 {
				c = consume(t, handles[3], 1+random.IntN(5))
			}
			there := map[string]entry{}
			gone := func(data []byte) entry {
				got, is := there[string(data)]
				check.Require(t, is, "seed %d: %s is not there", seed, data)
				delete(there, string(data))
				for _, e := range there {
					ordered := c != nil && e.priority == got.priority && e.delayed == got.delayed && !e.back && !got.back
					check.Require(t, e.priority >= got.priority && (!ordered || e.n > got.n), "seed %d: %+v comes before %+v", seed, got, e)
				}
				return got
			}
			for n := range 200 {
				h, x, priority := handles[random.IntN(len(handles))], fmt.Sprint(n), int32(random.IntN(7)-3)
				if random.IntN(4) == 0 {
					priority = []int32{math.MinInt32, math.MaxInt32, int32(random.Uint32())}[random.IntN(3)]
				}
				switch k := random.IntN(20); {
				case k < 9:
					putAt(t, h, priority, x)
					there[x] = entry{n: n, priority: priority}
				case k < 11:
					delay := time.Duration(random.IntN(90)) * time.Second
					check.Have(h.PutAfter(t.Context(), []byte(x), priority, delay))(t)
					kit.Pass(91 * time.Second)
					there[x] = entry{n: n, priority: priority, delayed: delay > 0}
				case k == 11:
					kit.Pass(time.Duration(random.IntN(120)) * time.Second)
				case len(there) == 0:
					check.Fails(h.TryTake(t.Context()))(t, queue.ErrEmpty)
				case c == nil:
					gone(check.Have(h.TryTake(t.Context()))(t))
				default:
					kit.Pass(time.Second)
					item := next(t, c)
					got := gone(item.Data)
					if random.IntN(4) == 0 {
						check.Must(t, back(item, t.Context()))
						got.back = true
						there[string(item.Data)] = got
						continue
					}
					check.Must(t, item.Ack(t.Context()))
				}
			}
		})
	}
}

// TestOrderByChance has chance put items with three priorities on two handles, while a third client
// consumes or takes them. Some are rejected, and connections, requests and replies are lost. What
// one handle has put with one priority is delivered for the first time in that order. When no more
// is put, a taker takes by priority.
func TestOrderByChance(t *testing.T) {
	for seed := range seeds(30, 3) {
		bubbled(t, zktest.Config{Latency: time.Millisecond}, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			const each = 80 // at least
			random := rand.New(rand.NewPCG(seed, 6))
			var producing sync.WaitGroup
			var put atomic.Bool
			for i := range 2 {
				q := ranked(t, s[i], nil)
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				producing.Go(func() {
					for n := 0; n < each; {
						var data [][]byte
						priority := int32(random.IntN(3))
						for range 1 + random.IntN(4) {
							data = append(data, fmt.Appendf(nil, "%d %d %d", i, priority, n))
							n++
						}
						check.Have(q.PutAll(t.Context(), data, priority))(t)
						<-time.After(time.Duration(random.IntN(30)) * time.Millisecond)
					}
				})
			}
			var working sync.WaitGroup
			working.Go(func() {
				producing.Wait()
				put.Store(true)
			})
			over := make(chan struct{})
			working.Go(func() {
				for i := 0; ; i++ {
					switch i % 3 {
					case 0:
						srv.DropReply(zktest.Match{Op: zktest.OpMulti, Skip: random.IntN(6)})
					case 1:
						srv.DropRequest(zktest.Match{Skip: random.IntN(6)})
					case 2:
						srv.Disconnect(s[random.IntN(3)].ID())
					}
					select {
					case <-time.After(time.Duration(random.IntN(60)) * time.Millisecond):
						srv.ClearFaults()
					case <-over:
						srv.ClearFaults()
						return
					}
				}
			})
			q := ranked(t, s[2], nil)
			chance := rand.New(rand.NewPCG(seed, 9))
			last := map[[2]int]int{}
			seen := map[string]bool{}
			received := func(data []byte) (priority int) {
				var producer, n int
				check.Have(fmt.Sscan(string(data), &producer, &priority, &n))(t)
				lane := [2]int{producer, priority}
				check.True(t, !seen[string(data)] && n >= last[lane], "seed %d: %q comes after item %d", seed, data, last[lane])
				seen[string(data)], last[lane] = true, n
				return priority
			}
			wanted := func() bool { return !put.Load() || len(seen) < 2*each }
			if seed%3 == 0 {
				c := consume(t, q, 1+chance.IntN(6))
				for wanted() {
					item := next(t, c)
					if item.Attempt == 1 {
						received(item.Data)
						if chance.IntN(4) == 0 {
							check.Must(t, item.RejectAfter(t.Context(), time.Duration(chance.IntN(3000))*time.Millisecond, nil))
							continue
						}
					}
					check.Must(t, item.Ack(t.Context()))
				}
				c.Close()
			}
			least := 0 // the priority of the last item that was taken after all were put
			for wanted() {
				put := put.Load()
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+chance.IntN(200))*time.Millisecond)
				data, err := q.TakeN(ctx, 1+chance.IntN(int(seed%3*3)))
				cancel()
				check.True(t, err == nil || errors.Is(err, context.DeadlineExceeded) && !session.InDoubt(err), "TakeN: %v", err)
				for _, d := range data {
					priority := received(d)
					check.True(t, !put || priority >= least, "seed %d: %q comes after priority %d", seed, d, least)
					if put {
						least = priority
					}
				}
			}
			close(over)
			working.Wait()
		})
	}
}

// TestFrozenConsumer has a consumer hang with claims: the other goes on with the rest, and gets its
// items when its session has expired. What the frozen one does with them then is refused, and
// touches nothing.
func TestFrozenConsumer(t *testing.T) {
	bubble(t, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		put(t, open(t, s[2], nil), numbers(20)...)
		frozen := consume(t, open(t, s[0], nil), 8)
		held := next(t, frozen)
		kept := next(t, frozen)
		kit.Pass(time.Second)
		srv.Freeze(s[0].ID(), zktest.Both)
		began := time.Now()
		c := consume(t, open(t, s[1], nil), 4)
		seen, first := map[string]int{}, map[string]bool{}
		for _, item := range numbers(8) {
			first[item] = true // claimed by the frozen one
		}
	loop:
		for range 20 {
			select {
			case item := <-c.Items():
				seen[string(item.Data)] = item.Attempt
				if late := time.Since(began) > time.Second; late != first[string(item.Data)] {
					t.Errorf("after %v: %+v", time.Since(began), item)
				}
				check.Must(t, item.Ack(t.Context()))
			case <-time.After(time.Minute): // the frozen one has one in its next session
				break loop
			}
		}
		check.True(t, len(seen) >= 19, "delivered: %v", seen)
		srv.Thaw(s[0].ID())
		kit.Pass(time.Minute)
		paths := srv.Paths()
		for what, settle := range map[string]error{"Ack": held.Ack(t.Context()), "Reject": held.Reject(t.Context()), "Ack of another's": kept.Ack(t.Context())} {
			check.True(t, errors.Is(settle, queue.ErrNotClaimed), "a late %s: %v", what, settle)
		}
		check.EqualSlices(t, srv.Paths(), paths, "nodes")
	})
}

// TestRequests counts what each command costs when the handle is warm.
func TestRequests(t *testing.T) {
	slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		put(t, q, "the first makes directories")
		drain(t, q)
		put(t, q, "of another bucket")
		drain(t, q)
		costs := func(what string, want zktest.Counts, f func()) {
			t.Helper()
			kit.Pass(time.Second)
			srv.ResetRequests()
			f()
			kit.Pass(time.Second)
			got := srv.Requests()
			delete(got, zktest.OpPing)
			delete(got, zktest.OpSync) // of the session
			check.True(t, fmt.Sprint(got) == fmt.Sprint(want), "%s: %v, want %v", what, got, want)
		}
		costs("Put", zktest.Counts{zktest.OpMulti: 1}, func() { put(t, q, "x") })
		costs("PutAll", zktest.Counts{zktest.OpMulti: 1}, func() {
			putAll(t, q, numbers(300)...)
		})
		costs("Take of 301, with a list", zktest.Counts{zktest.OpGetData: 301, zktest.OpMulti: 301, zktest.OpGetChildren2: 1}, func() {
			for range 301 {
				check.Have(q.Take(t.Context()))(t)
			}
		})
		putAll(t, q, numbers(640)...)
		const batch = 64
		var c *queue.Consumer
		// Of many acknowledgements at once the first goes alone, and the others together, and so do
		// the next claims. The queue is listed at the start and at the end, where the consumer
		// stands in line; the buckets are listed each second, as delayed items may be due. The
		// first claims are refused, because their directory is missing.
		costs("consumption of 640", zktest.Counts{
			zktest.OpGetData: 640, zktest.OpMulti: 40, zktest.OpGetChildren2: 17, zktest.OpCreate: 3, zktest.OpCreateContainer: 2,
		}, func() {
			c = consume(t, q, batch)
			for range 10 {
				var items []queue.Item
				for range batch {
					items = append(items, next(t, c))
				}
				kit.Pass(time.Second)
				done := make(chan error, batch)
				for _, item := range items {
					go func() { done <- item.Ack(t.Context()) }()
				}
				for range batch {
					check.Must(t, <-done)
				}
			}
		})
		c.Close()
	})
}

// TestLatePut has the transaction that makes a bucket arrive when others have changed what is
// there. No bucket may take items beside a newer one: they would come before older ones.
func TestLatePut(t *testing.T) {
	// One item is left in the first bucket, which is sealed, and has no successor.
	sealed := func(t *testing.T, q *queue.Queue, srv *zktest.Server) *queue.Consumer {
		putAll(t, q, numbers(1000)...)
		put(t, q, "makes the second bucket")
		c := consume(t, q, 1)
		next(t, c)
		drain(t, q)
		srv.Reap()
		return c
	}
	// The newest bucket is made, filled, sealed, emptied and deleted.
	turns := func(t *testing.T, q *queue.Queue) {
		putAll(t, q, numbers(1000)...)
		put(t, q, "behind")
		for range 1000 {
			check.Have(q.Take(t.Context()))(t)
		}
		length(t, q)
		kit.Pass(time.Second)
	}
	for name, meanwhile := range map[string]func(t *testing.T, q *queue.Queue, srv *zktest.Server) func(){
		"the first bucket comes back": func(t *testing.T, q *queue.Queue, _ *zktest.Server) func() {
			return func() { turns(t, q) }
		},
		"a later bucket comes back": func(t *testing.T, q *queue.Queue, srv *zktest.Server) func() {
			c := sealed(t, q, srv)
			return func() {
				turns(t, q)
				c.Close()
				check.Have(q.Take(t.Context()))(t)
			}
		},
		"the bucket before it goes": func(t *testing.T, q *queue.Queue, srv *zktest.Server) func() {
			c := sealed(t, q, srv)
			return func() {
				c.Close()
				drain(t, q)
				srv.Reap()
				put(t, q, "behind")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				late, others := open(t, s[0], nil), open(t, s[1], nil)
				check.Have(others.PutAfter(t.Context(), []byte("keeps the directory"), 24*time.Hour))(t)
				change := meanwhile(t, others, srv)
				srv.Delay(zktest.Match{Op: zktest.OpMulti, Session: s[0].ID(), Path: at + "/items/*"}, 5*time.Second)
				done := beginPut(t.Context(), late, "late")
				kit.Pass(time.Second)
				change()
				check.Must(t, <-done)
				put(t, others, "by another")
				put(t, late, "last")
				check.EqualSlices(t, drain(t, others), []string{"behind", "late", "by another", "last"}, "taken")
			})
		})
	}
}
