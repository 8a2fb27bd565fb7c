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

// Requests wait while a deployment is under way.
func ExampleNew() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()
	b := must(barrier.New(s, "/barriers/deploy", nil))
	defer b.Close()

	try(b.Raise(ctx))
	served := make(chan error)
	go func() {
		served <- b.Wait(ctx)
	}()
	fmt.Println("deploying")
	try(b.Lift(ctx))
	try(<-served)
	fmt.Println("serving")
	// Output:
	// deploying
	// serving
}

// Three workers begin a round together, and end it together.
func ExampleNewDouble() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()
	var workers sync.WaitGroup
	for i := range 3 {
		workers.Go(func() {
			d := must(barrier.NewDouble(s, "/barriers/run", 3, &barrier.DoubleOptions{Name: fmt.Sprint("worker-", i)}))
			defer d.Close()
			for range 2 {
				try(d.Enter(ctx))
				// All three are in: compute.
				try(d.Leave(ctx))
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
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()
	b := must(barrier.New(s, "/barriers/maintenance", nil))
	defer b.Close()

	gate := must(b.TryRaise(ctx))
	_, err := b.TryRaise(ctx)
	fmt.Println(err)
	try(gate.Lift(ctx))
	// Output: barrier /barriers/maintenance: try to raise: barrier is raised
}

// Two workers are to be ready before the service begins.
func ExampleLatch() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	l := must(barrier.NewLatch(s, "/start/2026-11-27", 2))
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

// must returns the value. It ends the program if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// try ends the program if there is an error.
func try(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
