// Transfer books orders in two small ledgers, inventory and payments: each order in both of them or
// in neither. With -crash the coordinator disappears between the phases, as if its process had
// ended, and another coordinator resumes the order. Each run first resumes the orders of an
// interrupted run.
//
// It starts a server in memory; -servers zk1:2181,zk2:2181 uses an ensemble of yours instead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

const parent = "/zkactors-transfer/tx"

func main() {
	servers := flag.String("servers", "", "use these servers, such as zk1:2181,zk2:2181, instead of one in memory")
	crash := flag.Bool("crash", false, "kill the coordinator between the phases of the first order")
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
	if err := run(ctx, os.Stdout, addrs, *crash); err != nil {
		log.Fatal(err)
	}
}

// A ledger is a site. It keeps its bookings by transaction, like a database that has the
// transaction as a unique key: an outcome that arrives twice is booked once.
type ledger struct {
	name   string
	mu     sync.Mutex
	free   int
	held   map[commit.Tx]int // by order: amounts promised with a Yes
	booked map[commit.Tx]int // by order: amounts booked
}

func (l *ledger) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%s: %d free, %d orders", l.name, l.free, len(l.booked))
}

// promise holds the amount, if the ledger has it free. A site that restarts before it has voted is
// asked again, and gives the same answer.
func (l *ledger) promise(order commit.Tx, amount int) commit.Vote {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, held := l.held[order]; held {
		return commit.Yes
	}
	if amount > l.free {
		return commit.No
	}
	l.free -= amount
	l.held[order] = amount
	return commit.Yes
}

// settle books the amount that is held, or frees it.
func (l *ledger) settle(order commit.Tx, committed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	amount, held := l.held[order]
	if !held {
		return
	}
	delete(l.held, order)
	if committed {
		l.booked[order] = amount
	} else {
		l.free += amount
	}
}

// serve votes and books until the participant is closed.
func (l *ledger) serve(ctx context.Context, p *commit.Participant) error {
	for ev := range p.Events() {
		var err error
		switch ev := ev.(type) {
		case commit.Prepare:
			amount, malformed := strconv.Atoi(string(ev.Payload))
			vote := commit.No
			if malformed == nil {
				vote = l.promise(ev.Tx, amount)
			}
			if err = p.Vote(ctx, ev.Tx, vote); errors.Is(err, commit.ErrDecided) {
				err = nil // the outcome follows
			}
		case commit.Committed:
			l.settle(ev.Tx, true)
			err = p.Finish(ctx, ev.Tx)
		case commit.Aborted:
			l.settle(ev.Tx, false)
			err = p.Finish(ctx, ev.Tx)
		case commit.Forgotten:
			err = fmt.Errorf("an operator must look for the outcome of %s", ev.Tx)
		case commit.Left:
			return ev.Err
		case commit.Voted: // only coordinators receive it
		}
		if err != nil && !errors.Is(err, commit.ErrClosed) { // after Close, Left is still to come
			return err
		}
	}
	return nil
}

func run(ctx context.Context, out io.Writer, servers []string, crash bool) (err error) {
	ledgers := []*ledger{{name: "inventory", free: 10}, {name: "payments", free: 5}}
	var serving sync.WaitGroup
	failed := make(chan error, len(ledgers))
	defer func() {
		serving.Wait()
		close(failed)
		for e := range failed {
			err = errors.Join(err, e)
		}
	}()
	for _, l := range ledgers {
		l.held, l.booked = map[commit.Tx]int{}, map[commit.Tx]int{}
		s, err := session.Open(ctx, servers, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		p, err := commit.Join(s, parent, l.name, nil)
		if err != nil {
			return err
		}
		defer p.Close()
		serving.Go(func() { failed <- l.serve(ctx, p) })
	}
	if _, err := resume(ctx, servers, out); err != nil { // resumes the orders of an interrupted run
		return err
	}
	for i, amount := range []int{3, 4, 2} {
		outcome, err := book(ctx, servers, fmt.Sprintf("order-%d", i+1), amount, crash && i == 0, out)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "order-%d of %d: %v\n", i+1, amount, outcome)
	}
	for _, l := range ledgers {
		_, _ = fmt.Fprintln(out, l)
	}
	return nil
}

// book books an order in both ledgers or in neither, and returns when both have applied the
// outcome.
func book(ctx context.Context, servers []string, order string, amount int, crash bool, out io.Writer) (commit.Outcome, error) {
	s, err := session.Open(ctx, servers, nil)
	if err != nil {
		return commit.Outcome{}, err
	}
	defer s.Close()
	tx, err := commit.Begin(ctx, s, parent+"/"+order, &commit.Options{
		Sites: []string{"inventory", "payments"}, Payload: []byte(strconv.Itoa(amount)),
	})
	if err != nil {
		return commit.Outcome{}, err
	}
	defer tx.Close()
	if crash {
		s.Close() // the coordinator disappears while the sites vote
		_, _ = fmt.Fprintln(out, order, "has lost its coordinator")
		outcomes, err := resume(ctx, servers, out)
		outcome, resumed := outcomes[order]
		if err == nil && !resumed {
			err = fmt.Errorf("%s is not there", order)
		}
		return outcome, err
	}
	return applied(ctx, s, tx)
}

// resume is what a coordinator does when it starts. It returns the outcomes by order.
func resume(ctx context.Context, servers []string, out io.Writer) (map[string]commit.Outcome, error) {
	s, err := session.Open(ctx, servers, nil)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	all, err := commit.Resume(ctx, s, parent)
	if err != nil {
		return nil, err
	}
	outcomes := map[string]commit.Outcome{}
	for _, tx := range all {
		defer tx.Close()
		_, _ = fmt.Fprintln(out, tx.ID(), "is resumed")
		if outcomes[tx.ID()], err = applied(ctx, s, tx); err != nil {
			return nil, err
		}
	}
	return outcomes, nil
}

// applied waits for the outcome, and until the sites have finished, when the transaction is
// removed.
func applied(ctx context.Context, s *session.Session, tx *commit.Transaction) (commit.Outcome, error) {
	outcome, err := tx.Wait(ctx)
	if err != nil {
		return outcome, err
	}
	return outcome, watch.UntilGone(ctx, s, path.Join(parent, tx.ID()))
}
