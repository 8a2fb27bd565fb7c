// Quickstart shows two workers, alice and bob, that pass a lock back and forth; what
// happens when alice's connection freezes while she holds it; and how she gets it back.
//
// It starts a server in memory; -servers zk1:2181,zk2:2181 names an ensemble of yours.
package main

import (
	"context"
	"errors"
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
	servers := flag.String("servers", "", "use these servers instead of one in memory")
	flag.Parse()
	if err := run(*servers); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(servers string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	network, closeNetwork, err := connect(servers)
	if err != nil {
		return err
	}
	defer closeNetwork()
	opts := &session.Options{Timeout: 2 * time.Second}
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
	<-held.Done() // by her own clock: she hears nothing any more
	say("alice knows that she has lost it: %v", held.Err())
	for ev := range waiting.Events() {
		say("bob: %v", ev)
		if _, ok := ev.(lock.Acquired); ok {
			break
		}
	}
	waiting.Close()
	return hold(ctx, alice, "alice is back, in a new session")
}

// connect returns a ZooKeeper whose connections can be made to fail.
func connect(servers string) (network zktest.Faults, end func(), err error) {
	if servers != "" {
		proxy, err := zktest.ListenProxy(strings.Split(servers, ",")...)
		return proxy, func() { proxy.Close() }, err
	}
	server, err := zktest.NewServer(zktest.Config{})
	return server, func() { server.Close() }, err
}

// hold takes the lock, says so, and gives it back.
func hold(ctx context.Context, s *session.Session, what string) error {
	return lock.Do(ctx, s, path, nil, func(_ context.Context, token int64) error {
		say("%s: token %d", what, token)
		return nil
	})
}

func say(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) }
