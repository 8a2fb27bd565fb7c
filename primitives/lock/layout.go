package lock

import (
	"fmt"
	"strings"

	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// A Layout is how nodes are named and marked. All who contend for a lock have to use
// the same one.
type Layout int

const (
	// Standard is that of the published recipes: _c_<uuid>-lock-<number> for exclusive
	// locks, which Curator and go-zookeeper stand in line with as equals, and -read- and
	// -write- likewise. A mark of revocation is a first line before the data.
	Standard Layout = iota

	// Curator is that of Apache Curator, whose read-write locks name their nodes
	// -__READ__ and -__WRIT__, and whose mark of revocation replaces the data.
	Curator

	// Kazoo is that of kazoo: <32 hex digits>__lock__<number> for exclusive locks and
	// writers, which are the same here, and __rlock__ for readers. Curator does not
	// respect such nodes, kazoo's own Lock does not respect readers, and the ReadLock of
	// kazoo 2.8 waits for writers behind it, too, which is a deadlock.
	Kazoo
)

func (l Layout) String() string {
	if l < Standard || l > Kazoo {
		return "unknown"
	}
	return [...]string{"standard", "curator", "kazoo"}[l]
}

func (l Layout) validate() error {
	if l < Standard || l > Kazoo {
		return fmt.Errorf("%w: there is no layout %d", session.ErrInvalidArgument, int(l))
	}
	return nil
}

// The grammars of the layouts, by their numbers.
//
//nolint:gochecknoglobals // they are constant
var grammars = [...]*line.Grammar{
	Standard: {
		Prefix: line.Published, Separated: true,
		Marks: []line.Mark{{Text: "lock-", Kind: line.Exclusive}, {Text: "read-", Kind: line.Read}, {Text: "write-", Kind: line.Write}},
	},
	Curator: {
		Prefix: line.Published, Separated: true,
		Marks: []line.Mark{{Text: "lock-", Kind: line.Exclusive}, {Text: "__READ__", Kind: line.Read}, {Text: "__WRIT__", Kind: line.Write}},
	},
	Kazoo: {
		Prefix: func(guid string) string { return strings.ReplaceAll(guid, "-", "") },
		Marks:  []line.Mark{{Text: "__lock__", Kind: line.Exclusive}, {Text: "__lock__", Kind: line.Write}, {Text: "__rlock__", Kind: line.Read}},
	},
}

// rule returns the rule by which a contender stands in line. In other layouts than ours
// others may leave in other ways than by one deletion.
func (l Layout) rule(kind Kind) line.Rule {
	return line.First{Grammar: grammars[l], Kind: line.Kind(kind), EventGrants: l == Standard}
}
