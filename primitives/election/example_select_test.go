package election_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A candidate in the same select as the work of its terms. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleCandidate_Events() {
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

	c, err := election.New(s, "/elections/scheduler", nil)
	if err != nil {
		log.Fatal(err)
	}
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
			case election.Standing, election.LeaderChanged, election.Suspended, election.Resumed, election.Overrun, election.Left:
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
