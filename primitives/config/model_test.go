package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// This file has handles of one value write it in the model of ZooKeeper, while requests and
// replies are lost or come late, sessions expire, callers leave, and others write, also where
// they should not.

const (
	valueRoot = "/c"
	valuePath = valueRoot + "/value"
)

// A verdict is what the caller of a write was told.
type verdict int

const (
	pending verdict = iota
	confirmed
	unknown
	denied
)

// A drama is a scenario of one value.
type drama struct {
	name    string
	handles int
	exists  bool
	writes  int  // of each handle
	others  int8 // writes of an operator
	forgets int8
	narrow  bool // the directory of markers exists, operators delete only markers, and handles set, then leave
	effort  int  // how much more than others it takes; 0 for 1
	faults  zkmodel.Faults
}

var dramas = []drama{
	{name: "there is nothing", handles: 1, writes: 2, others: 1, forgets: 1, faults: zkmodel.Faults{Cuts: 2, Lates: 1, Expires: 1, Strikes: 1}},
	{name: "there is a value", handles: 1, exists: true, writes: 2, others: 1, forgets: 1, faults: zkmodel.Faults{Cuts: 2, Lates: 1, Expires: 1, Strikes: 1}},
	{name: "a lost reply, and an expiry", handles: 1, exists: true, writes: 1, faults: zkmodel.Faults{Cuts: 1, Expires: 1}},
	{name: "a late request, and an expiry", handles: 1, exists: true, writes: 2, faults: zkmodel.Faults{Cuts: 1, Lates: 1, Expires: 1}},
	{name: "a late request, and its marker deleted", handles: 1, exists: true, writes: 1, narrow: true, effort: 30, faults: zkmodel.Faults{Cuts: 1, Lates: 1, Strikes: 1}},
	{name: "calm", handles: 1, writes: 2, forgets: 1},
	{name: "two handles", handles: 2, exists: true, writes: 1, forgets: 1, faults: zkmodel.Faults{Cuts: 1, Lates: 1}},
	{name: "two handles, and nothing", handles: 2, writes: 1, faults: zkmodel.Faults{Cuts: 1, Crashes: 1}},
	{name: "a busy server", handles: 1, writes: 2, faults: zkmodel.Faults{Busy: 2}},
	{name: "a restore", handles: 2, exists: true, writes: 1, faults: zkmodel.Faults{Restores: 1}},
	{name: "a restore of nothing, and an expiry", handles: 1, writes: 2, others: 1, faults: zkmodel.Faults{Restores: 1, Expires: 1}},
}

type (
	stage struct {
		*zkmodel.World
		history []porcupine.Operation // of a random walk
		keyed   bool
		steps   int64
		s       *drama
		all     []*writer
		others  int8
		forgets int8
		newest  int64 // the zxid of the newest change that was counted
	}
	writer struct {
		*zkmodel.Runner[machine[string], input, effect, Event]
		n       int
		left    bool
		asked   int // writes
		said    []verdict
		applied []int // by write: how often
	}
)

// newValue returns a value that the model can perform.
func newValue(at *zkmodel.Session, n int) *Value[string] {
	v := &Value[string]{client: at, path: valuePath, codec: watch.Text(), opts: (*Options)(nil).withDefaults(valuePath)}
	v.owned.Clock = at
	markers := 0
	v.begin(func() string {
		markers++
		return fmt.Sprintf("%d-%d", n, markers)
	})
	return v
}

func newStage(s *drama, keyed bool) *stage {
	var nodes []zkmodel.Node
	if s.exists {
		nodes = []zkmodel.Node{{Path: valueRoot, Czxid: 1}, {Path: valuePath, Czxid: 1, Mzxid: 1, Data: "found"}}
	}
	if s.narrow {
		nodes = append(nodes, zkmodel.Node{Path: (*Options)(nil).withDefaults(valuePath).Markers, Czxid: 1})
	}
	w := &stage{World: zkmodel.New(s.faults, s.handles, nodes...), s: s, others: s.others, forgets: s.forgets}
	w.keyed = keyed
	if w.Root, w.Prompt = valueRoot, prompt; keyed {
		w.Keyed()
	}
	if s.narrow {
		w.Strikes = func(path string) bool { return w.Node(path).Owner != 0 }
	}
	for i := range s.handles {
		at, p := w.Sessions[i], &writer{n: i, said: make([]verdict, s.writes+1), applied: make([]int, s.writes+1)}
		v := newValue(at, i)
		p.Runner = zkmodel.Run(w.World, at, newMachine(v.codec), actors.Role[machine[string], input, effect, Event]{
			Begin: []effect{follow{}}, Perform: v.perform, Observe: v.observe,
		}, func(in input, before machine[string], did effects) {
			p.told(in, before, did)
			w.returned(p)
		})
		w.all = append(w.all, p)
		w.Share(v)
		p.Begin(func() { v.owned.Follow(at, func(ev session.Event) { p.Tell(heard{ev}) }, nil) })
	}
	return w
}

