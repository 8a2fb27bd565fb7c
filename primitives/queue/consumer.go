package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/queue/internal/filing"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/primitives/queue/internal/waiting"
	"github.com/zkactors/zkactors/session"
)

// defaultReaders is the number of readers of a consumer by default.
const defaultReaders = 1

// ConsumeOptions are optional parameters for Consume. A nil *ConsumeOptions is equivalent to a zero
// ConsumeOptions.
type ConsumeOptions struct {
	// Prefetch limits how many items the consumer has claimed. Items that it has delivered count
	// until they are settled. If it is greater than the number of readers, items wait at this
	// consumer while other consumers are idle. The consumer claims more items when half of them
	// are settled, or when all claimed items are delivered. In a [Priority] a more urgent item is
	// claimed in exchange for one that no reader has received. A session has room for some ten
	// thousand claims: a consumer that finds none ends with [session.ErrSessionFull]. The default
	// is Readers, which is the least.
	Prefetch int

	// Readers is how many goroutines receive from [Consumer.Items]. Items that a crash has left are
	// claimed only for readers that wait, as an attempt counts with the claim. With fewer readers
	// than there are, the consumer begins slowly with such items; with more, attempts count that no
	// reader has received. The default is 1.
	//
	// A reader whose claim is lost with the session counts as busy until it settles the item, which
	// fails with [ErrNotClaimed], or receives another: one that hangs gets no items that others
	// could work on. To find out whether it receives, the consumer claims an item for it now and
	// then, and gives it back after a second.
	Readers int

	// Backoff is the delay of rejected items; see [Item.Reject]. The default is [Options.Backoff].
	Backoff Backoff

	// Name identifies the consumer to operators: it is the data of its claims. It has at most 256
	// bytes.
	Name string
}

// A Consumer claims items of a queue, and delivers them at least once. It is safe for concurrent
// use, and must be closed.
type Consumer struct {
	base     *base
	name     string
	backoff  Backoff
	attended sync.Once
	receipts *receipt.Writer
	shelf    *actors.Shelf[Item]
	actor    *actors.Actor[input, Event]
	owned    owned.Set
	waiter   *waiting.Waiter // of the newest epoch in which there was nothing to claim; only for perform
	watches  stock.Watches   // while it waits
	reason   client.Reason
	tenure   tenure        // of the claims of the session; only for perform and observe
	working  deliveries    // only for perform
	forsaken atomic.Bool   // set by forsake
	holder   client.Holder // only for observe
}

// Consume begins to claim items, and returns at once. The error describes the problem in the
// options. A later failure ends the consumer, and [Consumer.Err] returns it.
func (b *base) Consume(opts *ConsumeOptions) (*Consumer, error) { return b.consume(opts, false) }

