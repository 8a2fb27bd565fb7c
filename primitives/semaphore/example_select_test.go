package semaphore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/demo"
	"github.com/zkactors/zkactors/primitives/semaphore"
)

// A lease in the same select as other work. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleLease_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, end := demo.Session()
	defer end()

	l := demo.Must(semaphore.New(s, "/limits/exports", 2, nil))
	defer l.Close()
	exports := make(chan string, 1)
	for {
		select {
		case ev, ok := <-l.Events():
			if !ok { // after Released or Lost
				fmt.Println("over:", l.Err())
				return
			}
			if _, held := ev.(semaphore.Acquired); held {
				exports <- "orders"
			}
		case e := <-exports:
			fmt.Println("exports", e)
			fmt.Println(l.Release(ctx))
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	// Output:
	// exports orders
	// <nil>
	// over: <nil>
}
