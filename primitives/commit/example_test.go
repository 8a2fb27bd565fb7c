package commit_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// connect returns a session with a server in memory, and what ends both.
func connect(ctx context.Context) (*session.Session, func()) {
	srv, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	s, err := session.Open(ctx, srv.Addrs(), nil)
	if err != nil {
		log.Fatal(err)
	}
	return s, func() { s.Close(); srv.Close() }
}

// must ends the example if something has failed.
func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Two sites vote on an order.
func ExampleBegin() {
	ctx := context.Background()
	s, end := connect(ctx)
	defer end()
	var sites sync.WaitGroup
	for _, site := range []string{"inventory", "payments"} {
		p, err := commit.Join(s, "/shop/tx", site, nil)
		must(err)
		sites.Go(func() {
			defer p.Close()
			for ev := range p.Events() {
				switch ev := ev.(type) {
				case commit.Prepare:
					must(p.Vote(ctx, ev.Tx, commit.Yes))
				case commit.Committed: // apply ev.Payload, once
					must(p.Finish(ctx, ev.Tx))
					return
				case commit.Aborted:
					must(p.Finish(ctx, ev.Tx))
					return
				case commit.Voted, commit.Forgotten, commit.Left:
				}
			}
		})
	}
	tx, err := commit.Begin(ctx, s, "/shop/tx/order-42", &commit.Options{
		Sites: []string{"inventory", "payments"}, Payload: []byte("two chairs"),
	})
	must(err)
	defer tx.Close()
	outcome, err := tx.Wait(ctx)
	must(err)
	fmt.Println(outcome)
	sites.Wait()
	// Output: committed by coordinator
}

// A coordinator that restarts continues what an earlier one has begun. Here a site votes
// No meanwhile.
func ExampleResume() {
	ctx := context.Background()
	s, end := connect(ctx)
	defer end()
	p, err := commit.Join(s, "/shop/tx", "payments", nil)
	must(err)
	defer p.Close()
	tx, err := commit.Begin(ctx, s, "/shop/tx/order-43", &commit.Options{Sites: []string{"payments"}, Deadline: time.Minute})
	must(err)
	tx.Close() // as a crash would

	fmt.Println(<-p.Events())
	must(p.Vote(ctx, "order-43", commit.No))
	all, err := commit.List(ctx, s, "/shop/tx")
	must(err)
	fmt.Println(all[0])

	resumed, err := commit.Resume(ctx, s, "/shop/tx")
	must(err)
	defer resumed[0].Close()
	for ev := range resumed[0].Events() {
		fmt.Println(ev)
	}
	// Output:
	// prepare order-43
	// order-43 coordinated undecided: payments=no
	// voted payments no
	// order-43 aborted by coordinator: a site voted no: payments
}
