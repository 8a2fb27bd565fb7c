package priority

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
)

// This file is the rule of lines with priorities. Contenders are named
//
//	_c_<GUID>-p<priority + 1000, four digits>-read-<number>
//	_c_<GUID>-p<priority + 1000, four digits>-write-<number>
//
// A contender that is first claims the lock by a node beside the contenders: see [standing]. The
// claim is necessary because a contender of a higher priority may come at any time, and then ranks
// before the holder.

// A rule is the rule of locks with priorities. Contenders rank by priority, and with the same
// priority in the order in which they came. A contender waits for the contenders that rank before
// it and exclude it, see [nodes.Kind.Excludes], and for all holders that exclude it.
type rule struct {
	Kind     nodes.Kind // read or write
	Priority int        // from nodes.LowestPriority to nodes.HighestPriority
	Preempt  bool       // set if the first in line asks holders of lower priority to leave
}

// A standing says which contenders hold. It is the condition of a [rule].
type standing struct {
	Holder  string   // the writer that holds; "" if none does
	Former  string   // the newest writer that held, or holds
	Version int32    // of the path, read with Former; grows with every claim of a writer
	Readers []string // the readers that hold
}

// String returns the Data of a [line.Snapshot], which parseStanding reads.
func (s standing) String() string {
	return strings.Join(append([]string{s.Holder, s.Former, strconv.Itoa(int(s.Version))}, s.Readers...), "\n")
}

// parseStanding reads the result of String.
func parseStanding(data string) standing {
	const fields = 3 // before the readers
	all := strings.SplitN(data, "\n", fields+1)
	s := standing{Holder: all[0]}
	if len(all) >= fields {
		version, _ := strconv.ParseInt(all[2], 10, 32)
		s.Former, s.Version = all[1], int32(version)
	}
	if len(all) > fields {
		s.Readers = strings.Split(all[fields], "\n")
	}
	return s
}

// compareRanks orders two contenders by priority, and then by number, counted from the reference.
func compareRanks(reference int32, a, b nodes.Rank) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), nodes.Compare(reference, a.Contender, b.Contender))
}

// Ranks returns the contenders among the children, in their order. It leaves out other children.
func Ranks(children []string) []nodes.Rank {
	var all []nodes.Rank
	for _, name := range children {
		if r, ok := nodes.ParseRank(name); ok {
			all = append(all, r)
		}
	}
	if len(all) > 0 {
		// Numbers may overflow, so they are compared by their distance from one of them.
		reference := all[0].Number
		slices.SortFunc(all, func(a, b nodes.Rank) int { return compareRanks(reference, a, b) })
	}
	return all
}

// Name implements [line.Rule]. Names do not sort by priority; [Ranks] orders them.
func (r rule) Name(guid string) string {
	kind := "write-"
	if r.Kind == nodes.Read {
		kind = "read-"
	}
	return fmt.Sprintf("%sp%04d-%s", r.Prefix(guid), r.Priority-nodes.LowestPriority, kind)
}

// Prefix implements [line.Rule].
func (rule) Prefix(guid string) string { return znode.GUIDName(guid, "") }

// Room implements [line.Rule]. The number of children says nothing about priorities.
func (rule) Room(int, string) bool { return false }

// Traits implements [line.Rule]. Contenders that came later may rank before us, so every contender
// lists, and the first in line has to claim. A grant needs no announcement, because its claim is a
// node.
func (rule) Traits() line.Traits { return line.Traits{Lists: true, Claims: true} }

// Downgrade implements [line.Rule]. The reader keeps the priority.
func (r rule) Downgrade(own string) (line.Rule, string, bool) {
	if r.Kind != nodes.Write {
		return r, "", false
	}
	reader, ok := nodes.PriorityLock.Downgraded(own)
	r.Kind = nodes.Read
	return r, reader, ok
}

// Locate implements [line.Rule]. A contender watches the nearest contender that ranks before it and
// excludes it; the first in line watches a holder. All that it waits for must be deleted before it
// is granted the lock, so one watch misses nothing.
func (r rule) Locate(s line.Snapshot, own, guid string) line.Position {
	standing := parseStanding(s.Data)
	slices.Sort(standing.Readers) // so that equal snapshots lead to equal positions
	l := location{rule: r}
	l.me, _ = nodes.ParseRank(own)
	counted := l.rank(s.Names, own, r.Prefix(guid), standing.Readers)
	l.first = l.ahead.Waits(r.Kind) == 0
	switch {
	case standing.Holder != "":
		l.countHolder(standing.Holder, holderNode, nodes.Write, l.counts(s.Names, standing.Holder))
	case slices.Contains(s.Names, standing.Former), standing.Former != "" && standing.Version != s.Version:
		// An operator has deleted its claim. It may hold until it notices that. If it has claimed
		// since the names were listed, it may have joined since, too.
		l.countHolder(standing.Former, standing.Former, nodes.Write, l.counts(s.Names, standing.Former))
	}
	for i, reader := range standing.Readers {
		l.countHolder(reader, readersNode+"/"+reader, nodes.Read, counted[i])
	}
	l.Ahead = l.ahead.Waits(r.Kind)
	return l.Position
}

// A location is a position that is being found.
type location struct {
	rule
	line.Position
	me    nodes.Rank
	ahead nodes.Ahead // contenders that rank before us, and other holders
	first bool        // no contender that ranks before us excludes us
}

// before reports whether a contender ranks before us, or is our own.
func (l *location) before(c nodes.Rank) bool { return compareRanks(l.me.Number, l.me, c) >= 0 }

// rank counts the contenders that rank before us, and watches the nearest of them that excludes us.
// It returns which of the readers that hold are counted by that.
func (l *location) rank(names []string, own, prefix string, readers []string) (counted []bool) {
	counted = make([]bool, len(readers))
	var nearest nodes.Rank
	for _, name := range names {
		c, ok := nodes.ParseRank(name)
		before := ok && l.before(c)
		if i, holds := slices.BinarySearch(readers, name); holds {
			counted[i] = before
		}
		switch {
		case name == own:
			l.Present = true
		case !ok && nodes.IsContender(name): // it would not wait for us
			l.Err = line.OtherLayout(nodes.OfLock, name)
		case !ok:
		case strings.HasPrefix(name, prefix):
			l.Zombies = append(l.Zombies, name) // of another attempt, or of a lost reply
		case before:
			l.ahead.Add(c.Kind)
			if c.Kind.Excludes(l.Kind) && (nearest.Name == "" || compareRanks(l.me.Number, nearest, c) < 0) {
				nearest = c
			}
		}
	}
	l.Watch.Node = nearest.Name
	return counted
}

// counts reports whether rank has counted a writer that holds. Our own claim does not count.
func (l *location) counts(names []string, writer string) bool {
	h, ok := nodes.ParseRank(writer)
	return ok && l.before(h) && slices.Contains(names, writer)
}

// countHolder counts a holder of the kind, unless it is counted: we wait for holders that exclude
// us, however they rank. The first in line watches the node of one of them, and may ask it to
// leave.
func (l *location) countHolder(holder, node string, kind nodes.Kind, counted bool) {
	excludes := kind.Excludes(l.Kind)
	if !counted {
		l.ahead.Add(kind)
		if excludes && l.Watch.Node == "" {
			l.Watch.Node = node
		}
	}
	if h, ok := nodes.ParseRank(holder); l.Preempt && l.first && ok && excludes && h.Priority < l.me.Priority {
		l.Ask = append(l.Ask, holder)
	}
}

// The nodes below the line that show which contenders hold.
const (
	holderNode  = nodes.PriorityHolder
	readersNode = nodes.PriorityReaders
)
