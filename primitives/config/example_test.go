package config_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

type Limits struct {
	Rate int `json:"rate"`
}

// The events of a value that is made, broken by another client, and deleted.
func ExampleOpen() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()
	v := must(config.Open(s, "/config/limits", config.JSON[Limits], nil))
	defer v.Close()

	for ev := range v.Events() {
		switch ev := ev.(type) {
		case config.Deleted:
			last, _, known := v.Last()
			if known {
				fmt.Println("deleted; it was", last)
				v.Close()
				continue
			}
			fmt.Println("there is none yet")
			try(v.Set(ctx, Limits{Rate: 100}))
		case config.Changed[Limits]:
			fmt.Println("version", ev.Version, "is", ev.Value)
			must(s.Set(ctx, "/config/limits", []byte("{rate: many}"), session.AnyVersion))
		case config.Invalid:
			last, version, _ := v.Last()
			fmt.Println("version", ev.Version, "does not decode; version", version, "was", last)
			try(s.Delete(ctx, "/config/limits", session.AnyVersion))
		case config.Closed:
			fmt.Println("closed", ev.Err)
		}
	}
	// Output:
	// there is none yet
	// version 0 is {100}
	// version 1 does not decode; version 0 was {100}
	// deleted; it was {100}
	// closed <nil>
}

// A counter: f may be called several times, its result is written once.
func ExampleValue_Update() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()
	orders := must(config.Open(s, "/counters/orders", config.JSON[int], nil))
	defer orders.Close()

	for range 3 {
		try(orders.Update(ctx, func(old int) (int, error) { return old + 1, nil }))
	}
	full := errors.New("no more than three")
	err := orders.Update(ctx, func(old int) (int, error) {
		if old >= 3 {
			return 0, full
		}
		return old + 1, nil
	})
	fmt.Println(err)
	fmt.Println(orders.Get(ctx))
	// Output:
	// no more than three
	// 3 2 <nil>
}

// A transfer reads and writes two values, all or nothing.
func ExampleTransactor_Do() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	t := must(config.NewTransactor(s, "/accounts", nil))
	defer t.Close()
	transfer := func(amount int) error {
		return t.Do(ctx, func(tx *config.Tx) error {
			a, _, err := config.Load(tx, "a", config.JSON[int])
			if err != nil {
				return err
			}
			b, _, err := config.Load(tx, "b", config.JSON[int])
			if err != nil {
				return err
			}
			if err := config.Store(tx, "a", config.JSON[int], a-amount); err != nil {
				return err
			}
			fmt.Println(a-amount, b+amount)
			return config.Store(tx, "b", config.JSON[int], b+amount)
		})
	}
	fmt.Println(transfer(10))
	fmt.Println(transfer(5))
	// Output:
	// -10 10
	// <nil>
	// -15 15
	// <nil>
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

// A service that changes its rate while it works. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleValue_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	v := must(config.Open(s, "/config/rate", config.JSON[int], nil))
	defer v.Close()
	requests := make(chan string, 1)
	for rate := 1; ; {
		select {
		case ev, ok := <-v.Events():
			if !ok { // after Closed
				fmt.Println("closed")
				return
			}
			switch ev := ev.(type) {
			case config.Deleted: // there is none yet
				if err := v.Set(ctx, 100); err != nil {
					log.Fatal(err)
				}
			case config.Changed[int]:
				rate = ev.Value
				requests <- "a request"
			case config.Invalid: // the rate stays
			case config.Closed:
			}
		case r := <-requests:
			fmt.Println(r, "at a rate of", rate)
			v.Close()
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	// Output:
	// a request at a rate of 100
	// closed
}
