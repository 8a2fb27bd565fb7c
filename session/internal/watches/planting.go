package watches

import "github.com/zkactors/zkactors/session/internal/wire"

// What a session has created in one transaction is known: its data, its Stat, and the zxid of the
// transaction. To watch it needs no reading. One request sets the watches on all that one
// transaction has created, and has the server tell what was changed since. The same request sets
// watches on nodes that others have created, of which nothing but the deletion is awaited.

// maxPlanting is how many requests plant watches on what was created, before others wait to go out
// together.
const maxPlanting = 1

// A Watcher is a subscription that begins, with what is known of the node.
type Watcher struct {
	Key   Key
	Sub   *Subscription
	Known Reading
}

// Unread is known of a node that is watched and is not read: its first reading has a Stat without
// values.
func Unread() Reading { return Reading{Stat: unread} }

// FollowTogether is Follow for nodes that one transaction has created, or that exist beside them:
// one request plants their watches, and has the server report what was changed since.
func (t *Table) FollowTogether(present func() (Epoch, error), since int64, all []Watcher) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	epoch, err := present()
	if err != nil {
		return err
	}
	var entries []*entry
	size := 0
	for _, w := range all {
		if size += 4 + len(w.Key.Path); size > maxWatches {
			w.Known = Reading{} // it is read
		}
		if e := t.follow(epoch, w.Key, w.Sub, w.Known); e != nil {
			entries = append(entries, e)
		}
	}
	if len(entries) > 0 {
		t.sendPlanting(entries, since, false)
	}
	return nil
}

// What follows is called with the table locked, unless it says otherwise.

// plant plants the watch on a node that is known, but for its owner.
func (t *Table) plant(e *entry) {
	t.planter.waiting = append(t.planter.waiting, e)
	t.plantNext()
}

// plantNext plants the watches that wait, as long as not too many requests do that: those on what
// was created in one transaction together, the oldest first.
func (t *Table) plantNext() {
	p := &t.planter
	for p.inFlight < maxPlanting && len(p.waiting) > 0 {
		oldest := p.waiting[0]
		var now, later []*entry
		for _, e := range p.waiting {
			switch {
			case e.dead:
			case len(e.subs) == 0:
				t.drop(e)
			case e.epoch == oldest.epoch && e.reading.Stat.Czxid == oldest.reading.Stat.Czxid:
				now = append(now, e)
			default:
				later = append(later, e)
			}
		}
		if p.waiting = later; len(now) == 0 {
			continue
		}
		t.sendPlanting(now, oldest.reading.Stat.Czxid, true)
	}
}

// maxWatches is how many bytes of paths are in one request that sets watches: see Settings.
const maxWatches = 128 << 10

// sendPlanting plants watches on nodes, and has the server report what was changed since. Others
// wait for it if it counts.
func (t *Table) sendPlanting(entries []*entry, since int64, counts bool) {
	for i, size := 0, 0; i < len(entries); i++ {
		if size += 4 + len(entries[i].key.Path); size > maxWatches && i > 0 {
			t.planter.waiting = append(entries[i:len(entries):len(entries)], t.planter.waiting...)
			entries = entries[:i]
			break
		}
	}
	if counts {
		t.planter.inFlight++
	}
	epoch := entries[0].epoch
	owner := epoch.ID()
	for _, e := range entries {
		if e.reading.Stat != unread {
			e.reading.Stat.EphemeralOwner = owner
		}
		e.planting = true
	}
	epoch.Plant(Planting{t, entries, since, counts})
}

// A Planting sets watches on nodes that are known.
type Planting struct {
	table   *Table
	entries []*entry
	since   int64
	counts  bool // among those in flight
}

// Path returns the path of the first node.
func (p *Planting) Path() string { return p.entries[0].key.Path }

// Plants yields the watches. It is called before the answer.
func (p *Planting) Plants(yield func(Key) bool) {
	for _, e := range p.entries {
		if !yield(e.key) {
			return
		}
	}
}

// Request returns the request.
func (p *Planting) Request() *wire.Request {
	w := &wire.Request{Op: wire.OpSetWatches, Zxid: p.since, Watches: new([5][]string)}
	for _, e := range p.entries {
		w.Watches[Data] = append(w.Watches[Data], e.key.Path)
	}
	return w
}

// Answered follows the answer, which has the zxid, in the session's order. What has changed since
// the transaction was reported before.
func (p *Planting) Answered(zxid int64, err error) {
	t := p.table
	t.mu.Lock()
	if p.counts {
		t.planter.inFlight--
		t.plantNext()
	}
	unchanged := p.entries[:0]
	for _, e := range p.entries {
		switch e.planting = false; {
		case e.stale && !e.dead:
			e.stale = false
			t.arm(e)
		default:
			unchanged = append(unchanged, e)
		}
	}
	t.mu.Unlock()
	p.entries = unchanged
	p.tell(zxid, err)
}

// tell enters what is known of the nodes, as if it had been read.
func (p *Planting) tell(zxid int64, err error) {
	defer func() {
		if len(p.entries) > 0 { // a subscriber ends the goroutine
			p.table.order.Left(func() { p.tell(zxid, err) })
		}
	}()
	for len(p.entries) > 0 {
		e := p.entries[0]
		p.entries = p.entries[1:]
		known := e.reading // no other goroutine writes to it before
		known.Zxid = zxid
		p.table.answered(e, known, false, err)
	}
}

// A planter decides which watches are planted together. The lock of the table guards it. While an
// entry waits here it is not armed, and nothing is read for it.
type planter struct {
	waiting  []*entry // to be planted, the oldest first
	inFlight int      // requests without an answer
}

// unread is the Stat of nodes that are watched and were not read.
var unread = new(wire.Stat) //nolint:gochecknoglobals // it is constant