// prompt reports whether what writes this last is not done late once the session was served again.
// Of writes of the value that is not assumed.
func prompt(data string) bool {
	var handle, number int
	k, _ := fmt.Sscanf(data, "%d.%d", &handle, &number)
	return k < 2
}

// Actions implements [exploration.World].
func (w *stage) Actions() (normal, wishes, faulty []zkmodel.Action) {
	normal, faulty = w.World.Actions()
	for i, p := range w.all {
		if p.Ended() {
			continue
		}
		if !p.left && (!w.s.narrow || p.said[w.s.writes] != pending) {
			wishes = append(wishes, zkmodel.Action{Kind: "leave", I: i})
		}
		if !p.left && p.asked < w.s.writes {
			if wishes = append(wishes, zkmodel.Action{Kind: "set", I: i}); !w.s.narrow {
				wishes = append(wishes, zkmodel.Action{Kind: "update", I: i})
			}
		}
		if w.forgets > 0 && len(p.M.queue) > 0 {
			wishes = append(wishes, zkmodel.Action{Kind: "forget", I: i})
		}
	}
	if w.others > 0 {
		for _, n := range w.Nodes() {
			if n.Owner != 0 || n.Path == valuePath {
				faulty = append(faulty, zkmodel.Action{Kind: "meddle", Node: n.Path})
			}
		}
	}
	return normal, wishes, faulty
}

// Apply implements [exploration.World].
func (w *stage) Apply(a zkmodel.Action) {
	w.steps++
	switch a.Kind {
	case "leave":
		w.all[a.I].left = true
		w.all[a.I].Tell(leave{})
	case "set":
		w.submit(a.I, write{always: true, version: session.AnyVersion})
	case "update":
		n := w.Node(valuePath)
		if n == nil {
			n = &zkmodel.Node{}
		}
		w.submit(a.I, write{version: n.Version, create: w.Node(valuePath) == nil, lease: w.Sessions[a.I].Lease()})
	case "forget":
		w.forgets--
		w.all[a.I].Tell(forget{})
	case "meddle":
		w.others--
		w.SetData(a.Node, "meddled")
	default:
		w.World.Apply(a)
	}
	if valued := a.Node == valuePath; valued && a.Kind == "meddle" || valued && a.Kind == "strike" || a.Kind == "restore" {
		w.observe(w.Node(valuePath)) // by the operator alone
	}
	if a.Kind == "restore" {
		w.newest = 1 // nothing but what was found is there
	}
	if n := w.Node(valuePath); n != nil && n.Mzxid > w.newest {
		w.newest = n.Mzxid
		var handle, number int
		if k, _ := fmt.Sscanf(n.Data, "%d.%d", &handle, &number); k > 0 {
			w.all[handle].applied[number]++
		}
	}
}

func (w *stage) submit(i int, what write) {
	p := w.all[i]
	p.asked++
	what.data = fmt.Appendf(nil, "%d.%d", i, p.asked)
	p.Tell(submit{what})
	if !w.keyed {
		w.history = append(w.history, porcupine.Operation{ClientId: i, Input: asked{what, p.asked}, Call: w.steps, Output: unknown, Return: math.MaxInt64})
	}
}

// returned notes in the history what callers were told.
func (w *stage) returned(p *writer) {
	for i := range w.history {
		op := &w.history[i]
		a, is := op.Input.(asked)
		if is && op.ClientId == p.n && p.said[a.n] != pending && op.Return == math.MaxInt64 && op.Output == unknown {
			if op.Output = p.said[a.n]; op.Output != unknown { // else it may yet be done
				op.Return = w.steps
			}
		}
	}
}

// observe notes in the history what is there now.
func (w *stage) observe(n *zkmodel.Node) {
	if w.keyed {
		return
	}
	at := register{}
	if n != nil {
		at = register{true, n.Version, n.Data}
	}
	w.history = append(w.history, porcupine.Operation{ClientId: len(w.all), Input: true, Call: w.steps, Output: at, Return: w.steps})
}

// read notes in the history what a reader gets at the end.
func (w *stage) read() {
	at := register{}
	if n := w.Node(valuePath); n != nil {
		at = register{true, n.Version, n.Data}
	}
	w.history = append(w.history, porcupine.Operation{ClientId: len(w.all), Input: false, Call: w.steps, Output: at, Return: w.steps})
}

// found returns what was there at the start.
func (w *stage) found() register {
	if w.s.exists {
		return register{true, 0, "found"}
	}
	return register{}
}

// --- histories

