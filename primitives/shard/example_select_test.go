package shard_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A service that works for its shards, each with a context that ends when another may own it. A
// closed channel is always ready: without ok, the loop would spin.
func ExampleMember_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	srv, err := zktest.NewServer(zktest.Config{}) // a server in memory
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	s, err := session.Open(ctx, srv.Addrs(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	m, err := shard.Join(s, "/shards/orders", 2, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	stops := make(map[int]context.CancelFunc)
	for {
		select {
		case ev, ok := <-m.Events():
			if !ok { // after Left
				fmt.Println("left:", m.Err())
				return
			}
			switch ev := ev.(type) {
			case shard.Assigned:
				var work context.Context
				work, stops[ev.Shard] = m.Context(ctx, ev.Shard)
				fmt.Println("works for shard", ev.Shard, "of a good grant:", work.Err() == nil && ev.Token > 0)
				if len(stops) == 2 {
					actors.Call(func() error { return m.Leave(ctx) }) // the service ends
				}
			case shard.Revoke:
				stops[ev.Shard]() // and wait for the work
				m.Give(ev.Shard)
			case shard.Lost:
				stops[ev.Shard]()
			case shard.Joined, shard.Suspended, shard.Resumed, shard.Gone, shard.Left:
			}
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	// Unordered output:
	// works for shard 0 of a good grant: true
	// works for shard 1 of a good grant: true
	// left: <nil>
}
