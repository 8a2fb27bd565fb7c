package queue

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/sharing"
	"github.com/zkactors/zkactors/session"
)

const (
	// laneItems is the greatest number of items of several calls in one transaction.
	laneItems = layout.BucketSize / 2

	// laneDepth is the greatest number of transactions of a lane that are under way.
	laneDepth = 4
)

// A lane has the transactions of a handle for one priority, or all if the queue is bounded. Side by
// side, all but one would be refused whenever a bucket is full, and would be sent again: so the
// transaction that makes a bucket is under way alone. Delayed items have lanes of their own, as
// their buckets are never sealed.
type lane struct {
	sharing.Pool[*putCall]

	of   *desk
	kind laneKind
}

// A laneKind is which calls are in a lane. It is zero if the queue is bounded.
type laneKind struct {
	priority int32
	delayed  bool
}

// A putCall is a call that puts items.
type putCall struct {
	sharing.Part

	priority int32
	delay    int64 // ms
	called   time.Duration
	items    []newItem
	alone    bool // set in a bounded queue, or when it was refused together with others; never cleared
}

func (l *lane) IsFree(waiting []*putCall, under int) bool {
	switch {
	case under == 0:
		return true
	case under >= laneDepth || l.of.most > 0:
		return false
	case l.kind.delayed:
		return l.of.IsChecked()
	}
	return l.of.isSettled(waiting[0].priority)
}

func (l *lane) Group(waiting []*putCall) (n int, begin func(func([]session.OpResult, error)) func()) {
	head := waiting[0]
	items := len(head.items)
	n = 1
	for !head.alone && n < len(waiting) && !waiting[n].alone && items+len(waiting[n].items) <= laneItems {
		items += len(waiting[n].items)
		n++
	}
	p := l.of.producing(head.priority)
	n = sharing.Halve(n, func(n int) bool {
		p.carry(waiting[:n])
		return n == 1 || l.of.fitTogether(p) == nil && l.of.takes(p)
	})
	return n, p.begin
}

// carry has the producer put the items of the calls.
func (p *producer) carry(calls []*putCall) {
	p.items, p.delays = nil, nil
	p.called = slices.MinFunc(calls, func(a, b *putCall) int { return cmp.Compare(a.called, b.called) }).called
	for _, c := range calls {
		p.items = append(p.items, c.items...)
		if c.delay > 0 {
			p.delays = append(p.delays, slices.Repeat([]int64{c.delay + millis(c.called-p.called)}, len(c.items))...)
		}
	}
}

// Divide divides an answer. Calls that were refused together are tried one by one. If they were too
// large for the server together, the next transaction has half of them.
func (l *lane) Divide(calls []*putCall, created []session.OpResult, err error) (parts []sharing.Share) {
	again := err != nil && !session.InDoubt(err) && len(calls) > 1
	for _, c := range calls {
		own := created[:min(len(created), len(c.items))]
		created = created[len(own):]
		c.alone = c.alone || again && !errors.Is(err, session.ErrTooLarge)
		parts = append(parts, sharing.Share{Results: own, Err: err, Again: again})
	}
	return parts
}
