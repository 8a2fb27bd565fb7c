package exploration

import (
	"encoding/binary"
	"slices"
	"testing"
)

// Brief reports whether walks use only the smallest settings. They do in short tests and, unless
// all are wanted, under the race detector. A walk has one goroutine, and the race detector makes it
// fifteen times as slow.
func Brief(all bool) bool { return testing.Short() || raced && !all }

// A Depth keeps the worlds that a depth-first walk has visited, in models whose worlds can be
// copied. The zero Depth is ready for use. A world takes 11 to 22 bytes, and half as much again
// while the table grows.
type Depth struct {
	seen   []uint64            // an open hash table with a length of a power of two; 0 is free
	states int                 // in seen
	on     map[uint64]struct{} // the worlds of seen from which the walk has not returned
	next   map[uint64][]uint64 // of the worlds given to Alike, the keys of their successors
}

// Enter notes that the walk comes to the world with the key. It reports whether this is the first
// time, and if not, whether the walk has gone round in a circle.
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

// find returns the index of a key, or the free index for it.
func (d *Depth) find(key uint64) int {
	const spread = 0x9e3779b97f4a7c15 // keys need not be hashes
	last := len(d.seen) - 1
	at := int(key*spread>>32) & last
	for d.seen[at] != 0 && d.seen[at] != key {
		at = (at + 1) & last
	}
	return at
}

// grow doubles the table.
func (d *Depth) grow() {
	keys := d.seen
	d.seen = make([]uint64, 2*len(keys))
	for _, key := range keys {
		if key != 0 {
			d.seen[d.find(key)] = key
		}
	}
}

// Leave notes that the walk returns from the world with the key.
func (d *Depth) Leave(key uint64) { delete(d.on, max(key, 1)) }

// Alike notes the keys of the successors of the world with the key. It reports whether the last
// world with that key, if there was one, had the same successors, in any order.
func (d *Depth) Alike(key uint64, next []uint64) bool {
	if d.next == nil {
		d.next = map[uint64][]uint64{}
	}
	next = slices.Compact(slices.Sorted(slices.Values(next)))
	before, compared := d.next[key]
	d.next[key] = next
	return !compared || slices.Equal(before, next)
}

// States returns the number of worlds that the walk has visited.
func (d *Depth) States() int { return d.states }

// Bytes are the bytes of a world, to be hashed.
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
