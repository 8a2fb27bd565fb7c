package election_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/demo"
	"github.com/zkactors/zkactors/primitives/election"
)

// A candidate in the same select as the work of its terms. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleCandidate_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, end := demo.Session()
	defer end()

	c := demo.Must(election.New(s, "/elections/scheduler", nil))
	defer c.Close()
	var work chan string // nil, and never ready, while another leads
	for {
		select {
		case ev, ok := <-c.Events():
			if !ok { // after Left
				fmt.Println("left:", c.Err())
				return
			}
			switch ev.(type) {
			case election.Elected:
				work = make(chan string, 1)
				work <- "the plan"
			case election.Deposed:
				work = nil
			default: // the network, and the candidates
			}
		case w := <-work:
			fmt.Println("leads, and works on", w)
			c.Close()
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	// Output:
	// leads, and works on the plan
	// left: <nil>
}
