package line

import "github.com/zkactors/zkactors/actors"

// A front is a target, and the data that was read of it.
type front struct {
	target Target
	obstacle
}

// Step implements [actors.Machine]: the handle is the machine of its actor, and steps that of its place in line.
//
//	input ─► turn.step ── effects ─────────────────────────► performer
//	                └──── events ─► Tell: the recipe's type ─► outbox
//
// The returned machine is h itself. What the accessors return is up to date before the effects are performed.
func (h *Handle[Ev]) Step(in Input, out *actors.Effects[Effect, Ev]) *Handle[Ev] {
	clear(h.did.Emit) // so that the events of the last step can be collected
	h.did.Do, h.did.Emit = out.Do, h.did.Emit[:0]
	h.turn.step(in)
	switch w, ok := in.(watched); {
	case h.turn.Holding():
		h.front = nil // no contender is ahead
	case ok && h.turn.Waiting() && w.target == h.turn.target && w.since != 0:
		h.front = &front{target: w.target, obstacle: w.obstacle}
	}
	out.Do, h.did.Do = h.did.Do, nil
	for _, ev := range h.did.Emit {
		out.Emit = append(out.Emit, h.presentation.Tell(ev))
	}
	h.observe()
	return h
}

// Ended implements [actors.Machine].
func (h *Handle[Ev]) Ended() bool { return h.turn.Ended() }

// ahead returns the contender that is watched, if it was read, and whether it is known to
// hold; nil if there is none.
func (h *Handle[Ev]) ahead() (f *front, holds bool) {
	m := &h.turn
	if f = h.front; !m.Waiting() || f == nil || f.target != m.target {
		return nil, false
	}
	rule, first := m.rule.(First)
	return f, m.ahead == 1 && first && !rule.shares() // else the contender may itself wait for others that we do not count
}
