package election_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// sessions opens two sessions on a server in memory.
func sessions(ctx context.Context) (a, b *session.Session, end func(), err error) {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		return nil, nil, nil, err
	}
	if a, err = session.Open(ctx, server.Addrs(), nil); err != nil {
		server.Close()
		return nil, nil, nil, err
	}
	if b, err = session.Open(ctx, server.Addrs(), nil); err != nil {
		a.Close()
		server.Close()
		return nil, nil, nil, err
	}
	return a, b, func() { a.Close(); b.Close(); server.Close() }, nil
}

// A candidate who waits, and then leads.
func ExampleNew() {
	ctx := context.Background()
	a, b, end, err := sessions(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()

	first, err := election.New(a, "/elections/scheduler", &election.Options{Data: []byte("host-1")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer first.Close()
	for ev := range first.Events() {
		if _, ok := ev.(election.Elected); ok {
			break
		}
	}
	second, err := election.New(b, "/elections/scheduler", &election.Options{Data: []byte("host-2")})
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev := range second.Events() {
		switch ev := ev.(type) {
		case election.LeaderChanged:
			if string(ev.Leader.Data) == "host-1" {
				fmt.Println("the leader is host-1")
				fmt.Println(first.Resign(ctx))
			}
		case election.Elected:
			old, _ := first.Leading()
			fmt.Println("elected, in a greater term:", ev.Term > old)
			second.Close()
		case election.Deposed:
			fmt.Println(ev)
		case election.Left:
			fmt.Println("left")
		case election.Standing:
			// Whoever comes later is behind it.
		case election.Suspended, election.Resumed, election.Overrun:
			fmt.Println("the network")
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
	a, _, end, err := sessions(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()

	c, err := election.New(a, "/elections/scheduler", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	err = c.Lead(ctx, func(ctx context.Context, term int64) error {
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

// Who leads, for those who do not.
func ExampleObserve() {
	ctx := context.Background()
	a, b, end, err := sessions(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()

	o, err := election.Observe(b, "/elections/scheduler", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer o.Close()
	fmt.Println(<-o.Events())

	c, err := election.New(a, "/elections/scheduler", &election.Options{Data: []byte("host-1")})
	if err != nil {
		fmt.Println(err)
		return
	}
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
