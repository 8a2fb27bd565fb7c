// Package ours has the programs of the bench that run this library.
package ours

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/bench/driver"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
)

// Programs returns the programs by name. The table of workloads has their parameters.
func Programs() map[string]driver.Program {
	return map[string]driver.Program{
		"lock": locks, "several": several, "readwrite": readWrite, "semaphore": leases, "succession": succession, "stand": stand,
		"barrier": rounds, "put": put, "drain": drain, "consume": consume, "flow": flow, "commit": transactions,
		"join": join, "fanout": fanOut, "holders": holders, "waiters": waiters, "sessions": idleSessions,
		"rebalance": rebalance, "discover": discover, "tree": tree, "tree-change": treeChange,
	}
}

// open opens n sessions. The second result closes them.
func open(r *driver.Run, n int) (all []*session.Session, end func(), err error) {
	all = make([]*session.Session, n)
	end = func() {
		_ = driver.Each(n, func(i int) error {
			if all[i] != nil {
				all[i].Close()
			}
			return nil
		})
	}
	err = driver.Each(n, func(i int) (err error) {
		all[i], err = session.Open(r.Context(), r.Servers, &session.Options{Timeout: r.Timeout, MaxReply: 64 << 20})
		return err
	})
	if err != nil {
		end()
		return nil, nil, err
	}
	return all, end, nil
}

// locks acquires and releases locks.
func locks(r *driver.Run) error {
	n, each := r.Int("sessions", 1), r.Int("locks", 1)
	all, end, err := open(r, n)
	if err != nil {
		return err
	}
	defer end()
	opts := &lock.Options{ReleaseInBackground: r.Is("release", "background")}
	return r.Loop(n*each, func(w, _ int) error {
		path := r.Path + "/one"
		if !r.Is("shared", "1") {
			path = r.Path + "/" + strconv.Itoa(w)
		}
		l, err := lock.Acquire(r.Context(), all[w%n], path, opts)
		if err != nil {
			return err
		}
		return l.Release(r.Context())
	})
}

// several acquires and releases three locks at once, by turns others.
func several(r *driver.Run) error {
	all, end, err := open(r, r.Int("sessions", 1))
	if err != nil {
		return err
	}
	defer end()
	locks, opts := r.Int("among", 20), &lock.Options{ReleaseInBackground: r.Is("release", "background")}
	return r.Loop(len(all), func(w, turn int) error {
		var wants []lock.Want
		for i := range 3 { // as the driver of Curator chooses
			wants = append(wants, lock.Want{Path: r.Path + "/" + strconv.Itoa((7*w+3*turn+5*i)%locks)})
		}
		l, err := lock.AcquireAll(r.Context(), all[w], wants, opts)
		if err != nil {
			return err
		}
		return l.Release(r.Context())
	})
}

// readWrite acquires and releases one lock, every tenth time for writing.
func readWrite(r *driver.Run) error {
	all, end, err := open(r, r.Int("sessions", 1))
	if err != nil {
		return err
	}
	defer end()
	opts := &lock.Options{ReleaseInBackground: r.Is("release", "background")}
	return r.Loop(len(all), func(w, turn int) error {
		acquire := lock.AcquireRead
		if (w+turn)%10 == 0 {
			acquire = lock.AcquireWrite
		}
		l, err := acquire(r.Context(), all[w], r.Path, opts)
		if err != nil {
			return err
		}
		return l.Release(r.Context())
	})
}

func leases(r *driver.Run) error {
	all, end, err := open(r, r.Int("sessions", 1))
	if err != nil {
		return err
	}
	defer end()
	opts := &semaphore.Options{ReleaseInBackground: r.Is("release", "background")}
	return r.Loop(r.Int("contenders", 1), func(w, _ int) error {
		l, err := semaphore.Acquire(r.Context(), all[w%len(all)], r.Path, r.Int("leases", 1), opts)
		if err != nil {
			return err
		}
		return l.Release(r.Context())
	})
}

