package exploration

import "encoding/binary"

// A Depth keeps where a walk has been that goes depth first through worlds that are copied. The
// zero Depth has been nowhere.
type Depth struct {
	seen map[uint64]struct{} // keys
	on   map[uint64]struct{} // of these, those from which the walk has not come back
}

// Enter notes that the walk comes to the world with the key. It reports whether it comes
// there for the first time, and if not, whether it goes round.
func (d *Depth) Enter(key uint64) (first, round bool) {
	if _, seen := d.seen[key]; seen {
		_, round = d.on[key]
		return false, round
	}
	if d.seen == nil {
		d.seen, d.on = map[uint64]struct{}{}, map[uint64]struct{}{}
	}
	d.seen[key], d.on[key] = struct{}{}, struct{}{}
	return true, false
}

// Leave notes that the walk comes back from the world with the key.
func (d *Depth) Leave(key uint64) { delete(d.on, key) }

// States returns how many worlds the walk has come to.
func (d *Depth) States() int { return len(d.seen) }

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