// consume is Consume. If settles is set, readers settle each item before they receive the next,
// also one whose claim is lost.
func (b *base) consume(opts *ConsumeOptions, settles bool) (*Consumer, error) {
	o := client.Options(opts)
	o.Readers = cmp.Or(o.Readers, defaultReaders)
	o.Prefetch = cmp.Or(o.Prefetch, max(o.Readers, 0))
	_, closed := b.live.State().(session.Closed)
	switch {
	case o.Prefetch < 0:
		return nil, b.explain(fmt.Errorf("%w: ConsumeOptions.Prefetch: %d is negative", session.ErrInvalidArgument, o.Prefetch))
	case o.Readers < 0:
		return nil, b.explain(fmt.Errorf("%w: ConsumeOptions.Readers: %d is negative", session.ErrInvalidArgument, o.Readers))
	case o.Prefetch < o.Readers:
		return nil, b.explain(fmt.Errorf("%w: ConsumeOptions.Prefetch: %d items for %d Readers", session.ErrInvalidArgument, o.Prefetch, o.Readers))
	case len(o.Name) > maxName:
		return nil, b.explain(fmt.Errorf("%w: ConsumeOptions.Name: it has %d bytes", session.ErrInvalidArgument, len(o.Name)))
	case closed:
		return nil, b.explain(session.ErrClosed)
	}
	if err := o.Backoff.validate("ConsumeOptions"); err != nil {
		return nil, b.explain(err)
	}
	if err := b.receipts.Open(); err != nil {
		return nil, b.explain(err)
	}
	c := &Consumer{
		base: b, name: o.Name, backoff: cmp.Or(o.Backoff, b.opts.Backoff).defaults(), receipts: receipt.New(b.at.Session, b.receipts.Dir),
		tenure: newTenure(),
	}
	c.working = deliveries{&b.at, c.receipts, make(map[layout.ClaimID]time.Duration)}
	before := func(a, b Item) bool { return a.Priority < b.Priority }
	c.shelf = actors.NewShelf("queue items "+b.at.Path, before, func(i Item) { _ = c.actor.Tell(taken{i.claimed}) })
	room := b.allowance()
	start := machine{
		prefetch: o.Prefetch, readers: o.Readers, limit: max(0, b.opts.MaxAttempts), urgent: b.at.Any, settles: settles, rivalry: layout.Rivalry{Chance: rand.Uint64()},
		full: room.claim, most: room.claim, beside: room.beside, observed: b.at.Session.Observed(),
	}
	c.actor = actors.Start(start, actors.Role[machine, input, effect, Event]{
		Name:    "queue " + b.at.Path,
		Perform: c.perform,
		Observe: c.observe,
		Stop:    leave{},
		Cancel:  cancel,
	})
	c.owned.Follow(b.at.Session, func(ev session.Event) { _ = c.actor.Tell(heard{ev}) }, c.actor.Ended())
	return c, nil
}

// Items returns the channel of the items, which is always the same one. The channel is closed after
// the last item: receive with "item, ok := <-items", because a select over a closed channel spins.
func (c *Consumer) Items() <-chan Item {
	c.attended.Do(func() { _ = c.actor.Tell(attend{}) })
	return c.shelf.Values()
}

// Events returns the channel of events, which is always the same one:
//
//	(Suspended | Resumed | Lost | Buried)* Closed
//
// It begins with the newest event before the first call. The channel is closed after the last
// event: receive with "ev, ok := <-events", because a select over a closed channel spins.
func (c *Consumer) Events() <-chan Event { return c.actor.Events() }

// Done returns a channel that is closed when the consumer has ended, and all its items have gone
// back.
func (c *Consumer) Done() <-chan struct{} { return c.actor.Ended() }

// Err returns the reason why the consumer has ended. It returns nil before that, and after Close.
func (c *Consumer) Err() error { return c.reason.Err() }

// Close gives back all items that are not acknowledged, and waits until that is confirmed, at most
// until the session's lease has ended. It may be called any number of times.
func (c *Consumer) Close() {
	c.shelf.Close() // items that are not received by now were not delivered
	c.actor.Close()
}

func (c *Consumer) explain(err error) error { return c.base.explain(err) }

func (c *Consumer) observe(m machine, events []Event) {
	for _, ev := range events {
		switch ev := ev.(type) {
		case Lost:
			why := session.ErrExpired
			if m.lapsed {
				why = session.ErrLapsed
			}
			c.tenure.end(fmt.Errorf("%w: %w", ErrNotClaimed, why))
			c.tenure = newTenure()
			level := slog.LevelWarn
			if ev.Items == 0 {
				level = slog.LevelDebug
			}
			client.Log(c.base.at.Session, level, recipe, c.base.at.Path, "lost", slog.Int("items", ev.Items))
		case Buried:
			client.Log(c.base.at.Session, slog.LevelInfo, recipe, c.base.at.Path, "item buried", slog.String("item", ev.ID))
			c.base.at.Session.Observer().Buried(c.base.at.Path)
		case Suspended, Resumed, Closed:
		}
	}
	c.holder.Set(c.base.at.Session, len(m.held) > 0) // also what may be claimed
	if !m.ended {
		return
	}
	c.reason.Set(c.explain(m.err))
	c.tenure.end(fmt.Errorf("%w: %w", ErrNotClaimed, ErrClosed))
	c.shelf.Stop()
	c.base.outlet.Followed.TellChanged(c, nil)
	c.watches.End()
	c.owned.End()
}

