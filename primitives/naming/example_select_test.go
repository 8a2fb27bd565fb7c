package naming_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/demo"
	"github.com/zkactors/zkactors/primitives/naming"
)

// A service that serves while it has its name. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleRegistration_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, end := demo.Session()
	defer end()

	r := demo.Must(naming.Keep(s, "/names", "billing", []byte("10.0.0.7:80"), nil))
	defer r.Close()
	requests := make(chan string, 1)
	requests <- "a request"
	for events := r.Events(); events != nil; {
		select {
		case _, ok := <-events:
			if !ok { // after the registration is over
				events = nil
			}
		case q := <-requests:
			fmt.Println("serves", q)
			r.Close()
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	fmt.Println("over:", r.Err())
	// Output:
	// serves a request
	// over: <nil>
}
