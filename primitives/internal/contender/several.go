package contender

import (
	"errors"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// This file has the handle of a contender in several lines, and its performers.

// A Several is a place in each of several lines. It is acquired at most once, as a whole, and is
// over when it is released, or one place is lost. It is safe for concurrent use, and must be
// closed.
type Several[Ev any] struct {
	tenancy[line.SeveralInput, Ev]

	performers *Performers
	machine    *line.Several // of the actor, which steps it in place
	fronts     []*front      // by line, as in [Handle]
	nodes      []string      // by line, from the grant on; guarded as the token is
}

// OpenSeveral joins the lines, and returns at once. The recipes have one name, and no conditions or
// claims.
func OpenSeveral[Ev any](s *session.Session, recipes []*Recipe, presentation *Presentation[Ev], inBackground bool) *Several[Ev] {
	c, h := client.Of(s), new(Several[Ev])
	var paths []string
	for _, r := range recipes {
		paths = append(paths, r.Path)
	}
	h.begin(c, line.Leave{}, presentation, recipes[0].Name, paths...)
	h.performers = NewPerformers(c, recipes)
	h.machine, h.fronts = h.performers.Machine(znode.NewGUID(), inBackground), make([]*front, len(recipes))
	h.actor = actors.Start(h, actors.Role[*Several[Ev], line.SeveralInput, line.SeveralEffect, Ev]{
		Name: h.name, Perform: h.performers.Perform, Stop: line.Leave{},
		Merge: presentation.Merge, Cancel: presentation.Cancel, Keep: presentation.Keep,
	})
	h.performers.Begin(h.tell, h.actor)
	return h
}

// Step implements [actors.Machine], as [Handle.Step] does.
func (h *Several[Ev]) Step(in line.SeveralInput, out *actors.Effects[line.SeveralEffect, Ev]) *Several[Ev] {
	did := line.SeveralEffects{Do: out.Do}
	h.machine.Advance(in, &did)
	out.Do = did.Do
	if at, is := in.(line.InputAt); is {
		m := h.machine.Place(at.Line)
		if w, ok := at.In.(line.Watched); ok && m.Waiting() && w.Target == m.Watching() && w.Since != 0 {
			h.fronts[at.Line] = &front{target: w.Target, Obstacle: w.Obstacle}
		}
	}
	for _, ev := range did.Emit {
		if ev, is := h.presentation.event(ev); is {
			out.Emit = append(out.Emit, ev)
		}
	}
	h.observe(did.Emit)
	return h
}

// Ended implements [actors.Machine].
func (h *Several[Ev]) Ended() bool { return h.machine.Ended() }

// observe brings the accessors up to date with the machine.
func (h *Several[Ev]) observe(events []line.Event) {
	m := h.machine
	h.mu.Lock()
	h.blocker, h.barred = nil, false
	for i, f := range h.fronts {
		if h.blocker == nil {
			h.blocker, h.barred = ahead(m.Place(i), f, h.performers.all[i].Rule.Traits())
		}
	}
	if m.Holding() && h.nodes == nil {
		for i := range h.paths {
			h.nodes = append(h.nodes, m.Place(i).Node())
		}
	}
	h.mu.Unlock()
	h.performers.all[0].Holds(m.Holding())
	h.tenancy.observe(events, m.Holding(), m.Ended())
	if m.Ended() {
		h.performers.End()
	}
}

// Nodes returns the paths of the nodes that stand for the grant, by line; nil before.
func (h *Several[Ev]) Nodes() (paths []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, node := range h.nodes {
		paths = append(paths, znode.Join(h.performers.all[i].Dir, node))
	}
	return paths
}

// Guards returns operations that fail a transaction unless all places are still held.
func (h *Several[Ev]) Guards() (ops []session.Op) {
	nodes := h.Nodes()
	if nodes == nil {
		nodes = make([]string, 1) // which refuses
	}
	for i, node := range nodes {
		ops = append(ops, GuardOf(h.performers.all[i].Dir, node, h.presentation.Lost))
	}
	return ops
}

// Performers perform the effects of a [line.Several].
type Performers struct {
	all   []*Performer
	tells []func(line.Input) // by line, from the first effect on
}

// NewPerformers returns the performers of a handle. End them with [Performers.End].
func NewPerformers(s client.Session, recipes []*Recipe) *Performers {
	p := &Performers{tells: make([]func(line.Input), len(recipes))}
	for _, r := range recipes {
		p.all = append(p.all, NewPerformer(s, r))
	}
	return p
}

// Machine returns the machine whose effects they perform. For id see [line.New].
func (p *Performers) Machine(id string, inBackground bool) *line.Several {
	var paths []string
	var rules []line.Rule
	var warm []bool
	for _, one := range p.all {
		paths, rules, warm = append(paths, one.Path), append(rules, one.Rule), append(warm, one.Warm())
	}
	return line.NewSeveral(id, paths, rules, warm, inBackground)
}

// Begin is [Performer.Begin] for all.
func (p *Performers) Begin(tell func(line.SeveralInput), actor interface{ Ended() <-chan struct{} }) {
	p.all[0].Begin(func(in line.Input) {
		heard, _ := in.(line.Heard) // it hands on nothing else: there is no condition
		if _, lost := heard.Event.(session.Suspended); lost {
			for _, one := range p.all[1:] {
				one.owned.Cancel(later{})
			}
		}
		tell(heard)
	}, actor)
}

// End is [Performer.End] for all.
func (p *Performers) End() {
	for _, one := range p.all {
		one.End()
	}
}

// Perform starts one effect of the machine.
func (p *Performers) Perform(e line.SeveralEffect, tell func(line.SeveralInput)) {
	if p.tells[0] == nil {
		for i := range p.tells {
			p.tells[i] = func(in line.Input) { tell(line.InputAt{Line: i, In: in}) }
		}
	}
	switch e := e.(type) {
	case line.EffectAt:
		p.all[e.Line].Perform(e.Do, p.tells[e.Line])
	case line.CreateTogether:
		p.create(e, tell)
	case line.WithdrawTogether:
		p.withdraw(e)
	}
}

// create creates all nodes. The operations of each are its own: see [Performer.creation]. If a
// parent is gone, others may be too, as servers remove empty ones: so all places look after theirs,
// side by side, instead of one for each transaction.
func (p *Performers) create(e line.CreateTogether, tell func(line.SeveralInput)) {
	var ops []session.Op
	ends := make([]int, len(p.all))
	for i, one := range p.all {
		ops = append(ops, one.creation(e.Creates[i])...)
		ends[i] = len(ops)
	}
	p.all[0].at(e.Creates[0]).Multi(ops, func(results []session.OpResult, err error) {
		refused := slices.IndexFunc(results, func(r session.OpResult) bool { return r.Err != nil })
		begin := 0
		for i, one := range p.all {
			end := ends[i]
			if refused >= 0 && (refused < begin || refused >= end) && !errors.Is(err, session.ErrNoNode) {
				tell(line.Undone{Line: i, Attempt: e.Creates[i].Attempt})
			} else {
				of := make([]session.OpResult, end-begin) // without results, there is an error
				copy(of, results[min(begin, len(results)):])
				one.reply(e.Creates[i], p.tells[i], one.joined(e.Creates[i], of, err), err)
			}
			begin = end
		}
	})
}

// withdraw deletes nodes in one transaction. If that fails, each is deleted as a single one is.
func (p *Performers) withdraw(e line.WithdrawTogether) {
	var ops []session.Op
	requests := p.all[0].at(e.Nodes[0].Node)
	for _, of := range e.Nodes {
		one, node := p.all[of.Line], of.Node.Node
		one.watches.endUnsettled(line.Target{Node: node})
		ops = append(ops, session.DeleteOp(znode.Join(one.Dir, node), session.AnyVersion))
	}
	requests.Multi(ops, func(_ []session.OpResult, err error) {
		for i, of := range e.Nodes {
			gone := func(err error) {
				p.tells[of.Line](line.Withdrawn{Attempt: of.Node.Attempt, Node: of.Node.Node, Err: err})
			}
			if err == nil {
				requests.Left(ops[i].Path())
				gone(nil)
			} else {
				requests.Withdraw(ops[i].Path(), gone)
			}
		}
	})
}
