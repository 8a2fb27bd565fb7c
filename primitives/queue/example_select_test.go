package queue_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/demo"
	"github.com/zkactors/zkactors/primitives/queue"
)

// The items and the events of a consumer in one select. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleConsumer_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, end := demo.Session()
	defer end()

	q := demo.Must(queue.New(s, "/queues/jobs", nil))
	demo.Must(q.PutAll(ctx, [][]byte{[]byte("mail"), []byte("bill")}))
	c := demo.Must(q.Consume(nil))
	defer c.Close()
	items, events := c.Items(), c.Events()
	for done := 0; items != nil || events != nil; {
		select {
		case item, ok := <-items:
			if !ok {
				items = nil
				continue
			}
			fmt.Println(string(item.Data), item.Ack(ctx))
			if done++; done == 2 {
				c.Close()
			}
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
	// mail <nil>
	// bill <nil>
	// closed
}
