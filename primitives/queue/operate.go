package queue

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

// This file has what an operator does with a whole queue.

// Pause stops all clients: no consumer claims an item, and no call of Take takes one, until
// [Queue.Resume]. Clients that have listed items stop within a second. Items that are claimed are
// still delivered and acknowledged, and items can be put. A queue that is paused already stays so.
//
// The pause is a node: it outlives the session, and is undone by a client of any process. If the
// error wraps [session.ErrUnknownOutcome], ctx or the session has ended before the outcome was
// known. With any other error nothing has changed.
func (b *base) Pause(ctx context.Context) error {
	err := b.usable(ctx)
	for err == nil {
		err = b.write(ctx, session.CreateOp(b.paused(), nil, session.Persistent))
		if !errors.Is(err, session.ErrNoNode) {
			break
		}
		err = b.live.EnsurePath(ctx, b.at.Dir(layout.ItemsDir))
	}
	return b.explain(client.Without(err, session.ErrNodeExists))
}

// Resume ends a pause, if there is one. Its errors are those of [Queue.Pause].
func (b *base) Resume(ctx context.Context) error {
	err := b.usable(ctx)
	if err == nil {
		err = b.write(ctx, session.DeleteOp(b.paused(), session.AnyVersion))
	}
	return b.explain(client.Without(err, session.ErrNoNode))
}

// Paused reports whether the queue is paused, as the session's server knows.
func (b *base) Paused(ctx context.Context) (bool, error) {
	err := b.usable(ctx)
	if err != nil {
		return false, b.explain(err)
	}
	stat, err := b.live.Exists(ctx, b.paused())
	return stat != nil, b.explain(err)
}

// Purge deletes all items that are not claimed, many in a transaction, delayed ones too. It returns
// how many it has deleted, also beside an error. Items that come meanwhile may stay. If the error
// wraps [session.ErrUnknownOutcome], some more may be gone.
func (b *base) Purge(ctx context.Context) (n int, err error) {
	if err := b.usable(ctx); err != nil {
		return 0, b.explain(err)
	}
	l := &Letters{b, &b.at}
	err = l.each(ctx, nil, func(places []layout.Place) (bool, error) {
		var items []Letter
		for _, p := range places {
			items = append(items, Letter{ID: p.ID(), claimed: layout.Claimed{Place: p}})
		}
		return true, l.move(ctx, items, l.purge, func(purged []Letter) { n += len(purged) })
	})
	return n, b.explain(err)
}

// Drain waits until the queue has no item, claimed and delayed ones included. It looks at most ten
// times a second. It ends with the handle.
func (b *base) Drain(ctx context.Context) error {
	err := b.usable(ctx)
	if err == nil {
		err = b.live.Sync(ctx, b.at.Path)
	}
	var before, now stock.View
	for err == nil {
		var empty bool
		if now, empty, err = b.scan(ctx); err != nil {
			break
		}
		switch {
		case !empty:
			err = b.awaitChange(ctx, now)
		case maps.Equal(before.Seen, now.Seen): // no item has moved from one bucket to another meanwhile
			return nil
		default:
			before = now
		}
	}
	return b.explain(err)
}

// scan looks for an item, and returns a view of its bucket, or of all buckets if they are empty.
func (b *base) scan(ctx context.Context) (v stock.View, empty bool, err error) {
	items := b.at.Dir(layout.ItemsDir)
	names, stat, err := b.live.Children(ctx, items)
	if err = client.Without(err, session.ErrNoNode); err != nil {
		return stock.View{}, false, err
	}
	v.Seen = map[string]stock.Children{items: stock.ChildrenOf(stat)}
	buckets, err := b.at.BucketsOf(names)
	if err != nil {
		return stock.View{}, false, err
	}
	for _, at := range slices.Backward(buckets) {
		dir := b.at.Bucket(at)
		stat, err := b.live.Exists(ctx, dir)
		if err != nil {
			return stock.View{}, false, err
		}
		v.Seen[dir] = stock.ChildrenOf(stat)
		if stat != nil && stat.NumChildren > 0 {
			return stock.View{Seen: map[string]stock.Children{dir: stock.ChildrenOf(stat)}}, false, nil
		}
	}
	return v, true, nil
}

// drainPause is the least time between two looks of Drain.
const drainPause = 100 * time.Millisecond

// awaitChange waits until a directory of a view has changed, at least for a while.
func (b *base) awaitChange(ctx context.Context, v stock.View) error {
	changed, rested, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	cancel := b.at.Follow(b.at.Session.Async(0), v, func() { close(changed) })
	defer cancel()
	stop := b.at.Session.After(drainPause, func() { close(rested) })
	defer stop()
	b.receipts.TellClosed(closed, sync.OnceFunc(func() { close(closed) }))
	defer b.receipts.Forget(closed)
	for _, ch := range []chan struct{}{rested, changed} {
		select {
		case <-ch:
		case <-closed:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// usable refuses what the handle or the context does not allow, and a path that is not that of a
// queue.
func (b *base) usable(ctx context.Context) error {
	if err := client.CheckContext(ctx); err != nil {
		return err
	}
	if err := b.receipts.Open(); err != nil || b.at.IsChecked() {
		return err
	}
	names, stat, err := b.live.Children(ctx, b.at.Path)
	if err == nil && stat.DataLength > 0 {
		var data []byte
		if data, _, err = b.live.Get(ctx, b.at.Path); err == nil {
			err = layout.ForeignData(data)
		}
	}
	if err == nil {
		err = b.at.Check(names)
	}
	return client.Without(err, session.ErrNoNode)
}

// write does the operation once.
func (b *base) write(ctx context.Context, op session.Op) error {
	return procedure.Await(ctx, func(done func(error)) func() {
		return b.receipts.Begin(0, []session.Op{op}, func(_ []session.OpResult, err error) { done(err) })
	})
}

// paused returns the path of the node that pauses the queue. It stands among the buckets, so that
// every look sees it without another request.
func (b *base) paused() string { return znode.Join(b.at.Dir(layout.ItemsDir), layout.PausedNode) }
