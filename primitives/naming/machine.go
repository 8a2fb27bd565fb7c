package naming

import (
	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/internal/presence"
)

// How an ephemeral name is kept is in package presence: its node is kept, under a fixed
// name, across sessions. This file gives its events their names.

// A machine is an ephemeral name.
type machine struct{ presence.Machine }

// Kept implements [presence.Keeper].
func (m machine) Kept() presence.Machine { return m.Machine }

// Step implements [actors.Machine].
func (m machine) Step(in presence.Input, out *actors.Effects[presence.Effect, Event]) machine {
	return machine{presence.StepAs(m.Machine, in, translate, out)}
}

// translate returns an event of the node as one of the name.
func translate(ev presence.Event) Event {
	switch ev := ev.(type) {
	case presence.Joined:
		return Registered{}
	case presence.Suspended:
		return Suspended{ev.Deadline}
	case presence.Resumed:
		return Resumed{}
	case presence.Gone:
		return Gone{ev.Err}
	case presence.Left:
		return Unregistered{ev.Err}
	}
	panic("naming: an event without a name")
}
