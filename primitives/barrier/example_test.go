package barrier_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/zkactors/zkactors/internal/demo"
	"github.com/zkactors/zkactors/primitives/barrier"
)

// Requests wait while a deployment is under way.
func ExampleNew() {
	ctx := context.Background()
	s, end := demo.Session()
	defer end()
	b, err := barrier.New(s, "/barriers/deploy", nil)
	demo.Check(err)
	defer b.Close()

	demo.Check(b.Raise(ctx))
	served := make(chan error)
	go func() {
		served <- b.Wait(ctx)
	}()
	fmt.Println("deploying")
	demo.Check(b.Lift(ctx))
	demo.Check(<-served)
	fmt.Println("serving")
	// Output:
	// deploying
	// serving
}

// Three workers begin a round together, and end it together.
func ExampleNewDouble() {
	ctx := context.Background()
	s, end := demo.Session()
	defer end()
	var workers sync.WaitGroup
	for i := range 3 {
		workers.Go(func() {
			d, err := barrier.NewDouble(s, "/barriers/run", 3, &barrier.DoubleOptions{Name: fmt.Sprint("worker-", i)})
			demo.Check(err)
			defer d.Close()
			for range 2 {
				demo.Check(d.Enter(ctx))
				// All three are in: compute.
				demo.Check(d.Leave(ctx))
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
	s, end := demo.Session()
	defer end()
	b, err := barrier.New(s, "/barriers/maintenance", nil)
	demo.Check(err)
	defer b.Close()

	gate, err := b.TryRaise(ctx)
	demo.Check(err)
	_, err = b.TryRaise(ctx)
	fmt.Println(err)
	demo.Check(gate.Lift(ctx))
	// Output: barrier /barriers/maintenance: try to raise: barrier is raised
}

// Two workers are to be ready before the service begins.
func ExampleLatch() {
	ctx := context.Background()
	s, end := demo.Session()
	defer end()

	l := demo.Must(barrier.NewLatch(s, "/start/2026-11-27", 2))
	defer l.Close()
	for _, worker := range []string{"worker-1", "worker-2"} {
		fmt.Println(worker, l.Arrive(ctx, worker))
	}
	select {
	case <-l.Opened():
		fmt.Println("the service begins")
	case <-ctx.Done():
	}
	// Output:
	// worker-1 <nil>
	// worker-2 <nil>
	// the service begins
}
