package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/session"
)

// Put puts an item behind all others, and returns its ID when the server has confirmed it.
//
// If the error wraps [session.ErrUnknownOutcome], ctx has ended, or the session has expired, before
// the outcome was known: the item may have been put, or be put a little later, with the ID that is
// returned. With any other error the item was not put. A lost reply alone is no error.
func (q *Queue) Put(ctx context.Context, data []byte) (id string, err error) {
	return q.putOne(ctx, data, 0, 0)
}

// PutAfter puts an item that is not delivered before the delay has passed. It is [Queue.Put]
// otherwise.
//
// The delay begins when PutAfter is called, and is measured by the server's clock: clocks of
// clients, and differences between them, do not matter. To name a time instead, pass [time.Until]
// of that time. If the time has passed, the item is put as by Put, behind all others. The client
// reads the server's clock from its writes. It counts the time that it cannot measure, up to one
// round trip for the producer and one for the consumer, as not passed. Only if the server's clock
// is set, or another server with another clock becomes the leader, the item is early or late by the
// difference.
//
// When the delay has passed, the item comes before all that are not delayed, or behind those that a
// client has listed already. Any number of items can be due in the same minute. [Queue.Len] and
// [Options.MaxItems] count them at once.
func (q *Queue) PutAfter(ctx context.Context, data []byte, delay time.Duration) (id string, err error) {
	return q.putOne(ctx, data, 0, delay)
}

// PutAll puts all items or none, one behind the other. It is [Queue.Put] otherwise. Calls that come
// at the same time share transactions.
func (q *Queue) PutAll(ctx context.Context, data [][]byte) (ids []string, err error) {
	return q.put(ctx, data, 0, 0)
}

// PutAllAfter puts all items or none, as PutAfter puts one, with the same delay. They come one
// behind the other.
func (q *Queue) PutAllAfter(ctx context.Context, data [][]byte, delay time.Duration) (ids []string, err error) {
	return q.put(ctx, data, 0, delay)
}

// Put puts an item behind all others with the same priority, or a lower number. It is [Queue.Put]
// otherwise.
func (p *Priority) Put(ctx context.Context, data []byte, priority int32) (id string, err error) {
	return p.putOne(ctx, data, priority, 0)
}

// PutAfter puts an item that is not delivered before the delay has passed, and comes in the order
// of its priority then. It is [Queue.PutAfter] otherwise.
func (p *Priority) PutAfter(ctx context.Context, data []byte, priority int32, delay time.Duration) (id string, err error) {
	return p.putOne(ctx, data, priority, delay)
}

// PutAll puts all items or none, with the same priority. It is [Queue.PutAll] otherwise.
func (p *Priority) PutAll(ctx context.Context, data [][]byte, priority int32) (ids []string, err error) {
	return p.put(ctx, data, priority, 0)
}

// PutAllAfter puts all items or none, with the same priority. It is [Queue.PutAllAfter] otherwise.
func (p *Priority) PutAllAfter(ctx context.Context, data [][]byte, priority int32, delay time.Duration) (ids []string, err error) {
	return p.put(ctx, data, priority, delay)
}

func (b *base) putOne(ctx context.Context, data []byte, priority int32, delay time.Duration) (string, error) {
	ids, err := b.put(ctx, [][]byte{data}, priority, delay)
	if len(ids) == 0 {
		return "", err
	}
	return ids[0], err
}

