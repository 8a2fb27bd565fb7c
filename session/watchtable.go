package session

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cenkalti/backoff/v4"
)

// A Reading is the result of one read of a node. Data and Names belong to all
// subscribers to the node, and must not be modified.
type Reading struct {
	// Zxid is that of the newest transaction that the server knew when it
	// answered: of two readings the one with the larger is the newer. It is 0 if
	// there was no read, and the server has told that the node is gone.
	Zxid  int64
	Stat  *Stat    // nil if there is no node
	Data  []byte   // of [AspectData]
	Names []string // of [AspectChildren], in no order
}

// An Aspect is the part of a node that a watch is for.
type Aspect uint8

// The aspects of a node.
const (
	AspectData     Aspect = iota // its data
	AspectChildren               // the names of its children
)

// A watchTable holds the watches of one epoch after the other, one on each aspect of each
// node, for all subscribers. It notifies them in the session's order, when it is not locked.
type watchTable struct {
	mu      sync.Mutex
	entries map[watchKey]*watchEntry
	parked  []*watchEntry // the oldest first; some are in use again, or gone
	planter planter
}

func newWatchTable() *watchTable { return &watchTable{entries: make(map[watchKey]*watchEntry)} }

// A watchEntry is the watch on one aspect of one node, for all subscribers to it. The read
// that delivers arms it. While armed it may stand without subscribers: parked, to be used
// again without a request.
type watchEntry struct {
	key      watchKey // of data or children
	epoch    *epoch
	reading  Reading
	armed    bool                        // else a read is under way, or it is to be planted
	planting bool                        // set while a request plants it
	stale    bool                        // something has become of the node meanwhile
	absent   bool                        // as far as is known: a read with an exists watch is what to try
	parked   bool                        // it is in the list of those that are
	dead     bool                        // it is not in the table any more
	subs     []*Subscription             // news share their memory: an item of it is set once
	origin   *Subscription               // to the data of a node that has no children because there is none
	pauses   *backoff.ExponentialBackOff // between reads that fail for no passing reason; nil at first
	blamed   int                         // how many connections in a row its reads have broken
}

func (e *watchEntry) table() *watchTable { return e.epoch.session.watches }

// A Subscription is to one aspect of one node. See [Async.Follow].
type Subscription struct {
	entry   *watchEntry // nil if it was refused
	tell    func(Reading, error)
	lasting bool        // goes on while there is no node
	once    bool        // ends with the first change that follows a reading
	told    int64       // Czxid of the node in the newest reading that it received; -1 if there was none, 0 at first. This belongs to the order.
	over    atomic.Bool // told for the last time, or cancelled
}

// Cancel ends the subscription. One more call may be on its way.
func (sub *Subscription) Cancel() {
	if sub.entry == nil {
		return
	}
	t := sub.entry.table()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unfollow(sub)
}

// Over reports whether no more readings will be delivered.
func (sub *Subscription) Over() bool { return sub.over.Load() }

// Unsettled reports, where the session gives its answers, whether an older change of the
// node may be yet to be reported: while the node is being read, first or after a change.
func (sub *Subscription) Unsettled() bool {
	if sub.entry == nil || sub.Over() {
		return false
	}
	t := sub.entry.table()
	t.mu.Lock()
	defer t.mu.Unlock()
	return !sub.entry.armed
}

func (sub *Subscription) read(r Reading) {
	if !sub.over.Load() {
		if sub.told = -1; r.Stat != nil {
			sub.told = r.Stat.Czxid
		}
		sub.tell(r, nil)
	}
}

func (sub *Subscription) end(r Reading, err error) {
	if sub.over.CompareAndSwap(false, true) {
		sub.tell(r, err)
	}
}

// What follows is called with the table locked, unless it says otherwise.

func (t *watchTable) enter(epoch *epoch, key watchKey) *watchEntry {
	e := &watchEntry{key: key, epoch: epoch}
	t.entries[key] = e
	return e
}

func (t *watchTable) unfollow(sub *Subscription) {
	e := sub.entry
	sub.over.Store(true)
	if i := slices.Index(e.subs, sub); i >= 0 {
		e.subs = butOne(e.subs, i)
		t.park(e)
	}
}

// butOne returns a copy of the subscriptions but one.
func butOne(subs []*Subscription, i int) []*Subscription {
	if len(subs) == 1 {
		return nil
	}
	return append(slices.Clone(subs[:i]), subs[i+1:]...)
}

// How many watches without subscribers are kept, unless there is much to
// keep with them.
const (
	maxParked      = 1024
	maxParkedBytes = 4 << 10
	maxParkedNames = 128
)

// park keeps a watch without subscribers, instead of the one that has been
// kept for longest.
func (t *watchTable) park(e *watchEntry) {
	switch {
	case len(e.subs) > 0 || e.dead:
		return
	case e.origin != nil:
		t.drop(e)
		return
	case !e.armed || e.parked:
		return
	case len(e.reading.Data) > maxParkedBytes || len(e.reading.Names) > maxParkedNames:
		t.unwatch(e)
		return
	}
	e.parked = true
	t.parked = append(t.parked, e)
	if len(t.parked) <= maxParked {
		return
	}
	oldest := t.parked[0]
	t.parked[0] = nil
	t.parked = t.parked[1:]
	oldest.parked = false
	if len(oldest.subs) == 0 && oldest.armed {
		t.unwatch(oldest)
	}
}

// unwatch ends a watch that stands.
func (t *watchTable) unwatch(e *watchEntry) {
	if !e.dead {
		t.drop(e)
		e.epoch.unwatch(e.key)
	}
}

// drop forgets an entry, and returns the subscriptions to end.
func (t *watchTable) drop(e *watchEntry) []*Subscription {
	e.armed, e.dead = false, true
	if t.entries[e.key] == e {
		delete(t.entries, e.key)
	}
	if origin := e.origin; origin != nil {
		e.origin = nil
		t.unfollow(origin)
	}
	subs := e.subs
	e.subs = nil
	return subs
}

// A planter decides which watches are planted together. The lock of the table guards it.
type planter struct {
	waiting  []*watchEntry // to be planted, the oldest first
	inFlight int           // requests without an answer
}

// unread is the Stat of nodes that are watched and were not read.
var unread = new(Stat) //nolint:gochecknoglobals // it is constant
