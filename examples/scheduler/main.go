// Scheduler runs a job at regular times, on one of several hosts: the leader. It records each run
// in one transaction with a check that the host still leads. So a leader that was paused, and has
// been replaced, cannot repeat the work of its successor.
//
// Three hosts stand for election. Each host leaves after it has led for two runs, as if it had
// crashed. The example starts a server in memory; -servers zk1:2181,zk2:2181 uses an ensemble of
// yours instead.
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
	"sync"
	"time"

	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const (
	root  = "/zkactors-scheduler"
	path  = root + "/election"
	last  = root + "/last-run" // its version counts the runs
	every = 50 * time.Millisecond
)

func main() {
	servers := flag.String("servers", "", "use these servers, such as zk1:2181,zk2:2181, instead of one in memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
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
	if err := run(ctx, addrs); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, servers []string) error {
	var (
		hosts sync.WaitGroup
		errs  [3]error
	)
	for i := range errs {
		hosts.Go(func() { errs[i] = host(ctx, servers, fmt.Sprintf("host-%d", i+1)) })
	}
	hosts.Wait()
	return errors.Join(errs[:]...)
}

// errEnough ends a host after its two runs.
var errEnough = errors.New("two runs are enough")

// host runs one host. In a real system each host would be a machine of its own.
func host(ctx context.Context, servers []string, name string) error {
	s, err := session.Open(ctx, servers, &session.Options{Timeout: 4 * time.Second})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.EnsurePath(ctx, root); err != nil {
		return err
	}
	if _, err := s.Create(ctx, last, nil, session.Persistent); err != nil && !errors.Is(err, session.ErrNodeExists) {
		return err
	}
	c, err := election.New(s, path, &election.Options{Data: []byte(name)})
	if err != nil {
		return err
	}
	defer c.Close()
	err = c.Lead(ctx, func(ctx context.Context, term int64) error { return schedule(ctx, s, c, name, term) })
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// schedule runs the job while the host leads in the given term.
func schedule(ctx context.Context, s *session.Session, c *election.Candidate, name string, term int64) error {
	// The last leader may have stopped half-way through its work. Here is the place to clean up.
	if err := c.Acknowledge(ctx); err != nil {
		return err
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for runs := 0; runs < 2; {
		select {
		case <-ticker.C:
		case <-ctx.Done(): // deposed: another leader goes on
			return nil
		}
		if now, leading := c.Leading(); !leading || now != term {
			continue // suspended: do not begin work that requires leadership
		}
		// The job itself would be here. Its requests to other systems carry the term as a fencing
		// token.
		results, err := s.Multi(ctx, c.Guard(), session.SetOp(last, []byte(name), session.AnyVersion))
		if err != nil { // lost on the way, or refused by the guard before ctx ends
			log.Printf("%s: %v", name, err)
			continue
		}
		runs++
		fmt.Printf("run %d, by %s\n", results[1].Stat.Version, name)
	}
	return errEnough
}
