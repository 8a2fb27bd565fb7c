package queue_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var campaign = flag.Bool("queue.campaign", false, "queues of the size that was promised: a backlog of 100,000, soaks of 10,000")

// TestRealSoak works on three servers, whose replies are lost and connections cut, and one of which is restarted.
func TestRealSoak(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 3)
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
			proxy.DropReply(zktest.Match{Op: zktest.OpMulti, Skip: rand.IntN(10)})
		}
	})
}

// TestRealBacklog drains a backlog that cannot be listed in one reply of ZooKeeper's own client.
func TestRealBacklog(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 1)
	backlog(t, ens.Addrs(), nil)
}

// TestBacklog is the same in memory.
func TestBacklog(t *testing.T) {
	srv := zktest.Start(t)
	backlog(t, srv.Addrs(), nil)
}

func backlog(t *testing.T, addrs []string, opts *session.Options) {
	n := 10_000
	if *campaign {
		n = 100_000
	}
	s, err := session.Open(t.Context(), addrs, opts)
	ok(t, err)
	defer s.Close()
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
	c := consume(t, q, 256)
	defer c.Close()
	var acks sync.WaitGroup // of as many as are prefetched
	for i := range n {
		item := <-c.Items()
		if string(item.Data) != fmt.Sprint(i) {
			t.Fatalf("item %d is %q: %v", i, item.Data, c.Err())
		}
		acks.Go(func() {
			if err := item.Ack(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	acks.Wait()
	if got, err := q.Len(t.Context()); got != 0 || err != nil {
		t.Errorf("Len: %d, %v", got, err)
	}
}
