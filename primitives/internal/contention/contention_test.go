package contention

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var seeds = flag.Uint64("contention.seeds", 3, "worlds to play; 100 are a campaign")

const (
	sessions  = 4
	elections = 2
	limit     = 4
	patience  = 10 * time.Minute // after which a contender that waits is stuck: no fault lasts so long
)

// TestTogether plays worlds of every third kind: with an operator that deletes nodes.
func TestTogether(t *testing.T) {
	for seed := range hasten.Sized(*seeds, 1) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			config := zktest.Config{Replicas: 3, Lag: 7 * time.Millisecond, Latency: time.Millisecond, ReapInterval: 300 * time.Millisecond}
			kit.Run(t, config, func(b kit.World) { play(b, seed) })
		})
	}
}

// A dice is a source of choices, of one goroutine.
type dice struct{ *rand.Rand }

func (d dice) oneIn(n int) bool                      { return d.IntN(n) == 0 }
func (d dice) upTo(most time.Duration) time.Duration { return time.Duration(d.Int64N(int64(most))) }

func play(b kit.World, seed uint64) {
	w := &world{
		World: b, deletes: seed%3 == 2, tenures: map[string][]tenure{}, claims: map[string][]claim{},
		ended: map[int64]*bool{}, touched: map[string]bool{}, counts: map[string]int{},
	}
	for i := range sessions {
		w.sessions = append(w.sessions, b.OpenFrom(i, session.Options{Timeout: 6 * time.Second}))
	}
	w.operator = b.OpenFrom(0, session.Options{Timeout: 20 * time.Second})
	rolls := uint64(0)
	roll := func() dice {
		rolls++
		return dice{rand.New(rand.NewPCG(seed, rolls))}
	}
	mark := func(name string) string {
		check.Must(w, w.operator.EnsurePath(w.Context(), "/marks/"+name))
		return "/marks/" + name
	}

	const workers, rounds = 12, 10
	over := make(chan struct{})
	var contenders, readers, beside, standing sync.WaitGroup
	var all []*party
	for e := range elections {
		for i, s := range w.sessions {
			p := w.stand(s, fmt.Sprint("/e", e), mark(fmt.Sprintf("e%d-%d", e, i)), i == 2)
			all = append(all, p)
			dice := roll()
			standing.Go(func() { p.run(dice, over) })
		}
	}
	for i, s := range w.sessions {
		for j := range workers {
			dice, name := roll(), fmt.Sprintf("%d-%d", i, j)
			node := mark(name)
			contenders.Go(func() {
				for n := range rounds {
					holder := fmt.Sprintf("%s.%d", name, n)
					if dice.oneIn(3) {
						w.lease(&readers, dice, s, holder, node)
					} else {
						w.lock(&readers, dice, s, holder, node)
					}
					<-time.After(dice.upTo(20 * time.Millisecond))
				}
			})
		}
	}
	faults, operator := roll(), roll()
	beside.Go(func() { w.strike(faults, over) })
	if w.deletes {
		beside.Go(func() { w.meddle(operator, over) })
	}
	contenders.Wait()
	close(over)
	beside.Wait()
	w.ClearFaults()
	<-time.After(time.Minute)
	synctest.Wait()
	w.checkLeaders(all)
	for _, p := range all {
		p.observer.Close()
		p.Close()
	}
	standing.Wait()
	readers.Wait()
	<-time.After(time.Minute)
	w.checkTenures()
	w.checkLeft()
	w.Logf("%v", w.counts)
}

// A handle is a lock or a lease.
type handle interface {
	Done() <-chan struct{}
	Close()
}

// await waits until a handle is granted, and reports whether it was. A context may end that, and
// the handle is closed then.
func (w *world) await(dice dice, holder string, h handle, granted func() bool) bool {
	most := patience
	if dice.oneIn(5) {
		most = dice.upTo(20 * time.Millisecond)
	}
	for end := time.Now().Add(most); !granted(); <-time.After(7 * time.Millisecond) {
		switch {
		case client.Closed(h.Done()):
			return false
		case time.Now().After(end):
			if most == patience {
				w.Errorf("%s waits for ever: %q", holder, w.Paths())
			}
			h.Close()
			return false
		}
	}
	w.count("grants")
	return true
}

// lock goes through one tenancy of a lock.
func (w *world) lock(readers *sync.WaitGroup, dice dice, s *session.Session, holder, mark string) {
	opts := &lock.Options{Data: []byte(holder), ReleaseInBackground: dice.oneIn(6)}
	path, kind, preempted := fmt.Sprint("/l", dice.IntN(4)), lock.Exclusive, false
	switch dice.IntN(5) {
	case 0:
		path, kind = fmt.Sprint("/rw", dice.IntN(2)), lock.Kind(dice.IntN(3))
	case 1:
		path, kind = fmt.Sprint("/p", dice.IntN(2)), lock.Kind(dice.IntN(3))
		opts.Layout, opts.Priority = lock.Prioritized, dice.IntN(4)
		if preempted = path == "/p1"; preempted && dice.oneIn(3) {
			opts.Preempt, opts.PreemptAfter = true, dice.upTo(60*time.Millisecond)
		}
	case 2: // which no other contends for
		path, _, _ = strings.Cut("/own"+holder, ".")
	}
	open := [...]func(*session.Session, string, *lock.Options) (*lock.Lock, error){lock.New, lock.NewRead, lock.NewWrite}[kind]
	l := check.Have(open(s, path, opts))(w)
	defer l.Close()
	follow(w, readers, dice, holder, l.Events)
	if !w.await(dice, fmt.Sprintf("%s at %s, %v,", holder, path, kind), l, func() bool { return l.Token() != 0 }) {
		if err := l.Err(); err != nil && !errors.Is(err, session.ErrClosed) {
			w.Errorf("%s: %v", holder, err)
		}
		return
	}
	if !preempted { // nodes of holders that are made to leave stand for less long than they believe
		w.grants(path, claim{holder, kind == lock.Read, limit, l.Node, l.Done(), w.end(s.ID())}, limit)
	}
	w.hold(dice, path, holder, kind == lock.Read, l.Token(), s, l.Guard, l.Done(), mark)
	if kind == lock.Write && dice.oneIn(2) {
		ctx, cancel := context.WithTimeout(w.Context(), dice.upTo(2*time.Second))
		defer cancel()
		w.mu.Lock() // from here on others may share it
		for i, c := range w.claims[path] {
			w.claims[path][i].shared = c.shared || c.holder == holder
		}
		w.mu.Unlock()
		if l.Downgrade(ctx) == nil {
			w.count("downgrades")
			w.hold(dice, path, holder, true, l.Token(), s, l.Guard, l.Done(), mark)
		}
	}
}

