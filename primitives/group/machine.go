package group

import (
	"errors"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// This file has the machines of a member and of a watcher, as pure functions. Package presence
// keeps the node of a member; group.go and watch.go feed both.
//
// A member is two things side by side: a node that presence keeps, whose events are emitted at
// once, and a view of the group. The changes of the view are held back while the session is
// suspended:
//
//	Joined ─► changes are emitted ─ Suspended ─► they merge into held ─ Resumed ─► held is emitted

// A view is the membership of the group as its reader has received it, or will next.
type view struct {
	dir     string   // the path of the group; constant
	layout  Layout   // constant
	synced  bool     // set when every member has been read once; before that nothing is emitted
	members []Member // in order; replaced, never written to
}

// apply returns the view after a change of the tree, and the event for the difference, which
// is nil if there is none. Until the first whole reading it gathers members and returns no event.
func (v view) apply(state watch.TreeState) (view, *MembersChanged) {
	now := make(map[string]*Member) // the nodes that differ, by name; nil for those that are no members
	for _, n := range state.Removed {
		now[v.name(n.Path)] = nil
	}
	for _, n := range slices.Concat(state.Added, state.Changed) {
		name := v.name(n.Path)
		now[name] = nil
		// A persistent node is not a member: nothing deletes it with a session.
		if id, data, ok := v.layout.member(name, n.Data); ok && n.Path != v.dir && n.Stat.EphemeralOwner != 0 {
			now[name] = &Member{ID: id, Data: data, Session: n.Stat.EphemeralOwner, Joined: n.Stat.Czxid, node: name}
		}
	}
	// The order of the changes does not matter: each node differs at most once.
	members := make([]Member, 0, len(v.members)+len(now))
	for _, m := range v.members { // those that stay as they are
		if _, differs := now[m.node]; !differs {
			members = append(members, m)
		}
	}
	for _, m := range now {
		if m != nil {
			members = append(members, *m)
		}
	}
	slices.SortFunc(members, compare) // nearly sorted already
	if !v.synced && !state.Synced {
		v.members = members // for the first event
		return v, nil
	}
	// The first event has every member as added.
	before, first := v.members, !v.synced
	if first {
		before = nil
	}
	v.members, v.synced = members, true
	change := newChange(before, members, first) // in the first event, all are added
	if change.empty() {
		return v, nil // other nodes of the tree have changed
	}
	return v, &change
}

// name returns the name of a node, and "" for the path of the group itself.
func (v view) name(path string) string {
	if path == v.dir {
		return ""
	}
	_, name := znode.Split(path)
	return name
}

// An input is an event that the machine of a member or of a watcher reacts to. A watcher ignores
// inputs of a node.
//
//sumtype:decl
type input interface{ input() }

// effects accumulates the effects of one step: the effects of a kept node, and events of a member.
type effects = actors.Effects[presence.Effect, Event]

type (
	// kept is an input for the member's node.
	kept struct{ presence.Input }
	// viewed is a change of the tree below the group.
	viewed struct{ watch.TreeState }
	// blinded says that the group cannot be watched any more.
	blinded struct{ err error }
	// leave is a watcher's command to end. A member leaves by an input of its node.
	leave struct{}
)

func (kept) input()    {}
func (viewed) input()  {}
func (blinded) input() {}
func (leave) input()   {}

// A machine is a member.
type machine struct {
	node presence.Machine
	view view            // of the others, and of itself
	held *MembersChanged // set by a change of the view while the session is suspended, cleared when it is emitted
}

// Ended implements [actors.Machine]. A member ends with its node.
func (m machine) Ended() bool { return m.node.Ended() }

// Kept implements [presence.Keeper]: the machine of the node.
func (m machine) Kept() presence.Machine { return m.node }

// Step implements [actors.Machine]. After the end only inputs of the node count: an
// update that comes too late gets its answer.
func (m machine) Step(in input, out *effects) machine {
	if _, ok := in.(kept); m.Ended() && !ok {
		return m
	}
	switch in := in.(type) {
	case kept:
		return m.keep(in.Input, out)
	case viewed:
		var change *MembersChanged
		if m.view, change = m.view.apply(in.TreeState); change != nil {
			m.held = hold(m.held, *change)
		}
		return m.tell(out) // now, or after Resumed
	case blinded:
		// Membership does not depend on the view: the node is kept on. A closed session ends it
		// anyway.
		if !errors.Is(in.err, session.ErrClosed) {
			m = m.release(out) // the last change, before the reason why no more follows
			out.Emit = append(out.Emit, Blinded{in.err})
		}
	case leave:
		return m.keep(presence.Leave{}, out)
	}
	return m
}

// keep hands an input to the node, whose events are emitted before a change that was
// held.
func (m machine) keep(in presence.Input, out *effects) machine {
	m.node = presence.StepAs(m.node, in, translate, out)
	return m.tell(out)
}

// tell emits the held change, unless the session is suspended. Between [Suspended] and
// [Resumed], which vanish together if they were not received, it would keep the changes
// before and after from merging.
func (m machine) tell(out *effects) machine {
	if !m.node.Suspended() && !m.Ended() {
		m = m.release(out)
	}
	return m
}

// release emits the held change.
func (m machine) release(out *effects) machine {
	if m.held != nil {
		out.Emit, m.held = append(out.Emit, *m.held), nil
	}
	return m
}

// hold merges a change into the held one. Two changes may cancel each other: then nothing
// is held.
func hold(held *MembersChanged, next MembersChanged) *MembersChanged {
	if held != nil {
		merged, differs := mergeChanges(*held, next)
		if !differs {
			return nil
		}
		next = merged
	}
	return &next
}

// translate returns an event of the node as an event of the member.
func translate(ev presence.Event) Event {
	switch ev := ev.(type) {
	case presence.Joined:
		return Joined{}
	case presence.Suspended:
		return Suspended{}
	case presence.Resumed:
		return Resumed{}
	case presence.Gone:
		return Gone{ev.Err}
	case presence.Left:
		return Left{client.Both(ev.Err, ev.Stands)}
	}
	panic("group: an event without a name")
}

// A watcher sees the group, and is not a member.
type watcher struct {
	view  view
	ended bool  // set by leave, or when the group cannot be watched; then every input is ignored
	err   error // set with ended: why; nil after leave
}

// Ended implements [actors.Machine].
func (w watcher) Ended() bool { return w.ended }

// Step implements [actors.Machine]. Every change is emitted at once: a watcher has no
// session events.
func (w watcher) Step(in input, out *actors.Effects[presence.Effect, MembersChanged]) watcher {
	if w.ended {
		return w
	}
	switch in := in.(type) {
	case viewed:
		var change *MembersChanged
		if w.view, change = w.view.apply(in.TreeState); change != nil {
			out.Emit = append(out.Emit, *change)
		}
	case blinded:
		w.ended, w.err = true, in.err // the handle returns it
	case leave:
		w.ended = true
	case kept: // a watcher has no node
	}
	return w
}