func (b *base) put(ctx context.Context, data [][]byte, priority int32, delay time.Duration) (ids []string, err error) {
	called := b.session.Age()
	defer func() { b.session.Observer().Put(b.path, len(data), b.session.Age()-called, err) }()
	if err := client.CheckContext(ctx); err != nil {
		return nil, b.explain(err)
	}
	switch {
	case len(data) == 0:
		return nil, b.explain(fmt.Errorf("%w: there are no items", session.ErrInvalidArgument))
	}
	delay = max(delay, 0) // a time that has passed
	p := b.producing(priority)
	for i, d := range data {
		if d == nil {
			return nil, b.explain(fmt.Errorf("%w: data of item %d is nil", session.ErrInvalidArgument, i))
		}
		p.items = append(p.items, b.newItem(d))
		ids = append(ids, p.items[i].id)
		if delay > 0 {
			p.delays = append(p.delays, millis(delay))
		}
		if err := b.fits(p.items[i]); err != nil {
			return nil, b.explain(fmt.Errorf("data of item %d: %w", i, err))
		}
	}
	if err := b.fitTogether(p); err != nil {
		return nil, b.explain(fmt.Errorf("items: %w", err))
	}
	err = procedure.Await(ctx, func(done func(error)) func() {
		answer := func(_ []session.OpResult, err error) { done(err) }
		return b.lane(priority, delay > 0).begin(&putCall{sharing: sharing{answer: answer}, priority: priority, delay: millis(delay), called: p.called, items: p.items})
	})
	if err != nil && !session.InDoubt(err) {
		ids = nil
	}
	return ids, b.explain(err)
}

// longestPlan returns a plan whose operations are as long as those of any other for the items.
// Items with different delays go into different buckets.
func (p *producer) longestPlan() filingPlan {
	longest := target{bucket: bucket{math.MaxInt32, math.MaxInt32, true, 59, math.MaxInt32}, fresh: true, seals: len(p.delays) == 0}
	plan := filingPlan{bound: bound{known: true, count: math.MaxInt32, lined: true}}
	for i := range p.items {
		if i > 0 && len(p.delays) > 0 && p.delays[i] != p.delays[i-1] {
			longest.bucket.part--
		}
		plan.to, plan.due = append(plan.to, longest), append(plan.due, math.MaxInt64)
	}
	return plan
}

// A capacity is the number of bytes of data that fit into the requests for items, at least.
type capacity struct {
	put    int // of the items of one transaction that puts them, and for each but the first:
	item   int // what it takes beside its data
	beside int // what the claim of another item takes beside its data
	bucket int // what a bucket of delayed items takes beside them
	claim  int // of an item that is claimed, or moved
}

// measure returns the capacity of the longest requests.
func (b *base) measure() capacity {
	p := b.producing(0)
	put := func(items ...newItem) int {
		p.items = items
		return b.session.Room(append(p.ops(p.longestPlan()), b.receipts.Longest())...)
	}
	item := newItem{id: b.receipts.newID()}
	c := capacity{put: put(item)}
	c.item = c.put - put(item, item)
	claim := b.longestClaim(item)
	c.claim = b.session.Room(claim...)
	c.beside = c.claim - b.session.Room(append(claim, claim[:2]...)...)
	for _, ops := range b.longestMoves(item) {
		c.claim = min(c.claim, b.session.Room(ops...))
	}
	p.delays = []int64{1, 1}
	together := put(item, item)
	p.delays = []int64{1, 2}
	c.bucket = together - put(item, item)
	return c
}

