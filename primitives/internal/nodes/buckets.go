package nodes

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// This file has the directories in which the items of a queue stand.

// A Bucket is the name of a directory with items of a queue.
type Bucket struct {
	Priority int32
	Number   int  // of delayed items: the minute in which they are due
	After    bool // its items are delayed
}

// AfterInfix stands behind the priority in the names of buckets of delayed items.
const AfterInfix = "-after-"

// String returns the name. The priority has an offset, so that names sort as priorities do.
func (b Bucket) String() string {
	const digits = 10
	infix := "-"
	if b.After {
		infix = AfterInfix
	}
	return fmt.Sprintf("%0*d%s%0*d", digits, int64(b.Priority)-math.MinInt32, infix, digits, b.Number)
}

// ParseBucket reads the name of a bucket.
func ParseBucket(name string) (Bucket, bool) {
	priority, number, after := strings.Cut(name, AfterInfix)
	if !after {
		priority, number, _ = strings.Cut(name, "-")
	}
	p, err := strconv.ParseInt(priority, 10, 64)
	n, err2 := strconv.ParseInt(number, 10, 64)
	if err != nil || err2 != nil || p < 0 || p > math.MaxUint32 || n < 0 {
		return Bucket{}, false
	}
	b := Bucket{int32(p + math.MinInt32), int(n), after}
	return b, b.String() == name
}
