package group

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
)

// The errors that callers can act on: the reasons of [Gone] and [Left], beside the errors of
// package session.
var (
	// ErrDuplicate means that another session is a member with this id.
	ErrDuplicate = presence.ErrDuplicate

	// ErrNodeDeleted means that the node of the member was deleted: by another client, or by the
	// server at the end of the session, which is not known yet.
	ErrNodeDeleted = presence.ErrNodeDeleted

	// ErrLeft means that the member has left on request.
	ErrLeft = presence.ErrLeft
)

// A Member is a participant of a group. Data must not be modified.
type Member struct {
	ID      string
	Data    []byte
	Session int64 // the id of its session
	Joined  int64 // the zxid at which it joined; it grows, unless the servers come back with older data

	node string // the name of its node
}

// compare orders members by their ids, and those with one id by their nodes.
func compare(a, b Member) int {
	return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.node, b.node))
}

// String returns the member in a few words.
func (m Member) String() string { return fmt.Sprintf("%s=%q", m.ID, m.Data) }

// An Event reports a change of a member, or of its group. It is one of [Joined], [MembersChanged],
// [Blinded], [Suspended], [Resumed], [Gone] and [Left]; no other type implements it.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Joined means that this handle is a member.
	Joined struct{}

	// MembersChanged reports the members, and how they differ from the last MembersChanged that
	// this reader has received; the first has every member in Added. All are in the order of their
	// ids, and must not be modified.
	MembersChanged struct {
		Members []Member
		Added   []Member
		Changed []Member // with another payload, or left and joined again
		Removed []Member // as they were

		before []Member // those that this reader knows
		first  bool
	}

	// Blinded means that the group cannot be read any more, and no MembersChanged comes
	// after it. Err says why, and may be [session.ErrNoAuth] or [session.ErrTooLarge]. The
	// membership goes on.
	Blinded struct{ Err error }

	// Suspended means that the connection is lost. The servers keep the membership for as long as
	// they keep the session. The last report of the others may be outdated.
	Suspended struct{}

	// Resumed means that the connection is back, and that this handle was found to be a
	// member still.
	Resumed struct{}

	// Gone means that this handle is not a member any more, and joins again by itself. Err is
	// [session.ErrExpired] or [ErrNodeDeleted].
	Gone struct{ Err error }

	// Left is the last event. Err says why the membership, or the attempt at it, was given up; it
	// is nil after a Leave or Close, unless the server refuses to delete the node.
	Left struct{ Err error }
)

func (Joined) event()         {}
func (MembersChanged) event() {}
func (Blinded) event()        {}
func (Suspended) event()      {}
func (Resumed) event()        {}
func (Gone) event()           {}
func (Left) event()           {}

func (Joined) String() string { return "joined" }

func (e MembersChanged) String() string {
	return fmt.Sprintf("members=%v added=%v changed=%v removed=%v", e.Members, ids(e.Added), ids(e.Changed), ids(e.Removed))
}

func (e Blinded) String() string { return "blinded: " + e.Err.Error() }
func (Suspended) String() string { return "suspended" }
func (Resumed) String() string   { return "resumed" }
func (e Gone) String() string    { return "gone: " + e.Err.Error() }

func (e Left) String() string { return client.Told("left", e.Err) }

func ids(members []Member) []string {
	return recipe.Map(members, func(m Member) string { return m.ID })
}

// newChange returns the event for the difference between two lists of members.
func newChange(before, now []Member, first bool) MembersChanged {
	e := MembersChanged{Members: now, before: before, first: first}
	for i, j := 0, 0; i < len(before) || j < len(now); {
		switch {
		case j == len(now) || i < len(before) && compare(before[i], now[j]) < 0:
			e.Removed = append(e.Removed, before[i])
			i++
		case i == len(before) || compare(now[j], before[i]) < 0:
			e.Added = append(e.Added, now[j])
			j++
		default:
			if before[i].Joined != now[j].Joined || before[i].Session != now[j].Session || string(before[i].Data) != string(now[j].Data) {
				e.Changed = append(e.Changed, now[j])
			}
			i++
			j++
		}
	}
	return e
}

// empty reports whether the event has nothing new for its reader.
func (e MembersChanged) empty() bool {
	return !e.first && len(e.Added)+len(e.Changed)+len(e.Removed) == 0
}

// mergeChanges makes one change of two, unless they undo each other.
func mergeChanges(last, next MembersChanged) (MembersChanged, bool) {
	merged := newChange(last.before, next.Members, last.first)
	return merged, !merged.empty()
}

// cancelChanges reports whether two changes undo each other: they did not merge.
func cancelChanges(_, _ MembersChanged) bool { return true }

func merge(last, next Event) (Event, bool) {
	a, ok := last.(MembersChanged)
	b, too := next.(MembersChanged)
	if !ok || !too {
		return nil, false
	}
	return mergeChanges(a, b)
}

// cancel reports whether next undoes last. Two changes would have merged otherwise.
func cancel(last, next Event) bool {
	return recipe.Undone[Suspended, Resumed](last, next) || recipe.Undone[MembersChanged, MembersChanged](last, next)
}
