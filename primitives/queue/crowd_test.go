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
				if total, err := q.Len(t.Context()); total != n*c.each || err != nil {
					t.Errorf("%d items, %v", total, err)
				}
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
				_, err := q.PutAfter(t.Context(), []byte("x"), 10*time.Minute)
				ok(t, err)
			}
			if got := srv.Requests(); want != nil && !maps.Equal(got, want) {
				t.Errorf("%d items: %v, want %v", n, got, want)
			}
		}
		put(2, nil) // the second sees that the path is a queue
		put(8, zktest.Counts{zktest.OpMulti: 8})
		pass(30 * time.Minute)
		check.Equal(t, len(drain(t, q)), 10, "items")
		pass(5 * time.Minute) // until the server has removed the containers
		put(1, nil)
		pass(30 * time.Minute)
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
			_, err := q.PutAll(t.Context(), bytesOf(numbers(each)))
			ok(t, err)
			ok(t, q.Close(t.Context()))
		}
		check.Equal(t, len(left(srv, "items")), n*each/1000, "buckets")
		q := open(t, s[0], nil)
		equal(t, "taken", drain(t, q), slices.Repeat(numbers(each), n))
	})
}

// TestCrowdLeaves has callers leave while they wait for the transaction of others, and while it is
// under way.
func TestCrowdLeaves(t *testing.T) {
	slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		put(t, q, "first")
		put := func(ctx context.Context, data string) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := q.Put(ctx, []byte(data))
				done <- err
			}()
			synctest.Wait()
			return done
		}

		put2 := func(leaves func(cancel func())) (gone, stays error) {
			ctx, cancel := context.WithCancel(t.Context())
			a := put(t.Context(), "a")
			b, c := put(ctx, "b"), put(t.Context(), "c")
			leaves(cancel)
			gone = <-b
			ok(t, <-a)
			return gone, <-c
		}
		gone, stays := put2(func(cancel func()) { cancel() })
		if gone == nil || session.InDoubt(gone) || stays != nil {
			t.Errorf("while it waits: %v, %v", gone, stays)
		}
		equal(t, "put", drain(t, q), []string{"first", "a", "c"})
		gone, stays = put2(func(cancel func()) {
			pass(12 * time.Millisecond) // until the transaction of b and c is under way
			cancel()
		})
		if !session.InDoubt(gone) || stays != nil {
			t.Errorf("while others go on: %v, %v", gone, stays)
		}
		equal(t, "put", drain(t, q), []string{"a", "b", "c"})
	})
}

// TestCrowdTakes has many takers drain a queue: each reads its item, and they share transactions.
func TestCrowdTakes(t *testing.T) {
	const n, takers = 1920, 64
	for what, layout := range map[string]queue.Layout{"standard": standard, "Curator's": queue.Curator} {
		t.Run(what, func(t *testing.T) {
			slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				q := openAs(t, s[0], layout)
				_, err := q.PutAll(t.Context(), bytesOf(numbers(n+takers)))
				ok(t, err)
				first, err := q.Take(t.Context())
				ok(t, err)
				srv.ResetRequests()
				taken := make([][]string, takers)
				crowd(t, takers, func(i int) error {
					for range n / takers {
						data, err := q.Take(t.Context())
						if err != nil {
							return err
						}
						taken[i] = append(taken[i], string(data))
					}
					return nil
				})
				got := srv.Requests()
				if got[zktest.OpMulti] > n/16 || got.Total() > n+n/16+5 {
					t.Errorf("%d requests: %v", got.Total(), got)
				}
				all := slices.Concat(append(taken, []string{string(first)}, drain(t, q))...)
				slices.Sort(all)
				want := numbers(n + takers)
				slices.Sort(want)
				equal(t, "taken", all, want)
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
		_, err := q.PutAll(t.Context(), bytesOf(numbers(n)))
		ok(t, err)
		c := consume(t, q, n)
		for i := range n {
			if item := next(t, c); i%2 == 0 {
				ok(t, item.RejectAfter(t.Context(), 0, nil))
			} else {
				ok(t, item.Ack(t.Context()))
			}
		}
		c.Close()
		_, err = q.PutAll(t.Context(), bytesOf(numbers(n)))
		ok(t, err)
		ok(t, s[0].Delete(t.Context(), at+"/claims", session.AnyVersion))
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
			if want := 1 + (i+1)%2; seen[x] != want {
				t.Errorf("%s was taken %d times, want %d", x, seen[x], want)
			}
		}
		if got := srv.Requests(); got[zktest.OpGetData] > n*2 {
			t.Errorf("%v", got)
		}
	})
}

