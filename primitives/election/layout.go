package election

import (
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
)

// A Layout decides the names of nodes. All candidates and observers of an election have to use
// the same one.
//
// A candidate that finds a contender of another known layout leaves with [ErrLayout], when it comes and
// while it waits. But others do not look for ours. This was measured with Curator 5.4 and kazoo 2.8:
//
//	            Curator's                                    kazoo's
//	            LeaderLatch  LeaderSelector  mutex           Election  Lock
//	Standard    refused      refused         refused         refused   refused
//	Curator     both         refused         refused         refused   refused
//	Kazoo       refused      refused         refused         both      both
//
// Where it says both, each waits for the other. Where it says refused, theirs is elected if it comes
// while ours leads, so these must not share a path.
type Layout int

const (
	// Standard has the candidates stand as _c_<uuid>-n_<number> under "candidates", and the
	// leader written down beside that, as "leader".
	Standard Layout = iota

	// Curator is that of Apache Curator's LeaderLatch: _c_<uuid>-latch-<number> under the
	// path itself. There is no leader's node: the first candidate leads, its data are the
	// participant's id, and a watcher of the leader wakes up for every candidate that
	// comes or goes.
	Curator

	// Kazoo is that of kazoo's Election: <32 hex digits>__lock__<number> under the path
	// itself, and otherwise like Curator.
	Kazoo
)

func (l Layout) String() string {
	if l < Standard || l > Kazoo {
		return "unknown"
	}
	return [...]string{"standard", "curator", "kazoo"}[l]
}

// without is why there is no such thing in the layout.
func (l Layout) without(what string) error {
	return fmt.Errorf("%w than %v is in use, which has no %s", ErrLayout, Standard, what)
}

// The grammars of the layouts, by their numbers.
//
//nolint:gochecknoglobals // they are constant
var grammars = [...]*nodes.Grammar{Standard: &nodes.StandardElection, Curator: &nodes.CuratorElection, Kazoo: &nodes.KazooElection}

// Where nodes stand in the standard layout, under the path.
const (
	candidatesNode = "candidates"
	leaderNode     = "leader"
)

// A guest is the rule of locks, in a layout of another library: candidates of our own layout
// have a leader's node.
type guest struct{ line.First }

// Locate implements [line.Rule].
func (g guest) Locate(s line.Sight, own, guid string) line.Position {
	p := g.First.Locate(s, own, guid)
	if slices.Contains(s.Names, leaderNode) {
		p.Err = line.OtherLayout(leaderNode)
	}
	return p
}

// A rule is that of locks, but the first in line has to claim the leadership.
type rule struct{ line.First }

// Claims implements [line.Rule].
func (rule) Claims() bool { return true }

func (l Layout) first() line.First {
	return line.First{Grammar: grammars[l], Kind: nodes.Exclusive, EventGrants: true}
}

// rule returns the rule by which a candidate stands in line.
func (l Layout) rule() line.Rule {
	if l == Standard {
		return rule{l.first()}
	}
	return guest{l.first()}
}
