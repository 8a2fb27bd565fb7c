package queue

import (
	"context"
	"fmt"

	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/taking"
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
	return b.takeOne(ctx, taking.Machine{Wait: true})
}

// TryTake is Take, but fails with [ErrEmpty] when the session's server knows of no item to take.
func (b *base) TryTake(ctx context.Context) ([]byte, error) {
	return b.takeOne(ctx, taking.Machine{})
}

// TakeN takes the next items in the order of [Queue.Take]: at least one, for which it waits, and at
// most n, in one transaction. It may take fewer than n though there are more: it takes what one
// request can name, and one bucket has. It is Take otherwise. If the outcome is unknown, all items
// whose data it returns have been taken, or none.
func (b *base) TakeN(ctx context.Context, n int) ([][]byte, error) {
	if n < 1 {
		return nil, b.explain(fmt.Errorf("%w: %d items", session.ErrInvalidArgument, n))
	}
	items, err := b.take(ctx, taking.Machine{Wait: true}, b.outlet.MostTaken(n))
	var data [][]byte
	for _, item := range items {
		data = append(data, item.Data)
	}
	return data, b.explain(err)
}

// Peek returns the data of the item that the next TryTake on this handle would take, as far as is
// known, and leaves it where it is. It fails with [ErrEmpty] if the session's server knows of no
// such item.
//
// Like Len, it needs no right to write. Without that right it cannot read the server's clock: which
// delayed items are due it tells by the client's own clock.
func (b *base) Peek(ctx context.Context) ([]byte, error) {
	return b.takeOne(ctx, taking.Machine{Peeks: true})
}

func (b *base) takeOne(ctx context.Context, how taking.Machine) ([]byte, error) {
	items, err := b.take(ctx, how, 1)
	if len(items) == 0 {
		return nil, b.explain(err)
	}
	return items[0].Data, b.explain(err)
}

func (b *base) take(ctx context.Context, how taking.Machine, n int) (items []layout.Claimed, err error) {
	if err := b.receipts.Open(); err != nil {
		return nil, err
	}
	err = procedure.Await(ctx, func(done func(error)) func() {
		return b.outlet.NewTaker(n).Begin(how, func(taken []layout.Claimed, err error) {
			items = taken
			done(err)
		})
	})
	if !how.Peeks {
		b.reportTaken(items, err)
	}
	return items, err
}
