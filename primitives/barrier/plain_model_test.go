package barrier

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

const plainRoot, plainPath = "/b", "/b/g"

// A raiser is the machine of a gate with its performer.
type raiser struct {
	*zkmodel.Runner[gate, gateInput, gateEffect, GateEvent]
	n      int
	keeper *gatekeeper
	begun  bool
	rivals bool // a barrier of others has stood since
	said   []GateEvent
}

// A watcher is a view with its performer, in which at most one client waits.
type watcher struct {
	*zkmodel.Runner[view, viewInput, viewEffect, Event]
	waits   int  // left
	waiting bool // since then no barrier was seen to stand, if free is set
	free    bool
}

// A plainScenario is where a world of gates begins.
type plainScenario struct {
	gates   int // one in each session
	waits   int // of each watcher, of which there is one in each session
	cancels int
	raises  int // of a persistent barrier
	bare    bool
	faults  zkmodel.Faults
	effort  int
	mutant  gateMutant
}

// A gateMutant is what is wrong with gates. All may be nil.
type gateMutant struct {
	effect func(gateEffect) gateEffect // nil for one that is not performed
	input  func(gateInput) gateInput   // nil for one that is not told
	twist  func(before gate, in gateInput, m *gate)
	after  func(s raiseStep, err error, below bool) (raiseStep, error)
}

// around performs what the mutant performs, and has the machine told what the mutant is told.
func (x gateMutant) around(perform func(gateEffect, func(gateInput))) func(gateEffect, func(gateInput)) {
	return func(e gateEffect, tell func(gateInput)) {
		if x.effect != nil {
			e = x.effect(e)
		}
		if e == nil {
			return
		}
		perform(e, func(in gateInput) {
			if x.input != nil {
				in = x.input(in)
			}
			if in != nil {
				tell(in)
			}
		})
	}
}

// A plainWorld has one path, at which gates are raised.
type plainWorld struct {
	*zkmodel.World
	*plainScenario
	gates    []*raiser
	watchers []*watcher
	cancels  int
	raises   int // left
	raised   []*rising
	lifting  bool    // set while a stranger lifts
	lifted   []int64 // what strangers have lifted
}

// A rising is a call of Raise.
type rising struct {
	at    *zkmodel.Session
	step  raiseStep
	stood bool // a barrier has stood since the call
}

// raise goes on with a call of Raise.
func (w *plainWorld) raise(r *rising) {
	a := r.at.Async(0)
	answer := func(err error, below bool) {
		after := w.mutant.after
		if after == nil {
			after = raiseStep.after
		}
		next, outcome := after(r.step, err, below)
		r.stood = r.stood || w.stands() != nil
		switch {
		case outcome != nil && next == raiseDone && !client.Over(outcome):
			zkmodel.Violate("Raise fails: %v", outcome)
		case outcome == nil && next == raiseDone && !r.stood:
			zkmodel.Violate("a barrier is raised, and none has stood")
		}
		if r.step = next; next != raiseDone {
			w.raise(r)
		}
	}
	switch r.step {
	case raiseNode:
		a.Create(plainPath, nil, session.Persistent, func(_ string, err error) { answer(err, false) })
	case raiseCheck:
		a.Exists(plainPath, func(stat *session.Stat, err error) { answer(err, stat != nil && stat.NumChildren > 0) })
	case raiseParent:
		a.EnsurePath(plainRoot, func(_ bool, err error) { answer(err, false) })
	case raiseDone:
	}
}

