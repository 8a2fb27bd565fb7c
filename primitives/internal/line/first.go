package line

import (
	"strings"

	"github.com/zkactors/zkactors/primitives/internal/nodes"
)

// First is the rule of locks: first come, first served, in the order of numbers. [nodes.Ahead]
// decides for how many of the contenders ahead a contender waits. Locks with priorities have
// another order.
type First struct {
	*nodes.Grammar

	Kind nodes.Kind

	// EventGrants says that the deletion of the only contender ahead is the grant. It is right if
	// every holder that excludes others leaves by a deletion. A writer may become a reader instead,
	// so its deletion is a grant for readers only. It is false where a reader counts readers: a
	// writer's deletion may leave one. Nor does it fit a rule that embeds First and counts
	// otherwise.
	EventGrants bool

	// Brief says that holders may hold for less than a round trip. With EventGrants, a contender
	// then watches the two contenders directly ahead of it. Without Brief it watches only the
	// farther of the two, and a deletion wakes one contender less.
	Brief bool

	// Far, with Brief, is the largest number of contenders ahead with which a contender watches
	// three nodes: its own, and the two directly ahead. If more are ahead, it watches only the
	// farther of the two, until that is deleted. 0 means no bound.
	Far int
}

// Name implements [Rule].
func (f First) Name(guid string) string { return f.Grammar.Name(guid, f.Kind) }

// Prefix implements [Rule].
func (f First) Prefix(guid string) string { return f.Grammar.Prefix(guid, "") }

// Room implements [Rule].
func (f First) Room(contenders int, _ string) bool { return contenders == 1 }

// Traits implements [Rule]. If contenders ahead may share with this one, their number does not
// decide.
func (f First) Traits() Traits { return Traits{Lists: !nodes.Read.Excludes(f.Kind)} }

// Downgrade implements [Rule].
func (f First) Downgrade(own string) (Rule, string, bool) {
	if f.Kind != nodes.Write {
		return f, "", false
	}
	reader, ok := f.Downgraded(own)
	f.Kind = nodes.Read
	return f, reader, ok
}

// Locate implements [Rule]. A contender watches its predecessor: the nearest contender that
// excludes it. If deletions are grants, it watches its predecessor's predecessor as well, or
// instead: see Brief and Far. So it learns in advance, while others hold, that it is next.
func (f First) Locate(s Snapshot, own, guid string) Position {
	var p Position
	me, _ := f.Parse(own)
	var ahead nodes.Ahead
	var next, second nodes.Contender
	behind := func(a, b nodes.Contender) bool { return b.Name == "" || nodes.Compare(me.Number, a, b) > 0 }
	prefix := f.Prefix(guid)
	var others []string
	for _, name := range s.Names {
		if name == own {
			p.Present = true
			continue
		}
		c, ok := f.Parse(name)
		_, ranked := nodes.ParseRank(name)
		switch {
		case ranked, !ok && nodes.IsContender(name):
			p.Err = OtherLayout(f.Recipe, name)
		case !ok:
			others = append(others, name)
		case strings.HasPrefix(name, prefix):
			p.Zombies = append(p.Zombies, name)
		case nodes.Compare(me.Number, c, me) > 0:
		default:
			ahead.Add(c.Kind)
			switch {
			case !c.Kind.Excludes(f.Kind):
			case behind(c, next):
				next, second = c, next
			case behind(c, second):
				second = c
			}
		}
	}
	if p.Err == nil && s.New { // a contender in line was first
		p.Err = Foreign(nodes.Foreign(f.Recipe, others))
	}
	p.Ahead, p.Watch.Node = ahead.Waits(f.Kind), next.Name
	exclusive := f.EventGrants && f.Kind == nodes.Exclusive && next.Kind == nodes.Exclusive
	switch {
	case p.Ahead == 0, next.Name == "":
	case p.Ahead == 1:
		p.deletionGrants = exclusive || f.EventGrants && f.Kind == nodes.Read
	case !exclusive, second.Kind != nodes.Exclusive:
	case f.Brief && f.Far > 0 && p.Ahead > f.Far:
		p.Watch.Node, p.Later = second.Name, next.Name
	case f.Brief:
		p.Beside = []Target{{Node: second.Name}}
		p.deletionGrants = p.Ahead == 2
	default:
		p.Watch.Node = second.Name
	}
	return p
}
