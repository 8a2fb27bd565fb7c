package queue_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
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
	return hasten.Sized(hasten.Usually(full, (full+3)/4), short)
}

// steady are the options of sessions on real servers that nothing ends.
var steady = session.Options{Timeout: time.Minute, ServerTick: kit.Tick}

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
	soak(t, proxy, func() *session.Session { return kit.Open(t, proxy.Addrs(), &steady) }, 3, 1, 3, each, func(ctx context.Context, i int) {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
		switch {
		case i == 20:
			err := ens.RestartContext(ctx, 0)
			check.True(t, err == nil || ctx.Err() != nil, "%v", err)
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
	backlog(t, kit.Open(t, zktest.SharedEnsemble(t, 1).Addrs(), &steady), "/backlog", func() {})
}

// TestBacklog is the same in memory, where requests are counted.
func TestBacklog(t *testing.T) {
	bubbled(t, near, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		n := backlog(t, s[0], at, srv.ResetRequests)
		check.AtMost(t, float64(srv.Requests().Total()), 1.1*float64(n), "a read for each item, and its share of lists and transactions")
	})
}

// backlog puts and consumes a backlog, and returns how many items it had.
func backlog(t *testing.T, s *session.Session, path string, put func()) (n int) {
	t.Helper()
	n = hasten.Sized(hasten.Usually(10_000, 3000), 2000)
	if *campaign {
		n = 100_000
	}
	q := openAt(t, s, path, nil)
	want := numbers(n)
	for batch := range slices.Chunk(want, 500) {
		putAll(t, q, batch...)
	}
	check.Equal(t, length(t, q), n)
	put()
	c := consume(t, q, 256)
	var acks sync.WaitGroup // of as many as are prefetched
	for i := range n {
		item := <-c.Items()
		check.Require(t, string(item.Data) == want[i], "item %d is %q: %v", i, item.Data, c.Err())
		acks.Go(func() { check.OK(t, item.Ack(t.Context())) })
	}
	acks.Wait()
	check.Equal(t, length(t, q), 0)
	return n
}

// TestRealConsumers has ten consumers, each with a session of its own, do 200,000 items, a fortieth
// or less without a campaign, on three servers. One in a hundred is rejected at first.
func TestRealConsumers(t *testing.T) {
	t.Parallel()
	const consumers, workers, path = 10, 16, "/consumers"
	n := hasten.Usually(5000, 2000)
	if *campaign {
		n = 200_000
	}
	ens := zktest.SharedEnsemble(t, 3)
	producer := kit.Open(t, ens.Addrs(), &steady)
	q := openAt(t, producer, path, nil)
	batches := slices.Collect(slices.Chunk(numbers(n), 250))
	crowd(t, 8, func(i int) error {
		for ; i < len(batches); i += 8 {
			putAll(t, q, batches[i]...)
		}
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	received := make([]atomic.Int32, n)
	var done atomic.Int32
	var handles [consumers]*queue.Queue
	for i := range handles {
		handles[i] = openAt(t, kit.Open(t, ens.Addrs(), &steady), path, nil)
	}
	crowd(t, consumers, func(i int) error {
		err := handles[i].Run(ctx, workers, func(_ context.Context, item queue.Item) error {
			var x int
			check.Have(fmt.Sscanf(string(item.Data), "item %d", &x))(t)
			times := received[x].Add(1)
			check.True(t, int(times) == item.Attempt, "item %d: attempt %d in delivery %d", x, item.Attempt, times)
			if x%100 == 0 && times == 1 {
				return errors.New("not this time")
			}
			if int(done.Add(1)) == n {
				stop()
			}
			return nil
		})
		check.Is(t, err, context.Canceled)
		return nil
	})
	for x := range received {
		want := int32(1)
		if x%100 == 0 {
			want = 2
		}
		check.Equal(t, received[x].Load(), want, "deliveries of item", x)
	}
	check.Equal(t, length(t, q), 0)
	letters := check.Have(queue.DeadLetters(t.Context(), producer, path, nil))(t)
	check.Len(t, list(t, letters), 0)
}

// TestRealPoison: on a real server, items that always fail do not keep good ones from being done.
// Each comes as seldom as the backoff says, however long that takes.
func TestRealPoison(t *testing.T) {
	t.Parallel()
	const poison = 16
	q := openAt(t, kit.Open(t, zktest.SharedEnsemble(t, 1).Addrs(), &steady), "/poison", nil)
	putAll(t, q, slices.Repeat([]string{"poison"}, poison)...)
	putAll(t, q, numbers(100)...)
	ctx, stop := context.WithCancel(check.Patient(t))
	defer stop()
	var good, bad atomic.Int64
	began := time.Now()
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
	seconds := int64(time.Since(began) / time.Second)
	check.Equal(t, good.Load(), 100, "good items")
	check.AtMost(t, bad.Load(), poison*(2+int64(bits.Len64(uint64(seconds)+1))+seconds/30), "deliveries of bad ones in", seconds, "s")
}
