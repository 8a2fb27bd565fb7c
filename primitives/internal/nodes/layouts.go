package nodes

import (
	"strings"

	"github.com/zkactors/zkactors/internal/znode"
)

// This file has the names of contenders in all layouts that are known: of this library, of
// ZooKeeper's recipes, of Curator and of kazoo.
//
//	lock-, read-, write-       the published recipes; the first of them Curator's mutex too
//	__READ__, __WRIT__         Curator's read-write lock
//	latch-                     Curator's LeaderLatch
//	__lock__, __rlock__        kazoo's locks and election
//	n_                         our elections, and ZooKeeper's
//	lease-                     our semaphores, and Curator's
//	x-<session>-               ZooKeeper's WriteLock
//	<32 hexadecimal digits>    kazoo's semaphore

// The grammars, by recipe and layout.
//
//nolint:gochecknoglobals // they are constant
var (
	StandardLock = Grammar{Recipe: OfLock, Prefix: znode.GUIDName, Separated: true, Marks: []Mark{{"lock-", Exclusive}, {"read-", Read}, {"write-", Write}}}
	CuratorLock  = Grammar{Recipe: OfLock, Prefix: znode.GUIDName, Separated: true, Marks: []Mark{{"lock-", Exclusive}, {"__READ__", Read}, {"__WRIT__", Write}}}
	KazooLock    = Grammar{Recipe: OfLock, Prefix: kazooName, Marks: []Mark{{"__lock__", Exclusive}, {"__lock__", Write}, {"__rlock__", Read}}}

	// PriorityLock has the names of locks with priorities, but for the priority.
	PriorityLock = Grammar{Recipe: OfLock, Prefix: znode.GUIDName, Separated: true, Marks: []Mark{{"read-", Read}, {"write-", Write}}}

	StandardElection = Grammar{Recipe: OfElection, Prefix: znode.GUIDName, Separated: true, Marks: []Mark{{"n_", Exclusive}}}
	CuratorElection  = Grammar{Recipe: OfElection, Prefix: znode.GUIDName, Separated: true, Marks: []Mark{{"latch-", Exclusive}}}
	KazooElection    = Grammar{Recipe: OfElection, Prefix: kazooName, Marks: []Mark{{"__lock__", Exclusive}}}

	// SelectorElection has the names of CuratorLock, as Curator's LeaderSelector is a lock.
	SelectorElection = Grammar{Recipe: OfElection, Prefix: znode.GUIDName, Separated: true, Marks: []Mark{{"lock-", Exclusive}}}

	// Leases has the leases of the weight 1.
	Leases = Grammar{Recipe: OfSemaphore, Prefix: znode.GUIDName, Separated: true, Marks: []Mark{{LeaseMark, Exclusive}}}
)

// The nodes that say which contenders hold a lock with priorities, below its path.
const (
	PriorityHolder  = "holder"  // its data is the name of the writer that holds
	PriorityReaders = "readers" // its children are named like the readers that hold
)

// PriorityMark is the first line of the data of the path of a lock with priorities. The second is
// the name of the writer that has held last.
const PriorityMark = "priority 1"

// IsPriority reports whether a path with the data belongs to a lock with priorities.
func IsPriority(data []byte) bool {
	first, _, _ := strings.Cut(string(data), "\n")
	return first == PriorityMark
}

// kazooName is [znode.GUIDName] of kazoo.
func kazooName(guid, rest string) string { return strings.ReplaceAll(guid, "-", "") + rest }

// known are the grammars of the names above, but for leases, WriteLock and kazoo's semaphore.
//
//nolint:gochecknoglobals // they are constant
var known = []*Grammar{&StandardLock, &CuratorLock, &KazooLock, &StandardElection, &CuratorElection}

// IsContender reports whether a contender in a line of any known layout has the name.
func IsContender(name string) bool {
	for _, g := range known {
		if _, ok := g.Parse(name); ok {
			return true
		}
	}
	_, _, isLease := ParseLease(name)
	_, isWriteLock := ParseWriteLock(name)
	return isLease || isWriteLock || IsKazooLease(name)
}

// IsUnknown reports whether a name ends with a number that the server may have appended, and is of
// no known layout or recipe. If its node is ephemeral, it counts as a contender: for a lock that is
// written by hand, such as 0000000001. Any other node of the name is a user's.
func IsUnknown(name string) bool {
	if isMarked(name) || !isNumbered(name) {
		return false
	}
	owner, _ := Whose(name)
	return owner == ""
}

// digits is the number of digits that the server appends. Only some negative numbers have fewer: to
// these it comes after three billion nodes.
const digits = 10

// isNumbered reports whether a name ends with a number that the server may have appended.
func isNumbered(name string) bool {
	i := len(name) - digits
	if i < 0 {
		return false
	}
	for _, c := range []byte(name[i:]) { // most names need no more
		if c < '0' || c > '9' {
			return false
		}
	}
	if _, ok := ParseNumber(name[i:]); ok {
		return true
	}
	_, ok := ParseNumber(name[max(0, i-1):])
	return ok
}

// isMarked recognises the names of most contenders at the price of a comparison, because a line may
// have thousands of them. It may miss some.
func isMarked(name string) bool {
	const guid, hex = len("_c_00000000-0000-0000-0000-000000000000-"), 32
	switch end := len(name) - digits; {
	case end >= guid && name[:3] == "_c_" && name[guid-1] == '-':
		switch name[guid:end] {
		case "lock-", "read-", "write-", "__READ__", "__WRIT__", "latch-", "n_", LeaseMark:
			return true
		}
	case end > hex:
		return name[hex:end] == "__lock__" || name[hex:end] == "__rlock__"
	}
	return false
}

// ParseWriteLock reads the name of a contender for ZooKeeper's WriteLock.
func ParseWriteLock(name string) (c Contender, ok bool) {
	rest, begins := strings.CutPrefix(name, "x-")
	i := strings.Index(strings.TrimPrefix(rest, "-"), "-") // the id of a session may be negative
	if !begins || i <= 0 {
		return Contender{}, false
	}
	i += len(rest) - len(strings.TrimPrefix(rest, "-"))
	n, ok := ParseNumber(rest[i+1:])
	return Contender{Name: name, Number: n}, ok && isHex(strings.TrimPrefix(rest[:i], "-"))
}

// IsKeyShard recognises a shard of the keys that a queue has been given: two hexadecimal digits.
func IsKeyShard(name string) bool { return len(name) == 2 && isHex(name) }

// IsKazooLease recognises the leases of kazoo's semaphore.
func IsKazooLease(name string) bool { return len(name) == 32 && isHex(name) }

func isHex(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) }) < 0
}
