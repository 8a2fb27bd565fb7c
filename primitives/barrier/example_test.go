package barrier_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// connect returns a session with a server in memory, and what ends both.
func connect(ctx context.Context) (*session.Session, func()) {
	srv, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	s, err := session.Open(ctx, srv.Addrs(), nil)
	if err != nil {
		log.Fatal(err)
	}
	return s, func() { s.Close(); srv.Close() }
}

// must ends the example if something has failed.
func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Requests wait while a deployment is under way.
func ExampleNew() {
	ctx := context.Background()
	s, end := connect(ctx)
	defer end()
	b, err := barrier.New(s, "/barriers/deploy", nil)
	must(err)
	defer b.Close()

	must(b.Raise(ctx))
	served := make(chan error)
	go func() {
		served <- b.Wait(ctx)
	}()
	fmt.Println("deploying")
	must(b.Lift(ctx))
	must(<-served)
	fmt.Println("serving")
	// Output:
	// deploying
	// serving
}

// Three workers begin a round together, and end it together.
func ExampleNewDouble() {
	ctx := context.Background()
	s, end := connect(ctx)
	defer end()
	var workers sync.WaitGroup
	for i := range 3 {
		workers.Go(func() {
			d, err := barrier.NewDouble(s, "/barriers/run", 3, &barrier.DoubleOptions{Name: fmt.Sprint("worker-", i)})
			must(err)
			defer d.Close()
			for range 2 {
				must(d.Enter(ctx))
				// All three are in: compute.
				must(d.Leave(ctx))
				// All three have left.
			}
			if i == 0 {
				fmt.Println("two rounds are over")
			}
		})
	}
	workers.Wait()
	// Output: two rounds are over
}

// A gate lets one client in at a time.
func ExampleBarrier_TryRaise() {
	ctx := context.Background()
	s, end := connect(ctx)
	defer end()
	b, err := barrier.New(s, "/barriers/maintenance", nil)
	must(err)
	defer b.Close()

	gate, err := b.TryRaise(ctx)
	must(err)
	_, err = b.TryRaise(ctx)
	fmt.Println(err)
	must(gate.Lift(ctx))
	// Output: barrier /barriers/maintenance: try to raise: barrier is raised
}
