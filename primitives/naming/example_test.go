package naming_test

import (
	"context"
	"errors"
	"fmt"
	"log"

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
