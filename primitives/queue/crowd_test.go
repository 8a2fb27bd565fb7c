package queue_test

import (
	"context"
	"fmt"
	"maps"
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

// crowd has n producers put at once, and waits for them.
func crowd(t *testing.T, n int, put func(i int) error) {
	t.Helper()
	var producing sync.WaitGroup
	for i := range n {
		producing.Go(func() {
			check.OK(t, put(i))
		})
	}
	producing.Wait()
}

// TestCrowd has many producers of one handle put at once: their requests grow linearly, and buckets
// stay small.
func TestCrowd(t *testing.T) {
	n := hasten.Sized(200, 50)
	for what, c := range map[string]struct {
		layout   queue.Layout
		opts     *queue.Options
		each     int
		requests int // beside 20 for the directories
	}{
		"one item":         {standard, nil, 1, 2},
		"batches":          {standard, nil, 50, n / 10},
		"large batches":    {standard, nil, 501, n},
		"bounded":          {standard, &queue.Options{MaxItems: n * 5}, 5, n},
		"Curator's layout": {queue.Curator, nil, 5, 3},
	} {
		t.Run(what, func(t *testing.T) {
			slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				q := anyQueue(open(t, s[0], c.opts))
				if c.layout != standard {
					q = flat(t, s[0], at, c.layout)
				}
				synctest.Wait()
				srv.ResetRequests()
				ids := make([][]string, n)
				crowd(t, n, func(i int) (err error) {
					ids[i], err = q.PutAll(t.Context(), bytesOf(slices.Repeat([]string{fmt.Sprint(i)}, c.each)))
					return err
				})
				if got := srv.Requests(); got.Total() > c.requests+20 {
					t.Errorf("%d requests: %v", got.Total(), got)
				}
				inBuckets := map[string]int{}
				for _, p := range srv.Paths() {
					if bucket, _, is := strings.Cut(strings.TrimPrefix(p, at+"/items/"), "/_c_"); is && strings.HasPrefix(p, at+"/items/") {
						inBuckets[bucket]++
					}
				}
				for bucket, items := range inBuckets {
					check.True(t, items <= 1000+4*max(500, c.each), "%d items in %s", items, bucket)
				}
				check.Equal(t, length(t, q), n*c.each)
				all := slices.Concat(ids...)
				slices.Sort(all)
				check.Equal(t, len(slices.Compact(all)), n*c.each, "IDs")
			})
		})
	}
}

// TestDelayedCost puts items that are due in one minute: a transaction each, also after the bucket
// is gone.
func TestDelayedCost(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		put := func(n int, want zktest.Counts) {
			srv.ResetRequests()
			for range n {
				check.Have(q.PutAfter(t.Context(), []byte("x"), 10*time.Minute))(t)
			}
			if got := srv.Requests(); want != nil && !maps.Equal(got, want) {
				t.Errorf("%d items: %v, want %v", n, got, want)
			}
		}
		put(2, nil) // the second sees that the path is a queue
		put(8, zktest.Counts{zktest.OpMulti: 8})
		kit.Pass(30 * time.Minute)
		check.Equal(t, len(drain(t, q)), 10, "items")
		kit.Pass(5 * time.Minute) // until the server has removed the containers
		put(1, nil)
		kit.Pass(30 * time.Minute)
		check.Equal(t, len(drain(t, q)), 1, "items")
	})
}

// TestShortLivedProducers fill buckets that none of them has filled alone.
func TestShortLivedProducers(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		const each = 500
		n := hasten.Sized(12, 4)
		for range n {
			q := open(t, s[0], nil)
			putAll(t, q, numbers(each)...)
			check.Must(t, q.Close(t.Context()))
		}
		check.Equal(t, len(left(srv, "items")), n*each/1000, "buckets")
		q := open(t, s[0], nil)
		check.EqualSlices(t, drain(t, q), slices.Repeat(numbers(each), n), "taken")
	})
}

