package config_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/demo"
	"github.com/zkactors/zkactors/primitives/config"
)

// A service that changes its rate while it works. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleValue_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, end := demo.Session()
	defer end()

	v := demo.Must(config.Open(s, "/config/rate", config.JSON[int], nil))
	defer v.Close()
	requests := make(chan string, 1)
	for rate := 1; ; {
		select {
		case ev, ok := <-v.Events():
			if !ok { // after Closed
				fmt.Println("closed")
				return
			}
			switch ev := ev.(type) {
			case config.Deleted: // there is none yet
				demo.Check(v.Set(ctx, 100))
			case config.Changed[int]:
				rate = ev.Value
				requests <- "a request"
			case config.Invalid: // the rate stays
			case config.Closed:
			}
		case r := <-requests:
			fmt.Println(r, "at a rate of", rate)
			v.Close()
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	// Output:
	// a request at a rate of 100
	// closed
}
