package election_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A candidate who waits, and then leads.
func ExampleNew() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	a := must(session.Open(ctx, srv.Addrs(), nil))
	defer a.Close()
	b := must(session.Open(ctx, srv.Addrs(), nil))
	defer b.Close()

	first := must(election.New(a, "/elections/scheduler", &election.Options{Data: []byte("host-1")}))
	defer first.Close()
	for ev := range first.Events() {
		if _, ok := ev.(election.Elected); ok {
			break
		}
	}
	second := must(election.New(b, "/elections/scheduler", &election.Options{Data: []byte("host-2")}))
	standing, leader := false, ""
	for ev := range second.Events() {
		switch ev := ev.(type) {
		case election.LeaderChanged:
			leader = string(ev.Leader.Data)
		case election.Elected:
			old, _ := first.Leading()
			fmt.Println("elected, in a greater term:", ev.Term > old)
			second.Close()
		case election.Deposed:
			fmt.Println(ev)
		case election.Left:
			fmt.Println("left")
		case election.Standing:
			standing = true
		case election.Suspended, election.Resumed, election.Overrun:
			fmt.Println("the network")
		}
		if standing && leader == "host-1" { // whoever leads next, it is the second
			leader = ""
			fmt.Println("the leader is host-1")
			fmt.Println(first.Resign(ctx))
		}
	}
	// Output:
	// the leader is host-1
	// <nil>
	// elected, in a greater term: true
	// left
}

// Work that only the leader does.
func ExampleCandidate_Lead() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	a := must(session.Open(ctx, srv.Addrs(), nil))
	defer a.Close()

	c := must(election.New(a, "/elections/scheduler", nil))
	defer c.Close()
	err := c.Lead(ctx, func(ctx context.Context, term int64) error {
		fmt.Println("leading, with a token:", term > 0)
		if err := c.Acknowledge(ctx); err != nil { // what has to be done first is done
			return err
		}
		select {
		case <-ctx.Done(): // somebody else is to lead
			return ctx.Err()
		default:
			return errors.New("nothing more to do")
		}
	})
	fmt.Println(err)
	// Output:
	// leading, with a token: true
	// nothing more to do
}

// The leader, as other candidates see it.
func ExampleObserve() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	a := must(session.Open(ctx, srv.Addrs(), nil))
	defer a.Close()
	b := must(session.Open(ctx, srv.Addrs(), nil))
	defer b.Close()

	o := must(election.Observe(b, "/elections/scheduler", nil))
	defer o.Close()
	fmt.Println(<-o.Events())

	c := must(election.New(a, "/elections/scheduler", &election.Options{Data: []byte("host-1")}))
	defer c.Close()
	ev := <-o.Events()
	fmt.Printf("%s leads\n", ev.Leader.Data)
	for ev := range c.Events() {
		if _, ok := ev.(election.Elected); ok {
			break
		}
	}

	fmt.Println(c.Transfer(ctx, "/elections/scheduler/candidates/nobody"))
	line, err := election.Candidates(ctx, b, "/elections/scheduler", nil)
	fmt.Println(len(line), line[0].Leading, err)
	// Output:
	// no leader
	// host-1 leads
	// transfer election /elections/scheduler: no such candidate: /elections/scheduler/candidates/nobody
	// 1 true <nil>
}

// must returns the value. It ends the program if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// A candidate in the same select as the work of its terms. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleCandidate_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	c := must(election.New(s, "/elections/scheduler", nil))
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
