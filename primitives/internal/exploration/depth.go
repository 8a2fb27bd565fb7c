package exploration

import (
	"encoding/binary"
	"slices"
	"testing"
)

// Brief reports whether walks go through the smallest settings only: in short tests, and, unless all are wanted, under the
// race detector, which makes a walk, that has one goroutine, fifteen times as slow.
func Brief(all bool) bool { return testing.Short() || raced && !all }

// A Depth keeps where a walk has been that goes depth first through worlds that are copied. The
// zero Depth has been nowhere. A world takes 11 to 22 bytes, and half as much again while the table grows.
type Depth struct {
	seen   []uint64            // an open hash table, whose length is a power of two; 0 is a free place
	states int                 // in seen
	on     map[uint64]struct{} // of these, those from which the walk has not come back
	next   map[uint64][]uint64 // of worlds that were compared, the keys of what follows
}

// Enter notes that the walk comes to the world with the key. It reports whether it comes
// there for the first time, and if not, whether it goes round.
func (d *Depth) Enter(key uint64) (first, round bool) {
	key = max(key, 1)
	if d.on == nil {
		const places = 1 << 10
		d.seen, d.on = make([]uint64, places), map[uint64]struct{}{}
	}
	at := d.find(key)
	if d.seen[at] != 0 {
		_, round = d.on[key]
		return false, round
	}
	d.seen[at], d.on[key] = key, struct{}{}
	if d.states++; d.states > len(d.seen)/4*3 {
		d.grow()
	}
	return true, false
}

// find returns the place of a key, or the free one where it is to be put.
func (d *Depth) find(key uint64) int {
	const spread = 0x9e3779b97f4a7c15 // keys need not be hashes
	last := len(d.seen) - 1
	at := int(key*spread>>32) & last
	for d.seen[at] != 0 && d.seen[at] != key {
		at = (at + 1) & last
	}
	return at
}

// grow makes the table twice as large.
func (d *Depth) grow() {
	keys := d.seen
	d.seen = make([]uint64, 2*len(keys))
	for _, key := range keys {
		if key != 0 {
			d.seen[d.find(key)] = key
		}
	}
}

// Leave notes that the walk comes back from the world with the key.
func (d *Depth) Leave(key uint64) { delete(d.on, max(key, 1)) }

// Alike notes the keys of the worlds that follow from the world with the key. It reports whether they are those that
// followed from the last world with that key, if there was one. The order makes no difference.
func (d *Depth) Alike(key uint64, next []uint64) bool {
	if d.next == nil {
		d.next = map[uint64][]uint64{}
	}
	next = slices.Compact(slices.Sorted(slices.Values(next)))
	before, compared := d.next[key]
	d.next[key] = next
	return !compared || slices.Equal(before, next)
}

// States returns how many worlds the walk has come to.
func (d *Depth) States() int { return d.states }

// Bytes are a world as it is hashed.
type Bytes []byte

// Numbers appends numbers.
func (b *Bytes) Numbers(all ...int) {
	for _, n := range all {
		*b = binary.AppendVarint(*b, int64(n))
	}
}

// Flags appends flags, as one number.
func (b *Bytes) Flags(all ...bool) {
	set := 0
	for i, is := range all {
		if is {
			set |= 1 << i
		}
	}
	b.Numbers(set)
}
