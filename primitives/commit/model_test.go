package commit

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/session"
)

// This file runs one coordinator and several sites over a model of the nodes of one transaction.
// A request is executed and its answer taken in one action: what a party asks for then waits,
// for as long as the explorer likes. Users vote, act and finish at once.

// A party is a process: a machine, and what it has asked for.
type party struct {
	site    string // "" for the coordinator
	m       machine
	sm      sitemachine
	up      bool // the process runs
	epoch   int
	n       int        // counts processes
	out     []any      // requests, in order
	subs    []modelSub // what it follows
	timers  []any      // what it awaits
	present bool       // its presence stands
	acted   string     // what its user was told
	again   bool       // it may be told again: the process is another
	left    error      // of Left
}

// A modelSub is something followed.
type modelSub struct {
	kind string // ballots, sites, parent, record
	told string // what was told last
}

// A modelWorld is the server, and the parties.
type modelWorld struct {
	rec      *record
	plan     []Vote // of the sites' users; 0 does not vote
	there    bool   // the record and the directory of the ballots
	decision string // what the record says
	history  string // the decision, also when the record is gone
	nodes    []string
	yes      int // sites whose Yes was recorded
	parties  []party

	lost, crashes, expiries, ticks int // how often they may happen yet
	begun                          bool
}

type modelAction struct {
	kind     string
	who, arg int
}

func newModel(mode Mode, plan []Vote) *modelWorld {
	r := &record{id: "t", GUID: "g", Mode: mode}
	w := &modelWorld{rec: r, plan: plan}
	for i := range plan {
		r.Sites = append(r.Sites, string(rune('a'+i)))
	}
	w.parties = append(w.parties, party{up: true})
	w.parties[0].m = newMachine(r)
	w.parties[0].epoch = 1
	w.tell(0, heard{session.Connected{Epoch: 1}})
	for _, site := range r.Sites {
		w.parties = append(w.parties, party{site: site, epoch: 1})
		w.start(len(w.parties) - 1)
	}
	return w
}

// start starts the process of a party.
func (w *modelWorld) start(i int) {
	p := &w.parties[i]
	p.up, p.out, p.subs, p.timers = true, nil, nil, nil
	p.n++
	p.again = true
	if p.site != "" {
		p.present = true
		p.sm = sitemachine{site: p.site}
		w.performSite(i, siteEffects{Do: []siteEffect{followParent{}}})
		return
	}
	if !w.there {
		p.up = false // there is nothing to resume
		return
	}
	r := *w.rec
	if w.decision != "" {
		r.Outcome = outcomeOf(w.decision)
	}
	p.m = resumed(&r)
	w.perform(i, effects{Do: resumption()})
	p.epoch++
	w.tell(i, heard{session.Connected{Epoch: p.epoch}})
}

func outcomeOf(s string) *Outcome {
	return &Outcome{Committed: strings.HasPrefix(s, "committed"), By: s}
}

// Clone implements [exploration.World].
func (w *modelWorld) Clone() *modelWorld {
	c := *w
	c.nodes = slices.Clone(w.nodes)
	c.parties = slices.Clone(w.parties)
	for i := range c.parties {
		p := &c.parties[i]
		p.out, p.subs, p.timers = slices.Clone(p.out), slices.Clone(p.subs), slices.Clone(p.timers)
	}
	return &c
}

// Key implements [exploration.World].
func (w *modelWorld) Key(to []byte) []byte {
	to = fmt.Appendf(to, "%v %s %s %v %d|%d %d %d %d", w.there, w.decision, w.history, w.nodes, w.yes, w.lost, w.crashes, w.expiries, w.ticks)
	for i := range w.parties {
		p := &w.parties[i]
		to = fmt.Appendf(to, "\n%v %d %v %s %v %v %d %d", p.up, p.epoch, p.present, p.acted, p.again, p.left, p.n, len(p.out))
		for _, e := range p.out {
			to = fmt.Appendf(to, " %T%v", e, brief(e))
		}
		for _, s := range p.subs {
			to = fmt.Appendf(to, " %s:%s", s.kind, s.told)
		}
		for _, t := range p.timers {
			to = fmt.Appendf(to, " %T%v", t, brief(t))
		}
		if p.site == "" {
			to = append(to, p.m.String()...)
		} else {
			to = append(to, p.sm.String()...)
		}
	}
	return to
}

// brief leaves pointers out.
func brief(e any) any {
	switch e := e.(type) {
	case await:
		return e.timer
	case propose:
		return e.Outcome
	case clearUp:
		return ""
	default:
		return e
	}
}

