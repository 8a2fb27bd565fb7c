package watch_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// Requests are served with the newest limit. A closed channel is always ready: without ok,
// the loop would spin.
func ExampleWatch_Changes() {
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

	v, err := watch.Value(s, "/limits/exports", watch.JSON[int], nil)
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	requests := make(chan string, 1)
	requests <- "a request"
	var serve <-chan string // nil, and never ready, while there is no limit
	for {
		select {
		case limit, ok := <-v.Changes():
			switch {
			case !ok: // after Close, or v.Err says why
				fmt.Println("closed", v.Err())
				return
			case limit.Err != nil: // limit.Value is the last good one
				fmt.Println(limit.Err)
			case !limit.Exists:
				if err := s.EnsurePath(ctx, "/limits"); err != nil {
					log.Fatal(err)
				}
				if _, err := s.Create(ctx, "/limits/exports", []byte("10"), session.Persistent); err != nil {
					log.Fatal(err)
				}
			default:
				fmt.Println("limit", limit.Value)
				serve = requests
			}
		case r := <-serve:
			fmt.Println("serves", r)
			v.Close()
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	// Output:
	// limit 10
	// serves a request
	// closed <nil>
}
