package session

import (
	"slices"

	"github.com/go-zookeeper/zk"
)

// A watchEntry is one data watch, whoever wants it. It belongs to the loop.
//
// It is armed by the read that delivers. While armed it may stand without
// subscribers: parked, to be used again without a request.
type watchEntry struct {
	path  string // as users know it
	armed bool   // else a read is under way
	data  dataResult
	subs  []*watchSub
}

type watchSub struct {
	answer  func(data []byte, stat *Stat, err error)
	changed func(data []byte, stat *Stat, err error)
	told    bool // answer has been called
}

// Watch reads the node at path and is told of what becomes of it: changed is called
// with its newest data after each change, and one last time with [ErrNoNode] when it
// is gone, also when that happened while the session was suspended. If there is no
// node, the answer is [ErrNoNode], and nothing is watched. If the epoch ends, changed
// is not called again.
//
// There is one watch on a node and one read for each change, however many want
// it. What the read found before it may be older than the call, but is still true.
func (a Async) Watch(path string, answer, changed func(data []byte, stat *Stat, err error)) (cancel func()) {
	s := a.session
	sub := &watchSub{answer: answer, changed: changed}
	s.do(func() { s.watch(a, path, sub) })
	return func() { s.do(func() { s.unwatch(path, sub) }) }
}

func (s *Session) watch(a Async, path string, sub *watchSub) {
	err := ValidatePath(path)
	switch {
	case err != nil:
	case s.machine.state == closing || s.machine.state == closed:
		err = ErrClosed
	case a.epoch != 0 && a.epoch != s.epoch.number:
		err = ErrExpired
	}
	a.epoch = s.epoch.number
	if err != nil {
		sub.told = true
		sub.answer(nil, nil, &OpError{Op: "watch", Path: path, Err: err})
		return
	}
	key := watchKey{s.absolute(path), watchData}
	entry, known := s.watches[key]
	if !known {
		entry = &watchEntry{path: path}
		s.watches[key] = entry
	}
	entry.subs = append(entry.subs, sub)
	switch {
	case !known:
		s.arm(a, key, entry)
	case entry.armed:
		sub.told = true
		sub.answer(entry.data.data, entry.data.stat, nil)
	}
}

func (s *Session) unwatch(path string, sub *watchSub) {
	if entry, known := s.watches[watchKey{s.absolute(path), watchData}]; known {
		if i := slices.Index(entry.subs, sub); i >= 0 {
			entry.subs = slices.Delete(entry.subs, i, i+1)
		}
	}
}

// arm reads a node, which plants the watch.
func (s *Session) arm(a Async, key watchKey, entry *watchEntry) {
	read(a, "watch", entry.path, func(conn *zk.Conn, full string) (dataResult, error) {
		data, stat, _, err := conn.GetW(full) // events come through the link
		return dataResult{data, statOf(stat)}, err
	}, func(data dataResult, err error) {
		switch {
		case s.watches[key] != entry: // it was forgotten with its epoch
		case err == nil:
			entry.armed, entry.data = true, data
			if data.stat.EphemeralOwner == s.connected.ID {
				s.epoch.ephemerals.own(key.path)
			}
			entry.tell(data, nil)
		case isAny(err, ErrDisconnected) && len(entry.subs) > 0:
			s.arm(a, key, entry)
		default:
			delete(s.watches, key)
			entry.tell(dataResult{}, err)
		}
	})
}

func (e *watchEntry) tell(data dataResult, err error) {
	for _, sub := range slices.Clone(e.subs) {
		if sub.told {
			sub.changed(data.data, data.stat, err)
		} else {
			sub.told = true
			sub.answer(data.data, data.stat, err)
		}
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
	entry, known := s.watches[key]
	if !known || !entry.armed {
		return // news for nobody, or older than the read under way
	}
	switch {
	case ev.kind == nodeDeleted:
		delete(s.watches, key)
		entry.tell(dataResult{}, &OpError{Op: "watch", Path: entry.path, Err: ErrNoNode})
	case ev.kind != nodeDataChanged:
	case len(entry.subs) == 0:
		delete(s.watches, key)
	default:
		entry.armed = false
		s.arm(s.Async(e.number), key, entry)
	}
}

// forgetWatches drops every watch, with its epoch. Who waits for an answer gets one.
func (s *Session) forgetWatches(why error) {
	old := s.watches
	s.watches = make(map[watchKey]*watchEntry)
	for _, entry := range old {
		entry.tell(dataResult{}, &OpError{Op: "watch", Path: entry.path, Err: why})
	}
}
