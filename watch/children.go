package watch

import (
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/session"
)

// A ChildrenState has the names of the children of a node. Names and Stat are shared by all
// watchers of the node, and must not be modified.
type ChildrenState struct {
	Names   []string      // in order; empty if there is no node
	Added   []string      // since the last state that this reader has received, in order
	Removed []string      // likewise
	Stat    *session.Stat // of the parent; nil if there is no node
}

// String returns the state in one line.
func (s ChildrenState) String() string {
	if s.Stat == nil {
		return fmt.Sprintf("no node removed=%q", s.Removed)
	}
	return fmt.Sprintf("%q added=%q removed=%q", s.Names, s.Added, s.Removed)
}

// Children watches the names of the children of the node at path, whether or not the node exists.
// In one session its states never go back. A later session may read older data, if the servers were
// restored from a backup.
//
// A child that was deleted and created again between two states is neither Added nor Removed. Such
// a change comes as a state with another Stat.Pzxid.
//
// If opts is nil, the default options are used. The error names the argument that is refused, and
// why. A later failure ends the watch, and [Watch.Err] returns it.
func Children(s *session.Session, path string, opts *Options) (*Watch[ChildrenState], error) {
	return begin(s, path, opts, kind[ChildrenState]{
		name: "children of", aspect: session.AspectChildren, next: nextChildren, merge: mergeChildren,
	})
}

func nextChildren(last ChildrenState, told bool, r session.Reading) (ChildrenState, bool) {
	state := ChildrenState{Names: slices.Sorted(slices.Values(r.Names)), Stat: r.Stat}
	if told && sameChildren(last.Stat, r.Stat) && slices.Equal(last.Names, state.Names) {
		return last, false
	}
	state.Added = minus(state.Names, last.Names)
	state.Removed = minus(last.Names, state.Names)
	return state, true
}

func sameChildren(a, b *session.Stat) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Czxid == b.Czxid && a.Pzxid == b.Pzxid && a.Cversion == b.Cversion
}

// mergeChildren makes next a state that follows the one before last.
func mergeChildren(last, next ChildrenState) (ChildrenState, bool) {
	added, removed := next.Added, next.Removed
	next.Added = union(minus(last.Added, removed), minus(added, last.Removed))
	next.Removed = union(minus(last.Removed, added), minus(removed, last.Added))
	return next, true
}

// minus returns the names in a that are not in b. Both are in order.
func minus(a, b []string) []string {
	var rest []string
	for _, name := range a {
		for len(b) > 0 && b[0] < name {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != name {
			rest = append(rest, name)
		}
	}
	return rest
}

// union returns the names that are in a or b, in order.
func union(a, b []string) []string {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
