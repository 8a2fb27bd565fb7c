package line

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrLimit means that a contender does not agree with what is recorded of the limit.
var ErrLimit = errors.New("limit")

// Leases is the rule of semaphores: whose weight, with the weights of all who stand
// ahead, is within the limit need not wait. So those who need not are always the first
// in line, and nobody overtakes one who wants more than is free.
//
// The limit is what is read beside the names; it may change at any time. The names are
//
//	_c_<GUID>-lease-<number>           of weight 1
//	_c_<GUID>-lease-<weight>-<number>  of others
type Leases struct {
	Limit  int  // that the contender takes the line to have
	Any    bool // it takes whichever is recorded
	Weight int
}

const leaseMark = "lease-"

// Name implements [Rule].
func (l Leases) Name(guid string) string {
	if l.Weight == 1 {
		return Published(guid) + leaseMark
	}
	return Published(guid) + leaseMark + strconv.Itoa(l.Weight) + "-"
}

// Prefix implements [Rule].
func (l Leases) Prefix(guid string) string { return Published(guid) }

// Line implements [Rule].
func (l Leases) Line(names []string) []string { return namesOf(SortLeases(names)) }

// SortLeases returns the contenders among the children, in the order in which they stand
// in line.
func SortLeases(names []string) []Contender {
	var all []Contender
	for _, name := range names {
		if c, _, ok := ParseLease(name); ok {
			all = append(all, c)
		}
	}
	order(all)
	return all
}

// ParseLease reads the name of a contender.
func ParseLease(name string) (c Contender, weight int, ok bool) {
	i := strings.LastIndex(name, leaseMark)
	if i < 0 || i > 0 && name[i-1] != '-' {
		return Contender{}, 0, false
	}
	rest := name[i+len(leaseMark):]
	if n, ok := ParseNumber(rest); ok {
		return Contender{Name: name, Number: n}, 1, true
	}
	before, after, _ := strings.Cut(rest, "-")
	weight, ok = parsePositive(before)
	n, numbered := ParseNumber(after)
	return Contender{Name: name, Number: n}, weight, ok && numbered
}

// parsePositive reads a positive number as [strconv.Itoa] writes it.
func parsePositive(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n > 0 && n <= MaxLimit && text == strconv.Itoa(n)
}

// MaxLimit is the greatest limit, and weight, that there can be.
const MaxLimit = 1_000_000_000

// A Record is what is recorded of a line of leases.
type Record struct {
	Limit int
	Unit  bool // no contender has had another weight than 1 since it was made; once taken back, for good
}

const unitMark = " unit"

func (r Record) String() string {
	if r.Unit {
		return strconv.Itoa(r.Limit) + unitMark
	}
	return strconv.Itoa(r.Limit)
}

// ParseRecord reads a record.
func ParseRecord(data string) (r Record, err error) {
	text, unit := strings.CutSuffix(strings.TrimSpace(data), unitMark)
	limit, ok := parsePositive(text)
	if !ok {
		return Record{}, fmt.Errorf("%w: the record %.40q is not a number; set it with SetLimit", ErrLimit, data)
	}
	return Record{limit, unit}, nil
}

// Check reports why a contender has no place in a line with this record. Only one that
// is new has to agree about the limit.
func (l Leases) Check(r Record, isNew bool) error {
	switch {
	case isNew && !l.Any && r.Limit != l.Limit:
		return fmt.Errorf("%w is %d, not %d", ErrLimit, r.Limit, l.Limit)
	case l.Weight > r.Limit:
		return fmt.Errorf("%w is %d, less than the weight %d", ErrLimit, r.Limit, l.Weight)
	}
	return nil
}

// Room implements [Rule]. To count contenders is enough where it is recorded that none
// has another weight than 1, nor will before that is taken back.
func (l Leases) Room(contenders int, data string) bool {
	r, err := ParseRecord(data)
	return err == nil && l.Check(r, true) == nil && l.Weight == 1 && r.Unit && contenders <= r.Limit
}

// Lists implements [Rule].
func (l Leases) Lists() bool { return l.Weight > 1 }

// Announces implements [Rule]. Who was let in under a greater limit looks to others as if
// it waited, and they would wait for its turn.
func (l Leases) Announces() bool { return true }

// Claims implements [Rule].
func (l Leases) Claims() bool { return false }

// Downgrade implements [Rule].
func (l Leases) Downgrade(string, string) (Rule, string, bool) { return l, "", false }

// manyBeside is how many nodes of others a contender watches, rather than all members.
const manyBeside = 8

// A lease is a contender by its name, and its weight.
type lease struct {
	name   string
	weight int
}

// Locate implements [Rule]. The contenders that need not wait are the first in line. The
// first that has to wait watches all members, because any departure may make room for it.
// Every other watches
//
//   - its predecessor, which announces that it was let in;
//   - each contender ahead whose departure makes room for all that stand ahead of it; for the
//     second that has to wait, that is every contender ahead.
//
// So a departure wakes the contenders that it lets in, however many, and the one behind
// them. The second waiter does not need the first one to find that there is room for both. A
// waiter watches what it found when it last looked: if it moved up since, its predecessor's
// announcement, or departure, wakes it.
func (l Leases) Locate(s Sight, own, guid string) Position {
	var p Position
	me, weight, _ := ParseLease(own)
	prefix := l.Prefix(guid)
	var nearest Contender
	ahead := 0
	var others []lease // those ahead
	for _, name := range s.Names {
		if name == own {
			p.Present = true
			continue
		}
		c, w, ok := ParseLease(name)
		switch {
		case !ok && IsContender(name):
			p.Err = OtherLayout(name)
		case !ok:
		case strings.HasPrefix(name, prefix):
			p.Zombies = append(p.Zombies, name)
		case compare(me.Number, c, me) > 0:
			p.Announce = true
		default:
			p.Ahead++
			ahead = min(ahead+w, MaxLimit+1)
			others = append(others, lease{name, w})
			if nearest.Name == "" || compare(me.Number, c, nearest) > 0 {
				nearest = c
			}
		}
	}
	r, err := ParseRecord(s.Data)
	if err == nil {
		err = l.Check(r, s.New)
	}
	switch {
	case !p.Present, p.Err != nil:
	case err != nil:
		p.Err = err
	case l.Weight > 1 && r.Unit:
		p.Invalid = true // others have counted it for one
	case ahead+weight <= r.Limit:
		p.Ahead = 0
	case ahead <= r.Limit:
		p.Watch = Target{Until: Members}
	default:
		p.Watch = Target{Node: nearest.Name, Until: Changed}
		for _, o := range others {
			if o.weight >= ahead-r.Limit && o.name != nearest.Name {
				p.Beside = append(p.Beside, o.name)
			}
		}
		if slices.Sort(p.Beside); len(p.Beside) > manyBeside {
			p.Watch, p.Beside = Target{Until: Members}, nil
		}
	}
	return p
}
