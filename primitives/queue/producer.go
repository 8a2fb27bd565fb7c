package queue

import (
	"errors"
	"math"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/primitives/queue/internal/waiting"
	"github.com/zkactors/zkactors/session"
)

// A newItem is an item to be put.
type newItem struct {
	id   string
	data []byte // of its node
}

// A producer performs the effects of a filing.
type producer struct {
	into     *destination
	receipts *receipt.Writer
	requests client.Async
	filing   filing       // as it begins
	first    []session.Op // done in the same transaction
	items    []newItem
	delays   []int64 // of each item, in ms; nil if they are not delayed
	mode     session.CreateMode
	called   time.Duration // the age of the session when the delays began
	answer   func(created []session.OpResult, err error)

	pauses owned.Set
	waiter *waiting.Waiter // not nil once the call stands in line, or tries to
	stands bool            // set by a count that has seen the waiter in line; cleared with waiter
	full   stock.View      // what was counted last
	forgo  func()          // leaves the newest transaction
}

// millis returns a delay in ms, rounded up.
func millis(delay time.Duration) int64 {
	return int64(delay/time.Millisecond + min(delay%time.Millisecond, 1))
}

// begin puts the items. See [once.Writer.Begin] for the answer; its error is a [stock.RefusalError]
// if an operation was refused.
func (p *producer) begin(answer func([]session.OpResult, error)) (abandon func()) {
	p.answer = answer
	p.pauses.Clock = p.into.Session
	p.filing.items, p.filing.first, p.filing.delays = len(p.items), len(p.first), p.delays
	p.filing.size = p.into.full()
	m := procedure.Run(p.filing, p.perform, filingInput(p.into.known(p.filing.priority)))
	return func() { m.Tell(stop{}) }
}

func (p *producer) perform(e filingEffect, tell func(filingInput)) {
	epoch := p.filing.epoch
	slowly := func(err error, in filingInput) { p.pauses.Answer(err, func() { tell(in) }) }
	switch e := e.(type) {
	case check:
		p.requests.Children(p.into.Path, func(names []string, _ *session.Stat, err error) {
			switch {
			case err == nil:
				err = p.into.Check(names)
			case errors.Is(err, session.ErrNoNode):
				err = nil
			}
			slowly(err, replied{err})
		})
	case readClock:
		p.receipts.Now(epoch, func(_, high int64, err error) {
			waited := (p.into.Session.Age() - p.called) / time.Millisecond
			slowly(err, timed{high - int64(waited), err})
		})
	case count:
		stock.Present(p.into.Session, &p.pauses, func(epoch int, err error) {
			if err != nil {
				slowly(err, counted{err: err})
				return
			}
			p.count(epoch, slowly)
		})
	case awaitRoom:
		if p.waiter == nil {
			p.waiter = waiting.New(p.into.Store, p.receipts, layout.ProducersDir, epoch)
			p.waiter.Wants = len(p.items)
		}
		if p.stands { // others come, and go
			delete(p.full.Seen, p.into.Dir(layout.ProducersDir))
		}
		p.waiter.StandFor(p.full, false, !p.stands, func() { tell(room{}) })
		p.receipts.TellClosed(p.waiter, func() { tell(shut{}) })
	case findNewest:
		p.find(slowly)
	case assign:
		if e.anew {
			p.assignAnew(e.due, slowly)
		} else {
			tell(assigned{to: p.into.assign(p.filing.priority, e.due)})
		}
	case makeDir:
		p.requests.EnsurePath(p.into.Dir(layout.ItemsDir), func(_ bool, err error) { slowly(err, replied{err}) })
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
			p.waiter.Leave()
		}
		p.pauses.End()
		p.answer(e.created, e.err)
	}
}

// find finds the newest bucket, and whether it is full: the producer that filled it may be gone. A
// server that lags may show older ones: the transaction is refused then.
func (p *producer) find(answer func(error, filingInput)) {
	dir := p.into.Dir(layout.ItemsDir)
	p.requests.Children(dir, func(names []string, stat *session.Stat, err error) {
		err = client.Without(err, session.ErrNoNode)
		found := newest{bucket: layout.Bucket{Priority: p.filing.priority, Number: -1}}
		for _, name := range names {
			b, ok := layout.ParseBucket(name)
			switch {
			case !ok && name != layout.PausedNode:
				err = layout.Foreign(dir, name)
			case !ok:
			case b.Priority == found.bucket.Priority && !b.After && b.Number > found.bucket.Number:
				found.bucket = b
			}
		}
		if stat != nil {
			found.seen = stat.Version
		}
		if err != nil || found.bucket.Number < 0 {
			found.err = err
			answer(err, found)
			return
		}
		p.requests.Exists(p.into.Bucket(found.bucket), func(stat *session.Stat, err error) {
			found.err = client.Without(err, session.ErrNoNode)
			if stat != nil {
				found.version, found.full = stat.Version, p.into.isFull(stat.NumChildren)
			}
			answer(found.err, found)
		})
	})
}

// longestOps returns operations as long as those of any plan for the items.
func (p *producer) longestOps() []session.Op { return p.ops(p.longestPlan()) }

// longestPlan returns a plan whose operations are as long as those of any other for the items.
// Items with different delays go into different buckets.
func (p *producer) longestPlan() filingPlan {
	longest := target{bucket: layout.Bucket{Priority: math.MaxInt32, Number: math.MaxInt32, After: true, Second: 59, Part: math.MaxInt32}, fresh: true, seals: len(p.delays) == 0}
	plan := filingPlan{bound: bound{known: true, count: math.MaxInt32, lined: true}}
	for i := range p.items {
		if i > 0 && len(p.delays) > 0 && p.delays[i] != p.delays[i-1] {
			longest.bucket.Part--
		}
		plan.to, plan.due = append(plan.to, longest), append(plan.due, math.MaxInt64)
	}
	return plan
}

// ops returns the operations of the plan.
func (p *producer) ops(plan filingPlan) (ops []session.Op) {
	if plan.bound.known {
		now := layout.Tally{Counted: true, Count: plan.bound.count + len(p.items), Lined: plan.bound.lined}
		ops = append(ops, session.SetOp(p.receipts.Dir, now.Data(), plan.bound.version))
	}
	ops = append(ops, p.first...)
	made := make(map[layout.Bucket]bool)
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
		path := znode.Join(p.into.Bucket(plan.to[i%len(plan.to)].bucket), layout.ItemName(item.id, due))
		ops = append(ops, session.CreateOp(path, item.data, p.mode))
	}
	return ops
}

// bucketOps returns the operations on a bucket before items are put into it.
func (p *producer) bucketOps(to target) (ops []session.Op) {
	dir, all := p.into.Bucket(to.bucket), p.into.Dir(layout.ItemsDir)
	if !to.fresh {
		if to.bucket.After {
			return nil // its items show whether it is there
		}
		return []session.Op{session.CheckOp(dir, 0)}
	}
	before := to.bucket
	before.Number--
	switch {
	case to.seals:
		ops = append(ops, session.SetOp(all, nil, session.AnyVersion), session.SetOp(p.into.Bucket(before), nil, 0))
	case to.bucket.After:
	case to.behind > 0:
		ops = append(ops, session.CheckOp(all, to.seen), session.CheckOp(p.into.Bucket(before), to.behind))
	default:
		ops = append(ops, session.CheckOp(all, to.seen))
	}
	return append(ops, session.CreateOp(dir, nil, session.Container))
}