// TestCrowdLeaves has callers leave while they wait for the transaction of others, and while it is
// under way.
func TestCrowdLeaves(t *testing.T) {
	slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		put(t, q, "first")
		leaves := func(after time.Duration) (gone error) {
			ctx, cancel := context.WithCancel(t.Context())
			a, b, c := beginPut(t.Context(), q, "a"), beginPut(ctx, q, "b"), beginPut(t.Context(), q, "c")
			time.AfterFunc(after, cancel)
			gone = <-b
			check.Must(t, <-a)
			check.Must(t, <-c)
			return gone
		}
		undone(t, leaves(0), context.Canceled)
		check.EqualSlices(t, drain(t, q), []string{"first", "a", "c"}, "put")
		check.Is(t, leaves(12*time.Millisecond), session.ErrUnknownOutcome) // while the transaction of b and c is under way
		check.EqualSlices(t, drain(t, q), []string{"a", "b", "c"}, "put")
	})
}

// TestCrowdTakes has many takers drain a queue: each reads its item, and they share transactions.
func TestCrowdTakes(t *testing.T) {
	const n, takers = 1920, 64
	for what, layout := range map[string]queue.Layout{"standard": standard, "Curator's": queue.Curator} {
		t.Run(what, func(t *testing.T) {
			slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				q := openAs(t, s[0], at, layout)
				putAll(t, q, numbers(n+takers)...)
				first := takeOne(t, q)
				srv.ResetRequests()
				taken := make([][]string, takers)
				crowd(t, takers, func(i int) error {
					for range n / takers {
						taken[i] = append(taken[i], takeOne(t, q))
					}
					return nil
				})
				got := srv.Requests()
				check.AtMost(t, got[zktest.OpMulti], n/16, "transactions")
				check.AtMost(t, got.Total(), n+n/16+5, "requests")
				all := slices.Concat(append(taken, []string{first}, drain(t, q))...)
				slices.Sort(all)
				want := numbers(n + takers)
				slices.Sort(want)
				check.EqualSlices(t, all, want, "taken")
			})
		})
	}
}

// TestCrowdTakesAgain has many takers drain items of which every second one was claimed before,
// while there is no directory of claims: takers of the others do not wait for it.
func TestCrowdTakesAgain(t *testing.T) {
	const n = 60
	slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		putAll(t, q, numbers(n)...)
		c := consume(t, q, n)
		for i := range n {
			if item := next(t, c); i%2 == 0 {
				check.Must(t, item.RejectAfter(t.Context(), 0, nil))
			} else {
				check.Must(t, item.Ack(t.Context()))
			}
		}
		c.Close()
		putAll(t, q, numbers(n)...)
		check.Must(t, s[0].Delete(t.Context(), at+"/claims", session.AnyVersion))
		srv.ResetRequests()
		var mu sync.Mutex
		seen := map[string]int{}
		crowd(t, n, func(i int) error {
			for range 1 + (i+1)%2 {
				data, err := q.TryTake(t.Context())
				if err != nil {
					return err
				}
				mu.Lock()
				seen[string(data)]++
				mu.Unlock()
			}
			return nil
		})
		for i, x := range numbers(n) {
			check.Equal(t, seen[x], 1+(i+1)%2, x)
		}
		check.AtMost(t, srv.Requests()[zktest.OpGetData], n*2, "reads")
	})
}

// TestFastReaders: readers that settle at once share transactions, each of which also claims the
// next items.
func TestFastReaders(t *testing.T) {
	const n, workers = 1000, 16
	bubbled(t, zktest.Config{Latency: 5 * time.Millisecond}, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		putAll(t, q, numbers(n)...)
		srv.ResetRequests()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var done atomic.Int64
		check.Is(t, q.Run(ctx, workers, func(context.Context, queue.Item) error {
			if done.Add(1) == n {
				stop()
			}
			return nil
		}), context.Canceled)
		got := srv.Requests()
		check.AtMost(t, got[zktest.OpMulti], n/10, "transactions")
		check.AtMost(t, got[zktest.OpGetData], n+workers, "reads")
	})
}

