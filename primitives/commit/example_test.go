package commit_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/demo"
	"github.com/zkactors/zkactors/primitives/commit"
)

// Two sites vote on an order.
func ExampleBegin() {
	ctx := context.Background()
	s, end := demo.Session()
	defer end()
	var sites sync.WaitGroup
	for _, site := range []string{"inventory", "payments"} {
		p, err := commit.Join(s, "/shop/tx", site, nil)
		demo.Check(err)
		sites.Go(func() {
			defer p.Close()
			for ev := range p.Events() {
				switch ev := ev.(type) {
				case commit.Prepare:
					demo.Check(p.Vote(ctx, ev.Tx, commit.Yes))
				case commit.Committed: // apply ev.Payload, once
					demo.Check(p.Finish(ctx, ev.Tx))
					return
				case commit.Aborted:
					demo.Check(p.Finish(ctx, ev.Tx))
					return
				case commit.Voted, commit.Forgotten, commit.Left:
				}
			}
		})
	}
	tx, err := commit.Begin(ctx, s, "/shop/tx/order-42", &commit.Options{
		Sites: []string{"inventory", "payments"}, Payload: []byte("two chairs"),
	})
	demo.Check(err)
	defer tx.Close()
	outcome, err := tx.Wait(ctx)
	demo.Check(err)
	fmt.Println(outcome)
	sites.Wait()
	// Output: committed by coordinator
}

// A coordinator that restarts continues what an earlier one has begun. Here a site votes
// No meanwhile.
func ExampleResume() {
	ctx := context.Background()
	s, end := demo.Session()
	defer end()
	p, err := commit.Join(s, "/shop/tx", "payments", nil)
	demo.Check(err)
	defer p.Close()
	tx, err := commit.Begin(ctx, s, "/shop/tx/order-43", &commit.Options{Sites: []string{"payments"}, Deadline: time.Minute})
	demo.Check(err)
	tx.Close() // as a crash would

	asked := (<-p.Events()).(commit.Prepare)
	fmt.Println(asked)
	demo.Check(p.Vote(ctx, asked.Tx, commit.No))
	all, err := commit.List(ctx, s, "/shop/tx")
	demo.Check(err)
	fmt.Println(all[0])

	resumed, err := commit.Resume(ctx, s, "/shop/tx")
	demo.Check(err)
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
