package nodes

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// This file tells to which recipe a path belongs: by the record in its data, or by the names of its
// children. Every recipe refuses a path of another one (docs/pairs.md).

// ErrForeign means that a path, or a node, belongs to another recipe. Recipes export it.
var ErrForeign = errors.New("of another recipe")

// A Recipe is the owner of a path, in the words of an error.
type Recipe string

// The recipes that are recognised.
const (
	OfLock         Recipe = "a lock"
	OfPriorities   Recipe = "a lock with priorities"
	OfOnce         Recipe = "a function that runs once"
	OfSemaphore    Recipe = "a semaphore"
	OfElection     Recipe = "an election"
	OfBarrier      Recipe = "a barrier"
	OfDouble       Recipe = "a double barrier"
	OfLatch        Recipe = "a latch"
	OfQueue        Recipe = "a queue"
	OfTransaction  Recipe = "a transaction"
	OfTransactions Recipe = "transactions" // that stand below the path
	OfGroup        Recipe = "a group"
	OfService      Recipe = "a service"
	OfShards       Recipe = "shards"
	OfPlan         Recipe = "the plan of shards"
)

// Owner returns the recipe whose record the data of a path is; else "". A number alone may be a
// semaphore's limit in an old layout, or a counter.
//
// Every value that is read passes here, and may be large. So data that cannot be a record is left
// out by its beginning, or by its length, before it is copied.
func Owner(data []byte) Recipe {
	begins := func(with string) bool { return bytes.HasPrefix(data, []byte(with)) }
	trimmed := bytes.TrimSpace(data) // an operator may have written it
	switch {
	case begins(PriorityMark) && IsPriority(data):
		return OfPriorities
	case bytes.HasPrefix(trimmed, []byte(RoundsLayout)) && isRounds(data):
		return OfDouble
	case begins("zkactors latch ") && isLatch(data):
		return OfLatch
	case len(trimmed) <= longestLimit && isLimit(trimmed):
		return OfSemaphore
	case IsGate(data):
		return OfBarrier
	case begins(`{"guid":"`) && isTransaction(data):
		return OfTransaction
	case begins(`{"format":"` + ShardsFormat + `"`):
		return OfPlan
	}
	return ""
}

// longestLimit is more than the length of any record of a semaphore.
const longestLimit = 100

func isRounds(data []byte) bool {
	_, ok := ParseRounds(data)
	return ok
}

func isLatch(data []byte) bool {
	_, ok := ParseLatch(data)
	return ok
}

func isLimit(data []byte) bool {
	limit, ok := ParseLimit(string(data))
	return ok && limit.Unit
}

func isTransaction(data []byte) bool {
	_, err := ParseTransaction[any, any]("", data)
	return err == nil
}

// ShardsFormat marks a plan of shards.
const ShardsFormat = "zkactors shards 1"

// ForeignData returns the error for data of a path that a recipe does not accept. It names the
// owner, if the data has one, and else the beginning of the data.
func ForeignData(data []byte) error {
	if owner := Owner(data); owner != "" {
		return fmt.Errorf("the path is %w: it belongs to %s", ErrForeign, owner)
	}
	return fmt.Errorf("the path is %w: it has the data %.40q", ErrForeign, data)
}

// ForeignChild returns the error for a path where a child shows another recipe.
func ForeignChild(name string) error {
	if owner, _ := Whose(name); owner != "" {
		return fmt.Errorf("the path is %w: it belongs to %s: there is %s", ErrForeign, owner, name)
	}
	return fmt.Errorf("the path is %w: there is %s", ErrForeign, name)
}

// Foreign returns an error if the children show that the path belongs to another recipe than own.
// Most nodes of recipes have names that users do not give to theirs: one suffices. A directory of a
// recipe may be called as any other node, such as "items". So it counts only where nothing else
// stands: beside nodes of the users', the path is a directory of theirs.
func Foreign(own Recipe, children []string) error {
	directory, unknown := "", false
	for _, name := range children {
		switch owner, sure := Whose(name); {
		case owner == own && own != "":
		case sure:
			return ForeignChild(name)
		case owner == "":
			unknown = true
		case directory == "":
			directory = name
		}
	}
	if directory == "" || unknown {
		return nil
	}
	return ForeignChild(directory)
}

// Whose returns the recipe whose path has a child of the name, and "" if none is known. If it is
// not sure, users may have nodes of that name, too.
func Whose(name string) (owner Recipe, sure bool) {
	for _, g := range known {
		if _, ok := g.Parse(name); ok {
			return g.Recipe, true
		}
	}
	_, ranked := ParseRank(name)
	_, isWriteLock := ParseWriteLock(name)
	_, _, isLease := ParseLease(name)
	switch {
	case ranked, isWriteLock:
		return OfLock, true
	case isLease, IsKazooLease(name):
		return OfSemaphore, true
	case isServerSetMember(name):
		return OfService, true
	case FlatItem(name) != "":
		return OfQueue, true
	case strings.HasSuffix(name, PartyEnd):
		return OfGroup, IsKazooLease(strings.TrimSuffix(name, PartyEnd))
	}
	switch name {
	case Sites, TransactionRecords:
		return OfTransactions, true
	case "leases", "numbers", "locks":
		return OfSemaphore, false
	case "candidates", "leader", "successors":
		return OfElection, false
	case Outcome, Runners:
		return OfOnce, false
	case PriorityHolder, PriorityReaders:
		return OfLock, false
	case "items", "claims", "receipts", "waiters", "producers", "keys", "dead", "entries", "taken":
		return OfQueue, false
	case "plan", "members", "records", "shards":
		return OfShards, false
	}
	return "", false
}

// PartyEnd ends the names of members of kazoo's Party.
const PartyEnd = "__party__"

func isServerSetMember(name string) bool {
	number, ok := strings.CutPrefix(name, "member_")
	_, isNumber := ParseNumber(number)
	return ok && isNumber
}

// The layouts of queues whose items stand under the path itself.
const (
	PublishedItems = "published" // of ZooKeeper's recipe in older texts, and of Curator's priority queue
	CuratorItems   = "curator"   // of Curator's SimpleDistributedQueue
	KazooItems     = "kazoo"
)

// FlatItem returns the layout of the queue of which a child of the name would be an item, and "" if
// it would be none's.
func FlatItem(name string) (layout string) {
	rest := name
	if after, ok := strings.CutPrefix(name, "queue-"); ok {
		rest, layout = after, PublishedItems
	} else if after, ok := strings.CutPrefix(name, "qn-"); ok {
		rest, layout = after, CuratorItems
	} else if after, ok := strings.CutPrefix(name, "entry-"); ok {
		if _, after, ok := strings.Cut(after, "-"); ok {
			rest, layout = after, KazooItems
		}
	}
	if _, ok := ParseNumber(rest); !ok {
		return ""
	}
	return layout
}
