package watches

import (
	"errors"
	"slices"

	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// Follow subscribes to the watch with the key, in the epoch that present returns, or returns its
// error. It is called while the table is locked: only then it is certain that this is not an
// earlier epoch than that of the watch that may be there. Known, if it has a Stat, is what a
// transaction of the session has created: it is not read.
func (t *Table) Follow(present func() (Epoch, error), key Key, sub *Subscription, known Reading) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	epoch, err := present()
	if err != nil {
		return err
	}
	if created := t.follow(epoch, key, sub, known); created != nil {
		t.plant(created)
	}
	return nil
}

// What follows is called with the table locked, unless it says otherwise.

// follow begins with a read, which goes out before whatever the caller asks for next. If the node
// is known, and not watched yet, it returns the entry, which is to be planted.
func (t *Table) follow(epoch Epoch, key Key, sub *Subscription, known Reading) (unplanted *entry) {
	e := t.entries[key]
	fresh := e == nil || e.epoch != epoch
	if fresh {
		e = t.enter(epoch, key)
	}
	sub.entry = e
	e.subs = append(e.subs, sub)
	e.roomy = e.roomy || sub.Roomy
	switch {
	case fresh && known.Stat != nil:
		e.reading = known
		return e
	case fresh:
		t.arm(e)
	case e.reading.Stat == unread && e.planting:
		e.stale = true // it is to be read
	case e.reading.Stat == unread && e.armed:
		t.arm(e)
	case !e.armed: // the read under way tells
	case e.reading.Stat == nil && !sub.Lasting:
		// The node may have been created just now, by the request before this one.
		e.absent = false
		t.arm(e)
	default:
		t.order.Put(func() {
			t.mu.Lock()
			r, armed := e.reading, e.armed
			t.mu.Unlock()
			if armed && sub.told == 0 {
				sub.read(r)
			}
		})
	}
	return nil
}

// arm reads a node, which plants the watch.
func (t *Table) arm(e *entry) {
	e.armed = false
	probing := e.key.Kind == Data && e.absent
	e.epoch.Read(Read{e, probing})
}

// A Read reads a node for its watch.
type Read struct {
	entry   *entry
	probing bool
}

// Request returns the request. Roomy reports whether the reply may be larger than others.
func (r Read) Request() (w wire.Request, roomy bool) {
	w = wire.Request{Op: wire.OpGetData, Path: r.entry.key.Path, Watch: true}
	switch {
	case r.entry.key.Kind == Children:
		w.Op = wire.OpGetChildren2
	case r.probing:
		w.Op = wire.OpExists
	}
	return w, r.entry.roomy
}

// Answered follows the answer, in the session's order. Errors that may pass are no reason to stop
// watching: the subscribers rely on hearing what becomes of the node.
func (r Read) Answered(found Reading, err error) {
	r.entry.table.answered(r.entry, found, r.probing, err)
}

// answered is called in the session's order, and locks the table.
func (t *Table) answered(e *entry, r Reading, probing bool, err error) {
	t.mu.Lock()
	var n news
	e.broken.Note(err)
	lasting := fault.IsAny(err, fault.ErrNoAuth, fault.ErrTooLarge, fault.ErrExpired, fault.ErrClosed)
	switch {
	case e.dead: // no subscriber is left
	case errors.Is(err, fault.ErrNoNode):
		n = t.missing(e, r.Zxid, probing)
	case err == nil && probing: // it is there again
		e.absent = false
		e.answers()
		t.arm(e)
	case err == nil:
		n = t.found(e, r)
	case lasting || e.broken.Guilty() || len(e.subs) == 0:
		n = news{ended: t.drop(e), why: err}
	case errors.Is(err, fault.ErrDisconnected) && e.broken.Alone() < maxUnpaused:
		t.arm(e)
	default:
		e.retry = e.epoch.Later(e.retry, e.key.Path, err, e.broken.Suspicious(), func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if !e.dead {
				t.arm(e)
			}
		})
	}
	t.mu.Unlock()
	t.notify(n)
}

// answers notes that a read is answered, or not repeated any more.
func (e *entry) answers() {
	e.retry.End()
	e.retry = nil
}

// maxUnpaused is the number of connections in a row that the read of a watch may break before it
// pauses. Where connections are lost as soon as they are made, this read may be the only request of
// each by chance. Then it waits until a connection has worked for some time. The watch ends only if
// that breaks too, again and again.
const maxUnpaused = 2

// found returns what a read has found.
func (t *Table) found(e *entry, r Reading) news {
	e.armed, e.absent, e.reading = true, false, r
	e.answers()
	if origin := e.origin; origin != nil {
		e.origin = nil
		t.unfollow(origin)
	}
	if e.key.Kind == Data {
		e.epoch.Found(e.key.Path, r.Stat)
	}
	// A node that was deleted, and another created in its place, is gone.
	n := t.abandon(e, Reading{Zxid: r.Zxid, Stat: r.Stat}, func(sub *Subscription) bool { return sub.told > 0 && sub.told != r.Stat.Czxid })
	return t.settled(e, n)
}

// settled adds the newest reading to the news, for every subscriber.
func (t *Table) settled(e *entry, n news) news {
	t.park(e)
	n.subs, n.reading = e.subs, e.reading
	return n
}

