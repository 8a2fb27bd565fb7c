package group

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// This file is what a member and a watcher make of what they are told, as pure
// functions. How the node of a member is kept is in package presence; what feeds both is
// in group.go and watch.go.

// A view is who is in the group, as a reader has been told.
type view struct {
	dir     string
	synced  bool     // everybody has been read once
	members []Member // in the order of their ids; never modified
}

// apply returns what follows, and the event that tells of it if there is anything to
// tell.
func (v view) apply(state watch.TreeState) (view, []MembersChanged) {
	now := make(map[string]*Member) // of those who differ; nil is nobody
	for _, n := range state.Removed {
		now[v.id(n.Path)] = nil
	}
	for _, n := range slices.Concat(state.Added, state.Changed) {
		id := v.id(n.Path)
		now[id] = nil
		if n.Path != v.dir && n.Stat.EphemeralOwner != 0 {
			now[id] = &Member{ID: id, Data: n.Data, Session: n.Stat.EphemeralOwner, Joined: n.Stat.Czxid}
		}
	}
	members := make([]Member, 0, len(v.members)+len(now))
	for _, m := range v.members {
		if _, differs := now[m.ID]; !differs {
			members = append(members, m)
		}
	}
	for _, m := range now {
		if m != nil {
			members = append(members, *m)
		}
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) }) // they almost are
	if !v.synced && !state.Synced {
		v.members = members // to be told when it is whole
		return v, nil
	}
	before, first := v.members, !v.synced
	if first {
		before = nil
	}
	v.members, v.synced = members, true
	change := newChange(before, members, first)
	if change.empty() {
		return v, nil
	}
	return v, []MembersChanged{change}
}

// id returns the name of a node, and nothing for that of the group itself.
func (v view) id(path string) string {
	if path == v.dir {
		return ""
	}
	_, name := session.Split(path)
	return name
}

// An input is something that happened to a member or its group.
//
//sumtype:decl
type input interface{ input() }

type effects = actors.Effects[presence.Effect, Event]

type (
	// kept is what the member's node is to be told.
	kept struct{ presence.Input }
	// viewed tells what has changed in the group.
	viewed struct{ watch.TreeState }
	// blinded tells that the group cannot be watched any more.
	blinded struct{ err error }
	// leave is a watcher's command to end.
	leave struct{}
)

func (kept) input()    {}
func (viewed) input()  {}
func (blinded) input() {}
func (leave) input()   {}

// A machine is a member.
type machine struct {
	node presence.Machine
	view view
	held []MembersChanged // at most one, that is not told yet
}

func (m machine) String() string {
	s := fmt.Sprintf("%v %v", m.node, m.view.members)
	if len(m.held) > 0 {
		s += " held"
	}
	return s
}

// Ended implements [actors.Machine].
func (m machine) Ended() bool { return m.node.Ended() }

// Kept implements [presence.Keeper].
func (m machine) Kept() presence.Machine { return m.node }

// Step implements [actors.Machine].
func (m machine) Step(in input, out *effects) machine {
	if _, ok := in.(kept); m.Ended() && !ok {
		return m
	}
	switch in := in.(type) {
	case kept:
		return m.keep(in.Input, out)
	case viewed:
		var changes []MembersChanged
		m.view, changes = m.view.apply(in.TreeState)
		for _, next := range changes {
			m.held = hold(m.held, next)
		}
		return m.tell(out)
	case blinded:
		// Whether it is a member does not depend on what it can see of the others.
		if !errors.Is(in.err, session.ErrClosed) {
			out.Emit = append(append(out.Emit, held(m.held)...), Blinded{in.err})
			m.held = nil
		}
	case leave:
		return m.keep(presence.Leave{}, out)
	}
	return m
}

// keep hands an input to the node.
func (m machine) keep(in presence.Input, out *effects) machine {
	m.node = presence.StepAs(m.node, in, translate, out)
	return m.tell(out)
}

// tell tells what was held, but not while the session is suspended: it would stand between
// [Suspended] and [Resumed], which vanish together, and part what came before from what comes
// after.
func (m machine) tell(out *effects) machine {
	if !m.node.Suspended() && !m.Ended() {
		out.Emit = append(out.Emit, held(m.held)...)
		m.held = nil
	}
	return m
}

// hold adds a change to those that are not told yet, of which there is one at most.
func hold(changes []MembersChanged, next MembersChanged) []MembersChanged {
	if len(changes) > 0 {
		merged, differs := mergeChanges(changes[0], next)
		if !differs {
			return nil
		}
		next = merged
	}
	return []MembersChanged{next}
}

// held returns changes as events.
func held(changes []MembersChanged) (events []Event) {
	for _, c := range changes {
		events = append(events, c)
	}
	return events
}

// translate returns an event of the node as one of the member.
func translate(ev presence.Event) Event {
	switch ev := ev.(type) {
	case presence.Joined:
		return Joined{}
	case presence.Suspended:
		return Suspended{ev.Deadline}
	case presence.Resumed:
		return Resumed{}
	case presence.Gone:
		return Gone{ev.Err}
	case presence.Left:
		return Left{ev.Err}
	}
	panic("group: an event without a name")
}

// A watcher is one who only looks on.
type watcher struct {
	view  view
	ended bool
	err   error
}

// Ended implements [actors.Machine].
func (w watcher) Ended() bool { return w.ended }

// Step implements [actors.Machine].
func (w watcher) Step(in input, out *actors.Effects[presence.Effect, MembersChanged]) watcher {
	if w.ended {
		return w
	}
	switch in := in.(type) {
	case viewed:
		var changes []MembersChanged
		w.view, changes = w.view.apply(in.TreeState)
		out.Emit = append(out.Emit, changes...)
	case blinded:
		w.ended, w.err = true, in.err
	case leave:
		w.ended = true
	case kept: // it has no node
	}
	return w
}
