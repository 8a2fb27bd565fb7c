package naming_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A name is registered, looked up, replaced and removed.
func ExampleRegister() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	fmt.Println(naming.Register(ctx, s, "/names", "billing/primary", []byte("10.0.0.7:80"), nil))
	data, err := naming.Lookup(ctx, s, "/names", "billing/primary")
	fmt.Println(string(data), err)

	err = naming.Register(ctx, s, "/names", "billing/primary", []byte("10.0.0.8:80"), nil)
	fmt.Println("taken:", errors.Is(err, naming.ErrTaken))
	fmt.Println(naming.Register(ctx, s, "/names", "billing/primary", []byte("10.0.0.8:80"), &naming.Options{Replace: true}))
	fmt.Println(naming.List(ctx, s, "/names"))

	fmt.Println(naming.Unregister(ctx, s, "/names", "billing/primary"))
	_, err = naming.Lookup(ctx, s, "/names", "billing/primary")
	fmt.Println("not found:", errors.Is(err, naming.ErrNotFound))
	// Output:
	// <nil>
	// 10.0.0.7:80 <nil>
	// taken: true
	// <nil>
	// [billing/primary] <nil>
	// <nil>
	// not found: true
}

// must returns the value. It ends the program if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// A service that serves while it has its name. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleRegistration_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	r := must(naming.Keep(s, "/names", "billing", []byte("10.0.0.7:80"), nil))
	defer r.Close()
	requests := make(chan string, 1)
	requests <- "a request"
	for events := r.Events(); events != nil; {
		select {
		case _, ok := <-events:
			if !ok { // after the registration is over
				events = nil
			}
		case q := <-requests:
			fmt.Println("serves", q)
			r.Close()
		case <-ctx.Done():
			fmt.Println(context.Cause(ctx))
			return
		}
	}
	fmt.Println("over:", r.Err())
	// Output:
	// serves a request
	// over: <nil>
}
