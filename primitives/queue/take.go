package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/session"
)

// Take takes the first item that is due, that no consumer has claimed, and that no other call on
// the handle is taking. It waits for such an item. When ctx ends while a request that takes an item
// is under way, Take waits for the answer, at most until the session ends. It returns the item if
// the request took it.
//
// The item is delivered once, or lost: if the error of Take wraps [session.ErrUnknownOutcome], the
// session has ended. The item whose data it returns may have been taken then, or be taken a little
// later. With any other error no item was taken. A lost reply alone is no error.
func (b *base) Take(ctx context.Context) ([]byte, error) {
	return b.takeOne(ctx, taking{wait: true})
}

// TryTake is Take, but fails with [ErrEmpty] when the session's server knows of no item to take.
func (b *base) TryTake(ctx context.Context) ([]byte, error) {
	return b.takeOne(ctx, taking{})
}

// TakeN takes the next items in the order of [Queue.Take]: at least one, for which it waits, and at
// most n, in one transaction. It may take fewer than n though there are more: it takes what one
// request can name, and one bucket has. It is Take otherwise. If the outcome is unknown, all items
// whose data it returns have been taken, or none.
func (b *base) TakeN(ctx context.Context, n int) ([][]byte, error) {
	if n < 1 {
		return nil, b.explain(fmt.Errorf("%w: %d items", session.ErrInvalidArgument, n))
	}
	items, err := b.take(ctx, taking{wait: true}, b.mostTaken(n))
	var data [][]byte
	for _, item := range items {
		data = append(data, item.data)
	}
	return data, b.explain(err)
}

// mostTaken returns how many items, of n, one transaction can take.
func (b *base) mostTaken(n int) int {
	if n == 1 {
		return n
	}
	item := b.takeOps(longestPlace(b.receipts.newID()), 1)
	rest := b.session.Room(b.receipts.Longest())
	each := rest - b.session.Room(append(item, b.receipts.Longest())...)
	return max(1, min(n, rest/each, mostTaken))
}

// mostTaken is the greatest number of items that one transaction takes.
const mostTaken = bucketSize / 2

func (b *base) takeOne(ctx context.Context, how taking) ([]byte, error) {
	items, err := b.take(ctx, how, 1)
	if len(items) == 0 {
		return nil, b.explain(err)
	}
	return items[0].data, b.explain(err)
}

func (b *base) take(ctx context.Context, how taking, n int) (items []claimed, err error) {
	if err := b.receipts.open(); err != nil {
		return nil, err
	}
	err = procedure.Await(ctx, func(done func(error)) func() {
		return b.newTaker(n).begin(how, func(taken []claimed, err error) {
			items = taken
			done(err)
		})
	})
	if !how.peeks {
		b.reportTaken(items, err)
	}
	return items, err
}

// A taker performs the effects of a taking.
type taker struct {
	*base
	requests client.Async
	most     int // how many items it takes
	answer   func([]claimed, error)
	pauses   owned.Set
	tries    []place // that were picked last
	shared   bool    // set if other calls of the handle try them too
	waiter   *waiter // not nil once there was nothing
	linger   func()  // keeps the newest transaction from being sent, if it was not
	disown   func()  // leaves it
}

func (b *base) newTaker(n int) *taker {
	k := &taker{base: b, requests: b.session.Async(0), most: n}
	k.pauses.Clock = b.session
	return k
}

func (k *taker) begin(how taking, answer func([]claimed, error)) (abandon func()) {
	k.answer = answer
	m := procedure.Run(how, k.perform, takingInput(k.pick(false)))
	return func() { m.Tell(drop{}) }
}

func (k *taker) perform(e takingEffect, tell func(takingInput)) {
	slowly := func(err error, in takingInput) { k.pauses.Answer(err, func() { tell(in) }) }
	switch e := e.(type) {
	case pick:
		tell(k.pick(e.own))
	case forget:
		k.listed.forget(e.rivals && !k.shared)
	case survey:
		k.listed.settle(k.tries, false)
		k.tries = nil
		k.survey(k.most, e.claims, func(v view, own bool, err error) { slowly(err, surveyed{v, own, err}) })
	case idle:
		if k.waiter == nil {
			k.waiter = newWaiter(&k.store, k.receipts, waitersDir, 0)
		}
		k.waiter.stand(e.view, false, func() { tell(roused{}) })
		k.receipts.tellClosed(k.waiter, func() { tell(shut{}) })
	case fetch:
		k.read(e.places, slowly)
	case remove:
		k.linger, k.disown = k.batches.begin(k.removal(e.items), func(results []session.OpResult, err error) {
			tell(removed{refused(results, err)})
		})
	case ready:
		k.requests.EnsurePath(k.dir(claimsDir), func(_ bool, err error) { slowly(err, readied{err}) })
	case linger:
		k.linger()
		lapses(k.session, k.live, &k.pauses, func() { tell(lapsed{}) })
	case disown:
		k.disown()
	case give:
		if k.listed.settle(k.tries, e.err == nil && !e.stays); e.err == nil && e.stays {
			k.listed.putBack(k.tries)
		}
		if k.waiter != nil {
			k.waiter.leave()
		}
		k.pauses.End()
		k.answer(e.items, e.err)
	}
}

// read reads items, all at once.
func (k *taker) read(places []place, answer func(error, takingInput)) {
	var in fetched
	found := make([]*claimed, len(places))
	left := len(places)
	requests := k.requests
	for i, p := range places {
		requests.Get(k.node(p), func(data []byte, stat *session.Stat, err error) {
			switch {
			case err == nil:
				item := itemOf(p, data, stat)
				found[i] = &item
			case !errors.Is(err, session.ErrNoNode):
				in.err = err
			}
			if left--; left > 0 {
				return
			}
			for _, item := range found {
				if item != nil {
					in.items = append(in.items, *item)
				}
			}
			in.old = !k.isCurrent()
			answer(in.err, in)
		})
	}
}

// removal returns the part of the call in a transaction.
func (k *taker) removal(items []claimed) *removal {
	r := &removal{items: len(items), claim: -1}
	for _, item := range items {
		ops := k.takeOps(item.place, item.version)
		if len(ops) == claimableOps && r.claim < 0 {
			r.claim = len(r.ops)
		}
		r.ops = append(r.ops, ops...)
	}
	return r
}

// pick returns the next places.
func (k *taker) pick(own bool) picked {
	k.listed.settle(k.tries, true)
	k.tries, k.shared = k.base.pick(k.most, own)
	return picked{k.tries}
}
