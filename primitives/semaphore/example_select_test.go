package semaphore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A lease in the same select as other work. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleLease_Events() {
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

	l, err := semaphore.New(s, "/limits/exports", 2, nil)
	if err != nil {
		log.Fatal(err)
	}
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
