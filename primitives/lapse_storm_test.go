package primitives_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A tenant holds what excludes others.
type tenant struct {
	done    <-chan struct{}
	shared  bool
	release func(context.Context) error
}

type acquire func(ctx context.Context, s *session.Session, n int) (*tenant, error)

func lockOf(kind lock.Kind, layout lock.Layout) acquire {
	return func(ctx context.Context, s *session.Session, n int) (*tenant, error) {
		acquire, shared := lock.Acquire, false
		switch {
		case kind == lock.Read && n%3 > 0:
			acquire, shared = lock.AcquireRead, true
		case kind == lock.Read:
			acquire = lock.AcquireWrite
		}
		l, err := acquire(ctx, s, "/lock", &lock.Options{Layout: layout})
		if err != nil {
			return nil, err
		}
		return &tenant{l.Done(), shared, l.Release}, nil
	}
}

var lapsing = map[string]acquire{
	"standard":            lockOf(lock.Exclusive, lock.Standard),
	"prioritized":         lockOf(lock.Exclusive, lock.Prioritized),
	"kazoo":               lockOf(lock.Exclusive, lock.Kazoo),
	"shared":              lockOf(lock.Read, lock.Standard),
	"shared, prioritized": lockOf(lock.Read, lock.Prioritized),
	"shared, curator":     lockOf(lock.Read, lock.Curator),
	"several": func(ctx context.Context, s *session.Session, n int) (*tenant, error) {
		all := []lock.Want{{Path: "/lock"}, {Path: "/b"}}
		if n%2 == 1 {
			all = []lock.Want{{Path: "/c"}, {Path: "/lock"}}
		}
		l, err := lock.AcquireAll(ctx, s, all, nil)
		if err != nil {
			return nil, err
		}
		return &tenant{l.Done(), false, l.Release}, nil
	},
	"semaphore": func(ctx context.Context, s *session.Session, _ int) (*tenant, error) {
		l, err := semaphore.Acquire(ctx, s, "/lock", 1, nil)
		if err != nil {
			return nil, err
		}
		return &tenant{l.Done(), false, l.Release}, nil
	},
	"gate": func(ctx context.Context, s *session.Session, _ int) (*tenant, error) {
		b, err := barrier.New(s, "/gate", nil)
		if err != nil {
			return nil, err
		}
		for {
			g, err := b.TryRaise(ctx)
			if err == nil {
				return &tenant{g.Done(), false, func(ctx context.Context) error {
					defer b.Close()
					return g.Lift(ctx)
				}}, nil
			}
			select {
			case <-ctx.Done():
				b.Close()
				return nil, err
			case <-time.After(300 * time.Millisecond):
			}
		}
	},
	"election": nil,
}

// TestStormOfLapses: contenders of several processes, two in each, lapse and come back. No two hold
// at once, each is granted again, and nothing is left.
func TestStormOfLapses(t *testing.T) {
	for name, acquire := range lapsing {
		t.Run(name, func(t *testing.T) {
			for seed := range hasten.Seeds(t, hasten.Sized[uint64](hasten.Usually[uint64](10, 3), 1)) {
				kit.Run(t, zktest.Config{Tick: time.Second, Latency: 2 * time.Millisecond}, func(w kit.World) {
					stormOfLapses(w, seed, acquire)
				})
			}
		})
	}
}

