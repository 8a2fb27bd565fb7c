package nodes

import (
	"bytes"
	"fmt"
)

// Owner returns what the data of a path belongs to, if it is the record of a recipe; else "". A
// number alone may be a semaphore's limit in an old layout, or a counter.
func Owner(data []byte) string {
	_, isRounds := ParseRounds(data)
	_, isLatch := ParseLatch(data)
	limit, isLimit := ParseLimit(string(data))
	switch {
	case IsPriority(data):
		return "a lock with priorities"
	case isRounds:
		return "a double barrier"
	case isLatch:
		return "a latch"
	case isLimit && limit.Unit:
		return "a semaphore"
	case bytes.HasPrefix(data, []byte(`{"guid":"`)) && isTransaction(data):
		return "a transaction"
	case bytes.HasPrefix(data, []byte(`{"format":"`+ShardsFormat+`"`)):
		return "the plan of shards"
	}
	return ""
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