func (c *Consumer) perform(e effect, tell func(input)) {
	b := c.base
	switch e := e.(type) {
	case look:
		answer := func(v stock.View, err error) { owned.Tell(&c.owned, err, tell, input(looked{e.requestID, v, err})) }
		if e.due {
			b.at.LookDue(c.receipts, e.epoch, answer)
		} else {
			c.look(e, tell, answer)
		}
	case follow:
		c.follow(e, tell)
	case quit:
		c.waiter.Leave()
		c.waiter = nil
		c.watches.End()
	case read:
		c.read(e, tell)
	case claim:
		c.claim(e, tell)
	case age:
		pause := listAge
		if e.patient {
			pause = patience
		}
		c.owned.After(age{}, pause, func() { tell(aged{e.requestID}) })
	case grow:
		c.owned.After(grow{}, regrowth, func() { tell(grown{}) })
	case offer:
		for _, item := range e.items {
			c.shelf.Put(Item{
				ID: item.Place.ID(), Key: item.Key, Data: item.Data, Attempt: item.Attempts + 1, Priority: item.Place.Bucket.Priority,
				Cause: item.Cause, Put: time.UnixMilli(item.Since),
				consumer: c, claimed: item, delivery: &delivery{tenure: c.tenure},
			})
		}
	case withdraw:
		c.shelf.Clear()
	case recall:
		c.shelf.Recall(func(i Item) bool { return i.claimed.Place == e.Place }, func(ok bool) { tell(recalled{e.Claimed, ok}) })
	case conclude:
		var ops []session.Op
		for _, item := range e.items {
			ops = append(ops, b.settleOps(item)...)
		}
		ops = append(ops, c.claimOps(e.claims)...)
		c.receipts.Begin(e.epoch, ops, func(results []session.OpResult, err error) {
			err = stock.Refused(results, err)
			c.late(e.epoch, e.claims, err)
			tell(settled{err})
		})
	case move:
		c.move(e, tell)
	case rest:
		c.rest(e, tell)
	case try:
		c.owned.After(try{}, min(time.Second<<min(e.tries, doublings), longestTry), func() { tell(tried{}) })
	case tick:
		c.owned.After(tick{}, forgotten/2, func() { tell(ticked{}) })
	case remind:
		c.warn("item not settled for long", e.Place, slog.Duration("time", forgotten))
	case sweep:
		c.withdraw(e.epoch, e.place)
	case free:
		c.free(e, func() { tell(freed{}) })
	case forsake:
		c.forsaken.Store(true)
	case part:
		c.receipts.End(func() { tell(parted{}) })
	case received:
		c.working.begin(e.Claimed)
	case over:
		c.working.end(e.Claimed, e.end)
	case answer:
		if e.ends != nil && (e.err == nil || errors.Is(e.err, ErrNotClaimed)) { // else it ends with the session
			e.ends.end(e.err)
		}
		e.reply.Give(e.err)
	}
}

// listAge is the age at which a list is refreshed before the consumer claims more of it. A delayed
// item waits no longer when it is due.
const listAge = time.Second / 2

// patience is listAge while no reader comes, and nothing changes.
const patience = time.Minute

// regrowth is the time after which larger transactions are tried again.
const regrowth = time.Hour

// The time after which a reader with a lost delivery is tried again: longest after many tries.
const (
	doublings  = 10
	longestTry = 10 * time.Minute
)

// forgotten is the time after which an item is reported that no reader has settled.
const forgotten = 20 * time.Minute

func (c *Consumer) warn(message string, p layout.Place, more slog.Attr) {
	c.base.at.Session.Logger().LogAttrs(context.Background(), slog.LevelWarn, message, slog.String("recipe", recipe),
		slog.String("path", c.base.at.Path), slog.String("item", p.ID()), more)
}

// rest pauses after a failed move.
func (c *Consumer) rest(e rest, tell func(input)) {
	if e.tries == 1 && e.err != nil {
		c.warn("item cannot be moved, and stays", e.place, slog.Any("reason", e.err))
	}
	pause := max(e.delay, Backoff{}.defaults().delay(e.tries, rand.Float64()))
	c.owned.After(e.place, pause, func() { tell(rested{e.place}) })
}