// bytes returns what the items of a producer take of [capacity].put, at most.
func (b *base) bytes(p *producer) int {
	c := b.capacity()
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
func (b *base) takes(p *producer) bool {
	return b.receipts.TakesSize(b.session.Room() - b.capacity().put + b.bytes(p))
}

// fitTogether reports why the items of a producer cannot be put in one transaction.
func (b *base) fitTogether(p *producer) error {
	if b.bytes(p) <= b.capacity().put {
		return nil
	}
	return b.session.Fits(append(p.ops(p.longestPlan()), b.receipts.Longest())...)
}

// fits reports why an item could not be claimed, or moved to the dead letters.
func (b *base) fits(item newItem) error {
	if len(item.data) <= b.capacity().claim {
		return nil
	}
	for _, ops := range append(b.longestMoves(item), b.longestClaim(item)) {
		if err := b.session.Fits(ops...); err != nil {
			return err
		}
	}
	return nil
}

// longestClaim returns the operations that claim an item, as long as they can be.
func (b *base) longestClaim(item newItem) []session.Op {
	c := claimed{place: longestPlace(item.id), data: item.data, record: record{}.longest()}
	return append(b.claimOps(c, strings.Repeat("x", maxName)), b.receipts.Longest())
}

type newItem struct {
	id   string
	data []byte // of its node
}

func (b *base) newItem(data []byte) newItem {
	return newItem{b.receipts.newID(), record{}.with(data)}
}

// A producer performs the effects of a filing.
type producer struct {
	into     *store
	receipts *receipts
	requests client.Async
	filing   filing       // as it begins
	first    []session.Op // done in the same transaction
	items    []newItem
	delays   []int64 // of each item, in ms; nil if they are not delayed
	mode     session.CreateMode
	called   time.Duration // the age of the session when the delays began
	answer   func(created []session.OpResult, err error)

	pauses owned.Set
	waiter *waiter // not nil once the call stands in line, or tries to
	stands bool    // set by a count that has seen the waiter in line; cleared with waiter
	full   view    // what was counted last
	forgo  func()  // leaves the newest transaction
}

// millis returns a delay in ms, rounded up.
func millis(delay time.Duration) int64 {
	return int64(delay/time.Millisecond + min(delay%time.Millisecond, 1))
}

// producing returns a producer without items.
func (b *base) producing(priority int32) *producer {
	p := &producer{into: &b.store, receipts: b.receipts, requests: b.session.Async(0), mode: session.PersistentSequential, called: b.session.Age()}
	if b.opts.Ephemeral {
		p.mode = session.EphemeralSequential
	}
	p.filing = filing{
		priority: priority,
		most:     b.opts.MaxItems, refuse: b.opts.RefuseWhenFull,
	}
	return p
}

// begin puts the items. See [once.Writer.Begin] for the answer; its error is a [refusal] if an
// operation was refused.
func (p *producer) begin(answer func([]session.OpResult, error)) (abandon func()) {
	p.answer = answer
	p.pauses.Clock = p.into.session
	p.filing.items, p.filing.first, p.filing.delays = len(p.items), len(p.first), p.delays
	p.filing.size = cmp.Or(p.into.size, bucketSize)
	m := procedure.Run(p.filing, p.perform, filingInput(p.into.known(p.filing.priority)))
	return func() { m.Tell(stop{}) }
}

func (p *producer) perform(e filingEffect, tell func(filingInput)) {
	epoch := p.filing.epoch
	slowly := func(err error, in filingInput) { p.pauses.Answer(err, func() { tell(in) }) }
	switch e := e.(type) {
	case check:
		p.requests.Children(p.into.path, func(names []string, _ *session.Stat, err error) {
			switch {
			case err == nil:
				err = p.into.check(names)
			case errors.Is(err, session.ErrNoNode):
				err = nil
			}
			slowly(err, replied{err})
		})
	case readClock:
		p.receipts.now(epoch, func(_, high int64, err error) {
			waited := (p.into.session.Age() - p.called) / time.Millisecond
			slowly(err, timed{high - int64(waited), err})
		})
	case count:
		present(p.into.session, &p.pauses, func(epoch int, err error) {
			if err != nil {
				slowly(err, counted{err: err})
				return
			}
			p.count(epoch, slowly)
		})
	case awaitRoom:
		if p.waiter == nil {
			p.waiter = newWaiter(p.into, p.receipts, producersDir, epoch)
			p.waiter.wants = len(p.items)
		}
		if p.stands { // others come, and go
			delete(p.full.seen, p.into.dir(producersDir))
		}
		p.waiter.standFor(p.full, false, !p.stands, func() { tell(room{}) })
		p.receipts.tellClosed(p.waiter, func() { tell(shut{}) })
	case findNewest:
		p.find(slowly)
	case assign:
		if e.anew {
			p.assignAnew(e.due, slowly)
		} else {
			tell(assigned{to: p.into.assign(p.filing.priority, e.due)})
		}
	case makeDir:
		p.requests.EnsurePath(p.into.dir(itemsDir), func(_ bool, err error) { slowly(err, replied{err}) })
	case transact:
		if e.plan.bound.known {
			epoch = e.plan.bound.epoch
		}
		p.forgo = p.receipts.BeginBefore(e.plan.bound.before, epoch, p.ops(e.plan), func(results []session.OpResult, err error) { tell(filed{results, err}) })
	case forgo:
		p.forgo()
	case learn:
		p.into.learn(e)
	case confirm:
		if p.waiter != nil {
			p.waiter.leave()
		}
		p.pauses.End()
		p.answer(e.created, e.err)
	}
}

// find finds the newest bucket, and whether it is full: the producer that filled it may be gone. A
// server that lags may show older ones: the transaction is refused then.
func (p *producer) find(answer func(error, filingInput)) {
	dir := p.into.dir(itemsDir)
	p.requests.Children(dir, func(names []string, stat *session.Stat, err error) {
		err = client.Without(err, session.ErrNoNode)
		found := newest{bucket: bucket{priority: p.filing.priority, number: -1}}
		for _, name := range names {
			b, ok := parseBucket(name)
			switch {
			case !ok && name != pausedNode:
				err = foreign(dir, name)
			case !ok:
			case b.priority == found.bucket.priority && !b.after && b.number > found.bucket.number:
				found.bucket = b
			}
		}
		if stat != nil {
			found.seen = stat.Version
		}
		if err != nil || found.bucket.number < 0 {
			found.err = err
			answer(err, found)
			return
		}
		p.requests.Exists(p.into.bucket(found.bucket), func(stat *session.Stat, err error) {
			found.err = client.Without(err, session.ErrNoNode)
			if stat != nil {
				found.version, found.full = stat.Version, p.into.isFull(stat.NumChildren)
			}
			answer(found.err, found)
		})
	})
}

// ops returns the operations of the plan.
func (p *producer) ops(plan filingPlan) (ops []session.Op) {
	if plan.bound.known {
		now := tally{true, plan.bound.count + len(p.items), plan.bound.lined}
		ops = append(ops, session.SetOp(p.receipts.Dir, now.data(), plan.bound.version))
	}
	ops = append(ops, p.first...)
	made := make(map[bucket]bool)
	for _, to := range plan.to {
		if !made[to.bucket] {
			made[to.bucket] = true
			ops = append(ops, p.bucketOps(to)...)
		}
	}
	for i, item := range p.items {
		due := int64(0)
		if len(plan.due) > 0 {
			due = plan.due[i]
		}
		path := znode.Join(p.into.bucket(plan.to[i%len(plan.to)].bucket), itemName(item.id, due))
		ops = append(ops, session.CreateOp(path, item.data, p.mode))
	}
	return ops
}

// bucketOps returns the operations on a bucket before items are put into it.
func (p *producer) bucketOps(to target) (ops []session.Op) {
	dir, all := p.into.bucket(to.bucket), p.into.dir(itemsDir)
	if !to.fresh {
		if to.bucket.after {
			return nil // its items show whether it is there
		}
		return []session.Op{session.CheckOp(dir, 0)}
	}
	before := to.bucket
	before.number--
	switch {
	case to.seals:
		ops = append(ops, session.SetOp(all, nil, session.AnyVersion), session.SetOp(p.into.bucket(before), nil, 0))
	case to.bucket.after:
	case to.behind > 0:
		ops = append(ops, session.CheckOp(all, to.seen), session.CheckOp(p.into.bucket(before), to.behind))
	default:
		ops = append(ops, session.CheckOp(all, to.seen))
	}
	return append(ops, session.CreateOp(dir, nil, session.Container))
}
