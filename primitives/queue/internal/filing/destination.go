package filing

import (
	"cmp"
	"sync"

	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
)

// manyTimes is the number of minutes and seconds of which a handle knows where their items go.
const manyTimes = 4096

// A Destination is a queue into which a handle puts items, and what the handle knows of it.
type Destination struct {
	*stock.Store
	Size int // of a full bucket; layout.BucketSize if it is 0

	mu      sync.Mutex
	tails   map[int32]target         // where the next item of each priority goes, as far as is known
	delayed map[layout.Bucket]target // where the next item of each minute or second goes, by its first bucket, as far as is known
	lost    int                      // see [knowledge]
	bound   bound                    // of Options.MaxItems, as far as is known
}

func (d *Destination) full() int { return cmp.Or(d.Size, layout.BucketSize) }

func (d *Destination) isFull(items int32) bool { return int(items) >= d.full() }

// known returns the knowledge with which a filing begins.
func (d *Destination) known(priority int32) file {
	checked := d.IsChecked()
	d.mu.Lock()
	defer d.mu.Unlock()
	to, ok := d.tails[priority]
	return file{checked, knowledge{to, ok, d.bound, d.lost}}
}

func (d *Destination) learn(l learn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bound, d.lost = l.bound, l.lost
	for i, went := range l.went {
		d.note(went.bucket, l.next[i])
	}
	if !l.known {
		return
	}
	if d.tails == nil {
		d.tails = make(map[int32]target)
	}
	d.tails[l.target.bucket.Priority] = l.target
}

// isSettled reports whether items of the priority go where others are, as far as is known.
func (d *Destination) isSettled(priority int32) bool {
	k := d.known(priority)
	return k.checked && k.known && !k.target.fresh
}

// learnDelayed notes where the next items go that are due at the time of a bucket: into the bucket
// of another time if that is full.
func (d *Destination) learnDelayed(of layout.Bucket, next target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note(of, next)
}

// note is learnDelayed. The caller has locked mu.
func (d *Destination) note(of layout.Bucket, next target) {
	if d.delayed == nil || len(d.delayed) >= manyTimes {
		d.delayed = make(map[layout.Bucket]target) // what is forgotten is found again
	}
	d.delayed[of.First()] = next
}

// assign returns the buckets of items that are due at the times. The buckets of which nothing is
// known are assumed not to exid.
func (d *Destination) assign(priority int32, due []int64) []target {
	d.mu.Lock()
	defer d.mu.Unlock()
	to := make([]target, len(due))
	for i, ms := range due {
		b := layout.Delayed(priority, ms)
		known, ok := d.delayed[b]
		if ok && known.bucket.Part > 0 { // the bucket of the minute is full
			b = b.Overflow(ms)
			known, ok = d.delayed[b]
		}
		if to[i] = known; !ok {
			to[i] = target{bucket: b, fresh: true}
		}
	}
	return to
}
