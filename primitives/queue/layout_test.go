package queue

import (
	"slices"
	"strings"
	"testing"
)

// TestNames holds names against their order.
func TestNames(t *testing.T) {
	last := ""
	for _, p := range []int32{-2147483648, -2147483647, -10, -5, -1, 0, 1, 5, 10, 2147483647} {
		for _, n := range []int{0, 1, 9, 10, 999999999} {
			b := bucket{priority: p, number: n}
			if back, ok := parseBucket(b.name()); !ok || back != b {
				t.Errorf("%v is written %s, and read %v, %v", b, b.name(), back, ok)
			}
			if b.name() <= last {
				t.Errorf("%s comes after %s", b.name(), last)
			}
			last = b.name()
		}
	}
	for _, name := range []string{"", "x", "1-2", "4294967296-0000000000", "0000000000-00000000001", "0000000000--000000001"} {
		if b, ok := parseBucket(name); ok {
			t.Errorf("%q is read as %v", name, b)
		}
	}
	for _, sorted := range []string{
		"queue-2147483646 queue-2147483647 queue--2147483648 queue--2147483647",
		"queue--1000000000 queue--999999999 queue--999999998 queue--000000001 queue-0000000000 queue-0000000001",
	} {
		names := strings.Fields(sorted)
		slices.Reverse(names)
		sortItems(names)
		if got := strings.Join(names, " "); got != sorted {
			t.Errorf("sorted: %s, want %s", got, sorted)
		}
	}
	d := delayed(-3, 59_999+60_000)
	if back, ok := parseBucket(d.name()); !ok || back != d || d.number != 1 || d.compare(bucket{priority: -3}) >= 0 || d.compare(bucket{priority: -4}) <= 0 {
		t.Errorf("%v is written %s, and read %v, %v", d, d.name(), back, ok)
	}
	for _, name := range []string{"x", "00-0000000000", "60-0000000000", "00-000000000", "00--000000001"} {
		if b, ok := parseBucket(d.name() + "-" + name); ok != (name == "00-0000000000") {
			t.Errorf("%q is read as %v", name, b)
		}
	}
	for due, name := range map[int64]string{
		0: itemName(strings.Repeat("a", guidLength), 0) + "0000000000", 1763780000123: itemName(strings.Repeat("a", guidLength), 1763780000123) + "0000000000",
	} {
		if !parseItem(name) || dueOf(name) != due {
			t.Errorf("%s is due at %d, want %d", name, dueOf(name), due)
		}
	}
}

// TestDelayedNames: the buckets of a minute's seconds come behind that of the minute, in order, and
// an item of the minute's bucket comes before those of its second.
func TestDelayedNames(t *testing.T) {
	const due = 7*minute + 31_415
	all := []bucket{delayed(3, due)}
	for range 3 {
		all = append(all, all[len(all)-1].overflow(due))
	}
	all = append(all, delayed(3, due).overflow(due+second), delayed(3, due+minute), bucket{priority: 3})
	for i, b := range all {
		if back, ok := parseBucket(b.name()); !ok || back != b {
			t.Errorf("%v is written %s, and read %v, %v", b, b.name(), back, ok)
		}
		if i > 0 && all[i-1].compare(b) >= 0 {
			t.Errorf("%v is not before %v", all[i-1], b)
		}
	}
	if b := all[0]; b.begins() != 7*minute || b.ends() != 8*minute {
		t.Errorf("%v begins at %d, and ends at %d", b, b.begins(), b.ends())
	}
	if b := all[2]; b.begins() != 7*minute+31_000 || b.ends() != 7*minute+32_000 {
		t.Errorf("%v begins at %d, and ends at %d", b, b.begins(), b.ends())
	}
	at := func(b bucket, due int64) place {
		return place{b, itemName(strings.Repeat("a", guidLength), due) + "0000000000"}
	}
	places := []place{at(all[0], due-second), at(all[0], due), at(all[1], due-1), at(all[1], due), at(all[2], due-1), at(all[0], due+second)}
	if !slices.IsSortedFunc(places, place.compare) {
		t.Errorf("not in order: %v", places)
	}
}
