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

// Two sites vote on an order.
func ExampleBegin() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()
	var sites sync.WaitGroup
	for _, site := range []string{"inventory", "payments"} {
		p := must(commit.Join(s, "/shop/tx", site, nil))
		sites.Go(func() {
			defer p.Close()
			for ev := range p.Events() {
				switch ev := ev.(type) {
				case commit.Prepare:
					try(p.Vote(ctx, ev.Tx, commit.Yes))
				case commit.Committed: // apply ev.Payload, once
					try(p.Finish(ctx, ev.Tx))
					return
				case commit.Aborted:
					try(p.Finish(ctx, ev.Tx))
					return
				case commit.Voted, commit.Forgotten, commit.Left:
				}
			}
		})
	}
	tx := must(commit.Begin(ctx, s, "/shop/tx/order-42", &commit.Options{
		Sites: []string{"inventory", "payments"}, Payload: []byte("two chairs"),
	}))
	defer tx.Close()
	fmt.Println(must(tx.Wait(ctx)))
	sites.Wait()
	// Output: committed by coordinator
}

// A coordinator that restarts continues what an earlier one has begun. Here a site votes
// No meanwhile.
func ExampleResume() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()
	p := must(commit.Join(s, "/shop/tx", "payments", nil))
	defer p.Close()
	tx := must(commit.Begin(ctx, s, "/shop/tx/order-43", &commit.Options{Sites: []string{"payments"}, Deadline: time.Minute}))
	tx.Close() // as a crash would

	asked := (<-p.Events()).(commit.Prepare)
	fmt.Println(asked)
	try(p.Vote(ctx, asked.Tx, commit.No))
	all := must(commit.List(ctx, s, "/shop/tx"))
	fmt.Println(all[0])

	resumed := must(commit.Resume(ctx, s, "/shop/tx"))
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

// must returns the value. It ends the program if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// try ends the program if there is an error.
func try(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
