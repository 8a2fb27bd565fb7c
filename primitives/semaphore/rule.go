package semaphore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
)

// admission is the rule of semaphores: a contender need not wait if its weight and the weights of
// all contenders ahead are within the limit in sum. So the holders are always the first in line,
// and no contender overtakes one that wants more than is free.
//
// The limit is read after the names, and may change at any time. The names are
//
//	_c_<GUID>-lease-<number>           of weight 1
//	_c_<GUID>-lease-<weight>-<number>  of others
type admission struct {
	Limit  int  // that the contender expects
	Any    bool // it accepts any recorded limit
	Weight int

	Numbered bool // its lease claims a number
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

// sortLeases returns the contenders among the children, in the order of the line.
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

// parseRecord parses a record.
func parseRecord(data string) (recordedLimit, error) {
	r, ok := nodes.ParseLimit(data)
	if !ok {
		return r, fmt.Errorf("%w: %w, want a limit", ErrLimit, nodes.ForeignData([]byte(data)))
	}
	return r, nil
}

// Check returns an error if a contender has no place in a line with this record. Only a new
// contender has to agree with the limit.
func (l admission) Check(r recordedLimit, isNew bool) error {
	switch {
	case isNew && !l.Any && r.Limit != l.Limit:
		return fmt.Errorf("%w is %d, not %d", ErrLimit, r.Limit, l.Limit)
	case l.Weight > r.Limit:
		return fmt.Errorf("%w is %d, less than the weight %d", ErrLimit, r.Limit, l.Weight)
	}
	return nil
}

// Room implements [line.Rule]. The number of contenders decides if the record says "unit": none has
// another weight than 1, and none will before the word is removed.
func (l admission) Room(contenders int, data string) bool {
	r, _, err := parseCondition(data)
	return err == nil && l.Check(r, true) == nil && l.Weight == 1 && r.Unit && contenders <= r.Limit
}

// Traits implements [line.Rule]. A holder that was granted its lease under a greater limit looks
// like a waiter to others, and they would wait for its grant: so it announces the grant. The ID of
// a lease has no order.
func (l admission) Traits() line.Traits {
	return line.Traits{Lists: l.Weight > 1, AnnouncesGrants: true, Unfenced: true, Claims: l.Numbered}
}

// Downgrade implements [line.Rule].
func (l admission) Downgrade(string) (line.Rule, string, bool) { return l, "", false }

// manyBeside is the largest number of other nodes that a contender watches; if there would be more,
// it watches all members.
const manyBeside = 8

// Locate implements [line.Rule]. The first in line need not wait, as far as the limit goes. For the
// others, [watchBehindUnits] and [watchBehindWeights] choose the nodes to watch.
func (l admission) Locate(s line.Snapshot, own, guid string) line.Position {
	var p line.Position
	me, weight, _ := nodes.ParseLease(own)
	prefix := l.Prefix(guid)
	ahead := 0
	var others []lease // the contenders ahead
	for _, name := range s.Names {
		if name == own {
			p.Present = true
			continue
		}
		c, w, ok := nodes.ParseLease(name)
		switch {
		case !ok && nodes.IsContender(name):
			p.Err = line.OtherLayout(nodes.OfSemaphore, name)
		case !ok:
		case strings.HasPrefix(name, prefix):
			p.Zombies = append(p.Zombies, name)
		case nodes.Compare(me.Number, c, me) > 0:
			p.AnnounceGrant = true
		default:
			p.Ahead++
			ahead = min(ahead+w, nodes.MaxLimit+1)
			others = append(others, lease{c, w})
		}
	}
	r, since, err := parseCondition(s.Data)
	if err == nil {
		err = l.Check(r, s.New)
	}
	switch {
	case !p.Present, p.Err != nil:
	case err != nil:
		p.Err = err
	case l.Weight > 1 && (r.Unit || s.Unproven && s.Czxid != 0 && since > s.Czxid):
		p.Invalid = true // others have counted it as 1, or may have
	case ahead+weight <= r.Limit:
		p.Ahead = 0
	default:
		slices.SortFunc(others, func(a, b lease) int { return nodes.Compare(me.Number, a.Contender, b.Contender) })
		if weight == 1 && ahead == len(others) {
			p.Watch, p.Beside = watchBehindUnits(others, r.Limit)
		} else {
			p.Watch, p.Beside = watchBehindWeights(others, ahead-r.Limit)
		}
	}
	return p
}

// A lease is a contender with its weight.
type lease struct {
	nodes.Contender
	weight int
}

// watchBehindUnits returns the targets of a waiter if all contenders ahead have the weight 1.
//
//   - The first waiter has room when any contender ahead has left: it watches all of them.
//   - The second waiter has room when any two contenders ahead have left, whatever the first waiter
//     does: it watches all of them except the oldest. The oldest mostly leaves first, and lets in
//     the first waiter. Then the second waiter already watches all that it has to.
//   - Every other waiter watches the two contenders directly ahead. They announce their grants,
//     unless they leave before. So it learns when it is the second. It also watches the contender
//     that is as far ahead as the limit: if contenders leave in the order in which they came, that
//     makes room for it.
//
// If the first and the second waiter would watch too many nodes, they watch all members instead.
//
// So a release wakes the waiter that it lets in, the waiter that is then the second, and the waiter
// as far behind as the limit. Where many leave at once, each wakes another one, and all places are
// handed on together (docs/adr/0085).
func watchBehindUnits(others []lease, limit int) (watch line.Target, beside []line.Target) {
	last := len(others) - 1
	switch more := len(others) - limit; {
	case more > 1:
		beside = []line.Target{{Node: others[last-1].Name, Until: line.Changed}}
		if more < last-1 {
			beside = append(beside, line.Target{Node: others[more].Name})
		}
		return line.Target{Node: others[last].Name, Until: line.Changed}, beside
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

// watchBehindWeights returns the targets of a waiter if contenders have any weights. excess is the
// weight by which the contenders ahead exceed the limit. The first waiter watches all members,
// because any departure may make room for it. Every other waiter watches
//
//   - its predecessor, which announces its grant;
//   - each contender ahead whose departure makes room for all the others ahead.
//
// So a departure wakes all the contenders that it lets in, and the next one behind them. A waiter
// chooses its targets by its newest list: if it has moved up since, the announcement or the
// departure of its predecessor wakes it. Then a first waiter that does not proceed may hold up the
// second.
func watchBehindWeights(others []lease, excess int) (watch line.Target, beside []line.Target) {
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
