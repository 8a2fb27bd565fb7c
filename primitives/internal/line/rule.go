package line

import (
	"strings"

	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
)

// A Rule says how the contenders of one path are named, and which of them wait for
// which. Its values are compared.
type Rule interface {
	// Name returns what the node of the attempt with this GUID is created as; the
	// server appends a number. Prefix begins the names of all nodes of that attempt.
	Name(guid string) string
	Prefix(guid string) string

	// Line returns the names of contenders, in the order in which they stand in line.
	Line(names []string) []string

	// Locate finds the contender own, created with the GUID, in what was seen.
	Locate(s Sight, own, guid string) Position

	// Room reports whether the newest of so many contenders need not wait, whatever
	// their names are.
	Room(contenders int, data string) bool

	// Lists reports whether it takes a list in any case, which is then asked for in
	// one round trip with the creation of the node.
	Lists() bool

	// Announces reports whether the rule depends on what stands beside the names, which
	// is read after them: a holder tells those behind it that it holds when that has
	// changed.
	Announces() bool

	// Claims reports whether to come first is not enough: the first has to claim what
	// the line is for.
	Claims() bool

	// Downgrade returns the rule and the name of a contender that has stood as own and
	// need no longer exclude those that share; false if there is nothing to downgrade.
	Downgrade(own string) (weaker Rule, node string, ok bool)
}

// A Sight has the children of the line at one moment, and the other data that a rule
// needs, which was read after that.
type Sight struct {
	Names []string
	Data  string
	New   bool // the contender has not been told its place yet

	// Unproven is set in the first sight of a node, and as long as Czxid is not known. What the rule depends on may have been
	// another then when the node was created.
	Unproven bool
	Czxid    int64 // of the contender's node; 0 while it is not known
}

// A Position is the place of one contender in its line, and the nodes that may change
// it.
type Position struct {
	Present        bool     // the contender is in line
	Ahead          int      // how many others have to go first; 0 if it is our turn
	Watch          Target   // what to watch while it is not
	Beside         []Target // contenders beside that whose deletion, or announcement, may change that
	deletionGrants bool     // Watch and Beside are all that is ahead, and the deletion of the last of them says that it is our turn
	Announce       bool     // a contender behind waits for the news that it is our turn
	Ask            []string // nodes of holders who are to leave, because we are next and may ask them
	Zombies        []string // other nodes with the contender's own GUID; they do not count
	Invalid        bool     // it must not stand there: the parent was another one than it takes
	Err            error    // why there is no place for us at all
}

// A Target is a node, or a list, whose change is awaited.
type Target struct {
	Node  string // a path below the line; of a claim, that of the contender; "" for its members
	Until until
}

// until says which change of a [Target] is awaited.
type until int8

// The changes.
const (
	Gone       until = iota // the node is deleted
	Changed                 // the node is deleted, or its data is set
	Members                 // the names of the children are others
	unclaimed               // no contender has the claim, or another has it
	dependence              // what the rule depends on is another: of no position, and told by [reevaluate]
)

func (t Target) String() string {
	return t.Node + [...]string{"", " changed", "members", " claim", "dependence"}[t.Until]
}

// First is the rule of locks: first come, first served, in the order of numbers. [nodes.Kind.Excludes] says which
// of the contenders ahead a contender waits for. Locks with priorities have another order.
type First struct {
	*nodes.Grammar

	Kind nodes.Kind

	// EventGrants says that the deletion of the one contender ahead is the grant: true
	// where all holders that exclude others leave by that. A writer may turn into a reader instead,
	// so its deletion grants to readers only.
	EventGrants bool

	// Brief says that holders may work for less than a round trip. With EventGrants, a contender then
	// watches both that are directly ahead of it. Without Brief it watches the farther of the two alone,
	// and a deletion wakes one contender less.
	Brief bool
}

// Name implements [Rule].
func (f First) Name(guid string) string { return f.Grammar.Name(guid, f.Kind) }

// Prefix implements [Rule].
func (f First) Prefix(guid string) string { return f.Grammar.Prefix(guid, "") }

// Room implements [Rule].
func (f First) Room(contenders int, _ string) bool { return contenders == 1 }

// Lists implements [Rule].
func (f First) Lists() bool { return f.shares() }

// Line implements [Rule].
func (f First) Line(names []string) []string {
	return recipe.Map(f.Grammar.Line(names), func(c nodes.Contender) string { return c.Name })
}

// shares reports whether contenders may be ahead for which we do not wait.
func (f First) shares() bool { return !nodes.Read.Excludes(f.Kind) }

// Announces implements [Rule].
func (f First) Announces() bool { return false }

// Claims implements [Rule].
func (f First) Claims() bool { return false }

// Downgrade implements [Rule].
func (f First) Downgrade(own string) (Rule, string, bool) {
	if f.Kind != nodes.Write {
		return f, "", false
	}
	reader, ok := f.Downgraded(own)
	f.Kind = nodes.Read
	return f, reader, ok
}

// Locate implements [Rule]. A contender watches its predecessor. Where deletions grant, it watches that
// one's predecessor as well, or instead: see Brief. So it learns in advance, while others work, that it
// is next.
func (f First) Locate(s Sight, own, guid string) Position {
	var p Position
	me, _ := f.Parse(own)
	var next, second nodes.Contender
	behind := func(a, b nodes.Contender) bool { return b.Name == "" || nodes.Compare(me.Number, a, b) > 0 }
	prefix := f.Prefix(guid)
	for _, name := range s.Names {
		if name == own {
			p.Present = true
			continue
		}
		c, ok := f.Parse(name)
		_, ranked := nodes.ParseRank(name)
		switch {
		case ranked, !ok && nodes.IsContender(name):
			p.Err = OtherLayout(name)
		case !ok:
		case strings.HasPrefix(name, prefix):
			p.Zombies = append(p.Zombies, name)
		case nodes.Compare(me.Number, c, me) > 0, !c.Kind.Excludes(f.Kind):
		default:
			p.Ahead++
			if behind(c, next) {
				next, second = c, next
			} else if behind(c, second) {
				second = c
			}
		}
	}
	p.Watch.Node = next.Name
	exclusive := f.EventGrants && f.Kind == nodes.Exclusive && next.Kind == nodes.Exclusive
	switch {
	case p.Ahead == 1:
		p.deletionGrants = exclusive || f.EventGrants && f.Kind == nodes.Read
	case p.Ahead == 0, !exclusive, second.Kind != nodes.Exclusive:
	case f.Brief:
		p.Beside = []Target{{Node: second.Name}}
		p.deletionGrants = p.Ahead == 2
	default:
		p.Watch.Node = second.Name
	}
	return p
}