func stormOfLapses(w kit.World, seed uint64, acquire acquire) {
	r := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	holders := map[*tenant]string{}
	grants := map[string]int{}
	standing := map[string]*election.Candidate{}
	over := func(t *tenant) bool {
		select {
		case <-t.done:
			return true
		default:
			return false
		}
	}
	enter := func(t *tenant, name string) {
		mu.Lock()
		defer mu.Unlock()
		grants[name]++
		for other, n := range holders {
			if !over(other) && !over(t) && (!other.shared || !t.shared) {
				w.Errorf("%v: %s and %s hold at once", time.Now(), name, n)
			}
		}
		holders[t] = name
	}
	leave := func(t *tenant) {
		mu.Lock()
		defer mu.Unlock()
		delete(holders, t)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all []*kit.Gate
	var workers sync.WaitGroup
	hangs := func(what string, f func()) {
		begun := time.Now()
		f()
		if took := time.Since(begun); took > 40*time.Second {
			w.Errorf("%v: %s took %v", time.Now(), what, took)
		}
	}
	for range 3 {
		all = append(all, w.OpenGated(session.Options{Timeout: 12 * time.Second, ServerTick: time.Second}))
	}
	for g := range 3 {
		for k := range 2 {
			name := fmt.Sprintf("%d.%d", g, k)
			r := rand.New(rand.NewPCG(r.Uint64(), 2))
			if acquire == nil {
				workers.Go(func() {
					for ctx.Err() == nil {
						c, err := election.New(all[g].Session, "/election", nil)
						check.OK(w, err)
						mu.Lock()
						standing[name] = c
						mu.Unlock()
						life, end := context.WithTimeout(ctx, time.Duration(5+r.IntN(60))*time.Second)
						err = c.Lead(life, func(ctx context.Context, _ int64) error {
							t := &tenant{done: ctx.Done()}
							enter(t, name)
							defer leave(t)
							select {
							case <-ctx.Done():
							case <-time.After(time.Duration(r.IntN(9000)) * time.Millisecond):
								mu.Lock()
								to := ""
								for n, other := range standing {
									if n != name && r.IntN(2) == 0 {
										to = other.Node()
									}
								}
								mu.Unlock()
								if to != "" {
									_ = c.Transfer(ctx, to)
								}
							}
							return nil
						})
						if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
							w.Logf("%s: lead: %v", name, err)
						}
						end()
						hangs("close of "+name, c.Close)
					}
				})
				continue
			}
			workers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					wait, end := context.WithTimeout(ctx, time.Duration(5+r.IntN(60))*time.Second)
					t, err := acquire(wait, all[g].Session, 2*g+k+i)
					end()
					if err != nil {
						continue
					}
					enter(t, name)
					select {
					case <-t.done:
					case <-time.After(time.Duration(r.IntN(9000)) * time.Millisecond):
					}
					leave(t)
					hangs("release of "+name, func() { _ = t.release(context.WithoutCancel(ctx)) })
					<-time.After(time.Duration(r.IntN(3000)) * time.Millisecond)
				}
			})
		}
	}
	stop := make(chan struct{})
	if r.IntN(3) > 0 { // elections keep the sessions
		workers.Go(func() { w.Elect(3*time.Second, stop) })
	}
	ops := []zktest.Op{0, 0, zktest.OpMulti, zktest.OpDelete, zktest.OpCreate2, zktest.OpGetData, zktest.OpGetChildren2, zktest.OpCheck, zktest.OpSetWatches}
	for range 14 {
		g := r.IntN(3)
		id := all[g].ID()
		for range r.IntN(3) {
			m := zktest.Match{Session: id, Op: ops[r.IntN(len(ops))], Skip: r.IntN(4)}
			switch r.IntN(4) {
			case 0:
				w.DropReply(m)
			case 1:
				w.DropRequest(m)
			case 2:
				w.AnswerError(m, -127)
			case 3:
				w.Delay(m, time.Duration(r.IntN(9000))*time.Millisecond)
			}
		}
		switch r.IntN(4) {
		case 1:
			w.Freeze(id, zktest.Direction(r.IntN(4)))
			<-time.After(time.Duration(r.IntN(20000)) * time.Millisecond)
			w.Thaw(id)
		default:
			all[g].Refuse()
			w.Disconnect(id)
			<-time.After(time.Duration(r.IntN(25000)) * time.Millisecond)
			all[g].Mend()
		}
		<-time.After(time.Duration(r.IntN(4000)) * time.Millisecond)
	}
	close(stop)
	w.ClearFaults()
	<-time.After(time.Minute)
	mu.Lock()
	clear(grants)
	mu.Unlock()
	<-time.After(10 * time.Minute)
	mu.Lock()
	if len(grants) != 6 {
		w.Errorf("only %v are granted it", grants)
	}
	mu.Unlock()
	cancel()
	workers.Wait()
	<-time.After(10 * time.Minute) // containers go
	var left []string
	for _, p := range w.Paths() {
		if !strings.HasPrefix(p, "/zookeeper") && strings.Count(p, "/") > 1 {
			left = append(left, p)
		}
	}
	check.EqualSlices(w, left, nil, "left in sessions that live")
	for _, g := range all {
		check.OK(w, g.Healthy(context.Background()))
	}
}
