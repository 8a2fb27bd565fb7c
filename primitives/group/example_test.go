package group_test

import (
	"context"
	"fmt"

	"github.com/zkactors/zkactors/internal/demo"
	"github.com/zkactors/zkactors/primitives/group"
)

// One who looks on sees a member join, say something else of itself, and leave.
func ExampleJoin() {
	ctx := context.Background()
	s, end := demo.Session()
	defer end()

	g := demo.Must(group.Watch(s, "/groups/workers", nil))
	defer g.Close()
	fmt.Println(<-g.Events())
	m := demo.Must(group.Join(s, "/groups/workers", "host-1", []byte("10.0.0.7:80"), nil))
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
