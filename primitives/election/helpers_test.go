package election_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const path = "/elections/scheduler"

// A world is a server in memory, in a bubble, and who is on it.
type world struct {
	kit.World

	operated bool // somebody deletes nodes: then two may believe to lead, for a moment

	mu      sync.Mutex
	players []*player
	readers sync.WaitGroup
}

// inBubble plays on a server in memory. At the end of it every candidate has left, and
// nothing of them is left behind.
func inBubble(t *testing.T, config zktest.Config, play func(w *world)) {
	t.Helper()
	kit.Run(t, config, func(b kit.World) {
		w := &world{World: b}
		defer func() { // also if it has failed
			for _, p := range w.players {
				p.session.Close()
				p.Close()
			}
			w.readers.Wait()
		}()
		observer := w.open(0)
		play(w)
		for _, p := range w.players {
			p.Close()
		}
		w.readers.Wait()
		<-time.After(30 * time.Second) // the sessions that were lost are over
		for _, node := range w.Paths() {
			stat, err := observer.Exists(w.Context(), node)
			check.False(w, err != nil || stat != nil && stat.EphemeralOwner != 0, "%s is left, %v", node, err)
		}
		w.audit()
	})
}

// runInBubble is inBubble in a subtest.
func runInBubble(t *testing.T, name string, config zktest.Config, play func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, config, play) })
}

// open opens a session on one of the replicas.
func (w *world) open(replica int) *session.Session {
	w.Helper()
	return w.OpenAt(replica%len(w.Addrs()), session.Options{Timeout: 6 * time.Second, ServerTick: 100 * time.Millisecond})
}

// leads reports whether a candidate leads.
func leads(c interface{ Leading() (int64, bool) }) bool {
	_, leading := c.Leading()
	return leading
}

// A player is a candidate, whose events are read and written down.
type player struct {
	*election.Candidate
	world   *world
	session *session.Session

	mu     sync.Mutex
	log    []told
	closed bool // while it stood: what it had not received by the end was discarded, but for the last event
	signal chan struct{}
}

// told is an event, and when it was received.
type told struct {
	election.Event
	at time.Time
}

// elect has a candidate stand, and be elected.
func (w *world) elect(s *session.Session, opts *election.Options) *player {
	w.Helper()
	p := w.stand(s, opts)
	await[election.Elected](p, 0)
	return p
}

// stand has a new candidate stand through a session.
func (w *world) stand(s *session.Session, opts *election.Options) *player {
	w.Helper()
	c := check.Have(election.New(s, path, opts))(w)
	p := &player{Candidate: c, world: w, session: s, signal: make(chan struct{}, 1)}
	w.mu.Lock()
	w.players = append(w.players, p)
	w.mu.Unlock()
	events := c.Events()
	w.readers.Go(func() {
		for ev := range events {
			p.receive(ev)
		}
	})
	return p
}

// Close closes the candidate.
func (p *player) Close() {
	p.mu.Lock()
	p.closed = p.closed || !slices.ContainsFunc(p.log, func(e told) bool {
		_, over := e.Event.(election.Left)
		return over
	})
	p.mu.Unlock()
	p.Candidate.Close()
}

func (p *player) receive(ev election.Event) {
	if e, ok := ev.(election.Elected); ok {
		p.world.alone(p, e.Term)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, told{ev, time.Now()})
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

// alone expects no candidate to believe in an older term than one that has begun.
func (w *world) alone(newest *player, term int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.players {
		older, leading := p.Leading()
		check.False(w, leading && p != newest && older < term && !w.operated, "%s leads in term %d, and %s in term %d", newest.Node(), term, p.Node(), older)
	}
}

// await waits for an event of type E behind the first n, and returns it.
func await[E election.Event](p *player, n int) (ev E, at int) {
	p.world.Helper()
	for give := time.After(time.Minute); ; {
		p.mu.Lock()
		for i := n; i < len(p.log); i++ {
			if e, ok := p.log[i].Event.(E); ok {
				p.mu.Unlock()
				return e, i + 1
			}
		}
		p.mu.Unlock()
		select {
		case <-p.signal:
		case <-give:
			p.world.Fatalf("no %T comes; there are %v", ev, p.events())
		}
	}
}

func (p *player) events() []election.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []election.Event
	for _, e := range p.log {
		all = append(all, e.Event)
	}
	return all
}

