package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// The second of two jobs fails whenever it is worked on, and ends among the dead letters.
func ExampleQueue_Consume() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	q := must(queue.New(s, "/queues/jobs", &queue.Options{MaxAttempts: 2, DeadLetter: "/queues/dead"}))
	must(q.PutAll(ctx, [][]byte{[]byte("good"), []byte("bad")}))
	c := must(q.Consume(&queue.ConsumeOptions{Prefetch: 1}))
	for range 3 {
		item := <-c.Items()
		fmt.Printf("%s, attempt %d\n", item.Data, item.Attempt)
		if string(item.Data) == "good" {
			try(item.Ack(ctx))
		} else {
			try(item.RejectAfter(ctx, 0, errors.New("no paper"))) // Reject has it wait for a while
		}
	}
	c.Close()
	dead := must(queue.New(s, "/queues/dead", nil))
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
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	q := must(queue.New(s, "/queues/orders", nil))
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
