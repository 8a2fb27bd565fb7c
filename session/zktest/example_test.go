package zktest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// In a test, Start(t) is shorter.
func ExampleNewServer() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{}))
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	path, err := s.Create(ctx, "/hello", []byte("world"), session.Ephemeral)
	fmt.Println(path, err, srv.Paths())
	srv.Expire(s.ID())
	fmt.Println(srv.Paths())
	// Output:
	// /hello <nil> [/hello]
	// []
}

// A test waits for what a fault leads to.
func ExampleAwait() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{}))
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	events := s.Events(ctx)
	srv.Expire(s.ID())
	t := new(testing.T) // that of the test
	expired := zktest.Await(t, events, func(ev session.Event) bool {
		_, is := ev.(session.Expired)
		return is
	})
	fmt.Printf("%T\n", expired)
	// Output: session.Expired
}

// A reply that is lost leaves the client in doubt.
func ExampleServer_DropReply() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{}))
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	srv.DropReply(zktest.Match{Op: zktest.OpCreate, Path: "/jobs*"})
	_, err := s.Create(ctx, "/jobs", nil, session.Persistent)
	fmt.Println(errors.Is(err, session.ErrUnknownOutcome), srv.Paths())
	// Output: true [/jobs]
}

// What a call costs is what the server counts.
func ExampleServer_Requests() {
	ctx := context.Background()
	srv := must(zktest.NewServer(zktest.Config{}))
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), nil))
	defer s.Close()

	srv.ResetRequests()
	must(s.Multi(ctx, session.CreateOp("/orders", nil, session.Persistent), session.CreateOp("/orders/7", nil, session.Persistent)))
	data, _, err := s.Get(ctx, "/orders/7")
	fmt.Println(len(data), err)
	counts := srv.Requests() // those of the session itself, too
	fmt.Println(counts[zktest.OpMulti], counts[zktest.OpGetData], srv.Proposals())
	// Output:
	// 0 <nil>
	// 1 1 1
}

// The server expires a session of which it has heard nothing for ten seconds of its clock.
func ExampleManualClock() {
	ctx := context.Background()
	clock := new(zktest.ManualClock)
	srv := must(zktest.NewServer(zktest.Config{Clock: clock}))
	defer srv.Close()
	s := must(session.Open(ctx, srv.Addrs(), &session.Options{Timeout: 10 * time.Second}))
	defer s.Close()

	must(s.Create(ctx, "/hello", nil, session.Ephemeral))
	clock.Advance(9 * time.Second)
	fmt.Println(srv.Paths())
	clock.Advance(2 * time.Second)
	fmt.Println(srv.Paths())
	// Output:
	// [/hello]
	// []
}

// must returns the value. It ends the program if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
