package layout

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
			b := Bucket{Priority: p, Number: n}
			if back, ok := ParseBucket(b.Name()); !ok || back != b {
				t.Errorf("%v is written %s, and read %v, %v", b, b.Name(), back, ok)
			}
			if b.Name() <= last {
				t.Errorf("%s comes after %s", b.Name(), last)
			}
			last = b.Name()
		}
	}
	for _, name := range []string{"", "x", "1-2", "4294967296-0000000000", "0000000000-00000000001", "0000000000--000000001"} {
		if b, ok := ParseBucket(name); ok {
			t.Errorf("%q is read as %v", name, b)
		}
	}
	for _, sorted := range []string{
		"queue-2147483646 queue-2147483647 queue--2147483648 queue--2147483647",
		"queue--1000000000 queue--999999999 queue--999999998 queue--000000001 queue-0000000000 queue-0000000001",
	} {
		names := strings.Fields(sorted)
		slices.Reverse(names)
		SortItems(names)
		if got := strings.Join(names, " "); got != sorted {
			t.Errorf("sorted: %s, want %s", got, sorted)
		}
	}
	d := Delayed(-3, 59_999+60_000)
	if back, ok := ParseBucket(d.Name()); !ok || back != d || d.Number != 1 || d.Compare(Bucket{Priority: -3}) >= 0 || d.Compare(Bucket{Priority: -4}) <= 0 {
		t.Errorf("%v is written %s, and read %v, %v", d, d.Name(), back, ok)
	}
	for _, name := range []string{"x", "00-0000000000", "60-0000000000", "00-000000000", "00--000000001"} {
		if b, ok := ParseBucket(d.Name() + "-" + name); ok != (name == "00-0000000000") {
			t.Errorf("%q is read as %v", name, b)
		}
	}
	for due, name := range map[int64]string{
		0: ItemName(strings.Repeat("a", GUIDLength), 0) + "0000000000", 1763780000123: ItemName(strings.Repeat("a", GUIDLength), 1763780000123) + "0000000000",
	} {
		if !ParseItem(name) || DueOf(name) != due {
			t.Errorf("%s is due at %d, want %d", name, DueOf(name), due)
		}
	}
}

// TestDelayedNames: the buckets of a minute's seconds come behind that of the minute, in order, and
// an item of the minute's bucket comes before those of its second.
func TestDelayedNames(t *testing.T) {
	const due = 7*Minute + 31_415
	all := []Bucket{Delayed(3, due)}
	for range 3 {
		all = append(all, all[len(all)-1].Overflow(due))
	}
	all = append(all, Delayed(3, due).Overflow(due+second), Delayed(3, due+Minute), Bucket{Priority: 3})
	for i, b := range all {
		if back, ok := ParseBucket(b.Name()); !ok || back != b {
			t.Errorf("%v is written %s, and read %v, %v", b, b.Name(), back, ok)
		}
		if i > 0 && all[i-1].Compare(b) >= 0 {
			t.Errorf("%v is not before %v", all[i-1], b)
		}
	}
	if b := all[0]; b.Begins() != 7*Minute || b.Ends() != 8*Minute {
		t.Errorf("%v begins at %d, and ends at %d", b, b.Begins(), b.Ends())
	}
	if b := all[2]; b.Begins() != 7*Minute+31_000 || b.Ends() != 7*Minute+32_000 {
		t.Errorf("%v begins at %d, and ends at %d", b, b.Begins(), b.Ends())
	}
	at := func(b Bucket, due int64) Place {
		return Place{b, ItemName(strings.Repeat("a", GUIDLength), due) + "0000000000"}
	}
	places := []Place{at(all[0], due-second), at(all[0], due), at(all[1], due-1), at(all[1], due), at(all[2], due-1), at(all[0], due+second)}
	if !slices.IsSortedFunc(places, Place.Compare) {
		t.Errorf("not in order: %v", places)
	}
}