// state is what a subscription would be told now.
func (w *modelWorld) state(kind string) string {
	switch kind {
	case "parent":
		return fmt.Sprint("is ", w.there)
	case "record":
		return fmt.Sprint("is ", w.there, w.decision)
	case "ballots":
		return fmt.Sprint("is ", w.there, w.nodes)
	}
	var sites []string
	for i := range w.parties {
		if w.parties[i].present {
			sites = append(sites, w.parties[i].site)
		}
	}
	return "is " + strings.Join(sites, ",")
}

// Actions implements [exploration.World].
func (w *modelWorld) Actions() (normal, faulty []modelAction) {
	for i := range w.parties {
		p := &w.parties[i]
		if !p.up {
			normal = append(normal, modelAction{"start", i, 0})
			if p.present || p.site == "" && w.ballotOf(p) >= 0 {
				normal = append(normal, modelAction{"bury", i, 0})
			}
			continue
		}
		if len(p.out) > 0 {
			normal = append(normal, modelAction{"serve", i, 0})
			if w.lost > 0 {
				faulty = append(faulty, modelAction{"lose", i, 0}, modelAction{"lose", i, 1})
			}
		}
		for k, s := range p.subs {
			if s.told != w.state(s.kind) {
				normal = append(normal, modelAction{"notify", i, k})
			}
		}
		if w.ticks > 0 {
			for k := range p.timers {
				normal = append(normal, modelAction{"tick", i, k})
			}
		}
		if w.crashes > 0 {
			faulty = append(faulty, modelAction{"crash", i, 0})
		}
		if w.expiries > 0 {
			faulty = append(faulty, modelAction{"expire", i, 0}, modelAction{"expire", i, 1})
		}
	}
	return slices.DeleteFunc(normal, func(a modelAction) bool {
		return a.kind == "start" && a.who == 0 && !w.there // nothing to resume
	}), faulty
}

// Apply implements [exploration.World].
func (w *modelWorld) Apply(a modelAction) {
	w.apply(a)
	if w.idle() {
		w.Clone().drain()
	}
}

func (w *modelWorld) apply(a modelAction) {
	p := &w.parties[a.who]
	switch a.kind {
	case "serve":
		e := p.out[0]
		p.out = p.out[1:]
		w.tell(a.who, w.execute(a.who, e, nil))
	case "lose":
		w.lost--
		e := p.out[0]
		p.out = p.out[1:]
		err := fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrDisconnected)
		if a.arg == 1 {
			w.execute(a.who, e, nil)
		}
		w.tell(a.who, w.execute(a.who, e, err))
	case "notify":
		w.notify(a.who, a.arg)
	case "tick":
		w.ticks--
		w.tick(a.who, a.arg)
	case "crash":
		w.crashes--
		p.up, p.out, p.subs, p.timers = false, nil, nil, nil
	case "bury":
		w.bury(p)
	case "start":
		w.bury(p)
		w.start(a.who)
	case "expire":
		w.expiries--
		w.expire(a.who, a.arg == 1)
	default:
		panic(a.kind)
	}
}

// bury takes the ephemeral nodes of a party away.
func (w *modelWorld) bury(p *party) {
	p.present = false
	if i := w.ballotOf(p); i >= 0 {
		w.nodes = slices.Delete(w.nodes, i, i+1)
	}
}

// ballotOf returns where the coordinator's ballot is.
func (w *modelWorld) ballotOf(p *party) int {
	if p.site != "" {
		return -1
	}
	return slices.IndexFunc(w.nodes, func(n string) bool { return strings.HasPrefix(n, coordinator) })
}

func (w *modelWorld) expire(i int, done bool) {
	p := &w.parties[i]
	if done && len(p.out) > 0 {
		w.execute(i, p.out[0], nil)
	}
	w.bury(p)
	p.present = p.site != "" // again, at once: its absence may be seen by nobody
	out, subs := p.out, p.subs
	p.out, p.subs = nil, nil
	err := fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrExpired)
	for _, e := range out {
		w.tell(i, w.execute(i, e, err))
	}
	for _, s := range subs {
		w.tell(i, w.reading(i, s.kind, session.ErrExpired))
	}
	if p.epoch++; p.site == "" {
		w.tell(i, heard{session.Expired{Epoch: p.epoch - 1}})
		w.tell(i, heard{session.Connected{Epoch: p.epoch}})
	}
}

func (w *modelWorld) notify(i, k int) {
	p := &w.parties[i]
	s := p.subs[k]
	var err error
	if (s.kind == "record" || s.kind == "ballots") && !w.there {
		err = session.ErrNoNode
		p.subs = slices.Delete(p.subs, k, k+1)
	} else {
		p.subs[k].told = w.state(s.kind)
	}
	w.tell(i, w.reading(i, s.kind, err))
}

// reading returns the input of a subscription.
func (w *modelWorld) reading(i int, kind string, err error) any {
	isSite := w.parties[i].site != ""
	var names []string
	switch kind {
	case "sites":
		names = strings.Split(strings.TrimPrefix(w.state("sites"), "is "), ",")
		if isSite {
			return siteAttended{names, err}
		}
		return attended{names, err}
	case "ballots":
		if isSite {
			return siteCounted{name{"t", "g"}, slices.Clone(w.nodes), err}
		}
		return counted{slices.Clone(w.nodes), err}
	case "record":
		in := siteRead{id: "t", err: err}
		if err == nil {
			in.rec = w.read()
		}
		return in
	}
	if w.there {
		names = []string{"t"}
	}
	return siteListed{names, err}
}

func (w *modelWorld) read() *record {
	r := *w.rec
	if w.decision != "" {
		r.Outcome = outcomeOf(w.decision)
	}
	return &r
}

func (w *modelWorld) tick(i, k int) {
	p := &w.parties[i]
	t := p.timers[k]
	p.timers = slices.Delete(p.timers, k, k+1)
	switch t := t.(type) {
	case awaitDeadline:
		w.tell(i, passed{})
	case await:
		w.tell(i, sitePassed{t.name, t.timer})
	}
}

// execute does what a request asks for, and returns the answer; with an error it returns the answer
// only.
func (w *modelWorld) execute(i int, e any, err error) any {
	p := &w.parties[i]
	do := func(f func() error) error {
		if err != nil {
			return err
		}
		return f()
	}
	left := func() int { return len(w.nodes) }
	mine := fmt.Sprint(coordinator, p.n, "-")
	switch of := e.(type) { // what belongs to an epoch ends with it
	case begin:
		if of.epoch != p.epoch {
			err = session.ErrExpired
		}
	case appear:
		if of.epoch != p.epoch {
			err = session.ErrExpired
		}
	}
	switch e := e.(type) {
	case begin:
		return begun{do(func() error {
			if w.there {
				return session.ErrNodeExists
			}
			if w.begun {
				violate("the transaction is begun twice")
			}
			w.there, w.begun, w.nodes = true, true, []string{fmt.Sprint(mine, e.epoch)}
			for _, site := range w.rec.Sites {
				w.add(unvoted + site)
			}
			return nil
		})}
	case look:
		if err != nil || !w.there {
			return looked{err: err}
		}
		return looked{found: w.read()}
	case decide:
		return recorded{do(func() error { return w.decide(e.Outcome) })}
	case appear:
		return appeared{e.epoch, do(func() error {
			if !w.there {
				return session.ErrNoNode
			}
			if slices.Contains(w.nodes, fmt.Sprint(mine, e.epoch)) {
				return session.ErrNodeExists
			}
			w.add(fmt.Sprint(mine, e.epoch))
			return nil
		})}
	case retire:
		err := do(func() error { return w.remove(fmt.Sprint(mine, e.epoch)) })
		return retired{left(), err}
	case remove:
		return removed{do(w.clear)}
	case check:
		if err == nil && !w.there {
			err = session.ErrNoNode
		}
		return siteChecked{e.name, slices.Clone(w.nodes), err}
	case cast:
		return castDone{e.name, do(func() error {
			if err := w.remove(unvoted + p.site); err != nil {
				return err
			}
			w.add(e.ballot.name(p.site))
			if e.vote == Yes {
				w.yes++
			}
			return nil
		})}
	case propose:
		return siteRecorded{name{"t", "g"}, do(func() error { return w.decide(e.Outcome) })}
	case conclude:
		err := do(func() error { return w.remove(e.ballot.name(p.site)) })
		return finished{e.name, left(), err}
	case clearUp:
		return cleared{name{"t", "g"}, do(w.clear)}
	}
	panic(fmt.Sprintf("%T", e))
}

func (w *modelWorld) add(node string) {
	w.nodes = append(w.nodes, node)
	slices.Sort(w.nodes)
}

func (w *modelWorld) remove(node string) error {
	i := slices.Index(w.nodes, node)
	if i < 0 {
		return session.ErrNoNode
	}
	w.nodes = slices.Delete(w.nodes, i, i+1)
	return nil
}

func (w *modelWorld) decide(o Outcome) error {
	switch {
	case !w.there:
		return session.ErrNoNode
	case w.decision != "":
		return session.ErrBadVersion
	case o.Committed && w.yes != len(w.rec.Sites):
		violate("committed with %d of %d votes", w.yes, len(w.rec.Sites))
	case w.history != "":
		violate("decided twice")
	}
	w.decision = "aborted"
	if o.Committed {
		w.decision = "committed"
	}
	w.history = w.decision
	return nil
}

func (w *modelWorld) clear() error {
	switch {
	case !w.there:
		return session.ErrNoNode
	case len(w.nodes) > 0:
		return session.ErrNotEmpty
	case w.decision == "":
		violate("removed undecided")
	}
	w.there, w.decision = false, ""
	return nil
}

func violate(format string, args ...any) {
	panic(exploration.ViolationError(fmt.Sprintf(format, args...)))
}

// tell has a machine take an input.
func (w *modelWorld) tell(i int, in any) {
	p := &w.parties[i]
	if in, ok := in.(input); ok {
		m, did := p.m.after(in)
		p.m = m
		w.perform(i, did)
		return
	}
	m, did := p.sm.after(in.(siteInput))
	p.sm = m
	w.performSite(i, did)
}

func (w *modelWorld) perform(i int, did effects) {
	p := &w.parties[i]
	for _, e := range did.Do {
		switch e := e.(type) {
		case followBallots:
			p.follow("ballots")
		case followSites:
			p.follow("sites")
		case awaitDeadline:
			p.timers = append(p.timers, e)
		case unfollow:
			p.subs, p.timers = nil, nil
		case appear, begin, decide, ensure, look, readVote, remove, retire:
			p.out = append(p.out, e)
		}
	}
	for _, ev := range did.Emit {
		w.act(i, ev)
	}
}

func (p *party) follow(kind string) {
	p.subs = append(slices.DeleteFunc(p.subs, func(s modelSub) bool { return s.kind == kind }), modelSub{kind: kind})
}

func (w *modelWorld) performSite(i int, did siteEffects) {
	p := &w.parties[i]
	for _, e := range did.Do {
		switch e := e.(type) {
		case followParent:
			p.follow("parent")
		case followRecord:
			p.follow("record")
		case watchBallots:
			p.follow("ballots")
		case watchSites:
			p.follow("sites")
		case forget:
			p.subs = slices.DeleteFunc(p.subs, func(s modelSub) bool { return s.kind == "record" || s.kind == "ballots" })
			p.timers = nil
		case await:
			p.timers = slices.DeleteFunc(p.timers, func(t any) bool { return t.(await).timer == e.timer })
			p.timers = append(p.timers, e)
		case respond:
			if e.err != nil && !errors.Is(e.err, ErrDecided) && !errors.Is(e.err, ErrVoted) {
				violate("%s: %v", p.site, e.err)
			}
		case cast, check, clearUp, conclude, propose:
			p.out = append(p.out, e)
		}
	}
	for _, ev := range did.Emit {
		w.act(i, ev)
	}
}

// act is what the user of a party does with an event.
func (w *modelWorld) act(i int, ev Event) {
	p := &w.parties[i]
	switch ev := ev.(type) {
	case Prepare:
		if vote := w.plan[i-1]; vote != 0 {
			w.tell(i, castVote{id: ev.Tx, vote: vote})
		}
	case Committed:
		w.acts(p, "committed")
	case Aborted:
		w.acts(p, "aborted")
	case Forgotten:
		violate("%s: forgotten", p.site)
	case Left:
		if !errors.Is(ev.Err, ErrForgotten) && !errors.Is(ev.Err, session.ErrExpired) || p.epoch < 2 {
			violate("%s: %v", p.site, ev)
		}
		p.left = ev.Err
	case Voted:
	}
	if p.acted != "" && p.site != "" && !p.again {
		w.tell(i, finish{id: "t"})
	}
}

func (w *modelWorld) acts(p *party, what string) {
	if p.acted != "" && p.acted != what || what != w.history {
		violate("%q: %s after %s, decided %s", p.site, what, p.acted, w.history)
	}
	if !p.again && p.acted != "" && p.site != "" {
		violate("%q: told twice", p.site)
	}
	p.acted, p.again = what, false
}

// idle reports whether nothing goes on but time.
func (w *modelWorld) idle() bool {
	for i := range w.parties {
		p := &w.parties[i]
		if p.up && (len(p.out) > 0 || slices.ContainsFunc(p.subs, func(s modelSub) bool { return s.told != w.state(s.kind) })) {
			return false
		}
	}
	return true
}