func newPlainWorld(s *plainScenario, keyed bool) *plainWorld {
	var nodes []zkmodel.Node
	if !s.bare {
		nodes = append(nodes, zkmodel.Node{Path: plainRoot, Czxid: 1, Mzxid: 1, Pzxid: 1})
	}
	w := &plainWorld{World: zkmodel.New(s.faults, s.gates, nodes...), plainScenario: s, cancels: s.cancels, raises: s.raises}
	w.Root, w.Prompt = plainRoot, func(string) bool { return true }
	w.Deleting = w.deleting
	if keyed {
		w.Keyed()
	}
	for i := range s.gates {
		at := w.Sessions[i]
		c := &raiser{n: i, keeper: &gatekeeper{session: at, path: plainPath, id: gateOf(i)}}
		c.keeper.owned.Clock = at
		c.Runner = zkmodel.Run(w.World, at, gate{}, actors.Role[gate, gateInput, gateEffect, GateEvent]{
			Perform: s.mutant.around(c.keeper.perform),
			Observe: func(m gate, _ []GateEvent) {
				if m.Ended() {
					c.keeper.end(m.refused != nil)
				}
			},
		}, func(in gateInput, before gate, did gateEffects) { w.told(c, in, before, did) })
		w.gates = append(w.gates, c)
		w.Share(c.keeper)
	}
	for i := range s.gates {
		at := w.Sessions[i]
		p := &viewer{session: at, path: plainPath}
		p.owned.Clock = at
		c := &watcher{waits: s.waits}
		c.Runner = zkmodel.Run(w.World, at, view{sync: i%2 == 1}, actors.Role[view, viewInput, viewEffect, Event]{Perform: p.perform},
			func(_ viewInput, _ view, did viewEffects) { w.shown(c, did) })
		w.watchers = append(w.watchers, c)
		w.Share(p)
		c.Begin(func() { p.begin(c.Tell, nil) })
	}
	return w
}

// Actions implements [exploration.World].
func (w *plainWorld) Actions() (normal, wishes, faulty []zkmodel.Action) {
	normal, faulty = w.World.Actions()
	for i, c := range w.gates {
		switch {
		case c.Dead:
		case !c.begun && c.Session().Epoch() != 0:
			wishes = append(wishes, zkmodel.Action{Kind: "try", I: i})
		case c.M.stage == standing && c.Pending() == "":
			wishes = append(wishes, zkmodel.Action{Kind: "lift", I: i})
		case c.M.stage == trying && w.cancels > 0:
			faulty = append(faulty, zkmodel.Action{Kind: "cancel", I: i})
		}
	}
	for i, c := range w.watchers {
		switch {
		case c.Ended() || c.Pending() != "":
		case c.waiting && w.cancels > 0:
			faulty = append(faulty, zkmodel.Action{Kind: "give", I: i}, zkmodel.Action{Kind: "close view", I: i})
		case c.waits > 0 && !c.waiting:
			wishes = append(wishes, zkmodel.Action{Kind: "wait", I: i})
		}
	}
	stranger := slices.IndexFunc(w.Sessions, func(s *zkmodel.Session) bool { return s.Epoch() != 0 })
	n := w.stands()
	switch {
	case stranger < 0:
	case w.raises > 0 && n == nil:
		for i, s := range w.Sessions {
			if s.Epoch() != 0 {
				faulty = append(faulty, zkmodel.Action{Kind: "raise", I: i})
			}
		}
	case !w.lifting && n != nil && n.Owner == 0:
		wishes = append(wishes, zkmodel.Action{Kind: "unraise", I: stranger})
	case !w.lifting && n != nil && w.raises > 0:
		faulty = append(faulty, zkmodel.Action{Kind: "unraise", I: stranger})
	}
	return normal, wishes, faulty
}

func (w *plainWorld) stands() *zkmodel.Node { return w.Node(plainPath) }

