package barrier_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/demo"
	"github.com/zkactors/zkactors/primitives/barrier"
)

// Requests are served while the barrier is down. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleBarrier_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, end := demo.Session()
	defer end()

	b := demo.Must(barrier.New(s, "/barriers/deploy", nil))
	defer b.Close()
	requests := make(chan string, 1)
	requests <- "a request"
	deployed := false
	var serve <-chan string // nil, and never ready, while the barrier is raised
	for {
		select {
		case ev, ok := <-b.Events():
			if !ok { // after Closed
				fmt.Println("closed")
				return
			}
			switch ev.(type) {
			case barrier.Raised:
				serve, deployed = nil, true
				fmt.Println("deploying")
				demo.Check(b.Lift(ctx))
			case barrier.Released:
				if !deployed {
					demo.Check(b.Raise(ctx))
					continue
				}
				serve = requests
			case barrier.Closed:
			}
		case r := <-serve:
			fmt.Println("serves", r)
			b.Close()
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	// Output:
	// deploying
	// serves a request
	// closed
}
