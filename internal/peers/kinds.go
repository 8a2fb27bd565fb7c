package peers

import (
	"strconv"
	"strings"
)

// A Library is another library of recipes.
type Library string

// The libraries that [Start] can run.
const (
	Curator Library = "curator"
	Kazoo   Library = "kazoo"

	// Discovery is Curator's x-discovery, which Debian does not have.
	Discovery Library = "discovery"
)

// A Kind is a recipe of a library.
type Kind string

// Curator's recipes.
const (
	CuratorMutex     Kind = "curator/mutex"     // InterProcessMutex
	CuratorRevocable Kind = "curator/revocable" // the same after makeRevocable: see Claim.Revoked
	CuratorRead      Kind = "curator/read"      // of InterProcessReadWriteLock
	CuratorWrite     Kind = "curator/write"
	// CuratorDowngraded is a writer that has become a reader: it acquires the write lock, then the
	// read lock, and releases the write lock.
	CuratorDowngraded Kind = "curator/downgraded"

	CuratorLatch    Kind = "curator/latch"    // LeaderLatch; the leader holds
	CuratorSelector Kind = "curator/selector" // LeaderSelector, likewise

	CuratorSemaphore Kind = "curator/semaphore" // InterProcessSemaphoreV2; see Kind.Of
	CuratorBarrier   Kind = "curator/barrier"   // DistributedBarrier; a claim holds when its wait is over
	CuratorDouble    Kind = "curator/double"    // DistributedDoubleBarrier; see Kind.Of; a claim holds from enter to leave
	CuratorQueue     Kind = "curator/queue"     // SimpleDistributedQueue; a claim holds at once: see Claim.Put

	CuratorMember Kind = "curator/member" // GroupMember, whose payload is its name; a claim holds at once

	CuratorLong    Kind = "curator/long"    // DistributedAtomicLong; a claim holds at once: see Claim.Add
	CuratorInteger Kind = "curator/integer" // DistributedAtomicInteger, likewise
	CuratorShared  Kind = "curator/shared"  // SharedCount, likewise
)

// The recipes of Curator's x-discovery. A path is that of a service.
const (
	DiscoveryInstance Kind = "discovery/instance" // the claim holds at once; Kind.Of is the port, which decides what else the instance has
	DiscoveryNew      Kind = "discovery/new"      // likewise, disabled, in the format of newer versions

	DiscoveryQuery    Kind = "discovery/query" // for [Peer.Line] only, as are the next: the instances as each class of Curator sees them
	DiscoveryCache    Kind = "discovery/cache"
	DiscoveryProvider Kind = "discovery/provider"
)

// The recipes of kazoo.
const (
	KazooLock Kind = "kazoo/lock"
	// KazooPattern is a Lock that also respects nodes whose names follow the published recipe:
	// extra_lock_patterns=["-lock-"]. Its own nodes have kazoo's names.
	KazooPattern Kind = "kazoo/pattern"
	// KazooStandard is a subclass of Lock whose nodes have the names of the published recipe.
	KazooStandard Kind = "kazoo/standard"
	// KazooRead of kazoo 2.8 waits also for writers behind it, and these wait for it: readers and
	// writers block each other forever.
	KazooRead Kind = "kazoo/read"
	// KazooLaterRead has the fix of kazoo 2.9: it is the ReadLock of later versions, and a subclass
	// in 2.8.
	KazooLaterRead Kind = "kazoo/later-read"
	KazooWrite     Kind = "kazoo/write"
	KazooElection  Kind = "kazoo/election" // the leader holds

	KazooSemaphore    Kind = "kazoo/semaphore" // see Kind.Of
	KazooBarrier      Kind = "kazoo/barrier"   // like CuratorBarrier, but a wait cannot be cancelled
	KazooDouble       Kind = "kazoo/double"    // like CuratorDouble, but an enter cannot be cancelled
	KazooQueue        Kind = "kazoo/queue"     // like CuratorQueue
	KazooLockingQueue Kind = "kazoo/locking-queue"

	KazooParty        Kind = "kazoo/party"         // Party; a claim holds at once
	KazooShallowParty Kind = "kazoo/shallow-party" // ShallowParty, likewise

	KazooCounter        Kind = "kazoo/counter"         // like CuratorLong
	KazooCuratorCounter Kind = "kazoo/curator-counter" // with support_curator
)

// Of returns the kind with a parameter n: the leases of a semaphore, or the parties of a double
// barrier. Without Of, n is 1.
func (k Kind) Of(n int) Kind { return k + "=" + Kind(strconv.Itoa(n)) }

// Library returns the library that has the recipe.
func (k Kind) Library() Library {
	library, _, _ := strings.Cut(string(k), "/")
	return Library(library)
}

// Shared reports whether several contenders of this kind may hold at once.
func (k Kind) Shared() bool {
	return k == CuratorRead || k == CuratorDowngraded || k == KazooRead || k == KazooLaterRead || k.Limit() > 1
}

// Limit returns the parameter of [Kind.Of], and 0 without one.
func (k Kind) Limit() int {
	_, limit, _ := strings.Cut(string(k), "=")
	n, _ := strconv.Atoi(limit)
	return n
}

// dir returns the directory of the line, below the path.
func (k Kind) dir() string {
	if strings.HasPrefix(string(k), string(CuratorSemaphore)) {
		return "leases"
	}
	return ""
}

// name returns the name of the kind in the protocol with the library's program.
func (k Kind) name() string {
	_, name, _ := strings.Cut(string(k), "/")
	return name
}