// succession measures the time from a resignation until the next candidate is elected. A leader
// leads for some time before it resigns, as those of services do.
func succession(r *driver.Run) error {
	rest := time.Duration(r.Int("rest_ms", 0)) * time.Millisecond
	all, end, err := open(r, r.Int("candidates", 2))
	if err != nil {
		return err
	}
	defer end()
	opts := &election.Options{IgnoreLeader: true} // like Curator's and kazoo's candidates
	if r.Is("layout", "curator") {
		opts.Layout = election.Curator
	}
	elected := make(chan int, len(all))
	candidates := make([]*election.Candidate, len(all))
	var readers sync.WaitGroup
	defer readers.Wait()
	for i, s := range all {
		c, err := election.Stand(r.Context(), s, r.Path, opts)
		if err != nil {
			return err
		}
		defer c.Close()
		candidates[i] = c
		readers.Go(func() {
			for ev := range c.Events() {
				if _, ok := ev.(election.Elected); ok {
					elected <- i
				}
			}
		})
	}
	leader := <-elected
	phase := func(l driver.Limit) (took []time.Duration, err error) {
		for l.Next() {
			began, resigned := time.Now(), make(chan error, 1)
			go func(c *election.Candidate) { resigned <- c.Resign(r.Context()) }(candidates[leader])
			leader = <-elected
			took = append(took, time.Since(began))
			if err := <-resigned; err != nil {
				return nil, err
			}
			<-time.After(rest)
		}
		return took, nil
	}
	return r.Latencies(1, phase)
}

// stand runs one candidate until it leads. The bench then kills the process.
func stand(r *driver.Run) error {
	all, _, err := open(r, 1)
	if err != nil {
		return err
	}
	c, err := election.Stand(r.Context(), all[0], r.Path, nil)
	if err != nil {
		return err
	}
	if err := r.Ask("standing"); err != nil {
		return err
	}
	for ev := range c.Events() {
		if _, ok := ev.(election.Elected); ok {
			return r.Ask("elected")
		}
	}
	return c.Err()
}

func rounds(r *driver.Run) error {
	n := r.Int("parties", 2)
	all, end, err := open(r, n)
	if err != nil {
		return err
	}
	defer end()
	parties := make([]*barrier.Double, n)
	for i, s := range all {
		if parties[i], err = barrier.NewDouble(s, r.Path, n, nil); err != nil {
			return err
		}
		defer parties[i].Close()
	}
	return r.Rounds(n, 2*n, func(p int) error {
		if err := parties[p].Enter(r.Context()); err != nil {
			return err
		}
		return parties[p].Leave(r.Context())
	})
}

// payload returns the data of an item.
func payload() []byte { return make([]byte, 100) }

// put puts items, one at a time or in batches.
func put(r *driver.Run) error {
	all, end, err := open(r, 1)
	if err != nil {
		return err
	}
	defer end()
	q, err := queue.New(all[0], r.Path, nil)
	if err != nil {
		return err
	}
	batch := make([][]byte, r.Int("batch", 1))
	for i := range batch {
		batch[i] = payload()
	}
	op := func(_, _ int) error {
		_, err := q.PutAll(r.Context(), batch)
		return err
	}
	if len(batch) == 1 {
		op = func(_, _ int) error {
			_, err := q.Put(r.Context(), batch[0])
			return err
		}
	}
	r.Scale(len(batch))
	return r.Loop(r.Int("producers", 1), op)
}

// fill puts n items, and returns when the servers have them.
func fill(r *driver.Run, s *session.Session, path string, n int) error {
	q, err := queue.New(s, path, nil)
	if err != nil {
		return err
	}
	const batch, producers = 500, 4
	var next atomic.Int64
	err = driver.Each(producers, func(int) error {
		for {
			at := int(next.Add(batch)) - batch
			if at >= n {
				return nil
			}
			items := make([][]byte, min(batch, n-at))
			for j := range items {
				items[j] = payload()
			}
			if _, err := q.PutAll(r.Context(), items); err != nil {
				return err
			}
		}
	})
	return errors.Join(err, q.Close(r.Context()))
}

