package commit_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// This file has processes of sites and of coordinators die and come back, while connections break,
// replies are lost, servers are busy and followers lag. Afterwards it checks agreement, validity,
// the grammar of the events, that effects are there once, and that nothing is left.

var (
	stormSeeds = flag.Int("commit.seeds", hasten.Usually(6, 3), "storms of processes that die and come back; 300 are a campaign")
	stormFirst = flag.Int("commit.first", 0, "the first of their seeds")
)

// A storm is one run. Its lock guards all that is not constant.
type storm struct {
	t       *testing.T
	srv     *zktest.Server
	zombies bool // processes that were taken for dead go on later
	reuse   bool // few ids, which are used again and again

	mu       sync.Mutex
	random   *rand.Rand
	calm     bool                 // no faults any more, and no deaths
	sessions []*session.Session   // all that were opened
	begun    map[string]int       // the number of sites, by payload, which no two transactions share
	payloads map[commit.Tx]string // of those that some party knows
	outcomes map[string][]string  // that some party received, by payload
	refused  map[string]bool      // a No was recorded, by payload
	willing  map[string]bool      // a Yes was given, by payload and site
	rest     sync.WaitGroup       // what goes on after the death of its process
}

func (w *storm) below(n int) int { w.mu.Lock(); defer w.mu.Unlock(); return w.random.IntN(n) }
func (w *storm) isCalm() bool    { w.mu.Lock(); defer w.mu.Unlock(); return w.calm }

// pause passes some of the time.
func (w *storm) pause(most time.Duration) {
	<-time.After(time.Duration(w.below(int(most/time.Millisecond))) * time.Millisecond)
}

// learns notes an outcome.
func (w *storm) learns(tx commit.Tx, payload, outcome string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if payload == "" {
		payload = w.payloads[tx] // not known if the process that began it has died before it heard of that
	}
	if payload != "" && !slices.Contains(w.outcomes[payload], outcome) {
		w.outcomes[payload] = append(w.outcomes[payload], outcome)
	}
}

func (w *storm) open() *session.Session {
	s := open(w.t, w.srv)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions = append(w.sessions, s)
	return s
}

