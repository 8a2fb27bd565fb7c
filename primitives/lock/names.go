package lock

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file is the grammar of contenders' names, and their order.
//
//	name   = [ anything "-" ] "lock-" number
//	number = what printf("%010d") makes of a signed 32-bit integer
//
// This library and Curator name their nodes _c_<uuid>-lock-<number>, go-zookeeper
// _c_<32 hex digits>-lock-<number>. Children with other names are no contenders.

// guid returns the GUID of the n-th attempt of the handle whose GUID is id: a
// UUID in text form that differs from id in its last eight digits only.
func guid(id string, n int) string { return fmt.Sprintf("%s%08x", id[:28], uint32(n)) }

// prefix begins the names of all nodes that were created with this GUID.
func prefix(guid string) string { return "_c_" + guid + "-" }

// parse returns the number at the end of the name of a contender, and whether
// the name is one of a contender at all.
func parse(name string) (number int32, ok bool) {
	const mark = "lock-"
	i := strings.LastIndex(name, mark)
	if i < 0 || i > 0 && name[i-1] != '-' {
		return 0, false
	}
	digits := name[i+len(mark):]
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		return 0, false
	}
	// At least ten characters, no more than it takes, and a sign only if negative.
	switch signed, long := strings.HasPrefix(digits, "-"), len(digits) == 11; {
	case len(digits) < 10, digits[0] == '+', signed != (n < 0), long && (!signed || digits[1] == '0'):
		return 0, false
	}
	return int32(n), len(digits) <= 11
}

// compare orders two contenders. The numbers that the server hands out wrap
// from 2147483647 to -2147483648; they are compared by their distance from a reference
// among them, which keeps the order as long as the line is shorter than 2³¹.
func compare(reference, a int32, nameA string, b int32, nameB string) int {
	return cmp.Or(cmp.Compare(a-reference, b-reference), cmp.Compare(nameA, nameB))
}

// line returns the contenders among the children of a lock, in the order in
// which they stand in line.
func line(children []string) []string {
	type contender struct {
		name   string
		number int32
	}
	var all []contender
	for _, name := range children {
		if n, ok := parse(name); ok {
			all = append(all, contender{name, n})
		}
	}
	if len(all) == 0 {
		return nil
	}
	reference := all[0].number
	slices.SortFunc(all, func(a, b contender) int {
		return compare(reference, a.number, a.name, b.number, b.name)
	})
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.name
	}
	return names
}

// A position is what one contender has to know about the line.
type position struct {
	present bool     // the contender is in line
	ahead   int      // how many others come first
	next    string   // the one directly ahead; "" if none
	second  string   // the one directly ahead of that; "" if none
	zombies []string // other nodes with the contender's own GUID; they do not count
}

// locate finds the contender own, created with the given GUID, among the
// children of the lock.
func locate(children []string, own, guid string) position {
	var p position
	reference, _ := parse(own)
	var next, second int32
	for _, name := range children {
		n, ok := parse(name)
		switch {
		case name == own:
			p.present = true
		case !ok:
		case strings.HasPrefix(name, prefix(guid)):
			p.zombies = append(p.zombies, name)
		case compare(reference, n, name, reference, own) > 0:
		default:
			p.ahead++
			if p.next == "" || compare(reference, n, name, next, p.next) > 0 {
				p.second, second = p.next, next
				p.next, next = name, n
			} else if p.second == "" || compare(reference, n, name, second, p.second) > 0 {
				p.second, second = name, n
			}
		}
	}
	return p
}
