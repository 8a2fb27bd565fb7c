package config_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A service that changes its rate while it works. A closed channel is
// always ready: without ok, the loop would spin.
func ExampleValue_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	srv, err := zktest.NewServer(zktest.Config{}) // a server in memory
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	s, err := session.Open(ctx, srv.Addrs(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	v, err := config.Open(s, "/config/rate", config.JSON[int], nil)
	if err != nil {
		log.Fatal(err)
	}
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
