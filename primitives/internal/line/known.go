package line

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// This file recognises the lines of other libraries: how contenders are named by the layouts
// of this library, of ZooKeeper's recipes, of Curator and of kazoo.
//
//	lock-, read-, write-       the published recipes; the first of them Curator's mutex too
//	__READ__, __WRIT__         Curator's read-write lock
//	latch-                     Curator's LeaderLatch
//	__lock__, __rlock__        kazoo's locks and election
//	n_                         our elections, and ZooKeeper's
//	lease-                     our semaphores, and Curator's
//	x-<session>-               ZooKeeper's WriteLock
//	<32 hexadecimal digits>    kazoo's semaphore

// known are the grammars of all these, but for the last three.
//
//nolint:gochecknoglobals // they are constant
var known = []Grammar{
	{Separated: true, Marks: []Mark{
		{Text: "lock-"},
		{Text: "read-"},
		{Text: "write-"},
		{Text: "__READ__"},
		{Text: "__WRIT__"},
		{Text: "latch-"},
		{Text: "lease-"},
		{Text: "n_"},
	}},
	{Marks: []Mark{{Text: "__lock__"}, {Text: "__rlock__"}}},
}

// IsContender reports whether a name is that of a contender in a line of any known layout.
func IsContender(name string) bool {
	for i := range known {
		if _, ok := known[i].Parse(name); ok {
			return true
		}
	}
	return isWeightedLease(name) || isWriteLock(name) || isKazooLease(name)
}

// isWeightedLease recognises the leases of our semaphores whose weight is not 1.
func isWeightedLease(name string) bool {
	const mark = "lease-"
	i := strings.LastIndex(name, mark)
	if i < 0 || i > 0 && name[i-1] != '-' {
		return false
	}
	weight, number, _ := strings.Cut(name[i+len(mark):], "-")
	n, err := strconv.Atoi(weight)
	_, ok := ParseNumber(number)
	return ok && err == nil && n > 0 && weight == strconv.Itoa(n)
}

func isWriteLock(name string) bool {
	rest, begins := strings.CutPrefix(name, "x-")
	i := strings.Index(strings.TrimPrefix(rest, "-"), "-") // the id of a session may be negative
	if !begins || i <= 0 {
		return false
	}
	i += len(rest) - len(strings.TrimPrefix(rest, "-"))
	_, ok := ParseNumber(rest[i+1:])
	return ok && isHex(strings.TrimPrefix(rest[:i], "-"))
}

func isKazooLease(name string) bool { return len(name) == 32 && isHex(name) }

// isRanked recognises contenders for locks with priorities, whose names the grammars of others
// read as their own.
func isRanked(name string) bool {
	const guid, digits = len("_c_00000000-0000-0000-0000-000000000000"), len("0000")
	if len(name) < guid+len("-p-")+digits || !strings.HasPrefix(name, "_c_") || name[guid:guid+2] != "-p" {
		return false
	}
	p, kind := name[guid+2:][:digits], name[guid+2:][digits:]
	number, reads := strings.CutPrefix(kind, "-read-")
	number, writes := strings.CutPrefix(number, "-write-")
	_, ok := ParseNumber(number)
	return ok && reads != writes && strings.Trim(p, "0123456789") == ""
}

func isHex(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) }) < 0
}

// OtherLayout is the error of a contender that finds one of a layout that its own does not
// exclude.
func OtherLayout(name string) error { return fmt.Errorf("%w: there is %s", ErrLayout, name) }

// Vacant reports whether no contender is among the children of the node at path, which is not the
// line but above it: else it is [ErrLayout]. Children of which theirs is true belong to others too.
func Vacant(requests client.Async, path string, theirs func(name string) bool, answer func(error)) {
	requests.Children(path, func(names []string, _ *session.Stat, err error) {
		if err == nil {
			err = VacantAmong(names, theirs)
		}
		answer(err)
	})
}

// VacantAmong is [Vacant] of children that were read.
func VacantAmong(names []string, theirs func(name string) bool) error {
	i := slices.IndexFunc(names, func(name string) bool { return IsContender(name) || theirs(name) })
	if i < 0 {
		return nil
	}
	return OtherLayout(names[i])
}
