package watch_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// A node is watched whether or not it is there.
func ExampleNode() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	w := must(watch.Node(s, "/config", nil))
	defer w.Close()
	fmt.Println((<-w.Changes()).Exists)
	must(s.Create(ctx, "/config", []byte("one"), session.Persistent))
	fmt.Printf("%s\n", (<-w.Changes()).Data)
	must(s.Set(ctx, "/config", []byte("two"), session.AnyVersion))
	fmt.Printf("%s\n", (<-w.Changes()).Data)
	// Output:
	// false
	// one
	// two
}

func ExampleChildren() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()
	must(s.Create(ctx, "/services", nil, session.Persistent))
	must(s.Create(ctx, "/services/api", nil, session.Persistent))

	w := must(watch.Children(s, "/services", nil))
	defer w.Close()
	state := <-w.Changes()
	fmt.Println(state.Names, "added", state.Added, "removed", state.Removed)
	must(s.Multi(ctx, session.CreateOp("/services/web", nil, session.Persistent), session.DeleteOp("/services/api", session.AnyVersion)))
	state = <-w.Changes()
	fmt.Println(state.Names, "added", state.Added, "removed", state.Removed)
	// Output:
	// [api] added [api] removed []
	// [web] added [web] removed [api]
}

// A value that does not decode is told, and the last good one stays.
func ExampleValue() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()
	must(s.Create(ctx, "/limits", []byte(`{"PerSecond":100}`), session.Persistent))

	type Limits struct{ PerSecond int }
	v := must(watch.Value(s, "/limits", watch.JSON[Limits], nil))
	defer v.Close()
	state := <-v.Changes()
	fmt.Println(state.Value.PerSecond, state.Version, state.Err)
	must(s.Set(ctx, "/limits", []byte(`{"PerSecond":`), session.AnyVersion))
	state = <-v.Changes()
	fmt.Println(state.Value.PerSecond, state.Version, state.Err)
	// Output:
	// 100 0 <nil>
	// 100 1 unexpected end of JSON input
}

// A cache follows a whole tree.
func ExampleTree() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()
	must(s.Create(ctx, "/names", nil, session.Persistent))
	must(s.Create(ctx, "/names/billing", []byte("10.0.0.7:80"), session.Persistent))

	c := must(watch.Tree(s, "/names", nil))
	defer c.Close()
	<-c.Synced()
	fmt.Printf("%d nodes, billing is at %s\n", c.Len(), c.Get("/names/billing").Data)
	fmt.Println(<-c.Changes())
	must(s.Set(ctx, "/names/billing", []byte("10.0.0.8:80"), session.AnyVersion))
	for _, n := range (<-c.Changes()).Changed {
		fmt.Printf("%s is at %s\n", n.Path, n.Data)
	}
	// Output:
	// 2 nodes, billing is at 10.0.0.7:80
	// added=2 changed=0 removed=0 synced=true
	// /names/billing is at 10.0.0.8:80
}

func ExampleUntilExists() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	s.Async(0).Create("/ready", nil, session.Persistent, func(string, error) {})
	fmt.Println(watch.UntilExists(ctx, s, "/ready"))
	// Output: <nil>
}

func ExampleUntilGone() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()
	must(s.Create(ctx, "/busy", nil, session.Persistent))

	s.Async(0).Delete("/busy", session.AnyVersion, func(error) {})
	fmt.Println(watch.UntilGone(ctx, s, "/busy"))
	// Output: <nil>
}

// must returns the value. It ends the program if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
