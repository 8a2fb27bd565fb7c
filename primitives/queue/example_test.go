package queue_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/demo"
	"github.com/zkactors/zkactors/primitives/queue"
)

// The second of two jobs fails whenever it is worked on, and ends among the dead letters.
func ExampleQueue_Consume() {
	ctx := context.Background()
	s, end := demo.Session()
	defer end()

	q, err := queue.New(s, "/queues/jobs", &queue.Options{MaxAttempts: 2, DeadLetter: "/queues/dead"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := q.PutAll(ctx, [][]byte{[]byte("good"), []byte("bad")}); err != nil {
		fmt.Println(err)
		return
	}
	c, err := q.Consume(&queue.ConsumeOptions{Prefetch: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		item := <-c.Items()
		fmt.Printf("%s, attempt %d\n", item.Data, item.Attempt)
		if string(item.Data) == "good" {
			err = item.Ack(ctx)
		} else {
			err = item.Reject(ctx)
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	c.Close()
	dead, err := queue.New(s, "/queues/dead", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	data, err := dead.Take(ctx)
	fmt.Printf("dead: %s %v\n", data, err)
	_, err = q.TryTake(ctx)
	fmt.Println("empty:", errors.Is(err, queue.ErrEmpty))
	// Output:
	// good, attempt 1
	// bad, attempt 1
	// bad, attempt 2
	// dead: bad <nil>
	// empty: true
}

// An order comes twice. The second call puts nothing, and returns the ID of the first item.
func ExampleQueue_PutOnce() {
	ctx := context.Background()
	s, end := demo.Session()
	defer end()

	q, err := queue.New(s, "/queues/orders", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	first, err := q.PutOnce(ctx, "order 17", []byte("two chairs"))
	fmt.Println(err)
	second, err := q.PutOnce(ctx, "order 17", []byte("two chairs"))
	fmt.Println(errors.Is(err, queue.ErrDuplicate), second == first)
	n, err := q.Len(ctx)
	fmt.Println(n, err)
	// Output:
	// <nil>
	// true true
	// 1 <nil>
}
