package semaphore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// open opens a session on a server in memory.
func open(ctx context.Context) (s *session.Session, end func(), err error) {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		return nil, nil, err
	}
	if s, err = session.Open(ctx, server.Addrs(), nil); err != nil {
		server.Close()
		return nil, nil, err
	}
	return s, func() { s.Close(); server.Close() }, nil
}

// One of two that may export at once.
func ExampleAcquire() {
	ctx := context.Background()
	s, end, err := open(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()

	for range 2 {
		lease, err := semaphore.Acquire(ctx, s, "/limits/exports", 2, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer lease.Close()
	}
	_, err = semaphore.TryAcquire(ctx, s, "/limits/exports", 2, nil)
	fmt.Println(err)
	_, err = semaphore.Acquire(ctx, s, "/limits/exports", 10, nil)
	fmt.Println(errors.Is(err, semaphore.ErrLimit), err)
	// Output:
	// try semaphore /limits/exports: semaphore full
	// true acquire semaphore /limits/exports: limit is 2, not 10
}

// A lease of three, all or nothing, and a limit that rises while it waits.
func ExampleNew() {
	ctx := context.Background()
	s, end, err := open(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()

	small, err := semaphore.Acquire(ctx, s, "/limits/exports", 3, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer small.Close()
	large, err := semaphore.New(s, "/limits/exports", 3, &semaphore.Options{Weight: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
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
	s, end, err := open(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()

	err = semaphore.Do(ctx, s, "/limits/exports", 2, nil, func(ctx context.Context) error {
		holders, err := semaphore.Holders(ctx, s, "/limits/exports")
		fmt.Println("holders:", len(holders))
		return err
	})
	fmt.Println(err)
	// Output:
	// holders: 1
	// <nil>
}