type (
	// asked is a write that was asked for.
	asked struct {
		write
		n int
	}
	// A register is what a history goes through.
	register struct {
		exists  bool
		version int32
		data    string
	}
)

// linear is a value with versions: a write whose outcome is unknown may be done at any time, or
// never, and an operator writes whatever it likes.
func linear(start register) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{start} },
		Step: func(state, input, output any) []any {
			at := state.(register)
			a, is := input.(asked)
			if !is {
				if now := output.(register); now == at || input.(bool) {
					return []any{now}
				}
				return nil
			}
			after := register{true, at.version + 1, string(a.data)}
			if !at.exists {
				after.version = 0
			}
			fits := a.always || a.create && !at.exists || !a.create && at.exists && a.version == at.version
			switch {
			case output == denied, output == unknown && !fits:
				return []any{at}
			case output == unknown:
				return []any{at, after}
			case fits:
				return []any{after}
			}
			return nil
		},
		Equal: func(a, b any) bool { return a == b },
	}
	return m.ToModel()
}

// told notes what callers are told.
func (p *writer) told(in input, before machine[string], did effects) {
	queue := slices.Clone(before.queue)
	if w, is := in.(submit); is {
		w.n = before.n + 1
		queue = append(queue, w.write)
	}
	for _, e := range did.Do {
		switch e := e.(type) { // the others report nothing
		case answer:
			n := queue[0].n
			queue = queue[1:]
			switch {
			case e.err == nil:
				p.said[n] = confirmed
			case errors.Is(e.err, session.ErrUnknownOutcome):
				p.said[n] = unknown
			default:
				p.said[n] = denied
			}
		case confirm:
			if e.done {
				p.said[takenBack(queue, p.M.queue)] = denied
			}
		}
	}
}

// takenBack returns the number of the write that is missing.
func takenBack(before, after []write) int {
	for i, w := range before {
		if i == len(after) || w.n != after[i].n {
			return w.n
		}
	}
	return 0
}

// Check implements [exploration.World]: a write is done once or not at all, and its caller is
// told the truth.
func (w *stage) Check() {
	for _, p := range w.all {
		for n := 1; n <= p.asked; n++ {
			times := p.applied[n]
			if times > 1 || p.said[n] == confirmed && times != 1 || p.said[n] == denied && times != 0 {
				zkmodel.Violate("write %d of %d, of which was said %d, was done %d times", n, p.n, p.said[n], times)
			}
			if p.M.Ended() && len(p.Mail) == 0 && n <= p.M.n && p.said[n] == pending {
				zkmodel.Violate("nothing was said of write %d of %d", n, p.n)
			}
		}
	}
	if !w.Quiet() {
		return
	}
	for _, p := range w.all {
		if !p.Ended() && len(p.M.queue) > 0 {
			zkmodel.Violate("handle %d writes for ever: %v", p.n, p.M)
		}
		if n := w.Node(valuePath); !p.Ended() && n != nil && (p.M.version != n.Version || p.M.value != n.Data) {
			zkmodel.Violate("handle %d does not know the value: %v, %+v", p.n, p.M, *n)
		} else if !p.Ended() && n == nil && p.M.exists() {
			zkmodel.Violate("handle %d does not know that there is no value: %v", p.n, p.M)
		}
	}
	for _, n := range w.Nodes() {
		if n.Owner != 0 && !slices.ContainsFunc(w.all, func(p *writer) bool { return !p.Ended() && n.Owner == p.Session().ID() }) {
			zkmodel.Violate("the marker %s is left", n.Path)
		}
	}
}

// Key implements [exploration.World].
func (w *stage) Key() uint64 {
	w.Woken = nil
	return zkmodel.Hash(w)
}

// TestOnceOrNotAtAll goes through what can happen to writes.
func TestOnceOrNotAtAll(t *testing.T) {
	outcomes := map[verdict]int{}
	for i := range dramas {
		s := &dramas[i]
		t.Run(s.name, func(t *testing.T) {
			exploration.Test(t, func(keyed bool) exploration.World[zkmodel.Action] { return newStage(s, keyed) }, 2*max(1, s.effort),
				func(w exploration.World[zkmodel.Action]) error {
					at := w.(*stage)
					at.steps++
					at.read()
					if !porcupine.CheckOperations(linear(at.found()), at.history) {
						return fmt.Errorf("no order explains the history %+v", at.history)
					}
					for _, p := range at.all {
						if !p.Ended() {
							return fmt.Errorf("handle %d never ends: %v", p.n, p.M)
						}
						for _, said := range p.said[1:] {
							outcomes[said]++
						}
					}
					return nil
				})
		})
	}
	check.True(t, outcomes[confirmed] != 0 && outcomes[unknown] != 0 && outcomes[denied] != 0, "outcomes %v", outcomes)
}
