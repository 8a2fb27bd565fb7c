package session

import "github.com/zkactors/zkactors/session/internal/watches"

// A Reading is the result of one read of a node. Data and Names belong to all
// subscribers to the node, and must not be modified.
type Reading struct {
	// Zxid is the zxid of the newest transaction that the server knew when it answered: of two
	// readings in one epoch, the reading with the larger zxid is the newer. Readings in different
	// epochs cannot be compared: the servers may have come back with older data between them. Zxid
	// is 0 if there was no read, and the server has reported that the node is gone.
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

// A Subscription is to one aspect of one node. See [Async.Follow].
type Subscription struct {
	watched watches.Subscription
	tell    func(Reading, error)
}

func newSubscription(tell func(Reading, error)) *Subscription {
	sub := &Subscription{tell: tell}
	sub.watched.To = (*receiver)(sub)
	return sub
}

// Cancel ends the subscription. One more call may be on its way.
func (sub *Subscription) Cancel() { sub.watched.Cancel() }

// Over reports whether no more readings will be delivered.
func (sub *Subscription) Over() bool { return sub.watched.Over() }

// Unsettled is for callbacks of the session. It reports whether an older change of the node may not
// have been delivered yet: while the node is being read, first or after a change.
func (sub *Subscription) Unsettled() bool { return sub.watched.Unsettled() }

// A receiver is a Subscription as the watches see it.
type receiver Subscription

// Receive implements [watches.Receiver].
func (r *receiver) Receive(found watches.Reading, err error) {
	r.tell(Reading{Zxid: found.Zxid, Stat: (*Stat)(found.Stat), Data: found.Data, Names: found.Names}, err)
}

// Watch reads the node at path and follows its changes: changed is called with its newest data
// after each change, and one last time with an error when the watch is over: [ErrNoNode] when the
// node is gone, also when that happened while the session was suspended; [ErrExpired] when the
// epoch has ended; or the reason why the node can no longer be read. If there is no node, the
// answer is [ErrNoNode], and nothing is watched.
//
// There is one watch on a node and one read for each change, however many callers want it. The
// answer may come from a read before the call: it is older then, but still true.
func (a Async) Watch(path string, answer, changed func(data []byte, stat *Stat, err error)) (cancel func()) {
	refuseNil(answer == nil, "Async.Watch: answer")
	refuseNil(changed == nil, "Async.Watch: changed")
	answered := false
	sub := a.Follow(path, AspectData, false, func(r Reading, err error) {
		tell := changed
		if !answered {
			answered, tell = true, answer
		}
		tell(r.Data, r.Stat, err)
	})
	return sub.Cancel
}

// Follow reads one aspect of the node at path, and calls tell with that reading, and with a new
// reading after each change: with the newest state, not with every state. If lasting, it goes on
// while there is no node, which is a state like others; else it ends with [ErrNoNode], and leaves
// no watch on a node that does not exist. If another node was found in its place, that reading has
// the Stat of the other. It ends with its first error: [ErrExpired] or [ErrClosed] with the epoch,
// or the reason why the node cannot be read. After a reconnect it goes on without the caller.
//
// There is one watch on each aspect of a node, and one read for each change, however many callers
// follow it. The first reading may be older than the call, but is still true.
func (a Async) Follow(path string, aspect Aspect, lasting bool, tell func(Reading, error)) *Subscription {
	refuseNil(tell == nil, "Async.Follow: tell")
	sub := newSubscription(tell)
	sub.watched.Lasting = lasting
	return a.follow(path, aspect, sub, watches.Reading{})
}

// follow is Follow of a node whose newest reading is known. It is not known if it has no Stat.
func (a Async) follow(path string, aspect Aspect, sub *Subscription, known watches.Reading) *Subscription {
	s := a.session
	sub.watched.Roomy = a.roomy
	full, err := s.target(path)
	if err == nil {
		key := watches.Key{Path: full, Kind: watches.Data}
		if aspect == AspectChildren {
			key.Kind = watches.Children
		}
		err = s.watches.Follow(a.watcher, key, &sub.watched, known)
	}
	if err != nil {
		s.deny(sub, path, err)
	}
	return sub
}

// deny ends a subscription that has not begun.
func (s *Session) deny(sub *Subscription, path string, err error) {
	s.conn.Order.Put(func() { sub.watched.End(watches.Reading{}, &OpError{Op: "watch", Path: path, Err: err}) })
}

// watcher returns the epoch that requests are for, as the watches see it.
func (a Async) watcher() (watches.Epoch, error) { return a.present() }

// present returns the epoch that requests are for.
func (a Async) present() (*epoch, error) {
	s := a.session
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.newest == nil:
		return nil, ErrClosed
	case a.epoch != 0 && a.epoch != s.newest.Number:
		return nil, ErrExpired
	}
	return s.newest, nil
}
