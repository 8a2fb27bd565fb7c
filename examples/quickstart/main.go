// Quickstart shows two workers, alice and bob, that pass a lock back and forth; what
// happens when alice's network freezes while she holds it; and how she gets it back.
//
//	go run ./examples/quickstart                            private servers
//	go run ./examples/quickstart -servers zk1:2181,zk2:2181 an ensemble of yours
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const path = "/zkactors-quickstart/lock"

func main() {
	servers := flag.String("servers", "", "use these servers instead of private ones")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := run(ctx, *servers); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, servers string) error {
	addrs := strings.Split(servers, ",")
	if servers == "" {
		ensemble, err := zktest.NewEnsemble(zktest.EnsembleConfig{Servers: 3, NoSync: true})
		if err != nil {
			return err
		}
		defer ensemble.Close()
		addrs = ensemble.Addrs()
	}
	network, err := zktest.ListenProxy(addrs...) // alice's, which is going to freeze
	if err != nil {
		return err
	}
	defer network.Close()
	opts := &session.Options{Timeout: 2 * time.Second}
	alice, err := session.Open(ctx, network.Addrs(), opts)
	if err != nil {
		return err
	}
	defer alice.Close()
	bob, err := session.Open(ctx, addrs, opts)
	if err != nil {
		return err
	}
	defer bob.Close()

	for turn := range 6 {
		name, s := "alice", alice
		if turn%2 == 1 {
			name, s = "bob", bob
		}
		if err := hold(ctx, s, name+" holds the lock"); err != nil {
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
	say("alice holds the lock, token %d, and bob waits; now her network freezes", held.Token())
	network.Freeze(0, zktest.Both)
	<-held.Done() // by her own clock: she hears nothing any more
	say("alice knows that she has lost it: %v", held.Err())
	for ev := range waiting.Events() {
		say("bob: %v", ev)
		if _, ok := ev.(lock.Acquired); ok {
			break
		}
	}
	network.Thaw(0)
	waiting.Close()
	return hold(ctx, alice, "alice's network is back, and so is she")
}

// hold takes the lock, says so, and gives it back.
func hold(ctx context.Context, s *session.Session, what string) error {
	return lock.Do(ctx, s, path, nil, func(_ context.Context, token int64) error {
		say("%s: token %d", what, token)
		return nil
	})
}

func say(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }
