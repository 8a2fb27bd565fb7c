package barrier

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

const root = "/b"

// A member is a machine with its performer.
type member struct {
	*zkmodel.Runner[machine, input, effect, DoubleEvent]
	n      int
	enters int // how often it will enter
	closed bool
	said   DoubleEvent // the last event
	peers  []string    // the nodes of the members of the last round that was entered
}

// A scenario is where a world begins.
type scenario struct {
	parties, handles, enters int
	cancels                  int
	anew                     int // how often an operator deletes a directory of entrants, and creates it anew
	faults                   zkmodel.Faults
	prepared                 bool // there is a record, and the directory of round 1
	worn                     bool // there is a record of round 1, and the servers have removed all directories
	slow                     bool // requests of the last handle wait for long
	others                   bool // a double barrier of another layout is there
	copies                   int  // nodes like those of parties, of no session, are in the directory of entrants
	copied                   bool // there is a record of round 1, whose members are nodes of no session
	effort                   int
	mutant                   mutant
}

// A mutant is what is wrong with the machines, or their performers. All may be nil.
type mutant struct {
	effect func(effect) effect                        // nil for one that is not performed
	ops    func([]session.Op)                         // changes those of a transaction
	input  func(input) input                          // nil for one that is not told
	twist  func(before machine, in input, m *machine) // after a step
}

// A world has a double barrier in it.
type world struct {
	*zkmodel.World
	*scenario
	all     []*member
	cancels int
	anew    int    // left
	last    book   // that was seen
	had     []book // all that were there before a restore; none in a world without
}

// copyOf returns the name of a node of no session.
func copyOf(round, i int) string {
	return fmt.Sprintf("%010d-c%07d-0000-4000-8000-000000000000-1-copy", round, i)
}

func newWorld(s *scenario, keyed bool) *world {
	nodes := []zkmodel.Node{}
	if s.prepared {
		nodes = append(nodes,
			zkmodel.Node{Path: root, Data: string(book{Parties: s.parties}.encode()), Container: true, Version: 1, Czxid: 1, Mzxid: 4, Pzxid: 2},
			zkmodel.Node{Path: root + "/1", Container: true, Czxid: 2, Mzxid: 2, Pzxid: 3},
			zkmodel.Node{Path: root + "/1/in", Container: true, Czxid: 3, Mzxid: 3, Pzxid: 4})
	}
	if s.worn {
		b := book{Round: 1, Parties: s.parties, Members: []string{"a", "b"}}
		nodes = append(nodes, zkmodel.Node{Path: root, Data: string(b.encode()), Container: true, Version: 2, Czxid: 1, Mzxid: 2, Pzxid: 3})
	}
	if s.others {
		if !s.prepared {
			nodes = append(nodes, zkmodel.Node{Path: root, Czxid: 1, Mzxid: 1, Pzxid: 5})
		}
		nodes = append(nodes, zkmodel.Node{Path: root + "/ready", Czxid: 5, Mzxid: 5, Pzxid: 5})
	}
	if s.copied {
		b := book{Round: 1, Parties: s.parties}
		for i := range s.parties {
			b.Members = append(b.Members, copyOf(1, i))
		}
		nodes = append(nodes, zkmodel.Node{Path: root, Data: string(b.encode()), Version: 1, Czxid: 1, Mzxid: 1, Pzxid: 6},
			zkmodel.Node{Path: root + "/1", Czxid: 2, Mzxid: 2, Pzxid: 3},
			zkmodel.Node{Path: root + "/1/in", Czxid: 3, Mzxid: 3, Pzxid: 5})
		for _, name := range b.Members {
			nodes = append(nodes, zkmodel.Node{Path: root + "/1/in/" + name, Czxid: 5, Mzxid: 5, Pzxid: 5})
		}
		nodes = append(nodes, zkmodel.Node{Path: root + "/2", Czxid: 6, Mzxid: 6, Pzxid: 7}, zkmodel.Node{Path: root + "/2/in", Czxid: 7, Mzxid: 7, Pzxid: 8})
	}
	for i := range s.copies {
		dir := root + "/1/in/"
		if s.copied {
			dir = root + "/2/in/"
		}
		nodes = append(nodes, zkmodel.Node{Path: dir + copyOf(1, i), Czxid: 8, Mzxid: 8, Pzxid: 8})
	}
	w := &world{World: zkmodel.New(s.faults, s.handles, nodes...), scenario: s, cancels: s.cancels, anew: s.anew}
	w.Root, w.Prompt = root, func(string) bool { return true } // a server refuses what comes late from a session that has moved on
	w.Strikes = func(path string) bool { return strings.Contains(path, "/in/") }
	if keyed {
		w.Keyed()
	}
	for i := range s.handles {
		at := w.Sessions[i]
		p := &performer{session: tampered{at, s.mutant.ops}, path: root}
		p.owned.Clock = at
		c := &member{n: i, enters: s.enters}
		id := fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)
		c.Runner = zkmodel.Run(w.World, at, newMachine(id, fmt.Sprint(i), s.parties), actors.Role[machine, input, effect, DoubleEvent]{
			Perform: s.mutant.around(p.perform),
			Observe: func(m machine, _ []DoubleEvent) {
				if m.Ended() {
					p.owned.End()
				}
			},
		}, func(in input, before machine, did effects) {
			if s.mutant.twist != nil {
				s.mutant.twist(before, in, &c.M)
			}
			w.told(c, in, before, did)
		})
		w.all = append(w.all, c)
		w.Share(p)
		c.Begin(func() { p.begin(c.Tell, nil) })
	}
	if w.last = w.record(); s.worn {
		w.wear()
	}
	return w
}

// wear has all handles ask to open a round, and the servers remove the record before they serve
// that.
func (w *world) wear() {
	for i := range w.all {
		w.Apply(zkmodel.Action{Kind: "enter", I: i})
	}
	for {
		normal, _ := w.World.Actions()
		i := slices.IndexFunc(normal, func(a zkmodel.Action) bool { return !strings.Contains(w.Describe(a), "create "+root+"/2 ") })
		if i < 0 {
			break
		}
		w.Apply(normal[i])
	}
	w.Apply(zkmodel.Action{Kind: "reap", Node: root})
}

// Actions implements [exploration.World]. Timers are not what brings a world to rest.
func (w *world) Actions() (normal, wishes, faulty []zkmodel.Action) {
	normal, faulty = w.World.Actions()
	normal = slices.DeleteFunc(normal, func(a zkmodel.Action) bool {
		waits := a.Kind == "timer" || w.slow && (a.Kind == "bury" || a.Kind == "serve" && a.I == w.handles-1)
		if waits {
			wishes = append(wishes, a)
		}
		return waits
	})
	for i, c := range w.all {
		if c.Ended() || c.closed || c.Pending() != "" {
			continue
		}
		switch {
		case c.M.stage == resting && c.enters > 0 && len(c.M.queued) == 0:
			wishes = append(wishes, zkmodel.Action{Kind: "enter", I: i})
		case c.M.stage == inside:
			wishes = append(wishes, zkmodel.Action{Kind: "leave", I: i})
		case c.M.stage == gathering && w.hopeless() && len(normal) == 0, c.M.stage == resting:
			wishes = append(wishes, zkmodel.Action{Kind: "end", I: i})
		}
		if c.M.stage == gathering && w.cancels > 0 && !c.M.retire {
			faulty = append(faulty, zkmodel.Action{Kind: "cancel", I: i})
		}
	}
	operator := slices.IndexFunc(w.Sessions, func(s *zkmodel.Session) bool { return s.Epoch() != 0 })
	for _, n := range w.Nodes() {
		if w.anew > 0 && operator >= 0 && strings.HasSuffix(n.Path, "/in") {
			faulty = append(faulty, zkmodel.Action{Kind: "anew", I: operator, Node: n.Path})
		}
	}
	return normal, wishes, faulty
}

// hopeless reports whether too few are left to begin a round.
func (w *world) hopeless() bool {
	n := 0
	for _, c := range w.all {
		if !c.Ended() && !c.closed && (c.M.stage == gathering || c.enters > 0) {
			n++
		}
	}
	return n < w.parties
}

// Apply implements [exploration.World].
func (w *world) Apply(a zkmodel.Action) {
	switch a.Kind {
	case "enter":
		w.all[a.I].enters--
		w.all[a.I].Tell(enter{})
	case "leave":
		w.all[a.I].Tell(leave{})
	case "cancel":
		w.cancels--
		w.all[a.I].Tell(cancel{})
	case "anew":
		w.anew--
		var ops []session.Op
		for _, name := range w.Children(a.Node) {
			ops = append(ops, session.DeleteOp(a.Node+"/"+name, session.AnyVersion))
		}
		ops = append(ops, session.DeleteOp(a.Node, session.AnyVersion), session.CreateOp(a.Node, nil, session.Container))
		operator := w.Sessions[a.I]
		operator.Async(operator.Epoch()).Multi(ops, func([]session.OpResult, error) {})
	case "end":
		w.all[a.I].closed = true
		w.all[a.I].Tell(closeHandle{})
	default:
		w.World.Apply(a)
	}
	b := w.record()
	switch {
	case a.Kind == "restore", a.Kind == "relapse", b.Parties == 0:
	case w.Restored() && slices.ContainsFunc(w.had, func(o book) bool { return o.Round == b.Round && slices.Equal(o.Members, b.Members) }):
		// Written by a party that knows of no restore, at a version that was given again: its
		// members are nowhere.
	case w.last.Parties == 0 && len(b.Members) == 0: // a new record; its rounds may go on with the numbers of the last
	case b.Round != w.last.Round:
		w.began(b)
	case !slices.Equal(b.Members, w.last.Members):
		zkmodel.Violate("round %d of %v becomes that of %v", b.Round, w.last.Members, b.Members)
	}
	if w.last = b; w.faults.Relapses > 0 && !w.Restored() && len(b.Members) > 0 {
		w.had = append(w.had, b)
		w.had = slices.CompactFunc(w.had, func(a, b book) bool { return a.Round == b.Round })
	}
}

// record returns what the record says; nothing if there is none.
func (w *world) record() (b book) {
	n := w.Node(root)
	if n == nil || n.Data == "" {
		return b
	}
	b, err := decode([]byte(n.Data))
	if err != nil {
		zkmodel.Violate("%v", err)
	}
	return b
}

// began looks at a round that begins at this very moment.
func (w *world) began(b book) {
	if len(b.Members) != w.parties {
		zkmodel.Violate("a round begins with %v", b)
	}
	if b.Round != w.last.Round+1 && w.last.Parties != 0 {
		zkmodel.Violate("round %d follows round %d", b.Round, w.last.Round)
	}
	handles := map[string]bool{}
	for _, name := range b.Members {
		handles[nodes.PartyName(name)] = true
		if n := w.Node(fmt.Sprintf("%s/%d/in/%s", root, b.Round, name)); n == nil || n.Owner == 0 {
			zkmodel.Violate("round %d begins with a ghost, %s", b.Round, name)
		}
	}
	if len(handles) < w.parties {
		zkmodel.Violate("round %d lists a handle twice: %v", b.Round, b.Members)
	}
	if b.Round > 1 && w.Node(fmt.Sprintf("%s/%d", root, b.Round-1)) != nil {
		zkmodel.Violate("round %d begins before the last is over", b.Round)
	}
}

// doomed reports whether the session of a member is over for the server, or its node gone, and it
// may not know.
func (w *world) doomed(c *member) bool {
	return c.Dead || c.Session().Killed() || w.Node(fmt.Sprintf("%s/%d/in/%s", root, c.M.round, c.M.name)) == nil
}

// undone reports whether the round with the members is of a history that is no more, which they
// cannot know.
func (w *world) undone(members []string) bool {
	return w.Restored() && !slices.Equal(w.record().Members, members)
}

// told follows a step of a machine.
func (w *world) told(c *member, in input, before machine, did effects) {
	if a, is := in.(answered); is && before.step == retiring && a.err == nil && a.requestID == before.asked.requestID &&
		w.last.Round == before.node && slices.Contains(w.last.Members, before.name) {
		zkmodel.Violate("%d has withdrawn from round %d, which lists it", c.n, before.node)
	}
	for _, ev := range did.Emit {
		switch ev := ev.(type) {
		case Entered:
			if w.others {
				zkmodel.Violate("%d has entered beside others", c.n)
			}
			if !slices.Contains(ev.Members, fmt.Sprint(c.n)) || len(ev.Members) != w.parties {
				zkmodel.Violate("%d has %v", c.n, ev)
			}
			c.peers = c.M.sight.book.Members
		case Left:
			for _, o := range w.all {
				if slices.Contains(c.peers, o.M.name) && (o.M.stage == inside || o.M.stage == leaving && o.M.node != 0) && !w.doomed(o) && !w.undone(c.peers) {
					zkmodel.Violate("%d has left round %d, and %d is inside", c.n, ev.Round, o.n)
				}
			}
		case Waiting, Leaving, Lost, Withdrawn, Closed:
		}
		if !follows(c.said, ev) {
			zkmodel.Violate("%d says %v after %v", c.n, ev, c.said)
		}
		c.said = ev
	}
}

// follows reports whether the grammar allows the event.
func follows(last, next DoubleEvent) bool {
	_, in := last.(Entered)
	_, leaving := last.(Leaving)
	_, closed := last.(Closed)
	switch next.(type) {
	case Waiting, Entered, Withdrawn:
		return !in && !leaving && !closed
	case Leaving, Left, Lost:
		return in || leaving
	case Closed:
	}
	return !closed
}

// Check implements [exploration.World].
func (w *world) Check() {
	round := 0
	for _, c := range w.all {
		if c.M.stage != inside || w.doomed(c) || w.undone(c.peers) {
			continue
		}
		if round != 0 && c.M.round != round {
			zkmodel.Violate("rounds %d and %d overlap", round, c.M.round)
		}
		round = c.M.round
	}
	if !w.Quiet() {
		return
	}
	waiting, busy := 0, 0
	for _, c := range w.all {
		switch {
		case c.Ended():
			if left := c.Session().Watched(c.n); len(left) > 0 {
				zkmodel.Violate("%d has ended, and watches %v", c.n, left)
			}
		case c.M.stage == gathering && c.M.retire, c.M.stage == closing:
			zkmodel.Violate("%d is stuck: %v", c.n, c.M)
		case c.M.stage == gathering:
			waiting++
		case c.M.stage == inside && w.doomed(c):
			zkmodel.Violate("%d is inside without a node", c.n)
		case c.M.stage == inside:
			busy++
		case c.M.stage == leaving && !w.attended(c):
			zkmodel.Violate("%d is stuck: %v", c.n, c.M)
		case c.M.stage == leaving:
			busy++
		}
	}
	if waiting >= w.parties && busy == 0 {
		zkmodel.Violate("%d wait, and no round begins", waiting)
	}
	for _, n := range w.Nodes() {
		if n.Owner != 0 && !slices.ContainsFunc(w.all, func(c *member) bool { return !c.Ended() && strings.HasSuffix(n.Path, "/"+c.M.name) && c.M.name != "" }) {
			zkmodel.Violate("%s is a ghost", n.Path)
		}
	}
}

// attended reports whether a party is in the round that a member leaves, and not in another of the
// same number.
func (w *world) attended(c *member) bool {
	return slices.Equal(w.record().Members, c.peers) && len(w.Children(fmt.Sprintf("%s/%d/in", root, c.M.round))) > 0
}

// Key implements [exploration.World].
func (w *world) Key() uint64 {
	w.Woken = nil
	return zkmodel.Hash(w)
}

func (w *world) ended() error {
	for _, c := range w.all {
		if !c.Ended() {
			return fmt.Errorf("%d never ends: %v", c.n, c.M)
		}
	}
	for _, round := range w.Children(root) {
		if b := w.record(); round != fmt.Sprint(b.Round) && round != fmt.Sprint(b.Round+1) && !w.others && !w.Restored() && len(w.Struck) == 0 {
			return fmt.Errorf("after round %d there is %s", b.Round, round)
		}
	}
	return nil
}

var scenarios = map[string]*scenario{
	"two":               {parties: 2, handles: 2, enters: 2},
	"two, nothing yet":  {parties: 2, handles: 2, enters: 1, faults: zkmodel.Faults{Cuts: 1}},
	"one too many":      {parties: 2, handles: 3, enters: 2, prepared: true},
	"lost replies":      {parties: 2, handles: 2, enters: 2, prepared: true, faults: zkmodel.Faults{Cuts: 2}},
	"late requests":     {parties: 2, handles: 3, enters: 1, prepared: true, faults: zkmodel.Faults{Cuts: 1, Lates: 1}},
	"crashes":           {parties: 2, handles: 4, enters: 2, prepared: true, faults: zkmodel.Faults{Crashes: 2}},
	"one, and crashes":  {parties: 1, handles: 4, enters: 1, prepared: true, effort: 4, faults: zkmodel.Faults{Crashes: 3}},
	"expiries":          {parties: 2, handles: 3, enters: 2, prepared: true, faults: zkmodel.Faults{Cuts: 1, Expires: 1, Kills: 1}},
	"a closed session":  {parties: 2, handles: 3, enters: 1, prepared: true, faults: zkmodel.Faults{Closes: 1}},
	"cancelled":         {parties: 2, handles: 3, enters: 2, cancels: 2, prepared: true, faults: zkmodel.Faults{Cuts: 1}},
	"busy, and lagging": {parties: 2, handles: 3, enters: 2, prepared: true, faults: zkmodel.Faults{Busy: 2, Lags: 2}},
	"operators":         {parties: 2, handles: 3, enters: 2, prepared: true, faults: zkmodel.Faults{Strikes: 1, Razes: 1}},
	"created anew":      {parties: 2, handles: 2, enters: 2, prepared: true, anew: 2},
	"created anew, lag": {parties: 2, handles: 3, enters: 1, prepared: true, anew: 2, faults: zkmodel.Faults{Lags: 1, Cuts: 1, Reaps: 1}},
	"others, before us": {parties: 2, handles: 2, enters: 2, others: true, faults: zkmodel.Faults{Cuts: 1, Busy: 1, Expires: 1}},
	"others, after us": {
		parties: 2, handles: 3, enters: 2, cancels: 1, prepared: true, others: true,
		faults: zkmodel.Faults{Cuts: 1, Busy: 1, Expires: 1, Kills: 1, Lags: 1},
	},
	"reaped":                {parties: 2, handles: 3, enters: 2, prepared: true, faults: zkmodel.Faults{Reaps: 3, Cuts: 1}},
	"reaped, and expired":   {parties: 2, handles: 4, enters: 1, prepared: true, faults: zkmodel.Faults{Reaps: 6, Expires: 1, Kills: 1, Cuts: 1}},
	"removed meanwhile":     {parties: 2, handles: 3, enters: 2, worn: true, slow: true, faults: zkmodel.Faults{Reaps: 3}},
	"slow to expire":        {parties: 2, handles: 3, enters: 2, prepared: true, slow: true, faults: zkmodel.Faults{Cuts: 2, Expires: 1, Kills: 1}},
	"restored":              {parties: 2, handles: 2, enters: 2, prepared: true, faults: zkmodel.Faults{Restores: 1}},
	"restored to nothing":   {parties: 2, handles: 3, enters: 2, cancels: 1, faults: zkmodel.Faults{Restores: 1, Expires: 1, Cuts: 1}},
	"a relapse":             {parties: 2, handles: 2, enters: 2, prepared: true, effort: 4, faults: zkmodel.Faults{Relapses: 1}},
	"a relapse, to nothing": {parties: 2, handles: 3, enters: 2, effort: 4, faults: zkmodel.Faults{Relapses: 1, Cuts: 1}},
	"copies":                {parties: 2, handles: 3, enters: 2, prepared: true, copies: 1, faults: zkmodel.Faults{Cuts: 1, Kills: 1}},
	"many copies":           {parties: 2, handles: 2, enters: 2, prepared: true, copies: 3, faults: zkmodel.Faults{Crashes: 1, Strikes: 1}},
	"a copied round":        {parties: 2, handles: 2, enters: 2, copied: true, faults: zkmodel.Faults{Cuts: 1, Strikes: 1}},
	"a copied tree":         {parties: 2, handles: 3, enters: 2, cancels: 1, copied: true, copies: 2, faults: zkmodel.Faults{Cuts: 1, Expires: 1}},
	"four": {
		parties: 4, handles: 4, enters: 2, cancels: 1, prepared: true,
		faults: zkmodel.Faults{Cuts: 2, Expires: 1, Kills: 1, Lags: 1},
	},
	"four of six": {
		parties: 4, handles: 6, enters: 2, cancels: 1, prepared: true,
		faults: zkmodel.Faults{Cuts: 2, Lates: 1, Expires: 1, Crashes: 1, Busy: 1, Reaps: 1},
	},
}

// TestRoundsInModel walks rounds of up to four parties over a model of ZooKeeper. TLC goes through
// all states of small sizes: see spec/DoubleBarrier.tla.
func TestRoundsInModel(t *testing.T) {
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) {
			exploration.Test(t, func(keyed bool) exploration.World[zkmodel.Action] { return newWorld(s, keyed) }, max(1, s.effort),
				func(w exploration.World[zkmodel.Action]) error { return w.(*world).ended() })
		})
	}
}

// TestInputs: walks give every input to the machine.
func TestInputs(t *testing.T) {
	names := slices.Sorted(maps.Keys(scenarios))
	exploration.Explored(t, "input", func(walk int, given *check.Given) exploration.World[zkmodel.Action] {
		w := newWorld(scenarios[names[walk%len(names)]], false)
		w.Given = given
		return w
	})
}

var sweeps = flag.Int("barrier.sweeps", 0, "how often every step of two rounds is hit by every fault; 0 for a sample, 4 are a campaign of minutes")

// TestFaultAtEachStep goes through two rounds of two, three and four parties and one to spare, with
// one fault at each step of the way: a client crashes, its session is expired by the server, the
// reply to its request is lost, or the request.
func TestFaultAtEachStep(t *testing.T) {
	seeds, stride := uint64(*sweeps), 1
	if seeds == 0 {
		seeds, stride = 1, hasten.Sized(hasten.Usually(7, 37), 151)
	}
	for parties := 2; parties <= 4; parties++ {
		runs, steps := 0, 0
		s := &scenario{parties: parties, handles: parties + 1, enters: 2, prepared: true, faults: zkmodel.Faults{Cuts: 1, Kills: 1, Crashes: 1}}
		for seed := range seeds {
			for at, more := 0, true; more; at += stride {
				more = false
				for fault := 0; ; fault++ {
					w := newWorld(s, false)
					n, injected, err := walkWithFault(w, rand.New(rand.NewPCG(seed, 0)), at, fault)
					if err == nil && injected {
						err = w.ended()
					}
					if err != nil {
						t.Fatalf("%d parties, seed %d, fault %d at step %d: %v", parties, seed, fault, at, err)
					}
					if !injected {
						break
					}
					more, runs, steps = true, runs+1, steps+n
				}
			}
		}
		t.Logf("%d parties: %d walks with a fault, %d steps", parties, runs, steps)
	}
}

