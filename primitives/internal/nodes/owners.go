package nodes

import (
	"bytes"
	"fmt"
)

// Owner returns what the data of a path belongs to, if it is the record of a recipe; else "". A
// number alone may be a semaphore's limit in an old layout, or a counter.
//
// Every value that is read passes here, and may be large. So data that cannot be a record is left
// out by its beginning, or by its length, before it is copied.
func Owner(data []byte) string {
	begins := func(with string) bool { return bytes.HasPrefix(data, []byte(with)) }
	trimmed := bytes.TrimSpace(data) // an operator may have written it
	switch {
	case begins(PriorityMark) && IsPriority(data):
		return "a lock with priorities"
	case bytes.HasPrefix(trimmed, []byte(RoundsLayout)) && isRounds(data):
		return "a double barrier"
	case begins("zkactors latch ") && isLatch(data):
		return "a latch"
	case len(trimmed) <= longestLimit && isLimit(trimmed):
		return "a semaphore"
	case begins(`{"guid":"`) && isTransaction(data):
		return "a transaction"
	case begins(`{"format":"` + ShardsFormat + `"`):
		return "the plan of shards"
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

// Foreign describes data of a path that a recipe does not accept: by its owner, if it has one, else
// by its beginning.
func Foreign(data []byte) string {
	if owner := Owner(data); owner != "" {
		return "the path belongs to " + owner
	}
	return fmt.Sprintf("the path has the data %.40q", data)
}

func isTransaction(data []byte) bool {
	_, err := ParseTransaction[any, any]("", data)
	return err == nil
}

// ShardsFormat marks a plan of shards.
const ShardsFormat = "zkactors shards 1"