// passing reports whether an error of a command is one that a storm may bring about.
func passing(ctx context.Context, err error) bool {
	for _, known := range []error{
		commit.ErrVoted, commit.ErrDecided, commit.ErrNoTransaction, commit.ErrStale, commit.ErrClosed, session.ErrUnknownOutcome, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return err == nil || ctx.Err() != nil
}

// site is one process of a site, until it is to die.
func (w *storm) site(name string, die <-chan struct{}) {
	s := w.open()
	p := check.Have(commit.Join(s, parent, name, nil))(w.t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	served := make(chan struct{})
	w.rest.Go(func() {
		defer close(served)
		var acting sync.WaitGroup
		defer acting.Wait()
		state := map[commit.Tx]string{}
		for ev := range p.Events() {
			follows := func(tx commit.Tx, what string, after ...string) {
				if !slices.Contains(after, state[tx]) {
					w.t.Errorf("%s: %v after %q", name, ev, state[tx])
				}
				state[tx] = what
			}
			switch ev := ev.(type) {
			case commit.Prepare:
				follows(ev.Tx, "asked", "")
				w.mu.Lock()
				w.payloads[ev.Tx] = string(ev.Payload)
				w.mu.Unlock()
				acting.Go(func() { w.vote(ctx, p, ev) })
			case commit.Committed:
				follows(ev.Tx, "told", "", "asked")
				w.learns(ev.Tx, string(ev.Payload), "committed")
				acting.Go(func() { w.apply(ctx, s, p, ev) })
			case commit.Aborted:
				follows(ev.Tx, "told", "", "asked")
				w.learns(ev.Tx, "", "aborted")
				acting.Go(func() { w.finish(ctx, p, ev.Tx) })
			case commit.Left: // with an error if another process has its place
				if ev.Err != nil && ctx.Err() == nil && !w.zombies {
					w.t.Errorf("%s: %v", name, ev)
				}
			case commit.Forgotten, commit.Voted:
				w.t.Errorf("%s: %v", name, ev)
			}
		}
	})
	<-die
	if w.isCalm() {
		p.Close()
		cancel()
		<-served
		return
	}
	w.dies(s, cancel)
	w.rest.Go(func() { p.Close(); cancel(); <-served })
}

// dies freezes the connection of a process. The server hears of its death at once, or later; or the
// process goes on.
func (w *storm) dies(s *session.Session, cancel context.CancelFunc) {
	w.srv.Freeze(s.ID(), zktest.Both)
	if !w.zombies {
		cancel()
	}
	switch w.below(3) {
	case 0:
		w.srv.Expire(s.ID())
	case 1:
		if w.zombies {
			w.pause(20 * time.Second)
			w.srv.Thaw(s.ID())
		}
	}
}

func (w *storm) vote(ctx context.Context, p *commit.Participant, ev commit.Prepare) {
	w.pause(300 * time.Millisecond)
	if w.below(12) == 0 || w.reuse && w.below(3) == 0 { // a late vote may find another transaction with the id
		w.pause(20 * time.Second)
	}
	vote, data := commit.Yes, []byte(nil)
	if w.below(14) == 0 {
		vote = commit.No
	}
	if w.below(2) == 0 {
		data = []byte("because")
	}
	soon := ctx
	if w.below(8) == 0 {
		var cancel context.CancelFunc
		soon, cancel = context.WithTimeout(ctx, time.Duration(w.below(20))*time.Millisecond)
		defer cancel()
	}
	if vote == commit.Yes {
		w.mu.Lock()
		w.willing[string(ev.Payload)+"-"+p.Site()] = true
		w.mu.Unlock()
	}
	err := p.VoteWith(soon, ev.Tx, vote, data)
	if err == nil && vote == commit.No {
		w.mu.Lock()
		w.refused[string(ev.Payload)] = true
		w.mu.Unlock()
	}
	if !passing(ctx, err) {
		w.t.Errorf("%s: vote in %v: %v", p.Site(), ev.Tx, err)
	}
}

// apply creates a node for the effect, once.
func (w *storm) apply(ctx context.Context, s *session.Session, p *commit.Participant, ev commit.Committed) {
	for ctx.Err() == nil {
		w.pause(200 * time.Millisecond)
		_, err := s.Multi(ctx, ev.Once(), session.CreateOp("/effects/"+string(ev.Payload)+"-"+p.Site(), nil, session.Persistent))
		if errors.Is(err, session.ErrNodeExists) {
			w.t.Errorf("%s: %v applied twice", p.Site(), ev.Tx)
		}
		if err == nil || errors.Is(err, session.ErrNoNode) {
			w.finish(ctx, p, ev.Tx)
			return
		}
	}
}

func (w *storm) finish(ctx context.Context, p *commit.Participant, tx commit.Tx) {
	w.pause(200 * time.Millisecond)
	if err := p.Finish(ctx, tx); !passing(ctx, err) {
		w.t.Errorf("%s: finish %v: %v", p.Site(), tx, err)
	}
}

// follow receives the events of a transaction.
func (w *storm) follow(tx *commit.Transaction) {
	last, voted := 0, map[string]bool{}
	for ev := range tx.Events() {
		if last > 0 {
			w.t.Errorf("%v: %v after the last event", tx, ev)
		}
		switch ev := ev.(type) {
		case commit.Voted:
			if voted[ev.Site] {
				w.t.Errorf("%v: %v twice", tx, ev)
			}
			voted[ev.Site] = true
		case commit.Committed:
			last++
			w.learns(ev.Tx, string(ev.Payload), "committed")
		case commit.Aborted:
			last++
			w.learns(ev.Tx, "", "aborted")
		case commit.Left:
			last++
		case commit.Prepare, commit.Forgotten:
			w.t.Errorf("%v: %v", tx, ev)
		}
	}
	if last != 1 {
		w.t.Errorf("%v: %d last events", tx, last)
	}
}

// coordinator is one process of a coordinator, until it is to die. It resumes what others have
// begun, and begins.
func (w *storm) coordinator(sites []string, die <-chan struct{}) {
	s := w.open()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	w.rest.Go(func() {
		var mine []*commit.Transaction
		defer func() {
			for _, tx := range mine {
				tx.Close()
			}
		}()
		resumed, err := commit.Resume(ctx, s, parent)
		if !passing(ctx, err) {
			w.t.Errorf("resume: %v", err)
		}
		for _, tx := range resumed {
			mine = append(mine, tx)
			w.rest.Go(func() { w.follow(tx) })
		}
		for ctx.Err() == nil {
			if w.pause(700 * time.Millisecond); w.isCalm() {
				continue
			}
			if tx := w.begin(ctx, s, sites); tx != nil {
				mine = append(mine, tx)
				w.rest.Go(func() { w.follow(tx) })
			}
		}
	})
	<-die
	if w.isCalm() {
		cancel()
		return
	}
	w.dies(s, cancel)
	cancel()
}

// begin begins a transaction; nil if that failed.
func (w *storm) begin(ctx context.Context, s *session.Session, sites []string) *commit.Transaction {
	w.mu.Lock()
	payload := fmt.Sprintf("tx%03d", len(w.begun))
	n := 1 + w.random.IntN(len(sites))
	w.begun[payload] = n
	id, mode := payload, commit.Mode(w.random.IntN(2))
	if w.reuse {
		id = fmt.Sprint("again", w.random.IntN(5))
	}
	w.mu.Unlock()
	soon := ctx
	if w.below(10) == 0 {
		var cancel context.CancelFunc
		soon, cancel = context.WithTimeout(ctx, time.Duration(w.below(30))*time.Millisecond)
		defer cancel()
	}
	tx, err := commit.Begin(soon, s, parent+"/"+id, &commit.Options{
		Sites: sites[:n], Mode: mode, Payload: []byte(payload), Record: w.below(2) == 0,
		Deadline: time.Duration(2+w.below(10)) * time.Second, TakeoverAfter: time.Duration(1+w.below(5)) * time.Second,
	})
	switch {
	case err == nil:
		w.mu.Lock()
		w.payloads[tx.Tx()] = payload
		w.mu.Unlock()
	case !passing(ctx, err) && (!w.reuse || !errors.Is(err, commit.ErrExists)):
		w.t.Errorf("begin %s: %v", id, err)
	}
	return tx
}

// lives runs processes one after the other, until stop is closed.
func (w *storm) lives(stop <-chan struct{}, run func(die <-chan struct{})) {
	for over := false; !over; {
		die := make(chan struct{})
		var process sync.WaitGroup
		process.Go(func() { run(die) })
		select {
		case <-stop:
			over = true
		case <-time.After(time.Duration(2000+w.below(20_000)) * time.Millisecond):
			if w.isCalm() {
				<-stop
				over = true
			}
		}
		close(die)
		if process.Wait(); w.below(2) == 0 {
			w.pause(15 * time.Second)
		}
	}
}

// strike has one fault befall a process.
func (w *storm) strike(processes int) {
	w.mu.Lock()
	s := w.sessions[len(w.sessions)-1-w.random.IntN(min(len(w.sessions), processes))]
	w.mu.Unlock()
	m := zktest.Match{Session: s.ID()}
	switch w.below(9) {
	case 0, 1, 2:
		w.srv.Disconnect(s.ID())
	case 3, 4:
		w.srv.DropReply(m)
	case 5:
		w.srv.DropRequest(m)
	case 6:
		w.srv.Delay(m, time.Duration(w.below(1000))*time.Millisecond)
	case 7:
		w.srv.AnswerError(m, -127) // busy
	case 8:
		if w.below(6) == 0 {
			w.srv.Expire(s.ID())
		}
	}
	w.pause(300 * time.Millisecond)
}

// check checks what came of all transactions.
func (w *storm) check(sites []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	paths, committed, aborted := w.srv.Paths(), 0, 0
	for payload, n := range w.begun {
		all := w.outcomes[payload]
		done := slices.Contains(all, "committed")
		switch {
		case len(all) > 1, done && w.refused[payload]:
			w.t.Errorf("%s: %q; a No: %v", payload, all, w.refused[payload])
		case done:
			committed++
		case len(all) > 0:
			aborted++
		}
		for i, site := range sites {
			if done && i < n && !w.willing[payload+"-"+site] {
				w.t.Errorf("%s: committed without a Yes of %s", payload, site)
			}
			if applied := slices.Contains(paths, "/effects/"+payload+"-"+site); applied != (done && i < n) {
				w.t.Errorf("%s: %q, applied by %s: %v", payload, all, site, applied)
			}
		}
	}
	w.t.Logf("%d sites, zombies %v, ids again %v: %d begun, %d committed, %d aborted; %d sessions", len(sites), w.zombies, w.reuse, len(w.begun), committed, aborted, len(w.sessions))
	if committed == 0 || aborted == 0 {
		w.t.Error("the storm is no test")
	}
}

func TestStorms(t *testing.T) {
	for seed := *stormFirst; seed < *stormFirst+hasten.Sized(*stormSeeds, min(*stormSeeds, 3)); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &storm{
					t: t, zombies: seed%3 == 1, reuse: seed%3 == 2, random: rand.New(rand.NewPCG(uint64(seed), 41)),
					begun: map[string]int{}, payloads: map[commit.Tx]string{}, outcomes: map[string][]string{}, refused: map[string]bool{}, willing: map[string]bool{},
				}
				w.srv = check.Have(zktest.NewServer(zktest.Config{
					InProcess: true, Tick: time.Second, Replicas: 3,
					Lag: time.Duration(w.below(200)) * time.Millisecond, Latency: time.Duration(w.below(4)) * time.Millisecond,
				}))(t)
				defer w.srv.Close()
				operator := w.open()
				check.Must(t, operator.EnsurePath(t.Context(), parent))
				check.Must(t, operator.EnsurePath(t.Context(), "/effects"))
				sites := named(1 + w.below(4))
				stop := make(chan struct{})
				var processes sync.WaitGroup
				for _, name := range sites {
					processes.Go(func() { w.lives(stop, func(die <-chan struct{}) { w.site(name, die) }) })
				}
				for range 2 {
					processes.Go(func() { w.lives(stop, func(die <-chan struct{}) { w.coordinator(sites, die) }) })
				}
				<-time.After(time.Second)
				for end := time.Now().Add(90 * time.Second); time.Now().Before(end); {
					w.strike(len(sites) + 2)
				}
				w.mu.Lock()
				w.calm = true
				w.mu.Unlock()
				w.srv.ClearFaults()
				<-time.After(5 * time.Minute)
				nothingLeft(t, w.srv)
				close(stop)
				processes.Wait()
				w.check(sites)
				for _, s := range w.sessions {
					w.srv.Thaw(s.ID())
					s.Close()
				}
				w.rest.Wait()
				if t.Failed() {
					t.Log(strings.Join(left(w.srv), "\n"))
				}
			})
		})
	}
}
