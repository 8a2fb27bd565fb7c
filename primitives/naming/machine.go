package naming

import (
	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/presence"
)

// Package presence keeps the node of an ephemeral name, under a fixed path, across sessions.
// This file gives the events of that node the names of this package.

// A machine is an ephemeral name. It has no state but the state of its node: it ends, is suspended
// and comes back with the node.
//
//	         ┌──────────────────── Gone ───────────────────┐
//	         ▼                                              │
//	unregistered ── the node stands: Registered ► registered ── Suspended ► suspended
//	         │                                      │   ▲                      │   │
//	         │                                      │   └────── Resumed ───────┘   │ Gone ► unregistered
//	         └── given up, in any state: Unregistered ► ended
type machine struct{ presence.Machine }

// Kept implements [presence.Keeper]: the machine of the node, which package presence
// looks at after each step.
func (m machine) Kept() presence.Machine { return m.Machine }

// Step implements [actors.Machine]. Every input is an input of the node.
func (m machine) Step(in presence.Input, out *actors.Effects[presence.Effect, Event]) machine {
	return machine{presence.StepAs(m.Machine, in, translate, out)}
}

// translate returns an event of the node as an event of the name.
func translate(ev presence.Event) Event {
	switch ev := ev.(type) {
	case presence.Joined:
		return Registered{}
	case presence.Suspended:
		return Suspended{}
	case presence.Resumed:
		return Resumed{}
	case presence.Gone:
		return Gone{ev.Err}
	case presence.Left:
		return Unregistered{client.Both(ev.Err, ev.Stands)}
	}
	panic("naming: an event without a name") // a case is missing above
}
