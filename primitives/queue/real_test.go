package queue_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var campaign = flag.Bool("queue.campaign", false, "queues of the size that was promised: a backlog of 100,000, a soak of 50,000, 200,000 items for ten consumers, two minutes of killed processes, and ten times the seeds")

// seeds returns how many worlds of chance to try.
func seeds(full, short uint64) uint64 {
	if *campaign {
		return 10 * full
	}
	return hasten.Sized(hasten.Usually(full, (full+2)/3), short)
}

// TestRealSoak works on three servers, whose replies are lost and connections cut, and one of which
// is restarted.
func TestRealSoak(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	each := 100
	if *campaign {
		each = 1000
	}
	worked := 0 // transactions before connections were cut last
	soak(t, proxy, func() *session.Session {
		s, err := session.Open(t.Context(), proxy.Addrs(), &session.Options{Timeout: 10 * time.Second, ServerTick: 100 * time.Millisecond})
		if err != nil {
			panic(err)
		}
		return s
	}, 3, 1, 3, each, func(ctx context.Context, i int) {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
		switch {
		case i == 20:
			if err := ens.RestartContext(ctx, 0); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		case i%5 == 0:
			// On a busy machine, cuts that outran the work would have it never end.
			if n := proxy.Requests()[zktest.OpMulti]; n >= worked+10 {
				worked = n
				proxy.Disconnect(0)
			}
		default:
			// Faults that outran requests would have every reply lost.
			if proxy.AwaitFault(time.Millisecond) == nil {
				proxy.DropReply(zktest.Match{Op: zktest.OpMulti, Skip: rand.IntN(10)})
			}
		}
	})
}

// TestRealBacklog drains a backlog that cannot be listed in one reply of ZooKeeper's own client.
func TestRealBacklog(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	backlog(t, ens.Addrs(), func() {})
}

// TestBacklog is the same in memory, where requests are counted.
func TestBacklog(t *testing.T) {
	srv := zktest.Start(t)
	n := backlog(t, srv.Addrs(), srv.ResetRequests)
	perItem := float64(srv.Requests().Total()) / float64(n)
	t.Logf("%.3f requests for each item that was consumed: %v", perItem, srv.Requests())
	check.True(t, perItem <= 1.1, "%.3f requests for each item: a read, and its share of lists and transactions", perItem)
}

// backlog puts and consumes a backlog, and returns how many items it had.
func backlog(t *testing.T, addrs []string, put func()) (n int) {
	t.Helper()
	n = hasten.Sized(hasten.Usually(10_000, 3000), 2000)
	if *campaign {
		n = 100_000
	}
	s := check.Have(session.Open(t.Context(), addrs, nil))(t)
	defer s.Close()
	began := time.Now()
	q := open(t, s, nil)
	for i := 0; i < n; i += 500 {
		var batch []string
		for j := range 500 {
			batch = append(batch, fmt.Sprint(i+j))
		}
		check.Have(q.PutAll(t.Context(), bytesOf(batch)))(t)
	}
	check.Equal(t, length(t, q), n)
	t.Logf("put in %v", time.Since(began))
	put()
	began = time.Now()
	c := consume(t, q, 256)
	defer c.Close()
	var acks sync.WaitGroup // of as many as are prefetched
	for i := range n {
		item := <-c.Items()
		if string(item.Data) != fmt.Sprint(i) {
			t.Fatalf("item %d is %q: %v", i, item.Data, c.Err())
		}
		acks.Go(func() {
			check.OK(t, item.Ack(t.Context()))
		})
	}
	acks.Wait()
	t.Logf("consumed in %v", time.Since(began))
	check.Equal(t, length(t, q), 0)
	return n
}

// TestRealConsumers has ten consumers, each with a session of its own, do 200,000 items, a fortieth
// or less without a campaign, on three servers. One in a hundred is rejected at first.
func TestRealConsumers(t *testing.T) {
	t.Parallel()
	const consumers, workers = 10, 16
	n := hasten.Usually(5000, 2000)
	if *campaign {
		n = 200_000
	}
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	connect := func() *session.Session {
		s := check.Have(session.Open(t.Context(), ens.Addrs(), nil))(t)
		return s
	}
	producer := connect()
	defer producer.Close()
	q := open(t, producer, nil)
	var putting, working sync.WaitGroup
	began := time.Now()
	const batch = 250
	for i := range 8 {
		putting.Go(func() {
			for first := i * batch; first < n; first += 8 * batch {
				var data []string
				for j := range min(batch, n-first) {
					data = append(data, strconv.Itoa(first+j))
				}
				_, err := q.PutAll(t.Context(), bytesOf(data))
				check.OK(t, err)
			}
		})
	}
	putting.Wait()
	put := time.Since(began)
	began = time.Now()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	received := make([]atomic.Int32, n)
	var done atomic.Int32
	share := make([]int, consumers)
	for i := range consumers {
		working.Go(func() {
			s := connect()
			defer s.Close()
			var mine atomic.Int32
			err := open(t, s, nil).Run(ctx, workers, func(_ context.Context, item queue.Item) error {
				x := check.Have(strconv.Atoi(string(item.Data)))(t)
				times := received[x].Add(1)
				check.True(t, int(times) == item.Attempt, "item %d: attempt %d in delivery %d", x, item.Attempt, times)
				if x%100 == 0 && times == 1 {
					return errors.New("not this time")
				}
				mine.Add(1)
				if int(done.Add(1)) == n {
					stop()
				}
				return nil
			})
			check.Is(t, err, context.Canceled)
			share[i] = int(mine.Load())
		})
	}
	working.Wait()
	took := time.Since(began)
	for x := range received {
		want := int32(1)
		if x%100 == 0 {
			want = 2
		}
		if got := received[x].Load(); got != want {
			t.Errorf("item %d was delivered %d times, want %d", x, got, want)
		}
	}
	check.Equal(t, length(t, q), 0)
	dead := check.Have(queue.DeadLetters(t.Context(), producer, at, nil))(t)
	check.Len(t, list(t, dead), 0)
	t.Logf("%d items are put in %v, %.0f a second, and done in %v, %.0f a second; each consumer has done from %d to %d",
		n, put.Round(time.Millisecond), float64(n)/put.Seconds(), took.Round(time.Millisecond), float64(n)/took.Seconds(), slices.Min(share), slices.Max(share))
}

// TestRealPoison: on a real server, items that always fail do not keep good ones from being done.
func TestRealPoison(t *testing.T) {
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	s := check.Have(session.Open(t.Context(), ens.Addrs(), nil))(t)
	defer s.Close()
	q := open(t, s, nil)
	for range 16 {
		put(t, q, "poison")
	}
	put(t, q, numbers(100)...)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var good, bad atomic.Int64
	_ = q.Run(ctx, 8, func(_ context.Context, item queue.Item) error {
		if string(item.Data) == "poison" {
			bad.Add(1)
			return errors.New("no")
		}
		if good.Add(1) == 100 {
			stop()
		}
		return nil
	})
	check.True(t, good.Load() == 100 && bad.Load() <= 16*8, "%d of 100 good items are done, after %d deliveries of bad ones", good.Load(), bad.Load())
}
