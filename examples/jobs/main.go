// Jobs shows a queue of jobs. A producer puts jobs, and three workers do them. One worker crashes
// while it has a job. One job fails while something that it needs is away: it is tried again, later
// each time, while the others go on, and ends among the dead letters. When what it needs is back,
// it is redriven, and done. The program prints the progress.
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
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const jobs = "/zkactors-jobs/jobs"

// options are the same for all that use the queue. After three attempts a job is a dead letter.
func options() *queue.Options {
	return &queue.Options{MaxAttempts: 3, Backoff: queue.Backoff{First: 50 * time.Millisecond, Most: time.Second}}
}

func main() {
	servers := flag.String("servers", "", "use these servers, such as zk1:2181,zk2:2181, instead of one in memory")
	n := flag.Int("jobs", 20, "how many jobs there are")
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
	if err := run(ctx, os.Stdout, addrs, *n); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, servers []string, n int) error {
	if n < 1 {
		return fmt.Errorf("-jobs: %d, want at least 1", n)
	}
	s, err := session.Open(ctx, servers, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	q, err := queue.New(s, jobs, options())
	if err != nil {
		return err
	}
	p := &progress{out: out}
	if err := produce(ctx, q, p, n); err != nil {
		return err
	}
	if err := crash(ctx, servers, p); err != nil {
		return err
	}
	if err := work(ctx, q, p); err != nil {
		return err
	}
	if p.left, err = redrive(ctx, s, p); err != nil || p.left == 0 {
		return err
	}
	return work(ctx, q, p)
}

// work does jobs until none is left.
func work(ctx context.Context, q *queue.Queue, p *progress) error {
	working, stop := context.WithCancel(ctx)
	defer stop()
	p.done = stop
	err := q.Run(working, 3, func(_ context.Context, item queue.Item) error { return p.work(item) })
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !errors.Is(err, context.Canceled):
		return err
	}
	return nil
}

// produce puts all jobs or none. The queue may also have jobs of a run that was interrupted.
func produce(ctx context.Context, q *queue.Queue, p *progress, n int) error {
	var all [][]byte
	for i := range n {
		all = append(all, fmt.Appendf(nil, "job %d", i))
	}
	if _, err := q.PutAll(ctx, all); err != nil {
		return err
	}
	var err error
	p.left, err = q.Len(ctx)
	p.say("%d jobs are put, of %d in the queue", n, p.left)
	return err
}

// crash runs a worker that ends while it has a job. Its session is closed, so the job returns to
// the queue.
func crash(ctx context.Context, servers []string, p *progress) error {
	s, err := session.Open(ctx, servers, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	q, err := queue.New(s, jobs, options())
	if err != nil {
		return err
	}
	c, err := q.Consume(nil)
	if err != nil {
		return err
	}
	select {
	case item := <-c.Items():
		p.say("a worker crashes with %s", item.Data)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// redrive prints the dead letters, brings back what they need, and puts them into the queue again.
// It returns how many there are.
func redrive(ctx context.Context, s *session.Session, p *progress) (int, error) {
	dead, err := queue.DeadLetters(ctx, s, jobs, options())
	if err != nil {
		return 0, err
	}
	for letter, err := range dead.All(ctx) {
		if err != nil {
			return 0, err
		}
		p.say("dead: %s, after %d attempts: %s", letter.Data, letter.Attempts, letter.Cause)
	}
	p.repaired = true
	n, err := dead.RedriveAll(ctx)
	if err != nil {
		return 0, err
	}
	p.say("%d jobs are redriven", n)
	return n, dead.Close(ctx)
}

// A progress counts the work that is left, and prints what the workers do.
type progress struct {
	out      io.Writer
	done     func()
	repaired bool // whether what job 7 needs is back

	mu   sync.Mutex
	left int // jobs that are neither done nor abandoned
}

func (p *progress) say(format string, args ...any) { _, _ = fmt.Fprintf(p.out, format+"\n", args...) }

var errAway = errors.New("the printer is away")

// work does a job. Job 7 fails until the repair.
func (p *progress) work(item queue.Item) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := error(nil)
	if string(item.Data) == "job 7" && !p.repaired {
		err = errAway
	}
	if err == nil || item.Attempt == 3 {
		p.left--
	}
	p.say("%s, attempt %d: %v; %d left", item.Data, item.Attempt, err, p.left)
	if p.left == 0 {
		p.done()
	}
	return err
}
