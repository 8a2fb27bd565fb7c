package filing

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/sharing"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

// A Desk is where the calls of a handle put items.
type Desk struct {
	*Destination
	receipts *receipt.Writer
	Mode     session.CreateMode // of the items
	Most     int                // how many items the queue may have; 0 if it is not bounded
	Refuse   bool               // set if calls fail when there is no room, and do not wait
	Capacity func() capacity    // measured by the first call

	mu    sync.Mutex
	lanes map[laneKind]*lane
}

// NewDesk returns a desk for persistent items in an unbounded queue.
func NewDesk(st *stock.Store, rs *receipt.Writer) *Desk {
	d := &Desk{Destination: &Destination{Store: st}, receipts: rs, Mode: session.PersistentSequential, lanes: make(map[laneKind]*lane)}
	d.Capacity = sync.OnceValue(d.measure)
	return d
}

// Begin puts the items of a call when it is their turn.
func (d *Desk) Begin(c *Call) (abandon func()) {
	c.alone = d.Most > 0
	return d.lane(c.Priority, c.Delay > 0).Begin(c)
}

// lane returns the lane of a priority.
func (d *Desk) lane(priority int32, delayed bool) *lane {
	kind := laneKind{priority, delayed}
	if d.Most > 0 {
		kind = laneKind{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lanes[kind] == nil {
		l := &lane{of: d, kind: kind}
		l.Rule = l
		d.lanes[kind] = l
	}
	return d.lanes[kind]
}

// NewItem returns an item with a new ID.
func (d *Desk) NewItem(r layout.Record, data []byte) Item {
	return Item{d.receipts.NewID(), r.With(data)}
}

// Producing returns a producer without items.
func (d *Desk) Producing(priority int32) *Producer {
	return &Producer{
		Into: d.Destination, Receipts: d.receipts, Requests: d.Session.Async(0), Mode: d.Mode, Called: d.Session.Age(),
		Filing: Machine{Priority: priority, Most: d.Most, refuse: d.Refuse},
	}
}

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

// A capacity is the number of bytes of data that fit into the requests that put items, at least.
type capacity struct {
	Put    int // of the items of one transaction that puts them, and for each but the first:
	Item   int // what it takes beside its data
	bucket int // what a bucket of delayed items takes beside them
}

// measure returns the capacity of the longest requests.
func (d *Desk) measure() capacity {
	p := d.Producing(0)
	put := func(items ...Item) int {
		p.Items = items
		return d.Session.Room(append(p.LongestOps(), d.receipts.Longest())...)
	}
	item := Item{ID: d.receipts.NewID()}
	c := capacity{Put: put(item)}
	c.Item = c.Put - put(item, item)
	p.Delays = []int64{1, 1}
	together := put(item, item)
	p.Delays = []int64{1, 2}
	c.bucket = together - put(item, item)
	return c
}

// bytes returns what the items of a producer take of [capacity].Put, at most.
func (d *Desk) bytes(p *Producer) int {
	c := d.Capacity()
	bytes := (len(p.Items) - 1) * c.Item
	if len(p.First) > 0 {
		bytes += d.Session.Room() - d.Session.Room(p.First...)
	}
	for i, item := range p.Items {
		bytes += len(item.Data)
		if i > 0 && len(p.Delays) > 0 && p.Delays[i] != p.Delays[i-1] {
			bytes += c.bucket
		}
	}
	return bytes
}

// takes reports whether the server is likely to take the items of a producer in one transaction.
func (d *Desk) takes(p *Producer) bool {
	return d.receipts.TakesSize(d.Session.Room() - d.Capacity().Put + d.bytes(p))
}

// FitTogether reports why the items of a producer cannot be put in one transaction.
func (d *Desk) FitTogether(p *Producer) error {
	if d.bytes(p) <= d.Capacity().Put {
		return nil
	}
	return d.Session.Fits(append(p.LongestOps(), d.receipts.Longest())...)
}

// Fit reports why the items of a call cannot be put in one transaction.
func (d *Desk) Fit(c *Call) error {
	p := d.Producing(c.Priority)
	p.carry([]*Call{c})
	return d.FitTogether(p)
}
