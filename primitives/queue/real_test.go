package queue_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var campaign = flag.Bool("queue.campaign", false, "queues of the size that was promised: a backlog of 100,000, a soak of 50,000, two minutes of killed processes")

// TestRealSoak works on three servers, whose replies are lost and connections cut, and one of which
// is restarted.
func TestRealSoak(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	each := 100
	if *campaign {
		each = 1000
	}
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
			proxy.Disconnect(0)
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
	n = hasten.Sized(10_000, 2000)
	if *campaign {
		n = 100_000
	}
	s, err := session.Open(t.Context(), addrs, nil)
	ok(t, err)
	defer s.Close()
	began := time.Now()
	q := open(t, s, nil)
	for i := 0; i < n; i += 500 {
		var batch []string
		for j := range 500 {
			batch = append(batch, fmt.Sprint(i+j))
		}
		_, err := q.PutAll(t.Context(), bytesOf(batch))
		ok(t, err)
	}
	if got, err := q.Len(t.Context()); got != n || err != nil {
		t.Fatalf("Len: %d, %v", got, err)
	}
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
	if got, err := q.Len(t.Context()); got != 0 || err != nil {
		t.Errorf("Len: %d, %v", got, err)
	}
	return n
}
