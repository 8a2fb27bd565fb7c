package election

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
)

// A Layout decides the names of nodes. All candidates and observers of an election must use the
// same layout.
//
// A candidate that finds a contender of another known layout leaves with [ErrLayout], when it comes
// and while it waits. So it does if it finds an ephemeral child of the path whose name ends with a
// number of ten digits, as that of a sequential node, and is of no known layout. But other
// libraries do not look for our candidates. This was measured with Curator 5.4 and 5.9, and with
// kazoo 2.8 and 2.11:
//
//	                   Curator's                                    kazoo's
//	                   LeaderLatch  LeaderSelector  mutex           Election  Lock
//	Standard           refused      refused         refused         refused   refused
//	Curator            both         refused         refused         refused   refused
//	Kazoo              refused      refused         refused         both      both
//	CuratorSelector    refused      both            both            refused   refused
//
// "Both": each waits for the other. "Refused": theirs is elected if it comes while ours leads, so
// these must not share a path.
type Layout int

const (
	// Standard is the layout of this library: candidates are _c_<uuid>-n_<number> under
	// "candidates", and beside that the node "leader" names the leader.
	Standard Layout = iota

	// Curator is the layout of Apache Curator's LeaderLatch: _c_<uuid>-latch-<number> under the
	// path itself. There is no leader's node: the first candidate leads, its data is the
	// participant's id, and an observer wakes up for every candidate that comes or goes.
	Curator

	// Kazoo is the layout of kazoo's Election: <32 hex digits>__lock__<number> under the path
	// itself, and otherwise like Curator. The path is a persistent node, as kazoo makes it.
	Kazoo

	// CuratorSelector is the layout of Apache Curator's LeaderSelector, which is that of its mutex:
	// _c_<uuid>-lock-<number> under the path itself, and otherwise like Curator.
	CuratorSelector
)

func (l Layout) String() string {
	if l < Standard || l > CuratorSelector {
		return "unknown"
	}
	return [...]string{"standard", "curator", "kazoo", "curator-selector"}[l]
}

// without returns the error for a feature that the layout does not have.
func (l Layout) without(what string) error {
	return fmt.Errorf("%w than %v is in use, which has no %s", ErrLayout, Standard, what)
}

// grammars has the grammars of the layouts.
//
//nolint:gochecknoglobals // they are constant
var grammars = [...]*nodes.Grammar{Standard: &nodes.StandardElection, Curator: &nodes.CuratorElection, Kazoo: &nodes.KazooElection, CuratorSelector: &nodes.SelectorElection}

// The nodes of the standard layout, under the path.
const (
	candidatesNode = "candidates"
	leaderNode     = "leader"
	successorsNode = "successors"
)

// A guest is the rule of locks, in a layout of another library. It refuses a path with a leader's
// node, or with a directory of candidates, where candidates of our own layout stand.
type guest struct{ line.First }

// Locate implements [line.Rule].
func (g guest) Locate(s line.Snapshot, own, guid string) line.Position {
	p := g.First.Locate(s, own, guid)
	for _, node := range []string{leaderNode, candidatesNode} {
		// a candidate that stands was before the directory
		if slices.Contains(s.Names, node) && (s.New || node == leaderNode) {
			p.Err = line.OtherLayout(nodes.OfElection, node)
		}
	}
	return p
}

// A rule is the rule of locks, but the first in line has to claim the leadership. The condition has
// the names of the successors that have yet to give up theirs, one in a line. The first in line
// waits for these.
type rule struct {
	line.First

	successors string // the path of their directory
}

// Traits implements [line.Rule].
func (rule) Traits() line.Traits { return line.Traits{Claims: true} }

// Room implements [line.Rule].
func (r rule) Room(contenders int, data string) bool {
	return data == "" && r.First.Room(contenders, data)
}

// Locate implements [line.Rule]. A successor that waits has lost its claim to an operator, and has
// to stand anew.
func (r rule) Locate(s line.Snapshot, own, guid string) line.Position {
	p := r.First.Locate(s, own, guid)
	for name := range strings.FieldsSeq(s.Data) {
		switch {
		case name == own:
			p.Invalid = true
		case p.Ahead == 0:
			p.Ahead, p.Watch.Node = 1, znode.Join(r.successors, name)
		}
	}
	return p
}

func (l Layout) first() line.First {
	return line.First{Grammar: grammars[l], Kind: nodes.Exclusive, EventGrants: true}
}

// rule returns the rule by which a candidate stands in line.
func (l Layout) rule(successors string) line.Rule {
	if l == Standard {
		return rule{l.first(), successors}
	}
	return guest{l.first()}
}
