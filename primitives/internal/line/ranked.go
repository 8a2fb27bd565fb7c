package line

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file is the rule of lines with priorities. Contenders are named
//
//	_c_<GUID>-p<priority + 1000, four digits>-read-<number>
//	_c_<GUID>-p<priority + 1000, four digits>-write-<number>
//
// and what they claim is a node beside them, or below one: see [Standing].

// The limits of priorities.
const (
	LowestPriority  = -1000
	HighestPriority = 1000
)

// Ranked is the rule of locks with priorities: of those who do not hold yet the one with
// the highest priority goes first, and of those with the same who came first. Readers wait
// for those who do not share, all others for everybody; and both for who holds.
type Ranked struct {
	Kind     Kind
	Priority int
	Preempt  bool // ask holders of lower priority to leave
}

// A Standing is who holds: what a [Ranked] reads beside the names.
type Standing struct {
	Holder  string   // who excludes everybody; "" if there is none
	Former  string   // who has excluded everybody last
	Readers []string // who share
}

// String returns what is to be the Data of a [Sight].
func (s Standing) String() string {
	return strings.Join(append([]string{s.Holder, s.Former}, s.Readers...), "\n")
}

func parseStanding(data string) Standing {
	all := strings.SplitN(data, "\n", 3)
	s := Standing{Holder: all[0]}
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
	Contender
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
	if err != nil || p > HighestPriority-LowestPriority {
		return r, false
	}
	r.Name, r.Priority = name, int(p)+LowestPriority
	number, isRead := strings.CutPrefix(name[rankEnds:], "read-")
	if r.Kind = Read; !isRead {
		r.Kind = Write
		if number, ok = strings.CutPrefix(name[rankEnds:], "write-"); !ok {
			return r, false
		}
	}
	r.Number, ok = ParseNumber(number)
	return r, ok
}

// compareRanks orders two contenders.
func compareRanks(reference int32, a, b Rank) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), compare(reference, a.Contender, b.Contender))
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

// Name implements [Rule].
func (r Ranked) Name(guid string) string {
	kind := "write-"
	if r.Kind == Read {
		kind = "read-"
	}
	return fmt.Sprintf("%sp%04d-%s", r.Prefix(guid), r.Priority-LowestPriority, kind)
}

// Prefix implements [Rule].
func (Ranked) Prefix(guid string) string { return Published(guid) }

// Line implements [Rule].
func (Ranked) Line(names []string) []string {
	all := Ranks(names)
	line := make([]string, len(all))
	for i, c := range all {
		line[i] = c.Name
	}
	return line
}

// Room implements [Rule].
func (Ranked) Room(int, string) bool { return false }

// Lists implements [Rule].
func (Ranked) Lists() bool { return true }

// Announces implements [Rule].
func (Ranked) Announces() bool { return false }

// Claims implements [Rule].
func (Ranked) Claims() bool { return true }

// Downgrade implements [Rule].
func (r Ranked) Downgrade(own, guid string) (Rule, string, bool) {
	if r.Kind != Write {
		return r, "", false
	}
	number := strings.TrimPrefix(own, r.Name(guid))
	r.Kind = Read
	return r, r.Name(guid) + number, true
}

// Locate implements [Rule]. Everybody watches the nearest of those who rank before it, and
// who is first watches who holds, one of them. All that is waited for has to go before it
// can be our turn, so nothing is missed by not watching more.
func (r Ranked) Locate(s Sight, own, guid string) Position {
	var p Position
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
			if IsContender(name) {
				p.Err = OtherLayout(name)
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
func (r Ranked) mind(p *Position, names []string, standing Standing, me Rank) {
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
		mind(standing.Holder, HolderNode)
	case slices.Contains(names, standing.Former):
		mind(standing.Former, standing.Former) // an operator has deleted what it claimed, which it may not have heard yet
	}
	if r.Kind == Read {
		return
	}
	slices.Sort(standing.Readers)
	for _, reader := range standing.Readers {
		mind(reader, ReadersNode+"/"+reader)
	}
}

// Where it says who holds, below the line.
const (
	HolderNode  = "holder"  // the data of which is the name of the contender who excludes all others
	ReadersNode = "readers" // whose children are named like the contenders who share
)

// shares reports whether we need not wait for a contender at all.
func (r Ranked) shares(c Rank) bool { return r.Kind == Read && c.Kind == Read }
