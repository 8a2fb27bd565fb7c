package layout

import (
	"slices"
	"strings"
	"testing"

	expect "github.com/zkactors/zkactors/internal/check"
)

// TestNames holds names against their order.
func TestNames(t *testing.T) {
	last := ""
	for _, p := range []int32{-2147483648, -2147483647, -10, -5, -1, 0, 1, 5, 10, 2147483647} {
		for _, n := range []int{0, 1, 9, 10, 999999999} {
			b := Bucket{Priority: p, Number: n}
			readBack(t, b)
			expect.True(t, b.Name() > last, "%s comes after %s", b.Name(), last)
			last = b.Name()
		}
	}
	for _, name := range []string{"", "x", "1-2", "4294967296-0000000000", "0000000000-00000000001", "0000000000--000000001"} {
		b, ok := ParseBucket(name)
		expect.False(t, ok, "%q is read as %v", name, b)
	}
	for _, sorted := range []string{
		"queue-2147483646 queue-2147483647 queue--2147483648 queue--2147483647",
		"queue--1000000000 queue--999999999 queue--999999998 queue--000000001 queue-0000000000 queue-0000000001",
	} {
		names := strings.Fields(sorted)
		slices.Reverse(names)
		SortItems(names)
		expect.Equal(t, strings.Join(names, " "), sorted)
	}
	d := Delayed(-3, 59_999+60_000)
	readBack(t, d)
	expect.True(t, d.Number == 1 && d.Compare(Bucket{Priority: -3}) < 0 && d.Compare(Bucket{Priority: -4}) > 0, "%v", d)
	for _, name := range []string{"x", "00-0000000000", "60-0000000000", "00-000000000", "00--000000001"} {
		b, ok := ParseBucket(d.Name() + "-" + name)
		expect.Equal(t, ok, name == "00-0000000000", name, b)
	}
	for _, due := range []int64{0, 1763780000123} {
		name := ItemName(strings.Repeat("a", GUIDLength), due) + "0000000000"
		expect.True(t, ParseItem(name) && DueOf(name) == due, "%s is due at %d, want %d", name, DueOf(name), due)
	}
}

// readBack fails the test unless a bucket is read as it is written.
func readBack(t *testing.T, b Bucket) {
	t.Helper()
	back, ok := ParseBucket(b.Name())
	expect.True(t, ok && back == b, "%v is written %s, and read %v, %v", b, b.Name(), back, ok)
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
		readBack(t, b)
		expect.True(t, i == 0 || all[i-1].Compare(b) < 0, "%v is not before %v", all[max(i, 1)-1], b)
	}
	lasts := func(b Bucket, begins, ends int64) {
		expect.True(t, b.Begins() == begins && b.Ends() == ends, "%v begins at %d, and ends at %d", b, b.Begins(), b.Ends())
	}
	lasts(all[0], 7*Minute, 8*Minute)
	lasts(all[2], 7*Minute+31_000, 7*Minute+32_000)
	at := func(b Bucket, due int64) Place {
		return Place{b, ItemName(strings.Repeat("a", GUIDLength), due) + "0000000000"}
	}
	places := []Place{at(all[0], due-second), at(all[0], due), at(all[1], due-1), at(all[1], due), at(all[2], due-1), at(all[0], due+second)}
	expect.True(t, slices.IsSortedFunc(places, Place.Compare), "not in order: %v", places)
}
