package nodes

import (
	"strconv"
	"strings"
)

// This file has the names of contenders for locks with priorities, which the grammars of others
// read as their own:
//
//	_c_<GUID>-p<priority + 1000, four digits>-read-<number>
//	_c_<GUID>-p<priority + 1000, four digits>-write-<number>

// The limits of priorities.
const (
	LowestPriority  = -1000
	HighestPriority = 1000
)

// A Rank is the parsed name of a contender in a line with priorities.
type Rank struct {
	Contender
	Priority int
}

// The offsets of the parts of a name.
const (
	rankBegins = len("_c_00000000-0000-0000-0000-000000000000-")
	rankEnds   = rankBegins + len("p0000-")
)

// ParseRank reads the name of a contender in a line with priorities. It reports false for
// any other name.
func ParseRank(name string) (r Rank, ok bool) {
	if len(name) < rankEnds || !strings.HasPrefix(name, "_c_") || name[rankBegins] != 'p' || name[rankBegins-1] != '-' || name[rankEnds-1] != '-' {
		return r, false
	}
	p, err := strconv.ParseUint(name[rankBegins+1:rankEnds-1], 10, 16)
	// No such priority can be asked for.
	if err != nil || p > HighestPriority-LowestPriority {
		return r, false
	}
	// The name belongs to a contender up to here; its kind and number follow.
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
