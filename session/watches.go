package session

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// How many watches without subscribers are kept, unless there is much to
// keep with them.
const (
	maxParked      = 1024
	maxParkedBytes = 4 << 10
	maxParkedNames = 128
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

// A watchEntry is the watch on one aspect of one node, for all subscribers to it. The read
// that delivers arms it. While armed it may stand without subscribers: parked, to be used
// again without a request.
type watchEntry struct {
	key      watchKey // of data or children
	epoch    *epoch
	reading  Reading
	armed    bool            // else a read is under way, or it is to be planted
	planting bool            // set while a request plants it
	stale    bool            // something has become of the node meanwhile
	absent   bool            // as far as is known: a read with an exists watch is what to try
	parked   bool            // it is in the list of those that are
	dead     bool            // it is not in the table any more
	subs     []*Subscription // news share their memory: an item of it is set once
	origin   *Subscription   // to the data of a node that has no children because there is none
	pause    *errand         // between reads that fail for no passing reason; nil at first
	blamed   int             // how many connections in a row its reads have broken
}

// A Subscription is to one aspect of one node. See [Async.Follow].
type Subscription struct {
	session *Session
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
	t := &sub.session.watches
	t.mu.Lock()
	defer t.mu.Unlock()
	sub.session.unfollow(sub)
}

// Over reports whether no more readings will be delivered.
func (sub *Subscription) Over() bool { return sub.over.Load() }

// Unsettled reports, where the session gives its answers, whether an older change of the
// node may be yet to be reported: while the node is being read, first or after a change.
func (sub *Subscription) Unsettled() bool {
	if sub.entry == nil || sub.Over() {
		return false
	}
	t := &sub.session.watches
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

// Watch reads the node at path and follows its changes: changed is called
// with its newest data after each change, and one last time with an error when the watch
// is over: [ErrNoNode] when the node is gone, also when that happened while the session was
// suspended; [ErrExpired] when the epoch has ended; or why the node can be read no more. If
// there is no node, the answer is [ErrNoNode], and nothing is watched.
//
// There is one watch on a node and one read for each change, however many want
// it. What the read found before it may be older than the call, but is still true.
func (a Async) Watch(path string, answer, changed func(data []byte, stat *Stat, err error)) (cancel func()) {
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

// Follow reads one aspect of the node at path, and has tell called with that and with
// what is read after each change: the newest state, not every one. If lasting, it goes
// on while there is no node, which is a state like others; else it ends with
// [ErrNoNode], and leaves no watch on a node that does not exist. It ends with its first
// error: [ErrExpired] or [ErrClosed] with the epoch, or why the node cannot be read.
// After a reconnect it goes on by itself.
//
// There is one watch on each aspect of a node, and one read for each change, however many
// follow it. The first reading may be older than the call, but is still true.
func (a Async) Follow(path string, aspect Aspect, lasting bool, tell func(Reading, error)) *Subscription {
	return a.follow(path, aspect, &Subscription{session: a.session, tell: tell, lasting: lasting}, Reading{})
}

// follow is Follow of a node of which that reading is known, if it has a Stat.
func (a Async) follow(path string, aspect Aspect, sub *Subscription, known Reading) *Subscription {
	s := a.session
	full, err := s.target(path)
	if err == nil {
		key := watchKey{full, watchData}
		if aspect == AspectChildren {
			key.kind = watchChildren
		}
		err = s.enlist(a, key, sub, known)
	}
	if err != nil {
		s.deny(sub, path, err)
	}
	return sub
}

// deny ends a subscription that has not begun.
func (s *Session) deny(sub *Subscription, path string, err error) {
	s.order.put(func() { sub.end(Reading{}, &OpError{Op: "watch", Path: path, Err: err}) })
}

// enlist follows in the epoch of a. Only while the table is locked it is certain that this
// is not an earlier one than that of the entry that may be there.
func (s *Session) enlist(a Async, key watchKey, sub *Subscription, known Reading) error {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	e, err := a.present()
	if err == nil {
		s.follow(e, key, sub, known)
	}
	return err
}

// present returns the epoch that requests are for.
func (a Async) present() (*epoch, error) {
	s := a.session
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.newest == nil:
		return nil, ErrClosed
	case a.epoch != 0 && a.epoch != s.newest.number:
		return nil, ErrExpired
	}
	return s.newest, nil
}

// What follows is called with the table locked, unless it says otherwise.

// follow begins with what is known, or with a read, which goes out before whatever the
// caller asks for next.
func (s *Session) follow(epoch *epoch, key watchKey, sub *Subscription, known Reading) {
	e := s.watches.entries[key]
	fresh := e == nil || e.epoch != epoch
	if fresh {
		e = s.enter(epoch, key)
	}
	sub.entry = e
	e.subs = append(e.subs, sub)
	switch {
	case fresh && known.Stat != nil:
		s.plant(e, known)
	case fresh:
		s.arm(e)
	case e.reading.Stat == unread && e.planting:
		e.stale = true // it is to be read
	case e.reading.Stat == unread && e.armed:
		s.arm(e)
	case !e.armed: // the read under way tells
	case e.reading.Stat == nil && !sub.lasting:
		// The node may have been created just now, by the request before this one.
		e.absent = false
		s.arm(e)
	default:
		s.order.put(func() {
			s.watches.mu.Lock()
			r, armed := e.reading, e.armed
			s.watches.mu.Unlock()
			if armed && sub.told == 0 {
				sub.read(r)
			}
		})
	}
}

func (s *Session) enter(epoch *epoch, key watchKey) *watchEntry {
	e := &watchEntry{key: key, epoch: epoch}
	s.watches.entries[key] = e
	return e
}

func (s *Session) unfollow(sub *Subscription) {
	e := sub.entry
	sub.over.Store(true)
	if i := slices.Index(e.subs, sub); i >= 0 {
		e.subs = butOne(e.subs, i)
		s.park(e)
	}
}

// butOne returns a copy of the subscriptions but one.
func butOne(subs []*Subscription, i int) []*Subscription {
	if len(subs) == 1 {
		return nil
	}
	return append(slices.Clone(subs[:i]), subs[i+1:]...)
}

// park keeps a watch without subscribers, instead of the one that has been
// kept for longest.
func (s *Session) park(e *watchEntry) {
	switch {
	case len(e.subs) > 0 || e.dead:
		return
	case e.origin != nil:
		s.drop(e)
		return
	case !e.armed || e.parked:
		return
	case len(e.reading.Data) > maxParkedBytes || len(e.reading.Names) > maxParkedNames:
		s.unwatch(e)
		return
	}
	t := &s.watches
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
		s.unwatch(oldest)
	}
}

// unwatch ends a watch that stands.
func (s *Session) unwatch(e *watchEntry) {
	if !e.dead {
		s.drop(e)
		e.epoch.unwatch(e.key)
	}
}

// unwatch ends a watch on the server, in the order of requests. The epoch must not be
// locked.
func (e *epoch) unwatch(key watchKey) {
	const children, data = 1, 2
	kind := int32(data)
	e.mu.Lock()
	delete(e.watches, key)
	if key.kind == watchChildren {
		kind = children
	} else {
		delete(e.watches, watchKey{key.path, watchAbsent})
	}
	e.mu.Unlock()
	s := e.session
	// A watch that is gone, or a server that cannot: there is nothing to be done.
	r := newRequest("unwatch", s.relative(key.path), nothing, func(struct{}, error) {})
	issue(s.Async(e.number), &r.call, &wire.Request{Op: wire.OpRemoveWatches, Path: key.path, Kind: kind})
}

// drop forgets an entry, and returns the subscriptions to end.
func (s *Session) drop(e *watchEntry) []*Subscription {
	e.armed, e.dead = false, true
	if s.watches.entries[e.key] == e {
		delete(s.watches.entries, e.key)
	}
	if origin := e.origin; origin != nil {
		e.origin = nil
		s.unfollow(origin)
	}
	subs := e.subs
	e.subs = nil
	return subs
}

// arm reads a node, which plants the watch.
func (s *Session) arm(e *watchEntry) {
	e.armed = false
	probing := e.key.kind == watchData && e.absent
	w := wire.Request{Op: wire.OpGetData, Path: e.key.path, Watch: true}
	switch {
	case e.key.kind == watchChildren:
		w.Op = wire.OpGetChildren2
	case probing:
		w.Op = wire.OpExists
	}
	r := &watchRead{session: s, entry: e, probing: probing}
	r.typed, r.op, r.path = r, "watch", s.relative(e.key.path)
	issue(s.Async(e.epoch.number), &r.call, &w)
}

// A watchRead is the call that reads a node for a watch.
type watchRead struct {
	call
	session *Session
	entry   *watchEntry
	probing bool
	found   Reading
}

func (r *watchRead) take(reply *wire.Reply) error {
	r.found = Reading{Stat: statOf(&reply.Stat), Data: bytes.Clone(reply.Data), Names: reply.Names}
	return nil
}

func (r *watchRead) answer(err error) {
	r.found.Zxid = r.zxid
	r.session.answered(r.entry, r.found, r.probing, err)
}

// answered follows the answer to a read. It is called in the session's order, and locks
// the table. Errors that may pass are no reason to stop watching: the subscribers rely
// on hearing what becomes of the node.
func (s *Session) answered(e *watchEntry, r Reading, probing bool, err error) {
	s.watches.mu.Lock()
	var n news
	lasting := isAny(err, ErrNoAuth, ErrTooLarge, ErrExpired, ErrClosed)
	switch {
	case e.dead: // no subscriber is left
	case isNoNode(err):
		n = s.missing(e, r.Zxid, probing)
	case err == nil && probing: // it is there again
		e.absent = false
		s.arm(e)
	case err == nil:
		n = s.found(e, r)
	case lasting || e.blames(err) || len(e.subs) == 0:
		n = news{ended: s.drop(e), why: err}
	case isAny(err, ErrDisconnected):
		s.arm(e)
	default:
		if e.pause == nil {
			pause := s.Async(e.epoch.number).newErrand(func(error) {})
			e.pause = &pause
		}
		e.pause.Later(s.relative(e.key.path), err, func() {
			s.watches.mu.Lock()
			defer s.watches.mu.Unlock()
			if !e.dead {
				s.arm(e)
			}
		})
	}
	s.watches.mu.Unlock()
	n.tell()
}

// blames reports whether the read of a watch is the reason that it fails.
func (e *watchEntry) blames(err error) bool {
	if e.blamed++; !errors.Is(err, errBlamed) {
		e.blamed = 0
	}
	return e.blamed == maxBlamed
}

// found returns what a read has found.
func (s *Session) found(e *watchEntry, r Reading) news {
	e.armed, e.absent, e.reading, e.pause, e.blamed = true, false, r, nil, 0
	if origin := e.origin; origin != nil {
		e.origin = nil
		s.unfollow(origin)
	}
	if e.key.kind == watchData && r.Stat.EphemeralOwner == s.connected.ID {
		e.epoch.ephemerals.own(e.key.path, r.Stat.Czxid, nil)
	}
	// A node that was deleted, and another created in its place, is gone.
	n := s.abandon(e, Reading{Zxid: r.Zxid}, func(sub *Subscription) bool { return sub.told > 0 && sub.told != r.Stat.Czxid })
	return s.settled(e, n)
}

// settled adds the newest reading to the news, for every subscriber.
func (s *Session) settled(e *watchEntry, n news) news {
	s.park(e)
	n.subs, n.reading = e.subs, e.reading
	return n
}

// news are readings for subscribers, delivered when the table is not locked.
type news struct {
	ended []*Subscription // are told the last reading, and why
	last  Reading
	why   error

	subs    []*Subscription // are told the reading, after that
	reading Reading
}

func (n *news) tell() {
	for _, sub := range n.ended {
		sub.end(n.last, n.why)
	}
	for _, sub := range n.subs {
		sub.read(n.reading)
	}
}

// missing goes on where there is no node. Only a lasting subscription plants a watch on a
// node that does not exist.
func (s *Session) missing(e *watchEntry, zxid int64, watched bool) news {
	n := s.abandon(e, Reading{Zxid: zxid}, anySubscription)
	e.pause = nil
	switch {
	case watched:
		e.armed, e.reading = true, Reading{Zxid: zxid}
		return s.settled(e, n)
	case len(e.subs) == 0:
		s.drop(e)
	case e.key.kind == watchChildren:
		s.awaitOrigin(e)
	default:
		e.absent = true
		s.arm(e)
	}
	return n
}

func anySubscription(*Subscription) bool { return true }

// abandon ends the subscriptions, of those given, that do not last.
func (s *Session) abandon(e *watchEntry, r Reading, given func(*Subscription) bool) news {
	ends := func(sub *Subscription) bool { return !sub.lasting && given(sub) }
	if !slices.ContainsFunc(e.subs, ends) {
		return news{}
	}
	ended, rest := e.subs, []*Subscription(nil)
	if len(e.subs) > 1 {
		ended = nil
		for _, sub := range e.subs {
			if ends(sub) {
				ended = append(ended, sub)
			} else {
				rest = append(rest, sub)
			}
		}
	}
	e.subs = rest
	return news{ended: ended, last: r, why: &OpError{Op: "watch", Path: s.relative(e.key.path), Err: ErrNoNode}}
}

// awaitOrigin waits for a node whose children are wanted, on its behalf.
func (s *Session) awaitOrigin(e *watchEntry) {
	if e.origin != nil {
		e.armed = e.reading.Stat == nil // as before
		return
	}
	origin := &Subscription{session: s, lasting: true}
	origin.tell = func(r Reading, err error) { s.originTold(e, origin, r, err) }
	e.origin = origin
	key := watchKey{e.key.path, watchData}
	if at := s.watches.entries[key]; at == nil || at.epoch != e.epoch {
		at = s.enter(e.epoch, key)
		at.absent = true // there is no need to try to read it first
		s.arm(at)
	}
	s.follow(e.epoch, key, origin, Reading{})
}

// originTold is called in the session's order, and locks the table.
func (s *Session) originTold(e *watchEntry, origin *Subscription, r Reading, err error) {
	s.watches.mu.Lock()
	var n news
	switch {
	case e.origin != origin || e.dead: // too late
	case err != nil:
		n = news{ended: s.drop(e), why: err}
	case r.Stat != nil:
		e.origin = nil
		s.unfollow(origin)
		s.arm(e)
	default:
		e.armed, e.reading = true, r
		n = s.settled(e, n)
	}
	s.watches.mu.Unlock()
	n.tell()
}

// notified acts on a watch that has fired. It is called in the session's order, and
// locks the table.
func (s *Session) notified(e *epoch, ev wire.Event) {
	if e != s.epoch {
		return
	}
	data, children := watchKey{ev.Path, watchData}, watchKey{ev.Path, watchChildren}
	var first, then news
	s.watches.mu.Lock()
	switch ev.Kind {
	case wire.EventDeleted:
		e.ephemerals.disown(ev.Path)
		first, then = s.fired(e, data, true), s.fired(e, children, true)
	case wire.EventCreated, wire.EventDataChanged:
		first = s.fired(e, data, false)
	case wire.EventChildrenChanged:
		first = s.fired(e, children, false)
	}
	s.watches.mu.Unlock()
	first.tell()
	then.tell()
}

func (s *Session) fired(epoch *epoch, key watchKey, gone bool) (n news) {
	e := s.watches.entries[key]
	if e != nil && e.epoch == epoch && e.planting {
		e.stale = true
		return n
	}
	if e == nil || e.epoch != epoch || !e.armed || e.origin != nil {
		return n // no subscriber is left, or the event is older than the read under way
	}
	switch {
	case gone && e.reading.Stat != nil:
		n = s.abandon(e, Reading{}, anySubscription)
	case !gone:
		n = s.abandon(e, Reading{}, func(sub *Subscription) bool { return sub.once && sub.told > 0 })
		n.why = nil
	}
	switch {
	case len(e.subs) == 0:
		s.drop(e)
	case gone && key.kind == watchChildren:
		e.armed = false
		s.awaitOrigin(e)
	default:
		e.absent = gone
		s.arm(e)
	}
	return n
}

// forgetWatches drops every watch of an epoch, and returns what tells their subscribers. It
// is called in the session's order, and locks the table.
func (s *Session) forgetWatches(epoch *epoch, why error) (tell func()) {
	t := &s.watches
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []news
	for key, e := range t.entries {
		if e.epoch != epoch {
			continue
		}
		delete(t.entries, key)
		e.armed, e.dead, e.origin = false, true, nil // its origin ends as well, without effect
		if len(e.subs) > 0 {
			all = append(all, news{ended: e.subs, why: &OpError{Op: "watch", Path: s.relative(key.path), Err: why}})
			e.subs = nil
		}
	}
	t.parked = nil
	return func() {
		for i := range all {
			all[i].tell()
		}
	}
}
