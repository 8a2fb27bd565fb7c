package contender

import (
	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/internal/line"
)

// Step implements [actors.Machine]. The handle is the machine of its actor, and steps the machine
// of its place in line.
//
//	input ─► line.Advance ── effects ─────────────────────────► performer
//	                   └──── events ─► the recipe's events: Tell, Changed ─► outbox
//
// The returned machine is h itself. The accessors are up to date before the effects are performed.
func (h *Handle[Ev]) Step(in line.Input, out *actors.Effects[line.Effect, Ev]) *Handle[Ev] {
	clear(h.did.Emit) // so that the garbage collector can free the last events
	h.did.Do, h.did.Emit = out.Do, h.did.Emit[:0]
	line.Advance(&h.machine, in, &h.did)
	switch w, ok := in.(line.Watched); {
	case h.machine.Holding():
		h.front = nil // none is ahead
	case ok && h.machine.Waiting() && w.Target == h.machine.Watching() && w.Since != 0:
		h.front = &front{target: w.Target, Obstacle: w.Obstacle}
	}
	out.Do, h.did.Do = h.did.Do, nil
	for _, ev := range h.did.Emit {
		if ev, is := h.presentation.event(ev); is {
			out.Emit = append(out.Emit, ev)
		}
	}
	h.observe()
	return h
}

// Ended implements [actors.Machine].
func (h *Handle[Ev]) Ended() bool { return h.machine.Ended() }
