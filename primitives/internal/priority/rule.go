package priority

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
)

// This file is the rule of lines with priorities. Contenders are named
//
//	_c_<GUID>-p<priority + 1000, four digits>-read-<number>
//	_c_<GUID>-p<priority + 1000, four digits>-write-<number>
//
// A contender that is first claims a node beside the contenders, or below one of these:
// see [standing]. A claim is necessary, since a contender of a higher priority may come
// at any time, and then ranks before the holder.

// A rule is the rule of locks with priorities. Contenders go by priority, and those of
// the same priority in the order in which they came. A contender waits for those that rank before
// it and exclude it, as [nodes.Kind.Excludes] says, and for holders that exclude it, however these rank.
type rule struct {
	Kind     nodes.Kind // read or write
	Priority int        // from nodes.LowestPriority to nodes.HighestPriority
	Preempt  bool       // set if the contender, when first, asks holders of lower priority to leave
}

// A standing says which contenders hold: what a [rule] knows beside the names in line.
type standing struct {
	Holder  string   // the writer that holds; "" if none does
	Former  string   // the writer that has held last
	Readers []string // the readers that hold
}

// String returns the Data of a [line.Sight], which parseStanding reads.
func (s standing) String() string {
	return strings.Join(append([]string{s.Holder, s.Former}, s.Readers...), "\n")
}

// parseStanding reads the result of String.
func parseStanding(data string) standing {
	all := strings.SplitN(data, "\n", 3)
	s := standing{Holder: all[0]}
	if len(all) > 1 {
		s.Former = all[1]
	}
	if len(all) > 2 {
		s.Readers = strings.Split(all[2], "\n")
	}
	return s
}

// compareRanks orders two contenders: by priority, and then by number, counted from the
// reference.
func compareRanks(reference int32, a, b nodes.Rank) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), nodes.Compare(reference, a.Contender, b.Contender))
}

// Ranks returns the contenders among the children, in the order in which they go. Other
// children are left out.
func Ranks(children []string) []nodes.Rank {
	var all []nodes.Rank
	for _, name := range children {
		if r, ok := nodes.ParseRank(name); ok {
			all = append(all, r)
		}
	}
	if len(all) > 0 {
		// Numbers may overflow: they are compared by their distance from any of them.
		reference := all[0].Number
		slices.SortFunc(all, func(a, b nodes.Rank) int { return compareRanks(reference, a, b) })
	}
	return all
}

// Name implements [line.Rule]. Names of higher priority do not sort before those of
// lower: Line orders them.
func (r rule) Name(guid string) string {
	kind := "write-"
	if r.Kind == nodes.Read {
		kind = "read-"
	}
	return fmt.Sprintf("%sp%04d-%s", r.Prefix(guid), r.Priority-nodes.LowestPriority, kind)
}

// Prefix implements [line.Rule].
func (rule) Prefix(guid string) string { return znode.GUIDName(guid, "") }

// Line implements [line.Rule]. Names of other layouts are left out; Locate refuses them.
func (rule) Line(names []string) []string {
	return recipe.Map(Ranks(names), func(c nodes.Rank) string { return c.Name })
}

// Room implements [line.Rule]. The number of children says nothing about priorities.
func (rule) Room(int, string) bool { return false }

// Lists implements [line.Rule]. Contenders that came later may rank before us.
func (rule) Lists() bool { return true }

// Announces implements [line.Rule]. A claim announces itself: it is a node.
func (rule) Announces() bool { return false }

// Claims implements [line.Rule]: to be first in line is not to hold, as a contender of a
// higher priority may come.
func (rule) Claims() bool { return true }

// Downgrade implements [line.Rule]. The reader keeps the priority too.
func (r rule) Downgrade(own string) (line.Rule, string, bool) {
	if r.Kind != nodes.Write {
		return r, "", false
	}
	reader, ok := nodes.PriorityLock.Downgraded(own)
	r.Kind = nodes.Read
	return r, reader, ok
}

// Locate implements [line.Rule]. A contender watches the nearest of those that rank
// before it; the first in line watches a holder. Every contender and claim that it waits
// for has to go before its turn, so one watch misses nothing.
func (r rule) Locate(s line.Sight, own, guid string) line.Position {
	var p line.Position
	me, _ := nodes.ParseRank(own)
	prefix, standing := r.Prefix(guid), parseStanding(s.Data)
	var nearest nodes.Rank
	for _, name := range s.Names {
		if name == own {
			p.Present = true // our node stands
			continue
		}
		c, ok := nodes.ParseRank(name)
		switch {
		case !ok:
			if nodes.IsContender(name) { // it would not wait for us
				p.Err = line.OtherLayout(name)
			}
		case strings.HasPrefix(name, prefix):
			p.Zombies = append(p.Zombies, name) // of another attempt, or of a lost reply
		case compareRanks(me.Number, me, c) < 0, !c.Kind.Excludes(r.Kind): // it is behind us, or shares with us
		default:
			p.Ahead++
			if nearest.Name == "" || compareRanks(me.Number, nearest, c) < 0 {
				nearest = c
			}
		}
	}
	p.Watch.Node = nearest.Name
	r.mind(&p, s.Names, standing, me)
	return p
}

// mind has a contender wait for the holders that exclude it. A holder that stands in line
// before us is counted already. Our own claim does not count: its contender does not rank
// behind itself.
func (r rule) mind(p *line.Position, names []string, standing standing, me nodes.Rank) {
	first := p.Ahead == 0
	mind := func(holder, node string) {
		h, ok := nodes.ParseRank(holder)
		if !ok || compareRanks(me.Number, me, h) < 0 || !slices.Contains(names, holder) { // else it is counted among those that rank before us
			p.Ahead++
			if p.Watch.Node == "" {
				p.Watch.Node = node
			}
		}
		if r.Preempt && first && ok && h.Priority < me.Priority {
			p.Ask = append(p.Ask, holder)
		}
	}
	switch {
	case standing.Holder != "":
		mind(standing.Holder, holderNode)
	case slices.Contains(names, standing.Former):
		// An operator has deleted its claim. It may hold until it notices.
		mind(standing.Former, standing.Former)
	}
	if !nodes.Read.Excludes(r.Kind) {
		return
	}
	slices.Sort(standing.Readers) // so that equal sights lead to equal positions
	for _, reader := range standing.Readers {
		mind(reader, readersNode+"/"+reader)
	}
}

// The nodes that say which contenders hold, below the line.
const (
	holderNode  = nodes.PriorityHolder
	readersNode = nodes.PriorityReaders
)
