package commit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/demo"
	"github.com/zkactors/zkactors/primitives/commit"
)

// A site that votes in the same select as it waits for the outcome. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleParticipant_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, end := demo.Session()
	defer end()

	p := demo.Must(commit.Join(s, "/shop/tx", "payments", nil))
	defer p.Close()
	tx := demo.Must(commit.Begin(ctx, s, "/shop/tx/order-44", &commit.Options{Sites: []string{"payments"}}))
	defer tx.Close()
	votes, outcomes := p.Events(), tx.Events()
	for votes != nil {
		select {
		case ev, ok := <-votes:
			if !ok { // after Left
				votes = nil
				continue
			}
			switch ev := ev.(type) {
			case commit.Prepare:
				demo.Check(p.Vote(ctx, ev.Tx, commit.Yes))
			case commit.Committed:
				fmt.Println("site:", ev.Tx)
				demo.Check(p.Finish(ctx, ev.Tx))
				p.Close()
			default: // nothing to apply
			}
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
