package watches

import (
	"slices"
	"sync"

	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/order"
	"github.com/zkactors/zkactors/session/internal/wire"
	"github.com/zkactors/zkactors/session/internal/workers"
)

// An Epoch is one ZooKeeper session, as the table sees it. Its methods are called with the table
// locked, and answer nothing themselves. Two are equal if they are the same session.
type Epoch interface {
	// ID returns the id of the session, behind its first handshake.
	ID() int64

	// Read makes the request of a read, and has its answer call Answered.
	Read(r Read)

	// Plant makes the request of a planting, and has its answer call Answered. From now on its
	// watches are to be set again after a reconnect.
	Plant(p Planting)

	// Unwatch removes a watch from the server.
	Unwatch(key Key)

	// Found notes a node that a read has found.
	Found(path string, stat *wire.Stat)

	// Later calls again what has failed, in the session's order, after the next pause. Retry is nil
	// at first, and returned for the next time. If suspicious is set, the pause is so long that
	// a new connection can show meanwhile that it works.
	Later(retry *workers.Retry, path string, why error, suspicious bool, do func()) *workers.Retry
}

// A Table holds the watches of one epoch after the other, one on each aspect of each
// node, for all subscribers. It notifies them in the session's order, when it is not locked.
type Table struct {
	mu sync.Mutex

	// entries has at most one entry for a key. That of an earlier epoch stands until the epoch is
	// retired, or until the node is watched in the next one.
	entries map[Key]*entry

	// parked are entries without subscribers, the one that was parked first in front, and no more
	// than maxParked. Some are in use again, or dead.
	parked []*entry

	planter planter

	order *order.Order
	named func(path string, why error) error
}

// New returns a table without watches, which notifies in the order. The errors with which
// subscriptions end name the node, whose path on the server the function receives.
func New(o *order.Order, named func(path string, why error) error) *Table {
	return &Table{entries: make(map[Key]*entry), order: o, named: named}
}

// Len returns the number of watches.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.entries)
}

// An entry is the watch on one aspect of one node, for all subscribers to it. The read
// that delivers arms it. While armed it may stand without subscribers: parked, to be used
// again without a request.
type entry struct {
	key   Key // of data or children
	epoch Epoch
	table *Table

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

	// roomy is set when a subscriber asks for it: the replies to reads may be larger than
	// Options.MaxReply.
	roomy bool

	// parked is set while the entry is in the list of those that are, also if it is in use again.
	parked bool

	// dead is set when the entry leaves the table, and never cleared. It has no subscribers then.
	dead bool

	// subs are the subscriptions that receive the news. News share their memory: an item of it is
	// set once.
	subs []*Subscription

	// origin is a subscription to the data of a node that has no children because there is none.
	// It is nil unless the key is of children, and ends when the node is found.
	origin *Subscription

	retry  *workers.Retry // of reads that fail for no passing reason; nil after an answer
	broken fault.Record   // of its reads
}

// What follows is called with the table locked, unless it says otherwise.

// enter makes the entry for a key, which has none of the epoch. It is neither armed nor read yet.
func (t *Table) enter(epoch Epoch, key Key) *entry {
	e := &entry{key: key, epoch: epoch, table: t}
	t.entries[key] = e
	return e
}

// unfollow ends a subscription without telling it. The watch is kept for the next one, if that is
// worth while: see park.
func (t *Table) unfollow(sub *Subscription) {
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
func (t *Table) park(e *entry) {
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
func (t *Table) unwatch(e *entry) {
	if !e.dead {
		t.drop(e)
		e.epoch.Unwatch(e.key)
	}
}

// drop forgets an entry, and returns the subscriptions to end. The watch on the server stands
// until it fires: its event finds no entry.
func (t *Table) drop(e *entry) []*Subscription {
	e.armed, e.dead = false, true
	e.answers()
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