// TestRivals has four consumers work on one backlog. They read few items that another one claims.
func TestRivals(t *testing.T) {
	const n, consumers, workers = 3000, 4, 16
	bubbled(t, zktest.Config{Latency: 5 * time.Millisecond}, consumers, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		check.Have(open(t, s[0], nil).PutAll(t.Context(), bytesOf(numbers(n))))(t)
		srv.ResetRequests()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var mu sync.Mutex
		seen := map[string]int{}
		crowd(t, consumers, func(i int) error {
			err := open(t, s[i], nil).Run(ctx, workers, func(_ context.Context, item queue.Item) error {
				mu.Lock()
				defer mu.Unlock()
				if seen[string(item.Data)]++; len(seen) == n {
					stop()
				}
				return nil
			})
			if ctx.Err() == nil {
				return err
			}
			return nil
		})
		for x, times := range seen {
			check.True(t, times <= 1, "%s was delivered %d times", x, times)
		}
		got := srv.Requests()
		t.Logf("%d requests for %d items: %v", got.Total(), n, got)
		reads, multis := got[zktest.OpGetData], got[zktest.OpMulti] // how many workers share a transaction is chance
		if reads > n*5/4 || multis > n/2 || got.Total()-reads-multis > n/10 {
			t.Errorf("%d requests for %d items: %v", got.Total(), n, got)
		}
	})
}

// TestCrowdInTrouble has producers and takers of one handle lose replies, requests, callers and
// their session.
func TestCrowdInTrouble(t *testing.T) {
	for what, opts := range map[string]*queue.Options{"no bound": nil, "a bound": {MaxItems: 30}, "Kazoo's": nil} {
		t.Run(what, func(t *testing.T) {
			slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				q := anyQueue(open(t, s[0], opts))
				if what == "Kazoo's" {
					q = flat(t, s[0], at, queue.Kazoo)
				}
				const n, each = 16, 12
				books := newLedger()
				leaving := func(i, j int) (context.Context, context.CancelFunc) {
					if (i+j)%5 > 0 {
						return context.WithCancel(t.Context())
					}
					return context.WithTimeout(t.Context(), time.Duration(3*i+j)*time.Millisecond)
				}
				puts := func(i, j int) {
					ctx, cancel := leaving(i, j)
					defer cancel()
					data := fmt.Sprintf("%d/%d", i, j)
					_, err := q.Put(ctx, []byte(data))
					check.True(t, err == nil || session.InDoubt(err) || ctx.Err() != nil, "put %s: %v", data, err)
					if err == nil || session.InDoubt(err) {
						books.noted(func() { books.entered(data, err == nil) })
					}
				}
				takes := func(i, j int) error {
					ctx, cancel := leaving(i, j)
					defer cancel()
					some, err := [][]byte{nil}, error(nil)
					if many, is := q.(*queue.Queue); is && i%4 == 3 { // these wait
						ctx, stop := context.WithTimeout(t.Context(), time.Duration(5+3*i+j)*time.Millisecond)
						defer stop()
						some, err = many.TakeN(ctx, 1+j%5)
						check.True(t, err == nil || ctx.Err() != nil || session.InDoubt(err), "TakeN: %v", err)
					} else {
						some[0], err = q.TryTake(ctx)
						check.True(t, err == nil || ctx.Err() != nil || session.InDoubt(err) || isEmpty(err), "TryTake: %v", err)
					}
					books.noted(func() {
						for _, data := range some {
							books.left(string(data), err, books.taken)
						}
					})
					return err
				}
				var working, producing sync.WaitGroup
				for i := range n {
					producing.Go(func() {
						for j := range each {
							puts(i, j)
						}
					})
				}
				produced := make(chan struct{})
				go func() { producing.Wait(); close(produced) }()
				for i := range n {
					working.Go(func() {
						for j := 0; ; j++ {
							if err := takes(i, j); err == nil || session.InDoubt(err) {
								continue
							}
							select {
							case <-produced:
								return
							case <-time.After(7 * time.Millisecond):
							}
						}
					})
				}
				for i := range 40 {
					kit.Pass(8 * time.Millisecond)
					switch i % 4 {
					case 0:
						srv.DropReply(zktest.Match{Op: zktest.OpMulti, Skip: i % 3})
					case 1:
						srv.DropRequest(zktest.Match{Op: zktest.OpMulti})
					case 2:
						srv.Disconnect(0)
					}
					if i == 21 {
						srv.Expire(s[0].ID())
					}
				}
				working.Wait()
				srv.ClearFaults()
				for _, data := range drain(t, q) {
					books.left(data, nil, books.taken)
				}
				books.check(t)
				check.Must(t, q.Close(t.Context()))
				for _, dir := range []string{"receipts", "_queue-receipts", "producers", "waiters", "claims"} {
					check.Len(t, left(srv, dir), 0, dir)
				}
			})
		})
	}
}
