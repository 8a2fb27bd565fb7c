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
	mu sync.Mutex

	// entries has at most one entry for a key. That of an earlier epoch stands until the epoch is
	// retired, or until the node is watched in the next one.
	entries map[watchKey]*watchEntry

	// parked are entries without subscribers, the one that was parked first in front, and no more
	// than maxParked. Some are in use again, or dead.
	parked []*watchEntry

	planter planter
}

func newWatchTable() *watchTable { return &watchTable{entries: make(map[watchKey]*watchEntry)} }

// A watchEntry is the watch on one aspect of one node, for all subscribers to it. The read
// that delivers arms it. While armed it may stand without subscribers: parked, to be used
// again without a request.
type watchEntry struct {
	key   watchKey // of data or children
	epoch *epoch

	// reading is what was read last, or is known of a node that the session has created; or its
	// Stat is unread. While armed is set, no event has said that the node has changed since.
	reading Reading

	// armed is set with an answer, when a watch stands on the server. It is cleared when the watch
	// has fired, and by arm. While it is not set, a read is under way, or the entry is to be
	// planted.
	armed bool

	// planting is set while a request plants the watch, and cleared by its answer. Meanwhile no
	// read is sent.
	planting bool

	// stale is set while planting is, when an event or a subscriber asks for a read. The answer
	// clears it, and reads.
	stale bool

	// absent is set when there is no node, as far as is known: a read with an exists watch is what
	// to try then. It is cleared when the node is found, and by a subscriber that does not last.
	absent bool

	// parked is set while the entry is in the list of those that are, also if it is in use again.
	parked bool

	// dead is set when the entry leaves the table, and never cleared. It has no subscribers then.
	dead bool

	// subs are those that are told. News share their memory: an item of it is set once.
	subs []*Subscription

	// origin is a subscription to the data of a node that has no children because there is none.
	// It is nil unless the key is of children, and ends when the node is found.
	origin *Subscription

	pauses *backoff.ExponentialBackOff // between reads that fail for no passing reason; nil after an answer
	blamed int                         // how many connections in a row its reads have broken
}

func (e *watchEntry) table() *watchTable { return e.epoch.session.watches }

// A Subscription is to one aspect of one node. See [Async.Follow].
type Subscription struct {
	entry   *watchEntry // nil if it was refused
	tell    func(Reading, error)
	lasting bool // goes on while there is no node
	once    bool // ends with the first change that follows a reading

	// told is the Czxid of the node in the newest reading that it received: 0 before the first, -1
	// if there was no node. It belongs to the order.
	told int64

	// over is set when it is cancelled, or told for the last time, and never cleared.
	over atomic.Bool
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

// enter makes the entry for a key, which has none of the epoch. It is neither armed nor read yet.
func (t *watchTable) enter(epoch *epoch, key watchKey) *watchEntry {
	e := &watchEntry{key: key, epoch: epoch}
	t.entries[key] = e
	return e
}

// unfollow ends a subscription without telling it. The watch is kept for the next one, if that is
// worth while: see park.
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

// drop forgets an entry, and returns the subscriptions to end. The watch on the server stands
// until it fires: its event finds no entry.
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

// A planter decides which watches are planted together. The lock of the table guards it. While an
// entry waits here it is not armed, and nothing is read for it.
type planter struct {
	waiting  []*watchEntry // to be planted, the oldest first
	inFlight int           // requests without an answer
}

// unread is the Stat of nodes that are watched and were not read.
var unread = new(Stat) //nolint:gochecknoglobals // it is constant
