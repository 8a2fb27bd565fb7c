// Barrier shows a parallel computation in rounds: four workers compute how a rod heats up. Each
// computes its quarter from the results of the round before. No worker begins a round before all
// workers have finished the round before.
//
// It starts a server in memory; -servers zk1:2181,zk2:2181 uses an ensemble of yours instead.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const (
	path    = "/zkactors-barrier/rounds"
	workers = 4
	rounds  = 20
	cells   = 3 // of each worker
)

// A rod has one more cell at each end: at the left of 100 degrees, at the right of 0 degrees.
type rod [1 + workers*cells + 1]float64

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
	if err := run(ctx, os.Stdout, addrs); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, servers []string) error {
	// The rods alternate: a round reads one and writes the other.
	var rods [2]rod
	rods[0][0], rods[1][0] = 100, 100
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failures := make(chan error, workers)
	var working sync.WaitGroup
	for i := range workers {
		working.Go(func() {
			if err := work(ctx, servers, i, &rods); err != nil {
				failures <- err
				stop() // the others would wait for this worker forever
			}
		})
	}
	working.Wait()
	if len(failures) > 0 {
		return <-failures // the first is the reason for the others
	}
	_, _ = fmt.Fprintf(out, "after %d rounds: %.0f\n", rounds, rods[rounds%2])
	return nil
}

// work runs one worker. In a real computation it would be a process of its own.
func work(ctx context.Context, servers []string, i int, rods *[2]rod) error {
	s, err := session.Open(ctx, servers, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	d, err := barrier.NewDouble(s, path, workers, &barrier.DoubleOptions{Name: fmt.Sprint("worker-", i)})
	if err != nil {
		return err
	}
	defer d.Close()
	for round := range rounds {
		if err := d.Enter(ctx); err != nil { // all have finished the round before
			return err
		}
		from, to := &rods[round%2], &rods[(round+1)%2]
		for c := 1 + i*cells; c < 1+(i+1)*cells; c++ {
			to[c] = (from[c-1] + from[c] + from[c+1]) / 3
		}
		if err := d.Leave(ctx); err != nil { // all have finished this round
			return err
		}
	}
	return nil
}