// drain takes a backlog of items.
func drain(r *driver.Run) error {
	all, end, err := open(r, 1)
	if err != nil {
		return err
	}
	defer end()
	for _, phase := range []string{"/warm", "/it"} {
		n := r.Int("items", 1)
		if phase == "/warm" {
			n = min(n, 1000)
		}
		if err := fill(r, all[0], r.Path+phase, n); err != nil {
			return err
		}
		q, err := queue.New(all[0], r.Path+phase, nil)
		if err != nil {
			return err
		}
		take := func(l driver.Limit) (int, error) {
			var left atomic.Int64
			left.Store(int64(n))
			err := driver.Each(r.Int("takers", 64), func(int) error {
				for left.Add(-1) >= 0 {
					if _, err := q.TryTake(r.Context()); err != nil {
						return err
					}
				}
				return nil
			})
			return n, err
		}
		if phase == "/warm" {
			_, err = take(driver.Limit{})
		} else {
			err = r.Measure(take)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// consume runs consumers, each in a session of its own, which acknowledge each item.
func consume(r *driver.Run) error {
	n := r.Int("consumers", 1)
	all, end, err := open(r, n)
	if err != nil {
		return err
	}
	defer end()
	for _, phase := range []string{"/warm", "/it"} {
		items := r.Int("items", 1)
		if phase == "/warm" {
			items = min(items, 500)
		}
		if err := fill(r, all[0], r.Path+phase, items); err != nil {
			return err
		}
		work := func(l driver.Limit) (int, error) {
			ctx, stop := context.WithCancel(r.Context())
			defer stop()
			var done atomic.Int64
			err := driver.Each(n, func(i int) error {
				q, err := queue.New(all[i], r.Path+phase, nil)
				if err != nil {
					return err
				}
				err = q.Run(ctx, r.Int("workers", 16), func(context.Context, queue.Item) error {
					if d := done.Add(1); d >= int64(items) || phase == "/it" && !r.Counted() && !l.Next() {
						stop()
					}
					return nil
				})
				if errors.Is(err, context.Canceled) {
					err = nil
				}
				return err
			})
			return int(done.Load()), err
		}
		if phase == "/warm" {
			_, err = work(driver.Limit{})
		} else {
			err = r.Measure(work)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// transactions runs two-phase commits in sequence, each until all sites know the outcome.
func transactions(r *driver.Run) error {
	n := r.Int("sites", 2)
	all, end, err := open(r, n+1)
	if err != nil {
		return err
	}
	defer end()
	var names []string
	committed := make(chan error, n)
	var sites sync.WaitGroup
	defer sites.Wait()
	for i := range n {
		name := "site-" + strconv.Itoa(i)
		names = append(names, name)
		p, err := commit.Join(all[i], r.Path, name, nil)
		if err != nil {
			return err
		}
		defer p.Close()
		sites.Go(func() { site(r.Context(), p, committed) })
	}
	id := 0
	return r.Loop(1, func(_, _ int) error {
		id++
		tx, err := commit.Begin(r.Context(), all[n], fmt.Sprintf("%s/t%d", r.Path, id), &commit.Options{Sites: names, Payload: payload()})
		if err != nil {
			return err
		}
		defer tx.Close()
		for range n {
			if err := <-committed; err != nil {
				return err
			}
		}
		outcome, err := tx.Wait(r.Context())
		if err == nil && !outcome.Committed {
			err = fmt.Errorf("%s: %v", tx.ID(), outcome)
		}
		return err
	})
}

// site takes part in every transaction, and votes yes.
func site(ctx context.Context, p *commit.Participant, committed chan<- error) {
	for ev := range p.Events() {
		switch ev := ev.(type) {
		case commit.Prepare:
			if err := p.Vote(ctx, ev.Tx, commit.Yes); err != nil {
				committed <- err
			}
		case commit.Committed:
			committed <- nil
			if err := p.Finish(ctx, ev.Tx); err != nil && !errors.Is(err, commit.ErrClosed) {
				committed <- err
			}
		case commit.Aborted, commit.Forgotten:
			committed <- fmt.Errorf("site %s: %v", p.Site(), ev)
		case commit.Left, commit.Voted:
		}
	}
}

// closeAll closes all values at once.
func closeAll[C interface{ Close() }](all []C) {
	_ = driver.Each(len(all), func(i int) error {
		all[i].Close()
		return nil
	})
}