// read reads items, all at once.
func (c *Consumer) read(e read, tell func(input)) {
	in := got{requestID: e.requestID}
	read := make([]*layout.Claimed, len(e.places))
	left := len(e.places)
	for i, p := range e.places {
		c.base.at.Session.Async(e.epoch).Get(c.base.at.Node(p), func(data []byte, stat *session.Stat, err error) {
			switch {
			case err == nil:
				item := layout.ItemOf(p, data, stat)
				read[i] = &item
			case errors.Is(err, session.ErrNoNode):
			default:
				in.err = err
			}
			if left--; left > 0 {
				return
			}
			for _, item := range read {
				if item != nil {
					in.items = append(in.items, item)
				}
			}
			c.owned.Answer(in.err, func() { tell(in) })
		})
	}
}

// claimOps returns the operations that claim items.
func (c *Consumer) claimOps(items []*layout.Claimed) (ops []session.Op) {
	for _, item := range items {
		ops = append(ops, c.base.at.ClaimOps(*item, c.name)...)
	}
	return ops
}

// late frees items that are claimed when the consumer has ended.
func (c *Consumer) late(epoch int, items []*layout.Claimed, err error) {
	if err != nil || !c.forsaken.Load() {
		return
	}
	for _, item := range items {
		c.withdraw(epoch, item.Place)
	}
}

// withdraw deletes a claim, and has the end of the consumer wait for that.
func (c *Consumer) withdraw(epoch int, at layout.Place) {
	c.receipts.Hold()
	c.base.at.Session.Async(epoch).Withdraw(c.base.at.Claim(at.ID()), func(error) { c.receipts.Release() })
}

// free deletes a claim of the session: the first that it finds. If the reply to that is lost, the
// item may be claimed again, also by this session.
func (c *Consumer) free(e free, done func()) {
	czxid := int64(0)
	c.receipts.Hold()
	c.base.at.Session.Async(e.epoch).Remove(session.Removal{
		Path: c.base.at.Claim(e.place.ID()), Contested: true,
		Is: func(stat *session.Stat) bool {
			if czxid == 0 && stat.EphemeralOwner == e.session {
				czxid = stat.Czxid
			}
			return stat.Czxid == czxid
		},
	}, func(error) {
		c.receipts.Release()
		done()
	})
}

// claim claims items. The directory of the claims comes and goes with them.
func (c *Consumer) claim(e claim, tell func(input)) {
	b := c.base
	requests := b.at.Session.Async(e.epoch)
	c.receipts.Begin(e.epoch, c.claimOps(e.items), func(results []session.OpResult, err error) {
		err = stock.Refused(results, err)
		c.late(e.epoch, e.items, err)
		if no, is := errors.AsType[*stock.RefusalError](err); !is || no.Index%2 != 0 || !errors.Is(err, session.ErrNoNode) {
			tell(claims{e.requestID, err})
			return
		}
		requests.EnsurePath(b.at.Dir(layout.ClaimsDir), func(_ bool, err error) {
			c.owned.Answer(err, func() {
				if err != nil {
					tell(claims{e.requestID, err})
					return
				}
				c.claim(e, tell)
			})
		})
	})
}

