package commit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A scenario has a transaction of the sites a and b, both of which vote Yes, and a command of one
// party, the victim, that has a session of its own.
type scenario struct {
	t       *testing.T
	srv     *zktest.Server
	victim  *session.Session
	healthy *session.Session // of everybody else, and an operator
	tx      []*commit.Transaction
	sites   map[string]*commit.Participant
	served  []chan struct{} // closed when what serves a site has ended

	mu  sync.Mutex
	got []string // outcomes, by any party
}

// serve votes Yes, and finishes, from now on.
func (w *scenario) serve(p *commit.Participant) {
	done := make(chan struct{})
	w.served = append(w.served, done)
	go func() {
		defer close(done)
		for ev := range p.Events() {
			w.on(p, ev)
		}
	}()
}

func (w *scenario) on(p *commit.Participant, ev commit.Event) {
	ctx := context.WithoutCancel(w.t.Context())
	var err error
	switch ev := ev.(type) {
	case commit.Prepare:
		err = p.Vote(ctx, ev.Tx, commit.Yes)
	case commit.Committed:
		w.note("committed")
		err = p.Finish(ctx, ev.Tx)
	case commit.Aborted:
		w.note("aborted")
		err = p.Finish(ctx, ev.Tx)
	case commit.Forgotten, commit.Left, commit.Voted:
	}
	for _, known := range []error{commit.ErrDecided, commit.ErrVoted, commit.ErrNoTransaction, commit.ErrClosed} {
		if errors.Is(err, known) {
			err = nil
		}
	}
	if err != nil {
		w.t.Errorf("%s: %v: %v", p.Site(), ev, err)
	}
}

// note notes an outcome.
func (w *scenario) note(outcome string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got = append(w.got, outcome)
}

