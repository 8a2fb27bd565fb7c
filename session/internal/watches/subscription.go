package watches

import (
	"sync/atomic"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// A Reading is the result of one read of a node. Data and Names belong to all subscribers.
type Reading struct {
	Zxid  int64      // that the server knew when it answered; 0 if there was no read
	Stat  *wire.Stat // nil if there is no node
	Data  []byte
	Names []string
}

// A Receiver receives the readings of a subscription, and with the last one why it has ended.
type Receiver interface {
	Receive(r Reading, err error)
}

// A Subscription is to one aspect of one node.
type Subscription struct {
	To      Receiver
	Lasting bool // goes on while there is no node
	Roomy   bool // readings may be larger than the replies to others
	Once    bool // ends with the first change that follows a reading

	entry *entry // nil if it was refused

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
	t := sub.entry.table
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unfollow(sub)
}

// Over reports whether no more readings will be delivered.
func (sub *Subscription) Over() bool { return sub.over.Load() }

// Unsettled reports whether a change may have been heard of that is yet to be reported: while the
// node is being read, first or after a change.
func (sub *Subscription) Unsettled() bool {
	if sub.entry == nil || sub.Over() {
		return false
	}
	t := sub.entry.table
	t.mu.Lock()
	defer t.mu.Unlock()
	return !sub.entry.armed
}

func (sub *Subscription) read(r Reading) {
	if !sub.over.Load() {
		if sub.told = -1; r.Stat != nil {
			sub.told = r.Stat.Czxid
		}
		sub.To.Receive(r, nil)
	}
}

// End ends the subscription with a last reading, unless it has ended before.
func (sub *Subscription) End(r Reading, err error) {
	if sub.over.CompareAndSwap(false, true) {
		sub.To.Receive(r, err)
	}
}