// Apply implements [exploration.World].
func (w *plainWorld) Apply(a zkmodel.Action) {
	switch a.Kind {
	case "try":
		c := w.gates[a.I]
		c.begun = true
		c.Begin(func() { c.keeper.begin(c.Tell, nil) })
	case "lift":
		w.gates[a.I].Tell(stop{})
	case "cancel":
		w.cancels--
		w.gates[a.I].Tell(stop{})
	case "wait":
		c := w.watchers[a.I]
		c.waits--
		c.waiting, c.free = true, false
		c.Tell(pass{})
	case "give":
		w.cancels--
		w.watchers[a.I].waiting = false
		w.watchers[a.I].Tell(give{})
	case "close view":
		w.cancels--
		w.watchers[a.I].Tell(stop{})
	case "raise":
		w.raises--
		r := &rising{at: w.Sessions[a.I]}
		w.raised = append(w.raised, r)
		w.raise(r)
	case "unraise": // as Lift does
		w.raises = max(0, w.raises-1)
		w.lifting = true
		r := new(lifting).removal(plainPath)
		r.Impatient = true
		w.Sessions[a.I].Async(w.Sessions[a.I].Epoch()).Remove(r, func(error) { w.lifting = false })
	default:
		w.World.Apply(a)
	}
	n := w.stands()
	for _, r := range w.raised {
		r.stood = r.stood || n != nil
	}
	for _, c := range w.gates {
		c.rivals = c.begun && (c.rivals || n != nil && n.Data != c.keeper.id)
	}
	for _, c := range w.watchers {
		c.free = c.free || n == nil || !c.Session().Sees(plainPath)
	}
}

// deleting is told of what a gate deletes.
func (w *plainWorld) deleting(actor int, _ int64, n zkmodel.Node) {
	if actor >= 0 && actor < len(w.gates) {
		if c := w.gates[actor]; n.Owner != c.M.session || c.M.token != 0 && n.Czxid != c.M.token {
			zkmodel.Violate("%d deletes %v", c.n, n)
		}
		return
	}
	w.lifted = append(w.lifted, n.Czxid)
}

// told follows a step of a gate.
func (w *plainWorld) told(c *raiser, in gateInput, before gate, did gateEffects) {
	if w.mutant.twist != nil {
		w.mutant.twist(before, in, &c.M)
	}
	if before.stage == trying && errors.Is(c.M.err, ErrRaised) && !c.rivals {
		zkmodel.Violate("%d was refused, and no other barrier has stood", c.n)
	}
	closed := in == gateInput(became{session.Closed{}})
	if before.stage == falling && before.token != 0 && c.M.Ended() && c.M.refused == nil && !closed && w.keeps(c) && w.stands().Owner == c.M.session {
		zkmodel.Violate("%d is lifted, and its node stands: %v", c.n, c.M)
	}
	for _, ev := range did.Emit {
		if _, raised := ev.(Raised); raised != (len(c.said) == 0) || len(c.said) > 1 {
			zkmodel.Violate("%d says %v after %v", c.n, ev, c.said)
		}
		c.said = append(c.said, ev)
	}
}

// shown follows a step of a view.
func (w *plainWorld) shown(c *watcher, did viewEffects) {
	for _, e := range did.Do {
		if e, is := e.(settle); is {
			if e.err == nil && !c.free {
				zkmodel.Violate("a waiter goes on while a barrier stands")
			}
			c.waiting = false
		}
	}
}

// keeps reports whether the node of a gate stands.
func (w *plainWorld) keeps(c *raiser) bool {
	n := w.stands()
	return n != nil && n.Czxid == c.M.token
}

// Check implements [exploration.World].
func (w *plainWorld) Check() {
	for _, c := range w.gates {
		struck := slices.Contains(w.lifted, c.M.token) || slices.ContainsFunc(w.Struck, func(n zkmodel.Node) bool { return n.Czxid == c.M.token })
		if c.M.stage == standing && !w.keeps(c) && !c.Dead && !c.Session().Killed() && !struck && c.Session().Epoch() == c.M.epoch {
			zkmodel.Violate("%d holds a gate that was lifted by another: %v", c.n, c.M)
		}
	}
	if !w.Quiet() {
		return
	}
	for _, r := range w.raised {
		if r.step != raiseDone && !r.at.Crashed() {
			zkmodel.Violate("Raise is stuck: %v", r.step)
		}
	}
	held := false
	for _, c := range w.gates {
		switch {
		case c.Dead || !c.begun || c.Ended():
		case c.M.stage != standing:
			zkmodel.Violate("%d is stuck: %v", c.n, c.M)
		case !w.keeps(c):
			zkmodel.Violate("%d holds what is gone: %v", c.n, c.M)
		default:
			held = true
		}
	}
	n := w.stands()
	if n != nil && n.Owner != 0 && !held {
		zkmodel.Violate("%v is left", *n)
	}
	for i, c := range w.watchers {
		switch {
		case c.Dead || c.Ended():
		case !c.M.known || (c.M.token == 0) != (n == nil) || n != nil && n.Czxid != c.M.token:
			zkmodel.Violate("watcher %d sees %v", i, c.M)
		case c.waiting && n == nil:
			zkmodel.Violate("waiter %d is stuck: %v", i, c.M)
		}
	}
}