// join has a site take part, which is served if it is not the victim's.
func (w *scenario) join(name string, s *session.Session) *commit.Participant {
	p, err := commit.Join(s, parent, name, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.sites[name] = p
	if s != w.victim {
		w.serve(p)
	}
	return p
}

// begin begins the transaction in a healthy session.
func (w *scenario) begin() *commit.Transaction {
	tx := begin(w.t, w.healthy, "t", commit.Options{Sites: []string{"a", "b"}})
	w.tx = append(w.tx, tx)
	return tx
}

// next returns the next event of the victim's site; nil if none comes.
func (w *scenario) next() commit.Event {
	select {
	case ev := <-w.sites["a"].Events():
		return ev
	case <-time.After(2 * time.Minute):
		return nil
	}
}

// expected are the commands, with what comes before each of them.
var expected = map[string]struct {
	op      string // how its errors begin
	prepare func(w *scenario)
	run     func(ctx context.Context, w *scenario) error
	asks    int // at least so many requests
}{
	"begin": {
		op: "begin " + parent + "/t",
		prepare: func(w *scenario) {
			w.join("a", w.healthy)
			w.join("b", w.healthy)
		},
		run: func(ctx context.Context, w *scenario) error {
			tx, err := commit.Begin(ctx, w.victim, parent+"/t", &commit.Options{Sites: []string{"a", "b"}})
			if err == nil {
				w.tx = append(w.tx, tx)
				_, err = tx.Wait(ctx)
			}
			return err
		},
		asks: 5,
	},
	"vote": {
		op: "vote in " + parent + "/t as a",
		prepare: func(w *scenario) {
			w.join("a", w.victim)
			w.join("b", w.healthy)
			w.begin()
			w.next()
		},
		run: func(ctx context.Context, w *scenario) error {
			return w.sites["a"].VoteWith(ctx, w.tx[0].Tx(), commit.Yes, []byte("because"))
		},
		asks: 1,
	},
	"finish": {
		op: "finish " + parent + "/t as a",
		prepare: func(w *scenario) {
			p := w.join("a", w.victim)
			w.join("b", w.healthy)
			w.begin()
			w.on(p, w.next())
			w.note(strings.Fields(w.next().String())[0])
			kit.Pass(time.Second)
		},
		run:  func(ctx context.Context, w *scenario) error { return w.sites["a"].Finish(ctx, w.tx[0].Tx()) },
		asks: 2,
	},
	"resume": {
		op: "resume " + parent,
		prepare: func(w *scenario) {
			tx := w.begin()
			tx.Close()
			w.join("a", w.healthy)
			w.join("b", w.healthy)
			kit.Pass(time.Second)
		},
		run: func(ctx context.Context, w *scenario) error {
			all, err := commit.Resume(ctx, w.victim, parent)
			w.tx = append(w.tx, all...)
			for _, tx := range all {
				_, err = tx.Wait(ctx)
			}
			return err
		},
		asks: 7,
	},
	"take over": {
		prepare: func(w *scenario) {
			p := w.join("a", w.victim)
			b := w.join("b", w.healthy)
			w.begin().Close()
			w.on(p, w.next())
			kit.Pass(time.Second)
			b.Close()
		},
		run: func(_ context.Context, w *scenario) error {
			w.on(w.sites["a"], w.next())
			return nil
		},
		asks: 6,
	},
	"join": {
		prepare: func(w *scenario) {
			w.join("b", w.healthy)
			w.begin()
			kit.Pass(time.Second)
		},
		run: func(_ context.Context, w *scenario) error {
			w.on(w.join("a", w.victim), w.next())
			return nil
		},
		asks: 4,
	},
	"list": {
		op: "list " + parent,
		prepare: func(w *scenario) {
			w.join("b", w.healthy)
			w.begin()
			kit.Pass(time.Second)
		},
		run: func(ctx context.Context, w *scenario) error {
			all, err := commit.List(ctx, w.victim, parent)
			if err == nil && len(all) > 0 && all[0].String() != "t coordinated undecided: a=none b=yes" {
				err = fmt.Errorf("listed %v", all)
			}
			return err
		},
		asks: 4,
	},
}

// A trouble is what goes wrong with one request.
type trouble struct {
	name    string
	fault   func(srv *zktest.Server, m zktest.Match)     // of the request itself
	happens func(w *scenario, cancel context.CancelFunc) // while the request is held back, if not nil
	errs    []error                                      // what the command may fail with
}

func hold(srv *zktest.Server, m zktest.Match) { srv.Delay(m, 3*time.Second) }

var troubles = []trouble{
	{name: "reply lost", fault: (*zktest.Server).DropReply},
	{name: "request lost", fault: (*zktest.Server).DropRequest},
	{name: "busy", fault: func(srv *zktest.Server, m zktest.Match) { srv.AnswerError(m, -127) }},
	{name: "disconnected", fault: hold, happens: func(w *scenario, _ context.CancelFunc) { w.srv.Disconnect(w.victim.ID()) }},
	{
		name: "session expired", fault: hold, happens: func(w *scenario, _ context.CancelFunc) { w.srv.Expire(w.victim.ID()) },
		errs: []error{session.ErrUnknownOutcome, commit.ErrForgotten, commit.ErrDecided, commit.ErrNoTransaction},
	},
	{
		name: "session closed", fault: hold, happens: func(w *scenario, _ context.CancelFunc) { w.victim.Close() },
		errs: []error{session.ErrClosed},
	},
	{
		name: "context ended", fault: hold, happens: func(_ *scenario, cancel context.CancelFunc) { cancel() },
		errs: []error{context.Canceled},
	},
	{
		name: "nodes gone", fault: hold, happens: (*scenario).raze,
		errs: []error{commit.ErrNoTransaction, commit.ErrForgotten},
	},
}

// raze deletes all transactions, as an operator would.
func (w *scenario) raze(context.CancelFunc) {
	paths := left(w.srv)
	slices.Sort(paths)
	for _, path := range slices.Backward(paths) {
		if err := w.healthy.Delete(w.t.Context(), path, session.AnyVersion); err != nil && !errors.Is(err, session.ErrNoNode) {
			w.t.Error(err)
		}
	}
}

// TestTrouble has each trouble befall each request of each command, in turn. The command returns,
// its error names the operation and the path, all parties come to the same outcome, and nothing is
// left.
func TestTrouble(t *testing.T) {
	chosen := hasten.OneIn(3, 9)
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		command := expected[name]
		for _, tr := range troubles {
			if !chosen() {
				continue
			}
			t.Run(name+"/"+tr.name, func(t *testing.T) {
				for skip := -1; ; skip++ { // -1 is the sync, if there is one
					hit := false
					bubble(t, 0, func(t *testing.T, srv *zktest.Server, _ ...*session.Session) {
						w := &scenario{t: t, srv: srv, victim: open(t, srv), healthy: open(t, srv), sites: map[string]*commit.Participant{}}
						synctest.Wait()
						command.prepare(w)
						synctest.Wait()
						hit = w.befall(command.run, tr, skip, command.op)
						w.end()
					})
					if !hit && skip >= 0 {
						check.True(t, skip >= command.asks, "only %d requests", skip)
						return
					}
				}
			})
		}
	}
}

