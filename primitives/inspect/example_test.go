package inspect_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/demo"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
)

func ExampleLook() {
	ctx := context.Background()
	s, end := demo.Session()
	defer end()
	held := demo.Must(lock.Acquire(ctx, s, "/locks/report", &lock.Options{Data: []byte("host-1")}))
	defer held.Close()

	survey := demo.Must(inspect.Look(ctx, s, "/locks", nil))
	for _, thing := range survey.Things {
		for _, c := range thing.Holders() {
			fmt.Println(thing.Path, c.Wants, "held by", c.Identity)
		}
	}
	// Output: /locks/report exclusive held by host-1
}

// What stands below a path is shown after each change. A closed channel is always ready: without ok, the
// loop would spin.
func ExampleWatcher_Surveys() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, end := demo.Session()
	defer end()
	held := demo.Must(lock.Acquire(ctx, s, "/locks/report", nil))
	defer held.Close()

	w := demo.Must(inspect.Watch(s, "/locks", nil))
	defer w.Close()
	for {
		select {
		case survey, ok := <-w.Surveys():
			if !ok { // after Close, or w.Err says why
				fmt.Println("closed", w.Err())
				return
			}
			for _, thing := range survey.Things {
				fmt.Println(thing.Path, len(thing.Holders()), "holds")
			}
			w.Close()
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	// Output:
	// /locks/report 1 holds
	// closed <nil>
}
