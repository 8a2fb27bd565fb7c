package line

import "github.com/zkactors/zkactors/actors"

// A told is a machine that emits events of its recipe's own type. It is stepped in place:
// a place in line that is held for long costs no more than its fields.
type told[Ev any] struct {
	turn
	presentation *Presentation[Ev] // set by begin
	did          Effects           // the turn's accumulator; between steps it has the events of the last one
	room         [2]Event          // for the events of a step, which rarely are more

	// front has the data of the contender that is watched. It is set when the watch is
	// confirmed, and cleared by the grant. It counts while the machine waits for that target.
	front *front
}

// A front is a target, and the data that was read of it.
type front struct {
	target Target
	obstacle
}

// begin sets the machine. The turn gathers its effects in did, from now on.
func (t *told[Ev]) begin(m Machine, presentation *Presentation[Ev]) {
	t.turn, t.presentation = turn{m, &t.did}, presentation
	t.did.Emit = t.room[:0]
}

// blocker returns the contender that is watched, if it was read, and whether it is known to
// hold; nil if there is none.
func (t *told[Ev]) blocker() (f *front, holds bool) {
	if f = t.front; !t.Waiting() || f == nil || f.target != t.target {
		return nil, false
	}
	rule, first := t.rule.(First)
	return f, t.ahead == 1 && first && !rule.shares() // else the contender may itself wait for others that we do not count
}

// Step implements [actors.Machine]. It steps the machine in place, and translates its
// events. The returned machine is t itself.
func (t *told[Ev]) Step(in Input, out *actors.Effects[Effect, Ev]) *told[Ev] {
	clear(t.did.Emit) // so that the events of the last step can be collected
	t.did.Do, t.did.Emit = out.Do, t.did.Emit[:0]
	t.step(in)
	switch w, ok := in.(watched); {
	case t.Holding():
		t.front = nil // no contender is ahead
	case ok && t.Waiting() && w.target == t.target && w.since != 0:
		t.front = &front{target: w.target, obstacle: w.obstacle}
	}
	out.Do, t.did.Do = t.did.Do, nil
	for _, ev := range t.did.Emit {
		out.Emit = append(out.Emit, t.presentation.Tell(ev))
	}
	return t
}
