package shard_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/demo"
	"github.com/zkactors/zkactors/primitives/shard"
)

// A service that works for its shards, each with a context that ends when another may own it. A
// closed channel is always ready: without ok, the loop would spin.
func ExampleMember_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, end := demo.Session()
	defer end()

	m := demo.Must(shard.Join(s, "/shards/orders", 2, nil))
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
					go func() { _ = m.Leave(ctx) }() // the service ends
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
