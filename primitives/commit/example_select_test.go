package commit_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A site that votes in the same select as it waits for the outcome. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleParticipant_Events() {
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

	p, err := commit.Join(s, "/shop/tx", "payments", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	tx, err := commit.Begin(ctx, s, "/shop/tx/order-44", &commit.Options{Sites: []string{"payments"}})
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Close()
	votes, outcomes := p.Events(), tx.Events()
	var voted, finished <-chan error // of calls that wait: the loop does not
	for votes != nil {
		select {
		case ev, ok := <-votes:
			if !ok { // after Left
				votes = nil
				continue
			}
			switch ev := ev.(type) {
			case commit.Prepare:
				voted = actors.Call(func() error { return p.Vote(ctx, ev.Tx, commit.Yes) })
			case commit.Committed:
				fmt.Println("site:", ev.Tx)
				finished = actors.Call(func() error { return p.Finish(ctx, ev.Tx) })
			case commit.Aborted, commit.Forgotten, commit.Left, commit.Voted: // nothing to apply
			}
		case err := <-voted:
			if err != nil {
				log.Fatal(err)
			}
			voted = nil
		case err := <-finished:
			if err != nil {
				log.Fatal(err)
			}
			p.Close()
			finished = nil
		case _, ok := <-outcomes:
			if !ok { // after the outcome
				outcomes = nil
			}
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	fmt.Println(tx.Wait(ctx))
	// Output:
	// site: order-44
	// committed by coordinator <nil>
}