// move moves an item, in one transaction.
func (c *Consumer) move(e move, tell func(input)) {
	b := c.base
	p := &filing.Producer{
		Into: b.dead, Receipts: c.receipts, Requests: b.at.Session.Async(e.epoch), First: b.settleOps(e.settling),
		Filing: filing.Machine{Epoch: e.epoch, Priority: e.Place.Bucket.Priority}, Mode: session.PersistentSequential,
		Called: b.at.Session.Age(),
	}
	r := e.Record
	if e.how != discard {
		r = e.Rejected(e.cause)
	}
	if e.how == retreat {
		r.Put = e.Since
		p.Into, p.Delays = b.desk.Destination, []int64{filing.Millis(e.delay)}
	} else {
		r = r.Buried(b.at.Path, e.Since)
	}
	p.Items = []filing.Item{{ID: e.Place.ID(), Data: r.With(e.Data)}}
	counted := e.how == retreat && b.opts.MaxItems > 0
	if counted { // a producer that counts the items meanwhile may have missed it in both places
		p.First = append(p.First, session.SetOp(c.receipts.Dir, layout.Tally{Lined: true}.Data(), session.AnyVersion))
	}
	begin := func() {
		p.Begin(func(_ []session.OpResult, err error) {
			if no, is := errors.AsType[*stock.RefusalError](err); is && counted && no.Index == len(p.First)-1 {
				c.move(e, tell) // the directory is gone
				return
			}
			tell(moved{e.settling, err})
		})
	}
	switch {
	case counted:
		c.receipts.Mark(e.epoch, func(err error) { // which keeps the directory
			if err != nil {
				tell(moved{e.settling, err})
				return
			}
			begin()
		})
		return
	case e.how != discard:
		begin()
		return
	}
	p.Requests.EnsurePath(b.at.Dir(layout.ClaimsDir), func(_ bool, err error) {
		if err != nil {
			c.owned.Answer(err, func() { tell(moved{e.settling, err}) })
			return
		}
		begin()
	})
}

// follow waits in line.
func (c *Consumer) follow(e follow, tell func(input)) {
	if c.waiter == nil {
		c.waiter = waiting.New(&c.base.at, c.receipts, layout.WaitersDir, e.epoch)
	}
	if e.rotate { // only the first in line watches the queue
		c.watches.End()
	}
	v := e.view
	if !e.claims { // only its own claims come and go
		v.Seen, v.Doubts = maps.Clone(v.Seen), false
		delete(v.Seen, c.base.at.Dir(layout.ClaimsDir))
	}
	c.waiter.Stand(v, e.rotate, func() { tell(changed{e.requestID}) })
}

