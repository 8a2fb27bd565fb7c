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

// One who looks on sees a member join, say something else of itself, and leave.
func ExampleJoin() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	g := must(group.Watch(s, "/groups/workers", nil))
	defer g.Close()
	fmt.Println(<-g.Events())
	m := must(group.Join(s, "/groups/workers", "host-1", []byte("10.0.0.7:80"), nil))
	defer m.Close()
	fmt.Println(<-g.Events())
	fmt.Println(m.Update(ctx, []byte("10.0.0.7:8080")))
	fmt.Println(<-g.Events())
	fmt.Println(m.Leave(ctx))
	fmt.Println(<-g.Events())
	// Output:
	// members=[] added=[] changed=[] removed=[]
	// members=[host-1="10.0.0.7:80"] added=[host-1] changed=[] removed=[]
	// <nil>
	// members=[host-1="10.0.0.7:8080"] added=[] changed=[host-1] removed=[]
	// <nil>
	// members=[] added=[] changed=[] removed=[host-1]
}

// must returns the value. It ends the program if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// A member that looks at the others while it works. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleMembership_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	m := must(group.Join(s, "/groups/workers", "host-1", nil, nil))
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
