package group_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A member that looks at the others while it works. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleMembership_Events() {
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

	m, err := group.Join(s, "/groups/workers", "host-1", nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	for {
		select {
		case ev, ok := <-m.Events():
			if !ok { // after Left
				fmt.Println("left:", m.Err())
				return
			}
			if change, is := ev.(group.MembersChanged); is && len(change.Members) == 1 {
				fmt.Println("alone:", change.Members[0].ID)
				actors.Call(func() error { return m.Leave(ctx) }) // Left follows
			}
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	// Output:
	// alone: host-1
	// left: <nil>
}
