package priority

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// This file is the rule of lines with priorities. Contenders are named
//
//	_c_<GUID>-p<priority + 1000, four digits>-read-<number>
//	_c_<GUID>-p<priority + 1000, four digits>-write-<number>
//
// and what they claim is a node beside them, or below one: see [standing].

// The limits of priorities.
const (
	Lowest  = -1000
	Highest = 1000
)

// rule is the rule of locks with priorities: of those who do not hold yet the one with
// the highest priority goes first, and of those with the same who came first. Readers wait
// for those who do not share, all others for everybody; and both for who holds.
type rule struct {
	Kind     line.Kind
	Priority int
	Preempt  bool // ask holders of lower priority to leave
}

// A standing is who holds: what a [rule] reads beside the names.
type standing struct {
	Holder  string   // who excludes everybody; "" if there is none
	Former  string   // who has excluded everybody last
	Readers []string // who share
}

// String returns what is to be the Data of a [line.Sight].
func (s standing) String() string {
	return strings.Join(append([]string{s.Holder, s.Former}, s.Readers...), "\n")
}

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

// A Rank is the name of a contender in a line with priorities.
type Rank struct {
	line.Contender
	Priority int
}

// The parts of its name have these lengths.
const (
	rankBegins = len("_c_00000000-0000-0000-0000-000000000000-")
	rankEnds   = rankBegins + len("p0000-")
)

// ParseRank reads the name of a contender in a line with priorities.
func ParseRank(name string) (r Rank, ok bool) {
	if len(name) < rankEnds || !strings.HasPrefix(name, "_c_") || name[rankBegins] != 'p' || name[rankBegins-1] != '-' || name[rankEnds-1] != '-' {
		return r, false
	}
	p, err := strconv.ParseUint(name[rankBegins+1:rankEnds-1], 10, 16)
	if err != nil || p > Highest-Lowest {
		return r, false
	}
	r.Name, r.Priority = name, int(p)+Lowest
	number, isRead := strings.CutPrefix(name[rankEnds:], "read-")
	if r.Kind = line.Read; !isRead {
		r.Kind = line.Write
		if number, ok = strings.CutPrefix(name[rankEnds:], "write-"); !ok {
			return r, false
		}
	}
	r.Number, ok = line.ParseNumber(number)
	return r, ok
}

// compareRanks orders two contenders.
func compareRanks(reference int32, a, b Rank) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), line.Compare(reference, a.Contender, b.Contender))
}

// Ranks returns the contenders among the children, in the order in which they go.
func Ranks(children []string) []Rank {
	var all []Rank
	for _, name := range children {
		if r, ok := ParseRank(name); ok {
			all = append(all, r)
		}
	}
	if len(all) > 0 {
		reference := all[0].Number
		slices.SortFunc(all, func(a, b Rank) int { return compareRanks(reference, a, b) })
	}
	return all
}

// Name implements [line.Rule].
func (r rule) Name(guid string) string {
	kind := "write-"
	if r.Kind == line.Read {
		kind = "read-"
	}
	return fmt.Sprintf("%sp%04d-%s", r.Prefix(guid), r.Priority-Lowest, kind)
}

// Prefix implements [line.Rule].
func (rule) Prefix(guid string) string { return session.GUIDName(guid, "") }

// Line implements [line.Rule].
func (rule) Line(names []string) []string {
	all := Ranks(names)
	names = make([]string, len(all))
	for i, c := range all {
		names[i] = c.Name
	}
	return names
}

// Room implements [line.Rule].
func (rule) Room(int, string) bool { return false }

// Lists implements [line.Rule].
func (rule) Lists() bool { return true }

// Announces implements [line.Rule].
func (rule) Announces() bool { return false }

// Claims implements [line.Rule].
func (rule) Claims() bool { return true }

// Downgrade implements [line.Rule].
func (r rule) Downgrade(own, guid string) (line.Rule, string, bool) {
	if r.Kind != line.Write {
		return r, "", false
	}
	number := strings.TrimPrefix(own, r.Name(guid))
	r.Kind = line.Read
	return r, r.Name(guid) + number, true
}

// Locate implements [line.Rule]. Everybody watches the nearest of those who rank before it, and
// who is first watches who holds, one of them. All that is waited for has to go before it
// can be our turn, so nothing is missed by not watching more.
func (r rule) Locate(s line.Sight, own, guid string) line.Position {
	var p line.Position
	me, _ := ParseRank(own)
	prefix, standing := r.Prefix(guid), parseStanding(s.Data)
	var nearest Rank
	for _, name := range s.Names {
		if name == own {
			p.Present = true
			continue
		}
		c, ok := ParseRank(name)
		switch {
		case !ok:
			if line.IsContender(name) {
				p.Err = line.OtherLayout(name)
			}
		case strings.HasPrefix(name, prefix):
			p.Zombies = append(p.Zombies, name)
		case compareRanks(me.Number, me, c) < 0, r.shares(c):
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

// mind has a contender wait for those who hold. Its own claim does not count: it stands in line, and
// does not rank behind itself.
func (r rule) mind(p *line.Position, names []string, standing standing, me Rank) {
	first := p.Ahead == 0
	mind := func(holder, node string) {
		h, ok := ParseRank(holder)
		if !ok || compareRanks(me.Number, me, h) < 0 || !slices.Contains(names, holder) { // else it is among those who rank before us
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
		mind(standing.Former, standing.Former) // an operator has deleted what it claimed, which it may not have heard yet
	}
	if r.Kind == line.Read {
		return
	}
	slices.Sort(standing.Readers)
	for _, reader := range standing.Readers {
		mind(reader, readersNode+"/"+reader)
	}
}

// Where it says who holds, below the line.
const (
	holderNode  = "holder"  // the data of which is the name of the contender who excludes all others
	readersNode = "readers" // whose children are named like the contenders who share
)

// shares reports whether we need not wait for a contender at all.
func (r rule) shares(c Rank) bool { return r.Kind == line.Read && c.Kind == line.Read }
