package peers

import (
	"strconv"
	"strings"
)

// A Library is one that has recipes of its own.
type Library string

// The libraries that can be started.
const (
	Curator Library = "curator" // 5.4.0 in Debian 12
	Kazoo   Library = "kazoo"   // 2.8.0
)

// A Kind is a recipe of a library.
type Kind string

// Curator's recipes.
const (
	CuratorMutex     Kind = "curator/mutex"     // InterProcessMutex
	CuratorRevocable Kind = "curator/revocable" // the same after makeRevocable: see Claim.Revoked
	CuratorRead      Kind = "curator/read"      // of InterProcessReadWriteLock
	CuratorWrite     Kind = "curator/write"
	CuratorLatch     Kind = "curator/latch"    // LeaderLatch; the leader holds
	CuratorSelector  Kind = "curator/selector" // LeaderSelector, likewise

	CuratorSemaphore Kind = "curator/semaphore" // InterProcessSemaphoreV2; see Kind.Of
	CuratorBarrier   Kind = "curator/barrier"   // DistributedBarrier; a claim holds when its wait is over
	CuratorDouble    Kind = "curator/double"    // DistributedDoubleBarrier; see Kind.Of; a claim holds from enter to leave
	CuratorQueue     Kind = "curator/queue"     // SimpleDistributedQueue; a claim holds at once: see Claim.Put
)

// The recipes of kazoo.
const (
	KazooLock Kind = "kazoo/lock"
	// KazooPattern is a Lock that also respects nodes named as the published recipe
	// names them: extra_lock_patterns=["-lock-"]. Its own are named as kazoo's.
	KazooPattern Kind = "kazoo/pattern"
	// KazooStandard is a subclass of Lock whose nodes are named as the published recipe
	// names them.
	KazooStandard Kind = "kazoo/standard"
	// KazooRead waits for writers behind it too, which wait for it: readers and writers
	// of kazoo 2.8 block each other for ever.
	KazooRead Kind = "kazoo/read"
	// KazooLaterRead is as kazoo 2.9 has mended it.
	KazooLaterRead Kind = "kazoo/later-read"
	KazooWrite     Kind = "kazoo/write"
	KazooElection  Kind = "kazoo/election" // the leader holds

	KazooSemaphore    Kind = "kazoo/semaphore" // see Kind.Of
	KazooBarrier      Kind = "kazoo/barrier"   // as CuratorBarrier, but that a wait cannot be cancelled
	KazooDouble       Kind = "kazoo/double"    // as CuratorDouble, but that an enter cannot be cancelled
	KazooQueue        Kind = "kazoo/queue"     // as CuratorQueue
	KazooLockingQueue Kind = "kazoo/locking-queue"
)

// Of returns a kind for n: the leases of a semaphore, or the parties of a double barrier. Without
// it n is 1.
func (k Kind) Of(n int) Kind { return k + "=" + Kind(strconv.Itoa(n)) }

// Library returns whose recipe it is.
func (k Kind) Library() Library {
	library, _, _ := strings.Cut(string(k), "/")
	return Library(library)
}

// Shared reports whether several may hold at once.
func (k Kind) Shared() bool {
	return k == CuratorRead || k == KazooRead || k == KazooLaterRead || k.Limit() > 1
}

// Limit returns the number of [Kind.Of], and 0 if there is none.
func (k Kind) Limit() int {
	_, limit, _ := strings.Cut(string(k), "=")
	n, _ := strconv.Atoi(limit)
	return n
}

// dir is where those of a kind stand in line, below the path.
func (k Kind) dir() string {
	if strings.HasPrefix(string(k), string(CuratorSemaphore)) {
		return "leases"
	}
	return ""
}

// name is what the library's program calls it.
func (k Kind) name() string {
	_, name, _ := strings.Cut(string(k), "/")
	return name
}
