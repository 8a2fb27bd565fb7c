package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestFull refuses at once, or when the context ends, and puts nothing then.
func TestFull(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], &queue.Options{MaxItems: 2, RefuseWhenFull: true})
		put(t, q, "a", "b")
		check.Fails(q.Put(t.Context(), []byte("c")))(t, queue.ErrFull)
		patient := open(t, s[0], &queue.Options{MaxItems: 2})
		check.Fails(patient.PutAll(t.Context(), bytesOf(numbers(3))))(t, queue.ErrFull)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := patient.Put(ctx, []byte("c"))
		undone(t, err, context.DeadlineExceeded)
		check.EqualSlices(t, drain(t, q), []string{"a", "b"}, "taken")
		put(t, q, "d")
		check.EqualSlices(t, drain(t, q), []string{"d"}, "taken")
		put(t, q, "e", "f")
		done := beginPut(t.Context(), patient, "g")
		serve(t, q, queue.Item.Ack)
		check.Must(t, <-done)
	})
}

// TestRejectBesideProducers: a handle whose count of the items is old, since others have put some,
// gives back an item, and counts on.
func TestRejectBesideProducers(t *testing.T) {
	bubble(t, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		bounded := &queue.Options{MaxItems: 3}
		q := open(t, s[0], bounded)
		put(t, q, "a")
		put(t, open(t, s[1], bounded), "b")
		serve(t, q, queue.Item.Reject)
		put(t, q, "c")
		check.Equal(t, length(t, q), 3)
	})
}

// TestBoundOfAnotherTime: the directories of a queue are deleted when they are empty, with the
// version at which a producer has counted the items. Those that another producer makes may come to
// the same version, and be full.
func TestBoundOfAnotherTime(t *testing.T) {
	for _, expires := range []bool{false, true} {
		t.Run(fmt.Sprintf("expires=%v", expires), func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				bounded := &queue.Options{MaxItems: 2, RefuseWhenFull: true}
				early, late := open(t, s[0], bounded), open(t, s[1], bounded)
				put(t, early, "a")
				check.EqualSlices(t, drain(t, open(t, s[0], nil)), []string{"a"}, "taken")
				if expires {
					srv.Expire(s[0].ID())
				}
				kit.Pass(10 * time.Minute)
				check.Require(t, !slices.Contains(srv.Paths(), at+"/items"), "left behind: %q", srv.Paths())
				putAll(t, late, "b", "c")
				check.Fails(early.Put(t.Context(), []byte("d")))(t, queue.ErrFull)
				check.EqualSlices(t, drain(t, late), []string{"b", "c"}, "taken")
				put(t, early, "e", "f")
			})
		})
	}
}

// TestBoundByChance has chance put, take, reject, bury and redrive, at the same time, while replies
// are lost, sessions expire, and directories that are empty go: never are there too many items.
func TestBoundByChance(t *testing.T) {
	for seed := range seeds(8, 1) {
		bubbled(t, zktest.Config{Latency: time.Millisecond}, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			const most = 3
			r := rand.New(rand.NewPCG(seed, 7))
			var handles []*queue.Queue
			options := func(i int) *queue.Options {
				return &queue.Options{MaxItems: most, RefuseWhenFull: i >= 3, MaxAttempts: 2}
			}
			for i := range 6 {
				handles = append(handles, open(t, s[i%3], options(i)))
			}
			look := func(round int) {
				items := 0
				for _, p := range srv.Paths() {
					if strings.HasPrefix(p, at+"/items/") && strings.Count(p, "/") == strings.Count(at, "/")+3 {
						items++
					}
				}
				check.Require(t, items <= most, "seed %d, round %d: %d items", seed, round, items)
			}
			for round := range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				var working sync.WaitGroup
				for range r.IntN(8) {
					i, n, what := r.IntN(6), 1+r.IntN(most), r.IntN(12)
					delay := []time.Duration{0, time.Second, time.Minute}[r.IntN(3)]
					q := handles[i]
					working.Go(func() {
						switch {
						case what < 3:
							_, _ = q.TryTake(ctx)
						case what < 4:
							_, _ = q.TakeN(ctx, n)
						case what < 6:
							_, _ = q.PutAfter(ctx, []byte("later"), time.Minute)
						case what < 8:
							c := consume(t, q, n)
							defer c.Close()
							for range n {
								select {
								case item := <-c.Items():
									_ = item.RejectAfter(ctx, delay, nil)
								case <-ctx.Done():
								}
							}
						case what < 9:
							dead := letters(t, s[i%3], options(i)) //nolint:contextcheck // it has the one of the test
							_, _ = dead.RedriveAll(ctx)
							_ = dead.Close(ctx)
						default:
							_, _ = q.PutAll(ctx, bytesOf(numbers(n)))
						}
					})
				}
				switch r.IntN(4) {
				case 0:
					srv.DropReply(zktest.Match{Op: zktest.OpMulti, Skip: r.IntN(4)})
				case 1:
					srv.Expire(s[r.IntN(3)].ID())
				case 2:
					drain(t, handles[0])
				}
				worked := make(chan struct{})
				go func() { working.Wait(); close(worked) }()
				pause := time.Millisecond
				for working := true; working; pause += pause / 8 {
					look(round)
					select {
					case <-worked:
						working = false
					case <-time.After(pause):
					}
				}
				cancel()
				srv.ClearFaults()
				kit.Pass([]time.Duration{time.Second, time.Minute, 10 * time.Minute}[r.IntN(3)])
				look(round)
			}
		})
	}
}
