package group_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/demo"
	"github.com/zkactors/zkactors/primitives/group"
)

// A member that looks at the others while it works. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleMembership_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, end := demo.Session()
	defer end()

	m := demo.Must(group.Join(s, "/groups/workers", "host-1", nil, nil))
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
				fmt.Println(m.Leave(ctx))
			}
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	// Output:
	// alone: host-1
	// <nil>
	// left: <nil>
}
