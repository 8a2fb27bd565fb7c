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

// A client finds two instances of a service, and calls one after the other.
func ExampleWatcher_Pick() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	for _, host := range []string{"10.0.0.7", "10.0.0.8"} {
		i := discovery.Instance{Service: "search", ID: host, Address: host, Port: 9200}
		r := must(discovery.Announce(ctx, s, "/services", i, nil))
		defer r.Close()
	}
	w := must(discovery.Watch(s, "/services", "search", nil))
	defer w.Close()
	fmt.Println(<-w.Changes())

	calls := make(map[string]int)
	for range 4 {
		i := must(w.Pick(discovery.RoundRobin))
		done := w.Use(i)
		calls[i.Address]++ // and here goes the call
		done(nil)
	}
	fmt.Println(calls)
	// Output:
	// [search/10.0.0.7=10.0.0.7:9200 search/10.0.0.8=10.0.0.8:9200]
	// map[10.0.0.7:2 10.0.0.8:2]
}

// must returns the value. It ends the program if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// A service that is registered, and follows another one, in one loop. A closed channel is always
// ready: without ok, the loop would spin.
func ExampleRegistration_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	r := must(discovery.Register(s, "/services", discovery.Instance{Service: "search", Address: "10.0.0.7", Port: 9200}, nil))
	defer r.Close()
	w := must(discovery.Watch(s, "/services", "search", nil))
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
