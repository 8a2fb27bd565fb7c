package barrier_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// Requests are served while the barrier is down. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleBarrier_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	srv, err := zktest.NewServer(zktest.Config{}) // a server in memory
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	s, err := session.Open(ctx, srv.Addrs(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	b, err := barrier.New(s, "/barriers/deploy", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	requests := make(chan string, 1)
	requests <- "a request"
	deployed := false
	var serve <-chan string // nil, and never ready, while the barrier is raised
	var called <-chan error // of a call that waits: the loop does not
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
				called = actors.Call(func() error { return b.Lift(ctx) })
			case barrier.Released:
				if !deployed {
					called = actors.Call(func() error { return b.Raise(ctx) })
					continue
				}
				serve = requests
			case barrier.Closed:
			}
		case err := <-called:
			if err != nil {
				log.Fatal(err)
			}
			called = nil
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