// hold writes with the guard while it is held, for a moment.
func (w *world) hold(dice dice, path, holder string, shared bool, token int64, s *session.Session, guard func() session.Op, done <-chan struct{}, mark string) {
	t := tenure{holder: holder, token: token, shared: shared, first: w.write(s, guard(), mark)}
	select {
	case <-done:
	case <-time.After(dice.upTo(20 * time.Millisecond)):
	}
	t.last = w.write(s, guard(), mark)
	w.enter(path, t)
}

// lease goes through one tenancy of a semaphore.
func (w *world) lease(readers *sync.WaitGroup, dice dice, s *session.Session, holder, mark string) {
	i := dice.IntN(2)
	path, opts := fmt.Sprint("/s", i), &semaphore.Options{Weight: 1, Data: []byte(holder), ReleaseInBackground: dice.oneIn(6)}
	if i == 1 {
		opts.Weight = 1 + dice.IntN(3)
	}
	l := check.Have(semaphore.New(s, path, limit, opts))(w)
	defer l.Close()
	follow(w, readers, dice, holder, l.Events)
	if !w.await(dice, fmt.Sprintf("%s at %s, weight %d,", holder, path, opts.Weight), l, func() bool { return l.ID() != 0 }) {
		return
	}
	if node := l.Node(); node != "" && weight(node) != opts.Weight {
		w.Errorf("%s: %s has not the weight %d", holder, node, opts.Weight)
	}
	w.grants(path, claim{holder, false, opts.Weight, l.Node, l.Done(), w.end(s.ID())}, limit)
	w.write(s, l.Guard(), mark)
	select {
	case <-l.Done():
	case <-time.After(dice.upTo(20 * time.Millisecond)):
	}
}

// A party is a candidate of an election, and an observer in the same session.
type party struct {
	*election.Candidate
	w          *world
	s          *session.Session
	observer   *election.Observer
	path, mark string
	ignores    bool
}

func (w *world) stand(s *session.Session, path, mark string, ignores bool) *party {
	return &party{
		Candidate: check.Have(election.New(s, path, &election.Options{IgnoreLeader: ignores}))(w), w: w, s: s,
		observer: check.Have(election.Observe(s, path, nil))(w), path: path, mark: mark, ignores: ignores,
	}
}

// run reads the events of a candidate, and acts as a leader does, until it has left.
func (p *party) run(dice dice, over <-chan struct{}) {
	for ev := range p.Events() {
		elected, is := ev.(election.Elected)
		if !is {
			continue
		}
		p.w.count("terms")
		guard := p.Guard()
		if now, leading := p.Leading(); !leading || now != elected.Term {
			continue // the guard may be of a later term
		}
		t := tenure{holder: fmt.Sprint(p.mark, elected.Term), token: elected.Term, first: p.w.write(p.s, guard, p.mark)}
		<-time.After(dice.upTo(100 * time.Millisecond))
		t.last = p.w.write(p.s, guard, p.mark)
		p.w.enter(p.path, t)
		if !client.Closed(over) {
			p.act(dice)
		}
	}
}

// act gives the leadership up, or not.
func (p *party) act(dice dice) {
	const short, long = 50 * time.Millisecond, 3 * time.Second
	ctx, cancel := context.WithTimeout(p.w.Context(), short+dice.upTo(long))
	defer cancel()
	switch dice.IntN(6) {
	case 0:
		_ = p.Acknowledge(ctx)
		_ = p.Resign(ctx)
	case 1:
		_ = p.Resign(ctx)
	case 2:
	default:
		if all, err := election.Candidates(ctx, p.s, p.path, nil); err == nil && len(all) > 0 {
			if p.Transfer(ctx, all[dice.IntN(len(all))].Node) == nil {
				p.w.count("transfers")
			}
		}
	}
}

// checkLeaders checks that one candidate of each election leads, and that all know.
func (w *world) checkLeaders(all []*party) {
	for e := range elections {
		leader := ""
		for _, p := range all[e*sessions:][:sessions] {
			if _, leading := p.Leading(); leading {
				check.Equal(w, leader, "", "another leader beside", p.Node())
				leader = p.Node()
			}
		}
		check.True(w, leader != "", "no candidate of election %d leads: %q", e, w.Paths())
		for _, p := range all[e*sessions:][:sessions] {
			if leader == "" {
				w.Logf("%s in %v, which is %v; it has left: %v", p.Node(), p.s, p.s.State(), p.Err())
			}
			seen, _ := p.observer.Leader()
			check.Equal(w, seen.Node, leader, "an observer of", p.path)
			if known, _ := p.Leader(); !p.ignores {
				check.Equal(w, known.Node, leader, "a candidate of", p.path)
			}
		}
	}
}
