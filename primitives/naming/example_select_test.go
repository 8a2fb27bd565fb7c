package naming_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A service that serves while it has its name. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleRegistration_Events() {
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

	r, err := naming.Keep(s, "/names", "billing", []byte("10.0.0.7:80"), nil)
	if err != nil {
		log.Fatal(err)
	}
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
