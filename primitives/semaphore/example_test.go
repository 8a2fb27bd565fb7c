package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// One of two that may export at once.
func ExampleAcquire() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	for range 2 {
		lease := must(semaphore.Acquire(ctx, s, "/limits/exports", 2, nil))
		defer lease.Close()
	}
	_, err := semaphore.TryAcquire(ctx, s, "/limits/exports", 2, nil)
	fmt.Println(err)
	_, err = semaphore.Acquire(ctx, s, "/limits/exports", 10, nil)
	fmt.Println(errors.Is(err, semaphore.ErrLimit), err)
	// Output:
	// try semaphore /limits/exports: semaphore full
	// true acquire semaphore /limits/exports: cannot join: limit is 2, not 10
}

// A lease of three, all or nothing, and a limit that rises while it waits.
func ExampleNew() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	small := must(semaphore.Acquire(ctx, s, "/limits/exports", 3, nil))
	defer small.Close()
	large := must(semaphore.New(s, "/limits/exports", 3, &semaphore.Options{Weight: 3}))
	defer large.Close()
	for ev := range large.Events() {
		switch ev := ev.(type) {
		case semaphore.Waiting:
			fmt.Println("waiting, ahead:", ev.Ahead)
			fmt.Println(semaphore.SetLimit(ctx, s, "/limits/exports", 4))
		case semaphore.Acquired:
			fmt.Println("acquired")
			fmt.Println(large.Release(ctx))
		case semaphore.Suspended, semaphore.Resumed:
			fmt.Println("the network")
		case semaphore.Released:
			fmt.Println("released")
		case semaphore.Lost:
			fmt.Println(ev.Err)
		}
	}
	// Output:
	// waiting, ahead: 1
	// <nil>
	// acquired
	// <nil>
	// released
}

func ExampleDo() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	err := semaphore.Do(ctx, s, "/limits/exports", 2, nil, func(ctx context.Context) error {
		holders, err := semaphore.Holders(ctx, s, "/limits/exports")
		fmt.Println("holders:", len(holders))
		return err
	})
	fmt.Println(err)
	// Output:
	// holders: 1
	// <nil>
}

// A worker has the smallest number that no other has.
func ExampleLease_Number() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	for range 2 {
		worker := must(semaphore.Acquire(ctx, s, "/ids/workers", 1024, &semaphore.Options{Numbered: true}))
		defer worker.Close()
		fmt.Println("worker", worker.Number())
	}
	// Output:
	// worker 0
	// worker 1
}

// must returns the value. It ends the program if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// A lease in the same select as other work. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleLease_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	l := must(semaphore.New(s, "/limits/exports", 2, nil))
	defer l.Close()
	exports := make(chan string, 1)
	for {
		select {
		case ev, ok := <-l.Events():
			if !ok { // after Released or Lost
				fmt.Println("over:", l.Err())
				return
			}
			if _, held := ev.(semaphore.Acquired); held {
				exports <- "orders"
			}
		case e := <-exports:
			fmt.Println("exports", e)
			fmt.Println(l.Release(ctx))
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	// Output:
	// exports orders
	// <nil>
	// over: <nil>
}
