package filing

import (
	"math"
	"slices"
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

// An Item is an item to be put.
type Item struct {
	ID   string
	Data []byte // of its node
}

// A Producer performs the effects of a filing.
type Producer struct {
	Into     *Destination
	Receipts *receipt.Writer
	Requests client.Async
	Filing   Machine      // as it begins
	First    []session.Op // done in the same transaction
	Items    []Item
	Delays   []int64 // of each item, in ms; nil if they are not delayed
	Mode     session.CreateMode
	Called   time.Duration // the age of the session when the delays began
	answer   func(created []session.OpResult, err error)

	pauses owned.Set
	place  standing
	forgo  func() // leaves the newest transaction
}

// Millis returns a delay in ms, rounded up.
func Millis(delay time.Duration) int64 {
	return int64(delay/time.Millisecond + min(delay%time.Millisecond, 1))
}

// Begin puts the items. See [once.Writer.Begin] for the answer; its error is a [stock.RefusalError]
// if an operation was refused.
func (p *Producer) Begin(answer func([]session.OpResult, error)) (abandon func()) {
	p.answer = answer
	p.pauses.Clock = p.Into.Session
	p.Filing.items, p.Filing.first, p.Filing.delays = len(p.Items), len(p.First), p.Delays
	p.Filing.size = p.Into.full()
	m := procedure.Run(p.Filing, p.perform, input(p.Into.known(p.Filing.Priority)))
	return func() { m.Tell(stop{}) }
}

func (p *Producer) perform(e effect, tell func(input)) {
	epoch := p.Filing.Epoch
	slowly := func(err error, in input) { p.pauses.Answer(err, func() { tell(in) }) }
	switch e := e.(type) {
	case check:
		p.Into.Inspect(p.Requests, func(err error) {
			err = client.Without(err, session.ErrNoNode)
			slowly(err, replied{err})
		})
	case readClock:
		p.Receipts.Now(epoch, func(_, high int64, err error) {
			waited := receipt.Least(p.Into.Session.Age()-p.Called) / time.Millisecond
			slowly(err, timed{high - int64(waited), err})
		})
	case count:
		stock.Present(p.Into.Session, &p.pauses, func(epoch int, err error) {
			if err != nil {
				slowly(err, counted{err: err})
				return
			}
			c := &tallying{standing: &p.place, into: p.Into, receipts: p.Receipts, items: len(p.Items), most: p.Filing.Most, answer: slowly}
			c.count(epoch)
		})
	case awaitRoom:
		if p.place.waiter == nil {
			p.place.waiter = waiting.New(p.Into.Store, p.Receipts, layout.ProducersDir, epoch)
			p.place.waiter.Wants = len(p.Items)
		}
		if p.place.stands { // others come, and go
			delete(p.place.full.Seen, p.Into.Dir(layout.ProducersDir))
		}
		p.place.waiter.StandFor(p.place.full, false, !p.place.stands, func() { tell(room{}) })
		p.Receipts.TellClosed(p.place.waiter, func() { tell(shut{}) })
	case findNewest:
		p.find(slowly)
	case assign:
		to := p.Into.assign(p.Filing.Priority, e.due)
		if !slices.Equal(to, e.refused) { // other calls of the handle may have learnt more meanwhile
			tell(assigned{to: to})
			break
		}
		p.Into.assignAnew(p.Requests, p.Filing.Priority, e.due, func(err error) { slowly(err, assigned{p.Into.assign(p.Filing.Priority, e.due), err}) })
	case makeDir:
		p.Requests.EnsurePath(p.Into.Dir(layout.ItemsDir), func(_ bool, err error) { slowly(err, replied{err}) })
	case transact:
		if e.plan.bound.known {
			epoch = e.plan.bound.epoch
		}
		p.forgo = p.Receipts.BeginBefore(e.plan.bound.before, epoch, p.ops(e.plan), func(results []session.OpResult, err error) { tell(filed{results, err}) })
	case forgo:
		p.forgo()
	case learn:
		p.Into.learn(e)
	case confirm:
		if p.place.waiter != nil {
			p.place.waiter.Leave()
		}
		p.pauses.End()
		p.answer(e.created, e.err)
	}
}

// find finds the newest bucket, and whether it is full: the producer that filled it may be gone. A
// server that lags may show older ones: the transaction is refused then.
func (p *Producer) find(answer func(error, input)) {
	dir := p.Into.Dir(layout.ItemsDir)
	p.Requests.Children(dir, func(names []string, stat *session.Stat, err error) {
		err = client.Without(err, session.ErrNoNode)
		found := newest{bucket: layout.Bucket{Priority: p.Filing.Priority, Number: -1}}
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
		p.Requests.Exists(p.Into.Bucket(found.bucket), func(stat *session.Stat, err error) {
			found.err = client.Without(err, session.ErrNoNode)
			if stat != nil {
				found.version, found.full = stat.Version, p.Into.isFull(stat.NumChildren)
			}
			answer(found.err, found)
		})
	})
}

// LongestOps returns operations as long as those of any plan for the items.
func (p *Producer) LongestOps() []session.Op { return p.ops(p.longestPlan()) }

// longestPlan returns a plan whose operations are as long as those of any other for the items.
// Items with different delays go into different buckets.
func (p *Producer) longestPlan() plan {
	longest := target{bucket: layout.Bucket{Priority: math.MaxInt32, Number: math.MaxInt32, After: true, Second: 59, Part: math.MaxInt32}, fresh: true, seals: len(p.Delays) == 0}
	plan := plan{bound: bound{known: true, count: math.MaxInt32, lined: true}}
	for i := range p.Items {
		if i > 0 && len(p.Delays) > 0 && p.Delays[i] != p.Delays[i-1] {
			longest.bucket.Part--
		}
		plan.to, plan.due = append(plan.to, longest), append(plan.due, math.MaxInt64)
	}
	return plan
}

// ops returns the operations of the plan.
func (p *Producer) ops(plan plan) (ops []session.Op) {
	if plan.bound.known {
		now := layout.Tally{Counted: true, Count: plan.bound.count + len(p.Items), Lined: plan.bound.lined}
		ops = append(ops, session.SetOp(p.Receipts.Dir, now.Data(), plan.bound.version))
	}
	ops = append(ops, p.First...)
	made := make(map[layout.Bucket]bool)
	for _, to := range plan.to {
		if !made[to.bucket] {
			made[to.bucket] = true
			ops = append(ops, p.bucketOps(to)...)
		}
	}
	for i, item := range p.Items {
		due := int64(0)
		if len(plan.due) > 0 {
			due = plan.due[i]
		}
		path := znode.Join(p.Into.Bucket(plan.to[i%len(plan.to)].bucket), layout.ItemName(item.ID, due))
		ops = append(ops, session.CreateOp(path, item.Data, p.Mode))
	}
	return ops
}

// bucketOps returns the operations on a bucket before items are put into it.
func (p *Producer) bucketOps(to target) (ops []session.Op) {
	dir, all := p.Into.Bucket(to.bucket), p.Into.Dir(layout.ItemsDir)
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
		ops = append(ops, session.SetOp(all, nil, session.AnyVersion), session.SetOp(p.Into.Bucket(before), nil, 0))
	case to.bucket.After:
	case to.behind > 0:
		ops = append(ops, session.CheckOp(all, to.seen), session.CheckOp(p.Into.Bucket(before), to.behind))
	default:
		ops = append(ops, session.CheckOp(all, to.seen))
	}
	return append(ops, session.CreateOp(dir, nil, session.Container))
}
