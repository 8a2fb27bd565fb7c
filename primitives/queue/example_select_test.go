package queue_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// The items and the events of a consumer in one select. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleConsumer_Events() {
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

	q, err := queue.New(s, "/queues/jobs", nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := q.PutAll(ctx, [][]byte{[]byte("mail"), []byte("bill")}); err != nil {
		log.Fatal(err)
	}
	c, err := q.Consume(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	items, events := c.Items(), c.Events()
	var acknowledged <-chan error // of a call that waits: the loop does not
	for done := 0; items != nil || events != nil; {
		select {
		case item, ok := <-items:
			if !ok {
				items = nil
				continue
			}
			fmt.Println(string(item.Data))
			acknowledged = actors.Call(func() error { return item.Ack(ctx) })
			items = nil // the next when this one is done
		case err := <-acknowledged:
			if err != nil {
				log.Fatal(err)
			}
			if done++; done == 2 {
				c.Close()
			}
			items, acknowledged = c.Items(), nil
		case ev, ok := <-events:
			if !ok { // after Closed
				events = nil
				continue
			}
			fmt.Println(ev)
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	// Output:
	// mail
	// bill
	// closed
}
