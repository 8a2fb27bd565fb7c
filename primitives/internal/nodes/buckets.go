package nodes

import (
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

	// The bucket of a minute is full after about a thousand items. Then each second has buckets.
	Second int // of the minute; 0 for the bucket of the minute
	Part   int // counts the buckets of the second from 1; 0 for the bucket of the minute
}

// AfterInfix stands behind the priority in the names of buckets of delayed items.
const AfterInfix = "-after-"

// String returns the name. The priority has an offset, so that names sort as priorities do.
func (b Bucket) String() string {
	text := make([]byte, 0, 64)
	text = appendPadded(text, int64(b.Priority)-math.MinInt32, 10)
	if b.After {
		text = append(text, AfterInfix...)
	} else {
		text = append(text, '-')
	}
	text = appendPadded(text, int64(b.Number), 10)
	if b.Part > 0 {
		text = appendPadded(append(text, '-'), int64(b.Second), 2)
		text = appendPadded(append(text, '-'), int64(b.Part-1), 10)
	}
	return string(text)
}

// appendPadded appends n with at least the given number of digits. A queue names a bucket for each
// request: package fmt took a fortieth of the CPU time of an item.
func appendPadded(text []byte, n int64, digits int) []byte {
	var room [20]byte
	number := strconv.AppendInt(room[:0], n, 10)
	for range digits - len(number) {
		text = append(text, '0')
	}
	return append(text, number...)
}

// ParseBucket reads the name of a bucket.
func ParseBucket(name string) (Bucket, bool) {
	priority, rest, after := strings.Cut(name, AfterInfix)
	if !after {
		priority, rest, _ = strings.Cut(name, "-")
	}
	number, rest, parted := strings.Cut(rest, "-")
	p, err := strconv.ParseInt(priority, 10, 64)
	n, err2 := strconv.ParseInt(number, 10, 64)
	if err != nil || err2 != nil || p < 0 || p > math.MaxUint32 || n < 0 || parted && !after {
		return Bucket{}, false
	}
	b := Bucket{Priority: int32(p + math.MinInt32), Number: int(n), After: after}
	if parted {
		second, part, _ := strings.Cut(rest, "-")
		b.Second, err = strconv.Atoi(second)
		b.Part, err2 = strconv.Atoi(part)
		if err != nil || err2 != nil || b.Second < 0 || b.Second > 59 || b.Part < 0 || b.Part == math.MaxInt {
			return Bucket{}, false
		}
		b.Part++
	}
	return b, b.String() == name
}
