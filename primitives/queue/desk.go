package queue

import (
	"sync"

	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

// A desk is where the calls of a handle put items.
type desk struct {
	*destination
	receipts *receipt.Writer
	mode     session.CreateMode // of the items
	most     int                // how many items the queue may have; 0 if it is not bounded
	refuse   bool               // set if calls fail when there is no room, and do not wait
	capacity func() capacity    // measured by the first call

	mu    sync.Mutex
	lanes map[laneKind]*lane
}

// newDesk returns a desk for persistent items in an unbounded queue.
func newDesk(st *stock.Store, rs *receipt.Writer) *desk {
	d := &desk{destination: &destination{Store: st}, receipts: rs, mode: session.PersistentSequential, lanes: make(map[laneKind]*lane)}
	d.capacity = sync.OnceValue(d.measure)
	return d
}

// begin puts the items of a call when it is their turn.
func (d *desk) begin(c *putCall) (abandon func()) {
	c.alone = d.most > 0
	return d.lane(c.priority, c.delay > 0).Begin(c)
}

// lane returns the lane of a priority.
func (d *desk) lane(priority int32, delayed bool) *lane {
	kind := laneKind{priority, delayed}
	if d.most > 0 {
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

// newItem returns an item with a new ID.
func (d *desk) newItem(data []byte) newItem {
	return newItem{d.receipts.NewID(), layout.Record{}.With(data)}
}

// producing returns a producer without items.
func (d *desk) producing(priority int32) *producer {
	return &producer{
		into: d.destination, receipts: d.receipts, requests: d.Session.Async(0), mode: d.mode, called: d.Session.Age(),
		filing: filing{priority: priority, most: d.most, refuse: d.refuse},
	}
}

// A capacity is the number of bytes of data that fit into the requests that put items, at least.
type capacity struct {
	put    int // of the items of one transaction that puts them, and for each but the first:
	item   int // what it takes beside its data
	bucket int // what a bucket of delayed items takes beside them
}

// measure returns the capacity of the longest requests.
func (d *desk) measure() capacity {
	p := d.producing(0)
	put := func(items ...newItem) int {
		p.items = items
		return d.Session.Room(append(p.longestOps(), d.receipts.Longest())...)
	}
	item := newItem{id: d.receipts.NewID()}
	c := capacity{put: put(item)}
	c.item = c.put - put(item, item)
	p.delays = []int64{1, 1}
	together := put(item, item)
	p.delays = []int64{1, 2}
	c.bucket = together - put(item, item)
	return c
}

// bytes returns what the items of a producer take of [capacity].put, at most.
func (d *desk) bytes(p *producer) int {
	c := d.capacity()
	bytes := (len(p.items) - 1) * c.item
	for i, item := range p.items {
		bytes += len(item.data)
		if i > 0 && len(p.delays) > 0 && p.delays[i] != p.delays[i-1] {
			bytes += c.bucket
		}
	}
	return bytes
}

// takes reports whether the server is likely to take the items of a producer in one transaction.
func (d *desk) takes(p *producer) bool {
	return d.receipts.TakesSize(d.Session.Room() - d.capacity().put + d.bytes(p))
}

// fitTogether reports why the items of a producer cannot be put in one transaction.
func (d *desk) fitTogether(p *producer) error {
	if d.bytes(p) <= d.capacity().put {
		return nil
	}
	return d.Session.Fits(append(p.longestOps(), d.receipts.Longest())...)
}
