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
