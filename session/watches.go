package session

import (
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
)

// A watchTable holds the data watches of one epoch after the other, one on each node,
// whoever wants it.
type watchTable struct {
	mu      sync.Mutex
	entries map[watchKey]*watchEntry
}

// A watchEntry is one data watch. It is armed by the read that delivers. While armed it
// may stand without subscribers: parked, to be used again without a request.
type watchEntry struct {
	path  string // as users know it
	epoch int
	armed bool // else a read is under way
	data  dataResult
	subs  []*watchSub
	pause *errand // between reads that fail for no passing reason; nil at first
}

type watchSub struct {
	answer  func(data []byte, stat *Stat, err error)
	changed func(data []byte, stat *Stat, err error)
	told    bool // answer has been called; this belongs to the order
}

func (sub *watchSub) tell(data dataResult, err error) {
	if sub.told {
		sub.changed(data.data, data.stat, err)
		return
	}
	sub.told = true
	sub.answer(data.data, data.stat, err)
}

// Watch reads the node at path and is told of what becomes of it: changed is called
// with its newest data after each change, and one last time with an error when the watch
// is over: [ErrNoNode] when the node is gone, also when that happened while the session was
// suspended; [ErrExpired] when the epoch has ended; or why the node can be read no more. If
// there is no node, the answer is [ErrNoNode], and nothing is watched.
//
// There is one watch on a node and one read for each change, however many want
// it. What the read found before it may be older than the call, but is still true.
func (a Async) Watch(path string, answer, changed func(data []byte, stat *Stat, err error)) (cancel func()) {
	s := a.session
	sub := &watchSub{answer: answer, changed: changed}
	full, err := s.target(path)
	if err == nil {
		a, err = a.present()
	}
	if err != nil {
		s.do(func() { sub.tell(dataResult{}, &OpError{Op: "watch", Path: path, Err: err}) })
		return func() {}
	}
	key := watchKey{full, watchData}
	t := &s.watches
	t.mu.Lock()
	defer t.mu.Unlock()
	entry := t.entries[key]
	if entry == nil || entry.epoch != a.epoch {
		entry = &watchEntry{path: path, epoch: a.epoch}
		t.entries[key] = entry
		s.arm(a, key, entry) // now, so that it goes out before what the caller asks next
	}
	entry.subs = append(entry.subs, sub)
	if entry.armed {
		s.order.put(func() {
			if data, armed := t.read(entry); armed && !sub.told {
				sub.tell(data, nil)
			}
		})
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if i := slices.Index(entry.subs, sub); i >= 0 {
			entry.subs = slices.Delete(entry.subs, i, i+1)
		}
	}
}

// present binds requests for whichever epoch to the newest one.
func (a Async) present() (Async, error) {
	s := a.session
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.newest == nil:
		return a, ErrClosed
	case a.epoch == 0:
		a.epoch = s.newest.number
	case a.epoch != s.newest.number:
		return a, ErrExpired
	}
	return a, nil
}

func (t *watchTable) read(entry *watchEntry) (dataResult, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return entry.data, entry.armed
}

// subscribers returns those of an entry, or nil if it stands no more.
func (t *watchTable) subscribers(key watchKey, entry *watchEntry) []*watchSub {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entries[key] != entry {
		return nil
	}
	return slices.Clone(entry.subs)
}

// remove takes an entry out, and returns its subscribers.
func (t *watchTable) remove(key watchKey, entry *watchEntry) []*watchSub {
	t.mu.Lock()
	defer t.mu.Unlock()
	entry.armed = false
	if t.entries[key] == entry {
		delete(t.entries, key)
	}
	subs := entry.subs
	entry.subs = nil
	return subs
}

// arm reads a node, which plants the watch.
func (s *Session) arm(a Async, key watchKey, entry *watchEntry) {
	read(a, "watch", entry.path, func(conn *zk.Conn, full string) (dataResult, error) {
		data, stat, _, err := conn.GetW(full) // events come through the link
		return dataResult{data, statOf(stat)}, err
	}, func(data dataResult, err error) { s.armed(a, key, entry, data, err) })
}

// armed follows the answer to a read. Errors that may pass are no reason to stop
// watching: the subscribers rely on hearing what becomes of the node.
func (s *Session) armed(a Async, key watchKey, entry *watchEntry, data dataResult, err error) {
	t := &s.watches
	lasting := isAny(err, ErrNoNode, ErrNoAuth, ErrTooLarge, ErrExpired, ErrClosed)
	subs := t.subscribers(key, entry)
	switch {
	case err == nil:
		t.mu.Lock()
		entry.armed, entry.data, entry.pause = true, data, nil
		t.mu.Unlock()
		if data.stat.EphemeralOwner == s.connected.ID {
			s.epoch.ephemerals.own(key.path)
		}
		for _, sub := range subs {
			sub.tell(data, nil)
		}
	case lasting || len(subs) == 0:
		for _, sub := range t.remove(key, entry) {
			sub.tell(dataResult{}, err)
		}
	case isAny(err, ErrDisconnected):
		s.arm(a, key, entry)
	default:
		if entry.pause == nil {
			entry.pause = a.newErrand(func() {})
		}
		a.later(entry.pause, entry.path, err, func() { s.arm(a, key, entry) })
	}
}

// notified acts on a watch that has fired.
func (s *Session) notified(e *epoch, ev nodeEvent) {
	if e != s.epoch {
		return
	}
	if ev.kind == nodeDeleted {
		e.ephemerals.disown(ev.path)
	}
	key := watchKey{ev.path, watchData}
	t := &s.watches
	t.mu.Lock()
	entry := t.entries[key]
	if entry == nil || !entry.armed || ev.kind != nodeDeleted && ev.kind != nodeDataChanged {
		t.mu.Unlock()
		return // news for nobody, or older than the read under way
	}
	entry.armed = false
	again := ev.kind == nodeDataChanged && len(entry.subs) > 0
	if again {
		s.arm(s.Async(e.number), key, entry)
	}
	t.mu.Unlock()
	if again {
		return
	}
	for _, sub := range t.remove(key, entry) {
		sub.tell(dataResult{}, &OpError{Op: "watch", Path: entry.path, Err: ErrNoNode})
	}
}

// forgetWatches drops every watch of an epoch.
func (s *Session) forgetWatches(epoch int, why error) {
	t := &s.watches
	t.mu.Lock()
	over := make(map[string][]*watchSub)
	for key, entry := range t.entries {
		if entry.epoch == epoch {
			over[entry.path] = entry.subs
			entry.armed, entry.subs = false, nil
			delete(t.entries, key)
		}
	}
	t.mu.Unlock()
	for path, subs := range over {
		for _, sub := range subs {
			sub.tell(dataResult{}, &OpError{Op: "watch", Path: path, Err: why})
		}
	}
}
