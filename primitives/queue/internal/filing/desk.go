package filing

import (
	"sync"

	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
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

// Fit reports why the items of a call cannot be put in one transaction.
func (d *Desk) Fit(c *Call) error {
	p := d.Producing(c.Priority)
	p.carry([]*Call{c})
	return d.FitTogether(p)
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
