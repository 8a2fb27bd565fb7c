// Quickstart shows two workers, alice and bob, that pass a lock back and forth. Then alice's
// connection freezes while she holds the lock. She loses the lock to bob, and gets it back later.
//
// It starts a server in memory; -servers zk1:2181,zk2:2181 uses an ensemble of yours instead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const path = "/zkactors-quickstart/lock"

func main() {
	servers := flag.String("servers", "", "use these servers, such as zk1:2181,zk2:2181, instead of one in memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	addrs := strings.Split(*servers, ",")
	if *servers == "" {
		srv, err := zktest.NewServer(zktest.Config{})
		if err != nil {
			log.Fatal(err)
		}
		defer srv.Close()
		addrs = srv.Addrs()
	}
	network, err := zktest.ListenProxy(addrs...) // its connections can be made to fail
	if err != nil {
		log.Fatal(err)
	}
	defer network.Close()
	if err := run(ctx, network, &session.Options{Timeout: 4 * time.Second}); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, network zktest.Faults, opts *session.Options) error {
	alice, err := session.Open(ctx, network.Addrs(), opts)
	if err != nil {
		return err
	}
	defer alice.Close()
	bob, err := session.Open(ctx, network.Addrs(), opts)
	if err != nil {
		return err
	}
	defer bob.Close()

	for range 3 { // they take turns
		err := errors.Join(hold(ctx, alice, "alice holds the lock"), hold(ctx, bob, "bob holds the lock"))
		if err != nil {
			return err
		}
	}
	held, err := lock.Acquire(ctx, alice, path, nil)
	if err != nil {
		return err
	}
	defer held.Close()
	waiting, err := lock.New(bob, path, nil)
	if err != nil {
		return err
	}
	defer waiting.Close()
	say("alice holds the lock, token %d, and bob waits; now her connection freezes", held.Token())
	network.Freeze(alice.ID(), zktest.Both)
	<-held.Done() // by her own clock, because no server reaches her any more
	say("alice knows that she has lost it: %v", held.Err())
	for ev := range waiting.Events() {
		say("bob: %v", ev)
		if _, ok := ev.(lock.Acquired); ok {
			break
		}
	}
	waiting.Close()
	network.Thaw(alice.ID())
	return hold(ctx, alice, "alice is back, in a new session")
}

// hold acquires the lock, reports that, and releases it.
func hold(ctx context.Context, s *session.Session, what string) error {
	return lock.Do(ctx, s, path, nil, func(_ context.Context, token int64) error {
		say("%s: token %d", what, token)
		return nil
	})
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
