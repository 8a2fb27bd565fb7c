package session

import (
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// maxParked is how many watches are kept that nobody wants at the moment, unless there is
// much to keep with them.
const (
	maxParked      = 1024
	maxParkedBytes = 4 << 10
	maxParkedNames = 128
)

// A Reading is what one read of a node has found. Data and Names belong to all who
// watch the node, and must not be modified.
type Reading struct {
	// Zxid is that of the newest transaction that the server knew when it
	// answered: of two readings the one with the larger is the newer. It is 0 if
	// there was no read, and the server has told that the node is gone.
	Zxid  int64
	Stat  *Stat    // nil if there is no node
	Data  []byte   // of [AspectData]
	Names []string // of [AspectChildren], in no order
}

// An Aspect is what of a node is watched.
type Aspect uint8

// The aspects of a node.
const (
	AspectData     Aspect = iota // its data
	AspectChildren               // the names of its children
)

// A watchEntry is what the server is asked to watch on behalf of all who subscribe
// to one aspect of one node. It belongs to the loop.
//
// It is armed by the read that delivers. While armed it may stand without
// subscribers: parked, to be used again without a request.
type watchEntry struct {
	key     watchKey // of data or children
	reading Reading
	armed   bool // else a read is under way
	absent  bool // as far as is known: a read with an exists watch is what to try
	parked  bool // it is in the list of those that are
	subs    []*Subscription
	origin  *Subscription // to the data of a node that has no children because there is none
}

// A Subscription is to one aspect of one node. See [Async.Follow].
type Subscription struct {
	session *Session
	entry   *watchEntry // set in the loop
	tell    func(Reading, error)
	lasting bool // goes on while there is no node
	over    bool
}

// Cancel ends the subscription. It may be told once more by an answer that is on
// its way.
func (sub *Subscription) Cancel() {
	sub.session.do(func() { sub.session.unfollow(sub) })
}

// Watch reads the node at path and is told of what becomes of it: changed is called
// with its newest data after each change, and one last time with [ErrNoNode] when it
// is gone, also when that happened while the session was suspended. If there is no
// node, the answer is [ErrNoNode], and nothing is watched. If the epoch ends, both are
// called at most once more, with [ErrExpired] or [ErrClosed].
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
// [ErrNoNode], and leaves no watch on a node that does not exist. It ends with the
// first error: that of a read, or [ErrExpired] or [ErrClosed] with the epoch. After
// a reconnect it goes on by itself.
//
// There is one watch on each aspect of a node, and one read for each change, however
// many follow it. What is told first may be older than the call, but is still true.
func (a Async) Follow(path string, aspect Aspect, lasting bool, tell func(Reading, error)) *Subscription {
	s := a.session
	sub := &Subscription{session: s, tell: tell, lasting: lasting}
	s.do(func() { s.follow(a, path, aspect, sub) })
	return sub
}

func (s *Session) follow(a Async, path string, aspect Aspect, sub *Subscription) {
	err := ValidatePath(path)
	switch {
	case err != nil:
	case s.machine.state == closing || s.machine.state == closed:
		err = ErrClosed
	case a.epoch != 0 && a.epoch != s.epoch.number:
		err = ErrExpired
	}
	if err != nil {
		sub.end(Reading{}, &OpError{Op: "watch", Path: path, Err: err})
		return
	}
	key := watchKey{s.absolute(path), watchData}
	if aspect == AspectChildren {
		key.kind = watchChildren
	}
	s.join(key, sub)
}

func (s *Session) join(key watchKey, sub *Subscription) {
	entry, known := s.watches[key]
	if !known {
		entry = &watchEntry{key: key}
		s.watches[key] = entry
	}
	sub.entry = entry
	entry.subs = append(entry.subs, sub)
	switch {
	case !known:
		s.arm(entry)
	case !entry.armed: // the read under way tells
	case entry.reading.Stat != nil || sub.lasting:
		sub.tell(entry.reading, nil)
	default:
		// Who expects a node may have asked for it to be made just now.
		entry.absent = false
		s.arm(entry)
	}
}

func (s *Session) unfollow(sub *Subscription) {
	e := sub.entry
	if e == nil || sub.over {
		return
	}
	sub.over = true
	if i := slices.Index(e.subs, sub); i >= 0 {
		e.subs = slices.Delete(e.subs, i, i+1)
	}
	s.park(e)
}

// park keeps a watch that nobody wants any more, instead of the one that has been
// kept for longest.
func (s *Session) park(e *watchEntry) {
	switch {
	case len(e.subs) > 0 || s.watches[e.key] != e:
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
	e.parked = true
	s.parked = append(s.parked, e)
	if len(s.parked) <= maxParked {
		return
	}
	oldest := s.parked[0]
	s.parked[0] = nil
	s.parked = s.parked[1:]
	oldest.parked = false
	if len(oldest.subs) == 0 && oldest.armed && s.watches[oldest.key] == oldest {
		s.unwatch(oldest)
	}
}

// unwatch ends a watch that stands.
func (s *Session) unwatch(e *watchEntry) {
	s.drop(e)
	s.epoch.unwatch(e.key)
}

// drop forgets an entry.
func (s *Session) drop(e *watchEntry) {
	if s.watches[e.key] == e {
		delete(s.watches, e.key)
	}
	if e.origin != nil {
		s.unfollow(e.origin)
		e.origin = nil
	}
}

// arm reads a node, which plants the watch.
func (s *Session) arm(e *watchEntry) {
	e.armed = false
	c := &call{op: "watch", path: s.relative(e.key.path), number: s.epoch.number, watch: e.key.path}
	c.began = time.Now()
	r, key, probing := Reading{}, e.key, e.key.kind == watchData && e.absent
	c.do = func(conn *zk.Conn) (err error) {
		r, err = readAspect(conn, key, probing)
		return err
	}
	c.answer = func(err error) {
		r.Zxid = c.zxid
		switch {
		case s.watches[e.key] != e: // it was forgotten with its epoch
		case isNoNode(err):
			s.missing(e, r.Zxid, probing)
		case err == nil && probing: // it is there again
			e.absent = false
			s.arm(e)
		case err == nil:
			s.found(e, r)
		case isAny(err, ErrDisconnected) && len(e.subs) > 0:
			s.arm(e)
		default:
			s.drop(e)
			e.end(Reading{}, err)
		}
	}
	s.submit(c)
}

func readAspect(conn *zk.Conn, key watchKey, probing bool) (Reading, error) {
	switch {
	case key.kind == watchChildren:
		names, stat, err := conn.Children(key.path)
		return Reading{Names: names, Stat: statOf(stat)}, err
	case probing:
		_, stat, err := conn.Exists(key.path) // the link sees whether there is none
		return Reading{Stat: statOf(stat)}, err
	}
	data, stat, err := conn.Get(key.path)
	return Reading{Data: data, Stat: statOf(stat)}, err
}

// found delivers what a read has found.
func (s *Session) found(e *watchEntry, r Reading) {
	e.armed, e.absent, e.reading = true, false, r
	if e.origin != nil {
		s.unfollow(e.origin)
		e.origin = nil
	}
	if e.key.kind == watchData && r.Stat.EphemeralOwner == s.connected.ID {
		s.epoch.ephemerals.own(e.key.path)
	}
	e.deliver()
	s.park(e)
}

// missing goes on where there is no node. Only who wants to outlast that plants a
// watch on one that does not exist.
func (s *Session) missing(e *watchEntry, zxid int64, watched bool) {
	s.abandoned(e, Reading{Zxid: zxid})
	switch {
	case watched:
		e.armed, e.reading = true, Reading{Zxid: zxid}
		e.deliver()
		s.park(e)
	case len(e.subs) == 0:
		s.drop(e)
	case e.key.kind == watchChildren:
		s.awaitOrigin(e)
	default:
		e.absent = true
		s.arm(e)
	}
}

// abandoned ends the subscriptions that do not last.
func (s *Session) abandoned(e *watchEntry, r Reading) {
	var ended []*Subscription
	e.subs = slices.DeleteFunc(e.subs, func(sub *Subscription) bool {
		if !sub.lasting {
			ended = append(ended, sub)
		}
		return !sub.lasting
	})
	for _, sub := range ended {
		sub.end(r, &OpError{Op: "watch", Path: s.relative(e.key.path), Err: ErrNoNode})
	}
}

// awaitOrigin waits for a node whose children are wanted, on its behalf.
func (s *Session) awaitOrigin(e *watchEntry) {
	if e.origin != nil {
		e.armed = e.reading.Stat == nil // as before
		return
	}
	origin := &Subscription{session: s, lasting: true}
	origin.tell = func(r Reading, err error) {
		switch {
		case e.origin != origin: // too late
		case err != nil:
			s.drop(e)
			e.end(Reading{}, err)
		case r.Stat != nil:
			s.unfollow(origin)
			e.origin = nil
			s.arm(e)
		default:
			e.armed, e.reading = true, r
			e.deliver()
		}
	}
	e.origin = origin
	key := watchKey{e.key.path, watchData}
	if _, known := s.watches[key]; !known {
		at := &watchEntry{key: key, absent: true} // there is no need to try to read it first
		s.watches[key] = at
		s.arm(at)
	}
	s.join(key, origin)
}

// deliver tells everybody.
func (e *watchEntry) deliver() {
	for _, sub := range slices.Clone(e.subs) {
		if !sub.over {
			sub.tell(e.reading, nil)
		}
	}
}

// end tells everybody for the last time.
func (e *watchEntry) end(r Reading, err error) {
	subs := e.subs
	e.subs = nil
	for _, sub := range subs {
		sub.end(r, err)
	}
}

func (sub *Subscription) end(r Reading, err error) {
	if !sub.over {
		sub.over = true
		sub.tell(r, err)
	}
}

// notified acts on a watch that has fired.
func (s *Session) notified(e *epoch, ev nodeEvent) {
	if e != s.epoch {
		return
	}
	switch ev.kind {
	case nodeDeleted:
		e.ephemerals.disown(ev.path)
		s.fired(watchKey{ev.path, watchData}, true)
		s.fired(watchKey{ev.path, watchChildren}, true)
	case nodeCreated, nodeDataChanged:
		s.fired(watchKey{ev.path, watchData}, false)
	case nodeChildrenChanged:
		s.fired(watchKey{ev.path, watchChildren}, false)
	}
}

func (s *Session) fired(key watchKey, gone bool) {
	e, known := s.watches[key]
	if !known || !e.armed || e.origin != nil {
		return // news for nobody, or older than the read under way
	}
	if gone && e.reading.Stat != nil {
		s.abandoned(e, Reading{})
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
}

// forgetWatches drops every watch, with its epoch. Who waits for an answer gets one.
func (s *Session) forgetWatches(why error) {
	old := s.watches
	s.watches, s.parked = make(map[watchKey]*watchEntry), nil
	for _, e := range old {
		e.origin = nil // it is told with the others, and nobody listens
		e.end(Reading{}, &OpError{Op: "watch", Path: s.relative(e.key.path), Err: why})
	}
}
