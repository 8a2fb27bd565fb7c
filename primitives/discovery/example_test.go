package discovery_test

import (
	"context"
	"fmt"

	"github.com/zkactors/zkactors/internal/demo"
	"github.com/zkactors/zkactors/primitives/discovery"
)

// A client finds two instances of a service, and calls one after the other.
func ExampleWatcher_Pick() {
	ctx := context.Background()
	s, end := demo.Session()
	defer end()

	for _, host := range []string{"10.0.0.7", "10.0.0.8"} {
		i := discovery.Instance{Service: "search", ID: host, Address: host, Port: 9200}
		r := demo.Must(discovery.Announce(ctx, s, "/services", i, nil))
		defer r.Close()
	}
	w := demo.Must(discovery.Watch(s, "/services", "search", nil))
	defer w.Close()
	fmt.Println(<-w.Changes())

	calls := make(map[string]int)
	for range 4 {
		i := demo.Must(w.Pick(discovery.RoundRobin))
		done := w.Use(i)
		calls[i.Address]++ // and here goes the call
		done(nil)
	}
	fmt.Println(calls)
	// Output:
	// [search/10.0.0.7=10.0.0.7:9200 search/10.0.0.8=10.0.0.8:9200]
	// map[10.0.0.7:2 10.0.0.8:2]
}