// walkWithFault walks at random until nothing can happen any more, with one fault at a step.
// Every cut comes in two ways: the server still does what was asked, or not.
func walkWithFault(w *world, r *rand.Rand, at, fault int) (n int, injected bool, err error) {
	defer func() {
		if v, is := recover().(exploration.ViolationError); is {
			err = v
		}
	}()
	const limit = 5000
	lost := -1 // the session whose replies are lost
	for n = range limit {
		normal, wishes, faulty := w.Actions()
		choice := slices.Concat(normal, wishes)
		if n == at {
			var ways []zkmodel.Action
			for _, a := range faulty {
				ways = append(ways, a)
				if a.Kind == "cut" {
					ways = append(ways, a)
				}
			}
			if fault >= len(ways) {
				return n, false, nil
			}
			if a := ways[fault]; a.Kind == "cut" && fault > 0 && ways[fault-1] == a {
				lost = a.I
			}
			choice, injected = ways[fault:fault+1], true
		} else if lost >= 0 {
			serve := zkmodel.Action{Kind: "serve", I: lost}
			if slices.Contains(normal, serve) {
				choice = []zkmodel.Action{serve}
			}
			lost = -1
		}
		if len(choice) == 0 {
			return n, injected, nil
		}
		w.Apply(choice[r.IntN(len(choice))])
		w.Check()
		if injected {
			w.Left = zkmodel.Faults{}
		}
	}
	return n, injected, fmt.Errorf("no end in %d steps", limit)
}

// TestRecord reads what it writes, and refuses what is not a record.
func TestRecord(t *testing.T) {
	for _, b := range []book{{Round: 0, Parties: 1}, {Round: 3, Parties: 2, Members: []string{"a", "b"}}} {
		if got, err := decode(b.encode()); err != nil || got.Round != b.Round || got.Parties != b.Parties || !slices.Equal(got.Members, b.Members) {
			t.Errorf("%v became %v, %v", b, got, err)
		}
	}
	for _, data := range []string{"x", "double-barrier-1", "double-barrier-1 1\n", "double-barrier-1 -1 2\n", "double-barrier-1 1 0\n", "double-barrier-2 1 2\n"} {
		if _, err := decode([]byte(data)); !errors.Is(err, ErrLayout) {
			t.Errorf("%q is a record: %v", data, err)
		}
	}
}

// TestLabels: what the names of nodes say to people.
func TestLabels(t *testing.T) {
	const id = "01234567-0000-4000-8000-000000000000"
	for node, want := range map[string]string{
		"0000000001-" + id + "-1": id, "0000000001-" + id + "-12-a-b": "a-b", "0000000001-" + id: "", "0000000001-" + id + "-1-": "",
		"": "", "x": "", "a-b-c-d-e-f": "", "used": "",
	} {
		check.Equal(t, nodes.PartyName(node), want, node)
	}
}

// TestOtherRecord has the performer tell what a machine needs to notice that the path was removed
// and made again.
func TestOtherRecord(t *testing.T) {
	const created = 7
	w := zkmodel.New(zkmodel.Faults{}, 1, zkmodel.Node{Path: root}, zkmodel.Node{Path: root + "/2"}, zkmodel.Node{Path: root + "/2/in", Czxid: created})
	p := &performer{session: w.Sessions[0], path: root}
	asks := func(r request) (got answered) {
		p.request(r, func(in input) { got = in.(answered) })
		w.Apply(zkmodel.Action{Kind: "serve"})
		return got
	}
	if got := asks(request{step: listing, round: 2}); got.err != nil || got.czxid != created {
		t.Errorf("the directory was created at %d, %v", got.czxid, got.err)
	}
	if got := asks(request{step: opening, round: 2, keeps: true, version: 5}); got.at != record || !errors.Is(got.err, session.ErrBadVersion) {
		t.Errorf("a round of another record is opened: %v, at %d", got.err, got.at)
	}
	if got := asks(request{step: checking}); got.err != nil || got.bad != nil || got.names != nil {
		t.Errorf("a record without data has members %q: %v, %v", got.names, got.err, got.bad)
	}
	if got := asks(request{step: opening, round: 1, book: book{Parties: 1}}); got.at != other || !errors.Is(got.err, session.ErrNodeExists) {
		t.Errorf("a round is opened before the next: %v, at %d", got.err, got.at)
	}
}

// TestKeepDouble: a reader that comes late, while others leave, begins with Entered.
func TestKeepDouble(t *testing.T) {
	all := []DoubleEvent{Waiting{}, Entered{}, Leaving{}, Left{}, Lost{}, Withdrawn{}, Closed{}}
	for i, earlier := range all {
		for j, next := range all {
			check.Equal(t, keepDouble(earlier, next), i == 1 && j == 2, earlier, "before", next)
		}
	}
}
