package peers

import "strings"

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
	CuratorLatch     Kind = "curator/latch"    // LeaderLatch; whoever leads holds
	CuratorSelector  Kind = "curator/selector" // LeaderSelector, likewise
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
	KazooElection  Kind = "kazoo/election" // whoever leads holds
)

// Library returns whose recipe it is.
func (k Kind) Library() Library {
	library, _, _ := strings.Cut(string(k), "/")
	return Library(library)
}

// Shared reports whether several may hold at once.
func (k Kind) Shared() bool { return k == CuratorRead || k == KazooRead || k == KazooLaterRead }

// name is what the library's program calls it.
func (k Kind) name() string {
	_, name, _ := strings.Cut(string(k), "/")
	return name
}