// news are readings for subscribers, delivered when the table is not locked.
type news struct {
	ended []*Subscription // receive the last reading, and why
	last  Reading
	why   error

	subs    []*Subscription // receive the reading, after that
	reading Reading
}

// notify delivers the news, in the session's order.
func (t *Table) notify(all ...news) {
	defer func() {
		if len(all) > 0 { // a subscriber ends the goroutine
			rest := slices.Clone(all)
			t.order.Left(func() { t.notify(rest...) })
		}
	}()
	for ; len(all) > 0; all = all[1:] {
		n := &all[0]
		for len(n.ended) > 0 {
			sub := n.ended[0]
			n.ended = n.ended[1:]
			sub.End(n.last, n.why)
		}
		for len(n.subs) > 0 {
			sub := n.subs[0]
			n.subs = n.subs[1:]
			sub.read(n.reading)
		}
	}
}

// missing goes on where there is no node. Only a lasting subscription plants a watch on a
// node that does not exist.
func (t *Table) missing(e *entry, zxid int64, watched bool) news {
	n := t.abandon(e, Reading{Zxid: zxid}, anySubscription)
	e.answers()
	switch {
	case watched:
		e.armed, e.reading = true, Reading{Zxid: zxid}
		return t.settled(e, n)
	case len(e.subs) == 0:
		t.drop(e)
	case e.key.Kind == Children:
		t.awaitOrigin(e)
	default:
		e.absent = true
		t.arm(e)
	}
	return n
}

func anySubscription(*Subscription) bool { return true }

// abandon ends the subscriptions, of those given, that do not last.
func (t *Table) abandon(e *entry, r Reading, given func(*Subscription) bool) news {
	ends := func(sub *Subscription) bool { return !sub.Lasting && given(sub) }
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
	return news{ended: ended, last: r, why: t.named(e.key.Path, fault.ErrNoNode)}
}

// awaitOrigin waits for a node whose children are wanted, on its behalf.
func (t *Table) awaitOrigin(e *entry) {
	if e.origin != nil {
		e.armed = e.reading.Stat == nil // as before
		return
	}
	origin := &Subscription{Lasting: true}
	origin.To = &originReceiver{e, origin}
	e.origin = origin
	key := Key{e.key.Path, Data}
	if at := t.entries[key]; at == nil || at.epoch != e.epoch {
		at = t.enter(e.epoch, key)
		at.absent = true // there is no need to try to read it first
		t.arm(at)
	}
	t.follow(e.epoch, key, origin, Reading{})
}

// An originReceiver receives what becomes of a node that is missing, for the watch on its children.
type originReceiver struct {
	entry  *entry
	origin *Subscription
}

// Receive implements [Receiver]. It is called in the session's order, and locks the table.
func (o *originReceiver) Receive(r Reading, err error) {
	e, t, origin := o.entry, o.entry.table, o.origin
	t.mu.Lock()
	var n news
	switch {
	case e.origin != origin || e.dead: // too late
	case err != nil:
		n = news{ended: t.drop(e), why: err}
	case r.Stat != nil:
		e.origin = nil
		t.unfollow(origin)
		t.arm(e)
	default:
		e.armed, e.reading = true, r
		n = t.settled(e, n)
	}
	t.mu.Unlock()
	t.notify(n)
}

// Fired acts on a watch that has fired, in the session's order.
func (t *Table) Fired(epoch Epoch, ev wire.Event) {
	gone := ev.Kind == wire.EventDeleted
	var all [2]news
	t.mu.Lock()
	if gone || ev.Kind == wire.EventCreated || ev.Kind == wire.EventDataChanged {
		all[0] = t.fired(epoch, Key{ev.Path, Data}, gone)
	}
	if gone || ev.Kind == wire.EventChildrenChanged {
		all[1] = t.fired(epoch, Key{ev.Path, Children}, gone)
	}
	t.mu.Unlock()
	t.notify(all[:]...)
}

func (t *Table) fired(epoch Epoch, key Key, gone bool) (n news) {
	e := t.entries[key]
	if e != nil && e.epoch == epoch && e.planting {
		e.stale = true
		return n
	}
	if e == nil || e.epoch != epoch || !e.armed || e.origin != nil {
		return n // no subscriber is left, or the event is older than the read under way
	}
	switch {
	case gone && e.reading.Stat != nil:
		n = t.abandon(e, Reading{}, anySubscription)
	case !gone:
		n = t.abandon(e, Reading{}, func(sub *Subscription) bool { return sub.Once && sub.told > 0 })
		n.why = nil
	}
	switch {
	case len(e.subs) == 0:
		t.drop(e)
	case gone && key.Kind == Children:
		e.armed = false
		t.awaitOrigin(e)
	default:
		e.absent = gone
		t.arm(e)
	}
	return n
}

// Forget drops every watch of an epoch, in the session's order. It returns a function that ends the
// subscriptions to them.
func (t *Table) Forget(epoch Epoch, why error) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []news
	for key, e := range t.entries {
		if e.epoch != epoch {
			continue
		}
		delete(t.entries, key)
		e.armed, e.dead, e.origin = false, true, nil // its origin ends as well, without effect
		e.answers()
		if len(e.subs) > 0 {
			all = append(all, news{ended: e.subs, why: t.named(key.Path, why)})
			e.subs = nil
		}
	}
	t.parked = nil
	return func() { t.notify(all...) }
}
