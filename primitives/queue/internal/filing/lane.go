package filing

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/sharing"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

const (
	// LaneItems is the greatest number of items of several calls in one transaction.
	LaneItems = layout.BucketSize / 2

	// LaneDepth is the greatest number of transactions of a lane that are under way.
	LaneDepth = 4
)

// A lane has the transactions of a handle for one priority, or all if the queue is bounded. Side by
// side, all but one would be refused whenever a bucket is full, and would be sent again: so the
// transaction that makes a bucket is under way alone. Delayed items have lanes of their own, as
// their buckets are never sealed.
type lane struct {
	sharing.Pool[*Call]

	of   *Desk
	kind laneKind
}

// A laneKind is which calls are in a lane. It is zero if the queue is bounded.
type laneKind struct {
	priority int32
	delayed  bool
}

// A Call is a call that puts items.
type Call struct {
	sharing.Part

	Priority int32
	Delay    int64 // ms
	Called   time.Duration
	Items    []Item
	Key      string       // the node of the caller's ID; "" if it has none
	First    []session.Op // creates that node
	Refused  bool         // set when that was refused; never cleared
	alone    bool         // set in a bounded queue, or when it was refused together with others; never cleared
}

func (l *lane) IsFree(waiting []*Call, under int) bool {
	switch {
	case under == 0:
		return true
	case under >= LaneDepth || l.of.Most > 0:
		return false
	case l.kind.delayed:
		return l.of.IsChecked()
	}
	return l.of.isSettled(waiting[0].Priority)
}

func (l *lane) Group(waiting []*Call) (n int, begin func(func([]session.OpResult, error)) func()) {
	head := waiting[0]
	items := len(head.Items)
	n = 1
	for !head.alone && n < len(waiting) && !waiting[n].alone && items+len(waiting[n].Items) <= LaneItems {
		items += len(waiting[n].Items)
		n++
	}
	n = distinct(waiting[:n])
	p := l.of.Producing(head.Priority)
	n = sharing.Halve(n, func(n int) bool {
		p.carry(waiting[:n])
		return n == 1 || l.of.FitTogether(p) == nil && l.of.takes(p)
	})
	return n, p.Begin
}

// distinct returns how many calls have no key of a call before them: of two calls with one key in a
// transaction, the server would refuse one.
func distinct(calls []*Call) int {
	var keys map[string]bool
	for i, c := range calls {
		switch {
		case c.Key == "":
		case keys[c.Key]:
			return i
		case keys == nil:
			keys = map[string]bool{c.Key: true}
		default:
			keys[c.Key] = true
		}
	}
	return len(calls)
}

// carry has the producer put the items of the calls.
func (p *Producer) carry(calls []*Call) {
	p.First, p.Items, p.Delays = nil, nil, nil
	p.Called = slices.MinFunc(calls, func(a, b *Call) int { return cmp.Compare(a.Called, b.Called) }).Called
	for _, c := range calls {
		p.First = append(p.First, c.First...)
		p.Items = append(p.Items, c.Items...)
		if c.Delay > 0 {
			p.Delays = append(p.Delays, slices.Repeat([]int64{c.Delay + Millis(c.Called-p.Called)}, len(c.Items))...)
		}
	}
}

// Divide divides an answer. A call whose own operation was refused is left out, and the others go
// again. Otherwise calls that were refused together are tried one by one. If they were too large
// for the server together, the next transaction has half of them.
func (l *lane) Divide(calls []*Call, created []session.OpResult, err error) (parts []sharing.Share) {
	again := err != nil && !session.InDoubt(err) && len(calls) > 1
	refused := l.refused(calls, err)
	for _, c := range calls {
		own := created[:min(len(created), len(c.Items))]
		created = created[len(own):]
		c.Refused = c == refused
		c.alone = c.alone || again && refused == nil && !errors.Is(err, session.ErrTooLarge)
		parts = append(parts, sharing.Share{Results: own, Err: err, Again: again && !c.Refused})
	}
	return parts
}

// refused returns the call whose own operation was refused, if one was.
func (l *lane) refused(calls []*Call, err error) *Call {
	no, isRefusal := errors.AsType[*stock.RefusalError](err)
	if !isRefusal {
		return nil
	}
	at := no.Index
	if l.of.Most > 0 {
		at--
	}
	for _, c := range calls {
		if at >= 0 && at < len(c.First) {
			return c
		}
		at -= len(c.First)
	}
	return nil
}
