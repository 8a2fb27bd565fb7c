package discovery_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A service that is registered, and follows another one, in one loop. A closed channel is always
// ready: without ok, the loop would spin.
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

	r, err := discovery.Register(s, "/services", discovery.Instance{Service: "search", Address: "10.0.0.7", Port: 9200}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	w, err := discovery.Watch(s, "/services", "search", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	events, changes := r.Events(), w.Changes()
	for events != nil {
		select {
		case ev, ok := <-events:
			if !ok { // after Unregistered
				events = nil
				fmt.Println("ended:", r.Err())
			} else if ev == (discovery.Unregistered{}) {
				fmt.Println(ev)
			}
		case instances, ok := <-changes:
			if !ok { // the watch has ended: see w.Err
				changes = nil
			} else if len(instances) == 1 {
				fmt.Println("found", instances[0].Address)
				fmt.Println(r.Unregister(ctx))
			}
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	// Output:
	// found 10.0.0.7
	// <nil>
	// unregistered
	// ended: <nil>
}
