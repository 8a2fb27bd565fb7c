package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRealSemaphore plays on three servers what the bubbles play in memory.
func TestRealSemaphore(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	ctx := check.Patient(t)
	connect := func(addrs []string) *session.Session {
		return check.Open(session.Open(ctx, addrs, &session.Options{Timeout: 40 * time.Second, ServerTick: 100 * time.Millisecond}))(t)
	}
	direct := connect(ens.Addrs())
	var all []*session.Session
	for range 3 {
		all = append(all, connect(proxy.Addrs()))
	}

	t.Run("cost", func(t *testing.T) {
		const cycles = 30
		check.Must(t, semaphore.SetLimit(ctx, direct, "/cost", 10))
		if _, err := direct.Create(ctx, "/cost/leases", nil, session.Persistent); err != nil { // a container would be reaped
			t.Fatal(err)
		}
		cycle := func() {
			check.Must(t, semaphore.Do(ctx, all[0], "/cost", 10, nil, func(context.Context) error { return nil }))
		}
		for range 2 { // warms the path, and sets the watches on what is beside the line
			cycle()
		}
		before := ens.Proposals()
		proxy.ResetRequests()
		for range cycles {
			cycle()
		}
		made, requests := ens.Proposals()-before, proxy.Requests()
		heartbeats := requests[zktest.OpCheck] // answered before the last release, so all of them are proposed
		check.Equal(t, made, 2*cycles+heartbeats, "proposals for", cycles, "cycles")
		check.Equal(t, kit.WithoutSyncs(requests).Total(), 3*cycles, "requests for", cycles, "cycles", requests)
	})

	t.Run("two of two", func(t *testing.T) {
		var wg sync.WaitGroup
		var holders atomic.Int32
		for _, s := range all {
			wg.Go(func() {
				for range 50 {
					if err := semaphore.Do(ctx, s, "/two", 2, weight(2), func(context.Context) error {
						check.Equal(t, holders.Add(1), 1, "holders of two of two")
						holders.Add(-1)
						return nil
					}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})

	t.Run("weights", func(t *testing.T) {
		const limit = 5
		var wg sync.WaitGroup
		var sum atomic.Int32
		for i := range 12 {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			wg.Go(func() {
				for range 20 {
					w := int32(1 + r.IntN(limit))
					if err := semaphore.Do(ctx, all[i%len(all)], "/weights", limit, weight(int(w)), func(context.Context) error {
						check.AtMost(t, sum.Add(w), limit, "held")
						if r.IntN(10) == 0 {
							proxy.Disconnect(all[r.IntN(len(all))].ID())
						}
						sum.Add(-w)
						return nil
					}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})

	t.Run("numbers", func(t *testing.T) {
		const limit = 4
		var used [limit]atomic.Int32
		var wg sync.WaitGroup
		for i := range 12 {
			r := rand.New(rand.NewPCG(uint64(i), 2))
			wg.Go(func() {
				for range 15 {
					l, err := semaphore.Acquire(ctx, all[i%len(all)], "/numbers", limit, &semaphore.Options{Numbered: true})
					if err != nil {
						t.Error(err)
						return
					}
					n := l.Number()
					check.Equal(t, used[n].Add(1), 1, "leases have the number", n)
					if r.IntN(10) == 0 {
						proxy.Disconnect(all[r.IntN(len(all))].ID())
					}
					used[n].Add(-1)
					l.Close()
				}
			})
		}
		wg.Wait()
	})

	t.Run("limit", func(t *testing.T) {
		var leases []*semaphore.Lease
		for i := range 6 {
			l := check.Open(semaphore.New(all[i%len(all)], "/limit", 2, nil))(t)
			ev := <-l.Events()
			_, waits := ev.(semaphore.Waiting)
			_, holds := ev.(semaphore.Acquired)
			check.True(t, holds == (i < 2) && waits == (i >= 2), "%d: %v", i, ev)
			leases = append(leases, l)
		}
		acquired := func(i int) {
			t.Helper()
			for ev := range leases[i].Events() {
				if _, ok := ev.(semaphore.Acquired); ok {
					return
				}
			}
			t.Errorf("%d is lost: %v", i, leases[i].Err())
		}
		check.Must(t, semaphore.SetLimit(ctx, direct, "/limit", 4))
		acquired(2)
		acquired(3)
		check.Fails(semaphore.Acquire(ctx, direct, "/limit", 2, nil))(t, semaphore.ErrLimit) // the old limit
		check.Must(t, semaphore.SetLimit(ctx, direct, "/limit", 1))
		for _, i := range []int{3, 0, 2, 1} {
			check.True(t, leases[i].ID() != 0, "%d holds no lease", i)
			leases[i].Close()
		}
		acquired(4)
		leases[4].Close()
		acquired(5)
		check.Must(t, all[2].Sync(ctx, "/limit")) // its server may be behind
		if holders, err := semaphore.Holders(ctx, all[2], "/limit"); err != nil || len(holders) != 1 || holders[0].Node != leases[5].Node() {
			t.Errorf("%+v, %v", holders, err)
		}
	})

	t.Run("expiry", func(t *testing.T) {
		doomed := check.Open(session.Open(ctx, proxy.Addrs(), &session.Options{Timeout: 2 * time.Second, ServerTick: 100 * time.Millisecond}))(t)
		id := doomed.ID()
		holder := check.Open(semaphore.Acquire(ctx, doomed, "/expiry", 1, nil))(t)
		proxy.Freeze(id, zktest.Both)
		check.Open(semaphore.Acquire(ctx, direct, "/expiry", 1, nil))(t)
		check.False(t, kit.Counts(doomed, id), "the next holds a lease, and the frozen holder counts on its own")
		<-holder.Done()
		proxy.Thaw(0)
	})

	t.Run("lost replies", func(t *testing.T) {
		for skip := range 6 {
			name := fmt.Sprintf("/lost-%d", skip)
			proxy.DropReply(zktest.Match{Session: all[0].ID(), Skip: skip})
			for _, w := range []int{1, 2} {
				l := check.Have(semaphore.Acquire(ctx, all[0], name, 2, weight(w)))(t)
				l.Close()
			}
			check.OK(t, proxy.AwaitFault(check.Patience))
			check.Must(t, direct.Sync(ctx, "/"))
			if names, _, err := direct.Children(ctx, name+"/leases"); err != nil && !errors.Is(err, session.ErrNoNode) || len(names) != 0 {
				t.Errorf("%d: %q are left, %v", skip, names, err)
			}
		}
	})
}
