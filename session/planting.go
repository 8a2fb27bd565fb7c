package session

import (
	"slices"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// What a session has created in one transaction is known: its data, its Stat, and the zxid of the
// transaction. To watch it needs no reading. One request sets the watches on all that one
// transaction has created, and has the server tell what was changed since. The same request sets
// watches on nodes that others have created, of which nothing but the deletion is awaited.

// maxPlanting is how many requests plant watches on what was created, before others wait to go out together.
const maxPlanting = 1

// statCreated returns the Stat of an ephemeral node that was created in one transaction with a write to the parent,
// but for its owner: sendPlanting sets that.
func statCreated(data []byte, parent OpResult) *Stat {
	zxid, when := parent.Stat.Mzxid, parent.Stat.Mtime
	return &Stat{Czxid: zxid, Mzxid: zxid, Pzxid: zxid, Ctime: when, Mtime: when, DataLength: int32(len(data))}
}

// readsOwn reports whether the session may certainly read what it creates.
func (s *core) readsOwn() bool {
	return !slices.ContainsFunc(s.acl, func(a wire.ACL) bool {
		return a.Perms&int32(PermRead) == 0 || a.Scheme != "world" && a.Scheme != "auth"
	})
}

// What follows is called with the table locked, unless it says otherwise.

// plant plants the watch on a node that is known, but for its owner.
func (s *core) plant(e *watchEntry) {
	s.watches.planter.waiting = append(s.watches.planter.waiting, e)
	s.plantNext()
}

// plantNext plants the watches that wait, as long as not too many requests do that: those on what was created
// in one transaction together, the oldest first.
func (s *core) plantNext() {
	p := &s.watches.planter
	for p.inFlight < maxPlanting && len(p.waiting) > 0 {
		oldest := p.waiting[0]
		var now, later []*watchEntry
		for _, e := range p.waiting {
			switch {
			case e.dead:
			case len(e.subs) == 0:
				s.watches.drop(e)
			case e.epoch == oldest.epoch && e.reading.Stat.Czxid == oldest.reading.Stat.Czxid:
				now = append(now, e)
			default:
				later = append(later, e)
			}
		}
		if p.waiting = later; len(now) == 0 {
			continue
		}
		s.sendPlanting(now, oldest.reading.Stat.Czxid, true)
	}
}

// maxWatches is how many bytes of paths are in one request that sets watches: see setWatches.
const maxWatches = 128 << 10

// sendPlanting plants watches on nodes, and has the server tell what was changed since. Others wait for it if it counts.
func (s *core) sendPlanting(entries []*watchEntry, since int64, counts bool) {
	r := &watchSetting{session: s, entries: entries, counts: counts}
	if counts {
		s.watches.planter.inFlight++
	}
	r.typed, r.op, r.path = r, "watch", s.relative(entries[0].key.path)
	w := wire.Request{Op: wire.OpSetWatches, Zxid: since, Watches: new([5][]string)}
	e := entries[0].epoch
	e.mu.Lock()
	for i, size := 0, 0; i < len(entries); i++ {
		if size += 4 + len(entries[i].key.path); size > maxWatches && i > 0 {
			s.watches.planter.waiting = append(entries[i:len(entries):len(entries)], s.watches.planter.waiting...)
			r.entries = entries[:i]
			break
		}
		w.Watches[watchData] = append(w.Watches[watchData], entries[i].key.path)
		if stat := entries[i].reading.Stat; stat != unread {
			stat.EphemeralOwner = e.id
		}
		// As if the watch stood: it is set again after a reconnect, which does no harm.
		e.watches[entries[i].key] = struct{}{}
	}
	e.mu.Unlock()
	for _, e := range r.entries {
		e.planting = true
	}
	issue(s.requests(e.number), &r.call, &w)
}

// A watchSetting is the call that sets watches on nodes that are known.
type watchSetting struct {
	call
	session *core
	entries []*watchEntry
	counts  bool // among those in flight
}

func (*watchSetting) take(*wire.Reply) error { return nil }

// answer is called in the session's order, and locks the table. What has changed since the
// transaction was told before.
func (r *watchSetting) answer(err error) {
	s := r.session
	s.watches.mu.Lock()
	if r.counts {
		s.watches.planter.inFlight--
		s.plantNext()
	}
	unchanged := r.entries[:0]
	for _, e := range r.entries {
		switch e.planting = false; {
		case e.stale && !e.dead:
			e.stale = false
			s.arm(e)
		default:
			unchanged = append(unchanged, e)
		}
	}
	s.watches.mu.Unlock()
	for _, e := range unchanged {
		known := e.reading // no other goroutine writes to it before
		known.Zxid = r.zxid
		s.answered(e, known, false, err)
	}
}
