package session_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A program passes the addresses of its own servers, such as zk1:2181.
func ExampleOpen() {
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	s, err := session.Open(ctx, srv.Addrs(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	fmt.Println(s.Create(ctx, "/config", []byte("one"), session.Persistent))
	// Output: /config <nil>
}

// A loop receives what becomes of the session, until the session is closed.
func ExampleSession_Events() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	events := s.Events(ctx)
	for ev := range events {
		switch ev.(type) {
		case session.Connected:
			fmt.Println("connected: ephemeral nodes of earlier epochs are gone")
			go s.Close()
		case session.Suspended, session.Resumed, session.Expired:
		case session.Closed:
			fmt.Println("closed")
		}
	}
	// Output:
	// connected: ephemeral nodes of earlier epochs are gone
	// closed
}

// All operations are done, or none: the account is charged only if the order is new.
func ExampleSession_Multi() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{})) // a server in memory
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()
	must(s.Create(ctx, "/account", []byte("10"), session.Persistent))

	for range 2 {
		_, err := s.Multi(ctx,
			session.CreateOp("/order-7", nil, session.Persistent),
			session.SetOp("/account", []byte("3"), 0),
		)
		fmt.Println(err == nil, errors.Is(err, session.ErrNodeExists))
	}
	// Output:
	// true false
	// false true
}

// must returns the value. It ends the program if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
