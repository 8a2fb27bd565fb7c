package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/filing"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/session"
)

// Put puts an item behind all others, and returns its ID when the server has confirmed it. The data
// may be empty; nil is empty, too.
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
// round trip for the producer and one for the consumer, as not passed, and one percent of the time
// since it has read that clock, which may be ten seconds: clocks may run at different rates. The
// time for which the call waits for room is counted by the client's clock. Only if the server's
// clock is set, or another server with another clock becomes the leader, the item is early or late
// by the difference; so are items that are put within ten seconds after that. Later ones are not.
//
// When the delay has passed, the item comes before all that are not delayed, or behind those that a
// client has listed already. Any number of items can be due in the same minute. [Queue.Len] and
// [Options.MaxItems] count them at once.
func (q *Queue) PutAfter(ctx context.Context, data []byte, delay time.Duration) (id string, err error) {
	return q.putOne(ctx, data, 0, delay)
}

// PutAll puts all items or none, one behind the other. It is [Queue.Put] otherwise. Calls that come
// at the same time share transactions. Without items it makes no request, and returns nil.
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
	c := &filing.Call{Priority: priority, Delay: filing.Millis(max(delay, 0)), Called: b.at.Session.Age()} // a time may have passed
	defer func() { b.reportPut(len(data), c.Called, err) }()
	if err := client.CheckContext(ctx); err != nil {
		return nil, b.explain(err)
	}
	if len(data) == 0 {
		return nil, nil
	}
	for i, d := range data {
		item, err := b.newItem(layout.Record{}, d)
		if err != nil {
			return nil, b.explain(fmt.Errorf("data of item %d: %w", i, err))
		}
		c.Items, ids = append(c.Items, item), append(ids, item.ID)
	}
	if err = b.send(ctx, c); err != nil && !session.InDoubt(err) {
		ids = nil
	}
	return ids, b.explain(err)
}

// newItem returns an item, unless it could not be claimed or moved.
func (b *base) newItem(r layout.Record, data []byte) (filing.Item, error) {
	item := b.desk.NewItem(r, data)
	return item, b.fits(item)
}

// send puts the items of a call.
func (b *base) send(ctx context.Context, c *filing.Call) error {
	if err := b.desk.Fit(c); err != nil {
		return fmt.Errorf("items: %w", err)
	}
	return procedure.Await(ctx, func(done func(error)) func() {
		c.Answer = func(_ []session.OpResult, err error) { done(err) }
		return b.desk.Begin(c)
	})
}