// count counts the events of type E.
func count[E election.Event](p *player) (n int) {
	for _, ev := range p.events() {
		if _, ok := ev.(E); ok {
			n++
		}
	}
	return n
}

// leader waits until one of the players leads, in a newer term than that.
func (w *world) leader(after int64) (p *player, term int64) {
	w.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(time.Millisecond) {
		for _, p := range w.players {
			if term, leading := p.Leading(); leading && term > after {
				return p, term
			}
		}
	}
	w.Fatal("nobody leads")
	return nil, 0
}

// audit compares the events of every candidate with the promises.
func (w *world) audit() {
	w.Helper()
	terms := make(map[int64]*player)
	type reign struct {
		term       int64
		begin, end time.Time
	}
	var reigns []reign
	for _, p := range w.players {
		check.OK(w, grammar(p.events(), p.closed), p.events())
		for i, e := range p.log {
			switch ev := e.Event.(type) {
			case election.Elected:
				check.True(w, terms[ev.Term] == nil, "two leaders in term %d", ev.Term)
				terms[ev.Term] = p
				r := reign{ev.Term, e.at, time.Time{}}
				for _, later := range p.log[i:] {
					if _, ok := later.Event.(election.Deposed); ok {
						r.end = later.at
						break
					}
				}
				reigns = append(reigns, r)
			case election.Standing, election.LeaderChanged, election.Suspended, election.Resumed, election.Deposed, election.Overrun, election.Left:
			}
		}
	}
	slices.SortFunc(reigns, func(a, b reign) int { return a.begin.Compare(b.begin) })
	for i := 1; i < len(reigns); i++ {
		before, now := reigns[i-1], reigns[i]
		check.True(w, now.term > before.term, "term %d begins after term %d", now.term, before.term)
		if !before.end.IsZero() && before.end.After(now.begin) && !w.operated {
			w.Errorf("term %d ends %v after the beginning of term %d", before.term, before.end.Sub(now.begin), now.term)
		}
	}
}

// grammar holds events against what the package documents. The first may be any that came before
// the events were asked for. Of a candidate that was closed, those just before the last may be
// missing.
func grammar(events []election.Event, closed bool) error {
	const (
		follows = iota
		leads
		suspended
		left
	)
	state, newest, stands := follows, int64(0), ""
	for i, ev := range events {
		next := -1
		switch ev := ev.(type) {
		case election.Standing:
			if state == follows && ev.Node != stands {
				next, stands = follows, ev.Node
			}
		case election.Elected:
			if state == follows && (stands != "" || i == 0) {
				next = leads
			}
		case election.Suspended:
			if state == leads {
				next = suspended
			}
		case election.Resumed:
			if state == suspended {
				next = leads
			}
		case election.Deposed:
			if (state == leads || state == suspended) && errors.Is(ev.Err, election.ErrDeposed) {
				next = follows
			}
		case election.LeaderChanged:
			if ev.Term < newest {
				return fmt.Errorf("term %d after %d", ev.Term, newest)
			}
			newest = ev.Term
			if state != left {
				next = state
			}
		case election.Overrun:
			if state != left {
				next = state
			}
		case election.Left:
			if state == follows || closed && state != left {
				next = left
			}
		}
		if next < 0 {
			return fmt.Errorf("%v breaks the grammar", ev)
		}
		state = next
	}
	if state != left {
		return errors.New("no last event")
	}
	return nil
}

// soon returns a context for what does not take long.
func (w *world) soon() context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	w.Cleanup(cancel)
	return ctx
}