// drain lets everything go on without further faults, but a crashed coordinator stays away. The
// transaction is to be decided and removed, and all that live to know it.
func (w *modelWorld) drain() {
	w.lost, w.crashes, w.expiries, w.ticks = 0, 0, 0, 1000
	for i := range w.parties {
		if p := &w.parties[i]; !p.up {
			w.bury(p)
			if p.site != "" {
				w.start(i)
			}
		}
	}
	for range 40 {
		for !w.idle() {
			for i := range w.parties {
				p := &w.parties[i]
				if p.up && len(p.out) > 0 {
					w.apply(modelAction{"serve", i, 0})
				}
				for k := len(p.subs) - 1; k >= 0 && p.up; k-- {
					if k < len(p.subs) && p.subs[k].told != w.state(p.subs[k].kind) {
						w.apply(modelAction{"notify", i, k})
					}
				}
			}
		}
		if w.done() {
			return
		}
		for i := range w.parties {
			for range len(w.parties[i].timers) {
				if len(w.parties[i].timers) > 0 {
					w.tick(i, 0)
				}
			}
		}
	}
	violate("it does not end: %s", w.Key(nil))
}

func (w *modelWorld) done() bool {
	if w.there {
		return false
	}
	for i := range w.parties {
		p := &w.parties[i]
		switch {
		case p.site == "" && p.up && !p.m.Ended():
			return false
		case p.site != "" && len(p.sm.parts) > 0:
			return false
		case p.site != "" && w.begun && p.acted == "":
			return false
		}
	}
	return true
}

func TestModel(t *testing.T) {
	type faults struct{ lost, crashes, expiries, ticks int }
	plans := [][]Vote{{Yes}, {Yes, No}}
	some := []faults{{lost: 1}, {crashes: 1}, {expiries: 1}, {ticks: 2}}
	limit := *statesToSee / 2
	if !testing.Short() {
		plans = append(plans, []Vote{Yes, Yes}, []Vote{Yes, 0}, []Vote{Yes, Yes, Yes})
		some = append(some, faults{lost: 1, crashes: 1}, faults{crashes: 1, ticks: 1})
		limit = *statesToSee
	}
	for _, mode := range []Mode{Coordinated, Peer} {
		for _, plan := range plans {
			for _, f := range some {
				t.Run(fmt.Sprintf("%v %v %+v", mode, plan, f), func(t *testing.T) {
					w := newModel(mode, plan)
					w.lost, w.crashes, w.expiries, w.ticks = f.lost, f.crashes, f.expiries, f.ticks
					states, all, trace, err := explore(w, limit)
					if err != nil {
						report(t, w, trace, err)
					}
					t.Logf("%d states, all: %v", states, all)
				})
			}
		}
	}
}

func report(t *testing.T, start *modelWorld, trace []modelAction, err error) {
	t.Helper()
	for _, a := range shorten(start, trace) {
		t.Log(a)
	}
	t.Fatal(err)
}

// A campaign takes more than a test, which is run with the race detector too.
var (
	walksToTake = flag.Uint64("commit.walks", 5_000, "random walks through transactions")
	statesToSee = flag.Int("commit.states", 4_000, "states of each transaction that are gone through")
)

// TestModelWalks goes at random to the end, where three sites and all faults have too many states.
func TestModelWalks(t *testing.T) {
	walks := *walksToTake
	if testing.Short() {
		walks = min(walks, 1_000)
	}
	outcomes := map[string]int{}
	for seed := range walks {
		random := rand.New(rand.NewPCG(seed, 1))
		plan := make([]Vote, 1+random.IntN(3))
		for i := range plan {
			if plan[i] = Yes; random.IntN(6) == 0 {
				plan[i] = Vote(random.IntN(3))
			}
		}
		start := newModel(Mode(random.IntN(2)), plan)
		start.lost, start.crashes, start.expiries, start.ticks = random.IntN(3), random.IntN(3), random.IntN(3), random.IntN(4)
		w := start.Clone()
		var trace []modelAction
		for range 400 {
			normal, faulty := w.Actions()
			if random.IntN(8) == 0 && len(faulty) > 0 {
				normal = faulty
			}
			if len(normal) == 0 {
				break
			}
			trace = append(trace, normal[random.IntN(len(normal))])
			next, err := try(w, trace[len(trace)-1])
			if err != nil {
				t.Logf("seed %d, %v %v", seed, start.rec.Mode, plan)
				report(t, start, trace, err)
			}
			w = next
		}
		outcomes[w.history]++
	}
	if outcomes["committed"] == 0 || outcomes["aborted"] == 0 {
		t.Errorf("outcomes: %v", outcomes)
	}
	t.Log(outcomes)
}
