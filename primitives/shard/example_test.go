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

// A member owns all shards, until another one comes; it gives what that is to have.
func ExampleJoin() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	a := must(session.Open(ctx, srv.Addrs(), nil))
	defer a.Close()
	b := must(session.Open(ctx, srv.Addrs(), nil))
	defer b.Close()

	first := must(shard.Join(a, "/shards/orders", 4, &shard.Options{ID: "host-1"}))
	defer first.Close()
	await(first, 4)
	fmt.Println("host-1 owns", first.Owned())
	second := must(shard.Join(b, "/shards/orders", 4, &shard.Options{ID: "host-2"}))
	defer second.Close()
	await(first, 2)
	await(second, 2)
	fmt.Println("and then", len(first.Owned()), "and host-2", len(second.Owned()))
	// Output:
	// host-1 owns [0 1 2 3]
	// and then 2 and host-2 2
}

// await works until the member owns n shards, which takes no time here.
func await(m *shard.Member, n int) {
	owned := len(m.Owned())
	for owned != n {
		switch ev := (<-m.Events()).(type) {
		case shard.Assigned:
			owned++
		case shard.Revoke:
			m.Give(ev.Shard) // when its work is done
			owned--
		case shard.Lost:
			owned--
		case shard.Joined, shard.Suspended, shard.Resumed, shard.Gone, shard.Left:
		}
	}
}

// must returns the value. It ends the program if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// A service that works for its shards, each with a context that ends when another may own it. A
// closed channel is always ready: without ok, the loop would spin.
func ExampleMember_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	m := must(shard.Join(s, "/shards/orders", 2, nil))
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