// TestFastReaders: readers that settle at once share transactions, each of which also claims the
// next items.
func TestFastReaders(t *testing.T) {
	const n, workers = 1000, 16
	bubbled(t, zktest.Config{Latency: 5 * time.Millisecond}, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		_, err := q.PutAll(t.Context(), bytesOf(numbers(n)))
		ok(t, err)
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
		if got[zktest.OpMulti] > n/10 || got[zktest.OpGetData] > n+workers {
			t.Errorf("%v", got)
		}
	})
}

// TestRivals has four consumers work on one backlog. They read few items that another one claims.
func TestRivals(t *testing.T) {
	const n, consumers, workers = 3000, 4, 16
	bubbled(t, zktest.Config{Latency: 5 * time.Millisecond}, consumers, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		_, err := open(t, s[0], nil).PutAll(t.Context(), bytesOf(numbers(n)))
		ok(t, err)
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
				var mu sync.Mutex
				put, doubtful, taken := map[string]bool{}, map[string]bool{}, map[string]int{}
				const n, each = 16, 12
				var working, producing sync.WaitGroup
				leaving := func(i, j int) (context.Context, context.CancelFunc) {
					if (i+j)%5 > 0 {
						return context.WithCancel(t.Context())
					}
					return context.WithTimeout(t.Context(), time.Duration(3*i+j)*time.Millisecond)
				}
				for i := range n {
					producing.Go(func() {
						for j := range each {
							data := fmt.Sprintf("%d/%d", i, j)
							ctx, cancel := leaving(i, j)
							_, err := q.Put(ctx, []byte(data))
							cancel()
							mu.Lock()
							switch {
							case err == nil:
								put[data] = true
							case session.InDoubt(err):
								doubtful[data] = true
							case ctx.Err() == nil:
								t.Errorf("put %s: %v", data, err)
							}
							mu.Unlock()
						}
					})
				}
				produced := make(chan struct{})
				go func() { producing.Wait(); close(produced) }()
				for i := range n {
					working.Go(func() {
						for j := 0; ; j++ {
							ctx, cancel := leaving(i, j)
							many, takesN := q.(*queue.Queue)
							if takesN = takesN && i%4 == 3; takesN { // these wait
								cancel()
								ctx, cancel = context.WithTimeout(t.Context(), time.Duration(5+3*i+j)*time.Millisecond)
							}
							var some [][]byte
							var err error
							if takesN {
								some, err = many.TakeN(ctx, 1+j%5)
							} else {
								some = make([][]byte, 1)
								some[0], err = q.TryTake(ctx)
							}
							cancel()
							mu.Lock()
							switch {
							case err == nil:
								for _, data := range some {
									taken[string(data)]++
								}
							case session.InDoubt(err):
								for _, data := range some {
									doubtful[string(data)] = true
								}
							case !isEmpty(err) && ctx.Err() == nil:
								t.Errorf("take: %v", err)
							}
							mu.Unlock()
							if err == nil || session.InDoubt(err) {
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
					pass(8 * time.Millisecond)
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
					taken[data]++
				}
				for data, times := range taken {
					if times != 1 || !put[data] && !doubtful[data] {
						t.Errorf("%s was taken %d times, put %t", data, times, put[data])
					}
				}
				for data := range put {
					check.False(t, taken[data] == 0 && !doubtful[data], "%s is lost", data)
				}
				ok(t, q.Close(t.Context()))
				for _, dir := range []string{"receipts", "_queue-receipts", "producers", "waiters", "claims"} {
					if left := left(srv, dir); len(left) > 0 {
						t.Errorf("left behind: %q", left)
					}
				}
			})
		})
	}
}
