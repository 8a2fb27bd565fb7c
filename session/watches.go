package session

import (
	"errors"
	"slices"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// What follows is called with the table locked, unless it says otherwise.

// follow begins with a read, which goes out before whatever the caller asks for next. If the node
// is known, and not watched yet, it returns the entry, which is to be planted.
func (s *core) follow(epoch *epoch, key watchKey, sub *Subscription, known Reading) (unplanted *watchEntry) {
	e := s.watches.entries[key]
	fresh := e == nil || e.epoch != epoch
	if fresh {
		e = s.watches.enter(epoch, key)
	}
	sub.entry = e
	e.subs = append(e.subs, sub)
	switch {
	case fresh && known.Stat != nil:
		e.reading = known
		return e
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
		s.order.Put(func() {
			s.watches.mu.Lock()
			r, armed := e.reading, e.armed
			s.watches.mu.Unlock()
			if armed && sub.told == 0 {
				sub.read(r)
			}
		})
	}
	return nil
}

// arm reads a node, which plants the watch.
func (s *core) arm(e *watchEntry) {
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
	issue(s.requests(e.epoch.number), &r.call, &w)
}

// A watchRead is the call that reads a node for a watch.
type watchRead struct {
	call
	session *core
	entry   *watchEntry
	probing bool
	found   Reading
}

func (r *watchRead) take(reply *wire.Reply) (err error) {
	r.found, err = readingIn(&r.call, reply)
	return err
}

func (r *watchRead) answer(err error) {
	r.found.Zxid = r.zxid
	r.session.answered(r.entry, r.found, r.probing, err)
}

// answered follows the answer to a read. It is called in the session's order, and locks
// the table. Errors that may pass are no reason to stop watching: the subscribers rely
// on hearing what becomes of the node.
func (s *core) answered(e *watchEntry, r Reading, probing bool, err error) {
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
		n = news{ended: s.watches.drop(e), why: err}
	case isAny(err, ErrDisconnected):
		s.arm(e)
	default:
		e.pauses = s.later(e.pauses, s.relative(e.key.path), err, func() {
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
func (s *core) found(e *watchEntry, r Reading) news {
	e.armed, e.absent, e.reading, e.pauses, e.blamed = true, false, r, nil, 0
	if origin := e.origin; origin != nil {
		e.origin = nil
		s.watches.unfollow(origin)
	}
	if e.key.kind == watchData && r.Stat.EphemeralOwner == s.connected.ID {
		e.epoch.ephemerals.own(e.key.path, r.Stat.Czxid, nil)
	}
	// A node that was deleted, and another created in its place, is gone.
	n := s.abandon(e, Reading{Zxid: r.Zxid}, func(sub *Subscription) bool { return sub.told > 0 && sub.told != r.Stat.Czxid })
	return s.settled(e, n)
}

// settled adds the newest reading to the news, for every subscriber.
func (s *core) settled(e *watchEntry, n news) news {
	s.watches.park(e)
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
func (s *core) missing(e *watchEntry, zxid int64, watched bool) news {
	n := s.abandon(e, Reading{Zxid: zxid}, anySubscription)
	e.pauses = nil
	switch {
	case watched:
		e.armed, e.reading = true, Reading{Zxid: zxid}
		return s.settled(e, n)
	case len(e.subs) == 0:
		s.watches.drop(e)
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
func (s *core) abandon(e *watchEntry, r Reading, given func(*Subscription) bool) news {
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
func (s *core) awaitOrigin(e *watchEntry) {
	if e.origin != nil {
		e.armed = e.reading.Stat == nil // as before
		return
	}
	origin := &Subscription{lasting: true}
	origin.tell = func(r Reading, err error) { s.originTold(e, origin, r, err) }
	e.origin = origin
	key := watchKey{e.key.path, watchData}
	if at := s.watches.entries[key]; at == nil || at.epoch != e.epoch {
		at = s.watches.enter(e.epoch, key)
		at.absent = true // there is no need to try to read it first
		s.arm(at)
	}
	s.follow(e.epoch, key, origin, Reading{})
}

// originTold is called in the session's order, and locks the table.
func (s *core) originTold(e *watchEntry, origin *Subscription, r Reading, err error) {
	s.watches.mu.Lock()
	var n news
	switch {
	case e.origin != origin || e.dead: // too late
	case err != nil:
		n = news{ended: s.watches.drop(e), why: err}
	case r.Stat != nil:
		e.origin = nil
		s.watches.unfollow(origin)
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
func (s *core) notified(e *epoch, ev wire.Event) {
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

func (s *core) fired(epoch *epoch, key watchKey, gone bool) (n news) {
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
		s.watches.drop(e)
	case gone && key.kind == watchChildren:
		e.armed = false
		s.awaitOrigin(e)
	default:
		e.absent = gone
		s.arm(e)
	}
	return n
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
	issue(s.requests(e.number), &r.call, &wire.Request{Op: wire.OpRemoveWatches, Path: key.path, Kind: kind})
}

// forgetWatches drops every watch of an epoch, and returns what tells their subscribers. It
// is called in the session's order, and locks the table.
func (s *core) forgetWatches(epoch *epoch, why error) (tell func()) {
	t := s.watches
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
