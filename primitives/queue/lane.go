package queue

import (
	"time"

	"github.com/zkactors/zkactors/session"
)

const (
	// laneItems is the greatest number of items of several calls in one transaction.
	laneItems = bucketSize / 2

	// laneDepth is the greatest number of transactions of a lane that are under way.
	laneDepth = 4
)

// A lane has the transactions of a handle for one priority, or all if the queue is bounded. Side by
// side, all but one would be refused whenever a bucket is full, and would be sent again: so the
// transaction that makes a bucket is under way alone.
type lane struct {
	pool[*putCall]

	of *base
}

// A putCall is a call that puts items.
type putCall struct {
	sharing

	priority int32
	delay    int64 // ms
	called   time.Duration
	items    []newItem
	alone    bool // set in a bounded queue, or when it was refused together with others; never cleared
}

// lane returns the lane of a priority.
func (b *base) lane(priority int32) *lane {
	if b.opts.MaxItems > 0 {
		priority = 0
	}
	b.lanesMu.Lock()
	defer b.lanesMu.Unlock()
	if b.lanes == nil {
		b.lanes = make(map[int32]*lane)
	}
	if b.lanes[priority] == nil {
		l := &lane{of: b}
		l.rule = l
		b.lanes[priority] = l
	}
	return b.lanes[priority]
}

// begin puts the items of a call when it is their turn.
func (l *lane) begin(c *putCall) (abandon func()) {
	c.alone = l.of.opts.MaxItems > 0
	return l.pool.begin(c)
}

func (l *lane) isFree(waiting []*putCall, under int) bool {
	return under == 0 || under < laneDepth && l.of.opts.MaxItems == 0 && l.of.isSettled(waiting[0].priority)
}

func (l *lane) group(waiting []*putCall) (n int, begin func(func([]session.OpResult, error)) func()) {
	head := waiting[0]
	items := len(head.items)
	n = 1
	for !head.alone && n < len(waiting) && !waiting[n].alone && items+len(waiting[n].items) <= laneItems {
		items += len(waiting[n].items)
		n++
	}
	p := l.of.producing(head.priority, head.delay)
	p.called = head.called
	n = halve(n, func(n int) bool {
		p.items = nil
		for _, c := range waiting[:n] {
			p.items = append(p.items, c.items...)
		}
		return n == 1 || l.of.fitTogether(p) == nil
	})
	return n, p.begin
}

// divide divides an answer. Calls that were refused together are tried one by one.
func (l *lane) divide(calls []*putCall, created []session.OpResult, err error) (parts []share) {
	again := err != nil && !session.InDoubt(err) && len(calls) > 1
	for _, c := range calls {
		own := created[:min(len(created), len(c.items))]
		created = created[len(own):]
		c.alone = c.alone || again
		parts = append(parts, share{own, err, again})
	}
	return parts
}
