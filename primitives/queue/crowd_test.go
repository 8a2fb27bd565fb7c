package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
			if err := put(i); err != nil {
				t.Error(err)
			}
		})
	}
	producing.Wait()
}

// TestCrowd has many producers of one handle put at once: their requests grow linearly, and buckets stay small.
func TestCrowd(t *testing.T) {
	const n = 200
	for what, c := range map[string]struct {
		opts     *queue.Options
		each     int
		requests int // beside 20 for the directories
	}{
		"one item":         {nil, 1, 2},
		"batches":          {nil, 50, n / 10},
		"large batches":    {nil, 501, n},
		"bounded":          {&queue.Options{MaxItems: n * 5}, 5, n},
		"published layout": {&queue.Options{Layout: queue.Published}, 5, 3},
	} {
		t.Run(what, func(t *testing.T) {
			slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				q := open(t, s[0], c.opts)
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
					if items > 1000+4*max(500, c.each) {
						t.Errorf("%d items in %s", items, bucket)
					}
				}
				if total, err := q.Len(t.Context()); total != n*c.each || err != nil {
					t.Errorf("%d items, %v", total, err)
				}
				all := slices.Concat(ids...)
				slices.Sort(all)
				if unique := len(slices.Compact(all)); unique != n*c.each {
					t.Errorf("%d IDs", unique)
				}
			})
		})
	}
}

// TestShortLivedProducers fill buckets that none of them has filled alone.
func TestShortLivedProducers(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		const n, each = 12, 500
		for range n {
			q := open(t, s[0], nil)
			_, err := q.PutAll(t.Context(), bytesOf(numbers(each)))
			ok(t, err)
			ok(t, q.Close(t.Context()))
		}
		if got := len(left(srv, "items")); got != n*each/1000 {
			t.Errorf("%d buckets", got)
		}
		q := open(t, s[0], nil)
		equal(t, "taken", drain(t, q), slices.Repeat(numbers(each), n))
	})
}

// TestCrowdLeaves has callers leave while they wait for the transaction of others, and while it is under way.
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
