package inspect_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func ExampleLook() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()
	held := must(lock.Acquire(ctx, s, "/locks/report", &lock.Options{Data: []byte("host-1")}))
	defer held.Close()

	survey := must(inspect.Look(ctx, s, "/locks", nil))
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
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()
	held := must(lock.Acquire(ctx, s, "/locks/report", nil))
	defer held.Close()

	w := must(inspect.Watch(s, "/locks", nil))
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

// must returns the value. It ends the program if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
