package semaphore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
)

// admission is the rule of semaphores: whose weight, with the weights of all who stand
// ahead, is within the limit need not wait. So the holders are always the first in
// line, and no contender overtakes one that wants more than is free.
//
// The limit is read beside the names; it may change at any time. The names are
//
//	_c_<GUID>-lease-<number>           of weight 1
//	_c_<GUID>-lease-<weight>-<number>  of others
type admission struct {
	Limit  int  // that the contender takes the line to have
	Any    bool // it takes whichever is recorded
	Weight int
}

// Name implements [line.Rule].
func (l admission) Name(guid string) string {
	if l.Weight == 1 {
		return znode.GUIDName(guid, nodes.LeaseMark)
	}
	return znode.GUIDName(guid, nodes.LeaseMark) + strconv.Itoa(l.Weight) + "-"
}

// Prefix implements [line.Rule].
func (l admission) Prefix(guid string) string { return znode.GUIDName(guid, "") }

// Line implements [line.Rule].
func (l admission) Line(names []string) []string {
	return recipe.Map(sortLeases(names), func(c nodes.Contender) string { return c.Name })
}

// sortLeases returns the contenders among the children, in the order in which they stand
// in line.
func sortLeases(names []string) []nodes.Contender {
	var all []nodes.Contender
	for _, name := range names {
		if c, _, ok := nodes.ParseLease(name); ok {
			all = append(all, c)
		}
	}
	nodes.Sort(all)
	return all
}

// recordedLimit is the record of a line of leases.
type recordedLimit = nodes.Limit

// parseRecord reads a record.
func parseRecord(data string) (recordedLimit, error) {
	r, ok := nodes.ParseLimit(data)
	if !ok {
		return r, fmt.Errorf("%w: the record %.40q is not a number; set it with SetLimit", ErrLimit, data)
	}
	return r, nil
}

// Check reports why a contender has no place in a line with this record. Only one that
// is new has to agree about the limit.
func (l admission) Check(r recordedLimit, isNew bool) error {
	switch {
	case isNew && !l.Any && r.Limit != l.Limit:
		return fmt.Errorf("%w is %d, not %d", ErrLimit, r.Limit, l.Limit)
	case l.Weight > r.Limit:
		return fmt.Errorf("%w is %d, less than the weight %d", ErrLimit, r.Limit, l.Weight)
	}
	return nil
}

// Room implements [line.Rule]. To count contenders is enough where it is recorded that none
// has another weight than 1, nor will before that is taken back.
func (l admission) Room(contenders int, data string) bool {
	r, _, err := parseSight(data)
	return err == nil && l.Check(r, true) == nil && l.Weight == 1 && r.Unit && contenders <= r.Limit
}

// Lists implements [line.Rule].
func (l admission) Lists() bool { return l.Weight > 1 }

// Announces implements [line.Rule]. A contender that was let in under a greater limit looks to
// others as if it waited, and they would wait for its turn.
func (l admission) Announces() bool { return true }

// Claims implements [line.Rule].
func (l admission) Claims() bool { return false }

// Downgrade implements [line.Rule].
func (l admission) Downgrade(string) (line.Rule, string, bool) { return l, "", false }

// manyBeside is the number of nodes of others that a contender watches, rather than all members.
const manyBeside = 8

// Locate implements [line.Rule]. The contenders that need not wait are the first in line; what the
// others watch is decided by [follow] and [followWeights].
func (l admission) Locate(s line.Sight, own, guid string) line.Position {
	var p line.Position
	me, weight, _ := nodes.ParseLease(own)
	prefix := l.Prefix(guid)
	ahead := 0
	var others []lease // those ahead
	for _, name := range s.Names {
		if name == own {
			p.Present = true
			continue
		}
		c, w, ok := nodes.ParseLease(name)
		switch {
		case !ok && nodes.IsContender(name):
			p.Err = line.OtherLayout(name)
		case !ok:
		case strings.HasPrefix(name, prefix):
			p.Zombies = append(p.Zombies, name)
		case nodes.Compare(me.Number, c, me) > 0:
			p.Announce = true
		default:
			p.Ahead++
			ahead = min(ahead+w, nodes.MaxLimit+1)
			others = append(others, lease{c, w})
		}
	}
	r, since, err := parseSight(s.Data)
	if err == nil {
		err = l.Check(r, s.New)
	}
	switch {
	case !p.Present, p.Err != nil:
	case err != nil:
		p.Err = err
	case l.Weight > 1 && (r.Unit || s.Unproven && s.Czxid != 0 && since > s.Czxid):
		p.Invalid = true // others have counted it for one, or may have by the record that it found
	case ahead+weight <= r.Limit:
		p.Ahead = 0
	default:
		slices.SortFunc(others, func(a, b lease) int { return nodes.Compare(me.Number, a.Contender, b.Contender) })
		if weight == 1 && ahead == len(others) {
			p.Watch, p.Beside = follow(others, r.Limit)
		} else {
			p.Watch, p.Beside = followWeights(others, ahead-r.Limit)
		}
	}
	return p
}

// A lease is a contender, and its weight.
type lease struct {
	nodes.Contender
	weight int
}

// follow returns what a waiter behind units watches.
//
//   - The first that waits has room when any of those ahead has left: it watches all of them.
//   - The second has room when any two of those ahead have left, whatever the first waiter does: it watches
//     all of them but the oldest. When the oldest leaves first, as it mostly does, it lets in the
//     first waiter. By then the second one watches all that it has to.
//   - Every other watches the two that stand next ahead, which announce that they are let in, unless they
//     leave before: so it learns that it is second now, and two go on at a time where many places are free.
//
// The first and the second watch all members instead, if these are many.
//
// So a release wakes the waiter that it lets in, and the waiter that is second now. Where another
// than the oldest leaves, it wakes the waiter between them as well.
func follow(others []lease, limit int) (watch line.Target, beside []line.Target) {
	last := len(others) - 1
	switch more := len(others) - limit; {
	case more > 1:
		return line.Target{Node: others[last].Name, Until: line.Changed}, []line.Target{{Node: others[last-1].Name, Until: line.Changed}}
	case limit > manyBeside:
		return line.Target{Until: line.Members}, nil
	case more == 1:
		others, last = others[1:], last-1
	}
	for _, o := range others[:last] {
		beside = append(beside, line.Target{Node: o.Name})
	}
	return line.Target{Node: others[last].Name}, beside
}

// followWeights returns what a waiter watches behind leases of any weights, which exceed the limit
// by so much. The first that has to wait watches all members, because any departure may make room for it.
// Every other watches
//
//   - its predecessor, which announces that it was let in;
//   - each contender ahead whose departure makes room for all that stand ahead of it.
//
// So a departure wakes the contenders that it lets in, however many, and the next one behind them. A
// waiter watches what it found when it last looked: if it moved up since, its predecessor's announcement,
// or departure, wakes it. A first waiter that does not proceed may hold up the second, then.
func followWeights(others []lease, excess int) (watch line.Target, beside []line.Target) {
	if excess <= 0 {
		return line.Target{Until: line.Members}, nil
	}
	last := len(others) - 1
	for _, o := range others[:last] {
		if o.weight >= excess {
			beside = append(beside, line.Target{Node: o.Name})
		}
	}
	if len(beside) > manyBeside {
		return line.Target{Until: line.Members}, nil
	}
	return line.Target{Node: others[last].Name, Until: line.Changed}, beside
}
