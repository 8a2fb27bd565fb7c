package queue

import (
	"context"
	"errors"
	"math"

	"github.com/zkactors/zkactors/session"
)

// A bound is what is known of how full a queue is. Each transaction of a producer writes to the directory of the items
// at the version at which they were counted. So no item was put since, and there are at most as many as were counted.
type bound struct {
	version int32
	count   int
	known   bool
}

// file puts the items, and waits.
func (f *filing) file(ctx context.Context) (created []session.OpResult, err error) {
	err = await(ctx, func(done func(error)) func() bool {
		f.answer = func(results []session.OpResult, err error) {
			created = results
			done(refused(results, err))
		}
		f.begin()
		return f.cancel
	})
	return created, err
}

// fileWithin puts the items when there is room.
func (b *base) fileWithin(ctx context.Context, f *filing) ([]session.OpResult, error) {
	n := len(f.items)
	if n > b.opts.MaxItems {
		return nil, ErrFull
	}
	for {
		now, err := b.room(ctx, n)
		if err != nil {
			return nil, err
		}
		try := &filing{
			into: f.into, receipts: f.receipts, requests: f.requests, priority: f.priority, items: f.items, mode: f.mode,
			first: []session.Op{session.SetOp(b.dir(itemsDir), nil, now.version)},
		}
		created, err := try.file(ctx)
		no, is := errors.AsType[*refusal](err)
		switch {
		case err == nil:
			b.setBound(bound{now.version + 1, now.count + n, true})
			return created, nil
		case is && no.index == 0 && isAny(err, session.ErrBadVersion, session.ErrNoNode):
			b.setBound(bound{}) // another has put items, or the directory is another
		default:
			b.setBound(bound{})
			return nil, err
		}
	}
}

func (b *base) setBound(to bound) {
	b.boundMu.Lock()
	defer b.boundMu.Unlock()
	b.bound = to
}

// room waits until there is room for n items.
func (b *base) room(ctx context.Context, n int) (bound, error) {
	b.boundMu.Lock()
	now := b.bound
	b.boundMu.Unlock()
	if now.known && now.count+n <= b.opts.MaxItems {
		return now, nil
	}
	dir := b.dir(itemsDir)
	for {
		stat, err := b.session.Exists(ctx, dir)
		if err != nil {
			return bound{}, err
		}
		if stat == nil {
			if err := b.session.EnsurePath(ctx, dir); err != nil {
				return bound{}, notDone(ctx, err)
			}
			continue
		}
		// What is counted after the version was read was put before the version, or since.
		v, err := b.lookNow(ctx, math.MaxInt, false)
		if err != nil {
			return bound{}, err
		}
		count := len(v.places)
		switch {
		case count+n <= b.opts.MaxItems:
			return bound{stat.Version, count, true}, nil
		case b.opts.RefuseWhenFull:
			return bound{}, ErrFull
		}
		if err := b.changed(ctx, v); err != nil {
			return bound{}, err
		}
	}
}

// changed waits until the view may not be true any more.
func (b *base) changed(ctx context.Context, v view) error {
	cancel := func() {}
	defer func() { cancel() }()
	return await(ctx, func(done func(error)) func() bool {
		cancel = b.follow(b.session.Async(0), v, true, func() { done(nil) })
		return func() bool { return false }
	})
}