// Key implements [exploration.World].
func (w *plainWorld) Key() uint64 {
	w.Woken = nil
	return zkmodel.Hash(w)
}

func (w *plainWorld) ended() error {
	for _, c := range w.gates {
		if c.begun && !c.Ended() {
			return fmt.Errorf("%d never ends: %v", c.n, c.M)
		}
	}
	return nil
}

var plainScenarios = map[string]*plainScenario{
	"two":               {gates: 2},
	"nothing yet":       {gates: 2, bare: true, faults: zkmodel.Faults{Cuts: 1}},
	"waiters":           {gates: 2, waits: 2, faults: zkmodel.Faults{Cuts: 1}},
	"lost replies":      {gates: 3, faults: zkmodel.Faults{Cuts: 2}},
	"late requests":     {gates: 3, faults: zkmodel.Faults{Cuts: 2, Lates: 1}},
	"crashes":           {gates: 3, waits: 1, faults: zkmodel.Faults{Crashes: 2}},
	"expiries":          {gates: 3, waits: 1, faults: zkmodel.Faults{Cuts: 1, Expires: 1, Kills: 1}},
	"a closed session":  {gates: 3, waits: 1, faults: zkmodel.Faults{Closes: 1}},
	"cancelled":         {gates: 3, cancels: 2, faults: zkmodel.Faults{Cuts: 1}},
	"busy, and lagging": {gates: 3, waits: 2, faults: zkmodel.Faults{Busy: 2, Lags: 2, Cuts: 1}},
	"denials":           {gates: 2, waits: 1, effort: 2, faults: zkmodel.Faults{Denials: 2, Cuts: 1}},
	"a newer gate":      {gates: 2, effort: 2, faults: zkmodel.Faults{Strikes: 1, Cuts: 1}},
	"restored":          {gates: 2, waits: 2, faults: zkmodel.Faults{Restores: 1, Cuts: 1}},
	"operators":         {gates: 3, waits: 1, cancels: 1, raises: 1, faults: zkmodel.Faults{Strikes: 2, Cuts: 1}},
	"everything": {gates: 3, waits: 2, cancels: 2, raises: 2, bare: true, faults: zkmodel.Faults{
		Cuts: 2, Lates: 1, Expires: 1, Kills: 1, Closes: 1, Busy: 1, Lags: 1, Strikes: 1,
	}},
}

// TestGatesInModel walks gates, and those that wait for them, over a model of ZooKeeper.
func TestGatesInModel(t *testing.T) {
	for name, s := range plainScenarios {
		t.Run(name, func(t *testing.T) {
			exploration.Test(t, func(keyed bool) exploration.World[zkmodel.Action] { return newPlainWorld(s, keyed) }, max(1, s.effort),
				func(w exploration.World[zkmodel.Action]) error { return w.(*plainWorld).ended() })
		})
	}
}

// TestPlainInputs: walks give every input to gates, and to those that wait for them.
func TestPlainInputs(t *testing.T) {
	names := slices.Sorted(maps.Keys(plainScenarios))
	begin := func(walk int, given *check.Given) exploration.World[zkmodel.Action] {
		w := newPlainWorld(plainScenarios[names[walk%len(names)]], false)
		w.Given = given
		return w
	}
	exploration.Explored(t, "gateInput", begin)
	exploration.Explored(t, "viewInput", begin)
}

// gateOf returns the data of the gate of a raiser.
func gateOf(i int) string { return nodes.Gate(fmt.Sprintf("%036d", i)) }