// String describes the consumer in one short line.
func (c *Consumer) String() string { return "consumer of queue " + c.base.at.Path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (c *Consumer) Format(f fmt.State, _ rune) { client.Print(f, c) }

// look lists the queue. With priorities it follows what may bring a more urgent item: the list is
// old when that changes.
func (c *Consumer) look(e look, tell func(input), answer func(stock.View, error)) {
	b := c.base
	switch {
	case b.at.Any:
	case c.waiter != nil:
		b.at.LookAgain(&c.watches, c.receipts, e.epoch, e.want, answer)
		return
	default:
		b.at.Look(c.receipts, e.epoch, e.want, true, answer)
		return
	}
	old := func() { tell(aged{e.requestID}) }
	if !e.patient {
		b.outlet.Followed.TellChanged(c, old)
		b.at.LookFollowing(&b.outlet.Followed, c.receipts, e.epoch, e.want, true, func(v stock.View, err error) {
			b.outlet.UseUp(v)
			answer(v, err)
		})
		return
	}
	// Any change may be one of many.
	b.outlet.Followed.TellChanged(c, func() { c.owned.After(changed{}, listAge, old) })
	b.at.LookFollowingAll(&b.outlet.Followed, c.receipts, e.epoch, e.want, func(v stock.View, err error) {
		answer(v, err)
		if err == nil && v.Due > 0 {
			c.owned.After(look{}, max(0, v.Due-b.at.Session.Age()), old)
		}
	})
}

// An Item is one delivery of an item. Its methods are safe for concurrent use.
type Item struct {
	ID       string // as returned by Put
	Key      string // as given to PutOnce; "" if the item was put by another method
	Data     []byte
	Attempt  int   // counts the deliveries, from 1
	Priority int32 // 0 in a [Queue]

	// Cause is the error of the last rejection, as text of at most 512 bytes. It is "" if there was
	// none, or it had no error.
	Cause string

	// Put is when the item was first put, by the server's clock.
	Put time.Time

	consumer *Consumer
	claimed  *layout.Claimed
	delivery *delivery
}

// Age returns how long ago the item was first put, by the server's clock.
func (i Item) Age() time.Duration {
	if i.consumer == nil {
		return 0
	}
	return i.consumer.receipts.Age(i.claimed.Since) // the clock is known since the claim
}

// Ack acknowledges the item: it is done, and deleted when Ack returns nil. The error wraps
// [ErrNotClaimed] if this delivery does not count any more: the item was settled before, or it went
// back, and another consumer may have it. Then Ack has changed nothing. If the error wraps
// [session.ErrUnknownOutcome], the item may be deleted, or delivered again. If ctx has ended before
// the call, nothing is done, and the error is the cause.
func (i Item) Ack(ctx context.Context) error { return i.settle(ctx, settling{how: acknowledge}) }

// AckWith is Ack in one transaction with operations of the caller: all of it is done, or nothing,
// and once, whatever reply is lost. If the server refuses an operation of the caller, AckWith
// returns its error, and the item remains claimed: it can be settled once more.
func (i Item) AckWith(ctx context.Context, ops ...session.Op) error {
	return i.settle(ctx, settling{how: acknowledge, ops: ops})
}

// Reject gives the item back. It is delivered again, to any consumer, after the delay that
// [ConsumeOptions.Backoff] has for this attempt; other items are delivered meanwhile. After
// [Options.MaxAttempts] deliveries it moves to the dead letters instead. If it cannot be moved, it
// goes back with the reason in its record, and is not delivered again: consumers try to move it
// from time to time. The errors are those of [Item.Ack].
func (i Item) Reject(ctx context.Context) error { return i.reject(ctx, nil) }

// RejectAfter is Reject with a delay of the caller's, and the cause, of which the item keeps 512
// bytes of text for its next delivery, or the dead letters. The delay is measured as in
// [Queue.PutAfter]. One of 0 or less means none: the item goes back to its place, as the first of
// its queue. The cause may be nil.
func (i Item) RejectAfter(ctx context.Context, delay time.Duration, cause error) error {
	q := settling{how: reject, delay: max(delay, 0)}
	if cause != nil {
		q.cause = cause.Error()
	}
	return i.settle(ctx, q)
}

// reject rejects the item with the delay of its consumer.
func (i Item) reject(ctx context.Context, cause error) error {
	delay := time.Duration(0)
	if i.consumer != nil {
		delay = i.consumer.backoff.delay(i.Attempt, rand.Float64())
	}
	return i.RejectAfter(ctx, delay, cause)
}

// Context returns a context that ends when the item is settled, when the claim is lost with the
// session, and when the consumer has ended. If the claim is lost, its cause wraps [ErrNotClaimed].
// The context of the zero Item has ended.
func (i Item) Context() context.Context {
	if i.delivery == nil {
		return noContext()
	}
	return i.delivery.context()
}

func (i Item) settle(ctx context.Context, q settling) error {
	if i.consumer == nil {
		return fmt.Errorf("queue: %w: the zero Item", session.ErrInvalidArgument)
	}
	if err := client.Usable(ctx); err != nil {
		return i.consumer.explain(err)
	}
	outcome, err := actors.Ask(ctx, i.consumer.actor, func(reply actors.Reply[error]) input {
		q.Claimed, q.reply, q.delivery = i.claimed, reply, i.delivery
		return settle{q}
	})
	switch {
	case err == nil:
		err = outcome
	case errors.Is(err, actors.ErrEnded):
		err = fmt.Errorf("%w: %w", ErrNotClaimed, ErrClosed)
	default:
		err = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, err)
	}
	return i.consumer.explain(err)
}

// Guard returns operations for [session.Session.Multi] that make the server refuse the transaction
// unless this delivery still counts. The error wraps [ErrNotClaimed] and [session.ErrNoNode] if
// there is no claim, and [session.ErrBadVersion] if the item was delivered again. The zero Item has
// a guard that no transaction passes.
func (i Item) Guard() []session.Op {
	if i.consumer == nil {
		return []session.Op{session.GuardOp("", ErrNotClaimed)}
	}
	b := i.consumer.base
	return []session.Op{
		session.GuardOp(b.at.Claim(i.claimed.Place.ID()), ErrNotClaimed),
		session.CheckOp(b.at.Node(i.claimed.Place), i.claimed.Version),
	}
}