// befall runs the command with the trouble at a request, and reports whether there was such a one.
func (w *scenario) befall(run func(context.Context, *scenario) error, tr trouble, skip int, op string) (hit bool) {
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	m := zktest.Match{Session: w.victim.ID(), Skip: skip}
	if skip < 0 {
		m.Op, m.Skip = zktest.OpSync, 0
	}
	tr.fault(w.srv, m)
	returned := make(chan error, 1)
	go func() { returned <- run(ctx, w) }()
	const enough = 150 // seconds, after which nothing more is asked for
	for range enough {
		synctest.Wait()
		if hit = w.srv.AwaitFault(0) == nil; hit || len(returned) > 0 {
			break
		}
		kit.Pass(time.Second)
	}
	if hit && tr.happens != nil {
		tr.happens(w, cancel)
	}
	if !hit {
		w.srv.ClearFaults()
	}
	kit.Pass(3 * time.Minute)
	select {
	case err := <-returned:
		known := err == nil || slices.ContainsFunc(tr.errs, func(e error) bool { return errors.Is(err, e) })
		named := err == nil || strings.HasPrefix(err.Error(), "commit: "+op+": ") || strings.HasPrefix(err.Error(), "commit: wait for "+parent+"/t: ")
		if !known || !named {
			w.t.Errorf("request %d: %v", skip, err)
		}
	default:
		w.t.Errorf("request %d: it does not return", skip)
		cancel()
		w.victim.Close()
		w.t.Error(<-returned)
	}
	return hit
}

// end lets the victim's site come back, waits for all parties, and checks that they agree.
func (w *scenario) end() {
	for name, p := range w.sites {
		select {
		case <-p.Done():
			p.Close() // an outcome may be unread before Left
			w.join(name, w.healthy)
		default:
			if name == "a" && len(w.served) < 2 {
				w.serve(p)
			}
		}
	}
	if w.sites["a"] == nil {
		w.join("a", w.healthy)
	}
	kit.Pass(3 * time.Minute)
	nothingLeft(w.t, w.srv)
	for _, tx := range w.tx {
		tx.Close()
		for ev := range tx.Events() {
			switch ev.(type) {
			case commit.Committed:
				w.note("committed")
			case commit.Aborted:
				w.note("aborted")
			case commit.Voted, commit.Left, commit.Prepare, commit.Forgotten:
			}
		}
	}
	for _, p := range w.sites {
		p.Close()
	}
	for _, done := range w.served {
		<-done
	}
	if slices.Contains(w.got, "committed") && slices.Contains(w.got, "aborted") {
		w.t.Errorf("outcomes: %q", w.got)
	}
	w.healthy.Close()
	w.victim.Close()
}
