package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/zkactors/zkactors/session"
)

// A Queue delivers each item once, first in, first out. It is safe for concurrent use. It should be closed
// when it is not used any more, at the latest with its session.
type Queue struct{ *base }

// A Priority is a queue from which the items with the lowest priority come first, and those of one priority
// in the order in which they were put. It is used like a [Queue].
type Priority struct{ *base }

// base is what all queues share.
type base struct {
	store
	opts     Options
	receipts *receipts
	dead     *store // nil without [Options.DeadLetter]

	boundMu sync.Mutex
	bound   bound // of [Options.MaxItems], as far as is known

	takeMu sync.Mutex
	seen   []place // what was listed, and not yet tried by Take
}

// New returns the queue at path. It does no I/O: there need be no such path.
//
// If opts is nil, the default options are used. The error names what is wrong with the
// arguments.
func New(s *session.Session, path string, opts *Options) (*Queue, error) {
	b, err := newBase(s, path, opts.withDefaults())
	if err != nil {
		return nil, err
	}
	return &Queue{b}, nil
}

// NewPriority returns the queue with priorities at path. It is [New] otherwise. A path is for one of the
// two: [New] fails with [ErrLayout] when it meets an item whose priority is not 0. The layout must be
// [Standard].
func NewPriority(s *session.Session, path string, opts *Options) (*Priority, error) {
	o := opts.withDefaults()
	if o.Layout.flat() {
		return nil, fmt.Errorf("queue: Options.Layout: %w: it has no priorities of int32", session.ErrInvalidArgument)
	}
	b, err := newBase(s, path, o)
	if err != nil {
		return nil, err
	}
	b.any = true
	return &Priority{b}, nil
}

func newBase(s *session.Session, path string, o Options) (*base, error) {
	if err := validate(s, path, o); err != nil {
		return nil, err
	}
	b := &base{store: store{session: s, path: path, layout: o.Layout}, opts: o}
	dir := b.dir(receiptsDir)
	if o.Layout.flat() {
		parent, _ := session.Split(path)
		dir = session.Join(parent, "_queue-receipts")
	}
	b.receipts = &receipts{session: s, dir: dir}
	if o.DeadLetter != "" {
		b.dead = &store{session: s, path: o.DeadLetter, any: true}
	}
	return b, nil
}

// Close removes what the handle has beside its items, and waits until that is gone, or ctx ends; then it goes on.
// What is under way is still answered. Later calls fail with [ErrClosed].
func (b *base) Close(ctx context.Context) error {
	return b.explain(await(ctx, func(done func(error)) func() bool {
		b.receipts.close(func() { done(nil) })
		return func() bool { return false }
	}))
}

// Put puts an item behind all others, and returns its ID, when that is confirmed.
//
// If the error wraps [session.ErrUnknownOutcome], the item may have been put, or be put a little later: because
// ctx has ended, or the session has expired, before that was known. With any other error it was not. A lost
// reply alone is no error. In a layout other than [Standard] the ID is the name of the node, and "" after a
// lost reply.
func (q *Queue) Put(ctx context.Context, data []byte) (id string, err error) {
	return q.putOne(ctx, data, 0)
}

// PutAll puts all items or none, one behind the other. It is [Queue.Put] otherwise.
func (q *Queue) PutAll(ctx context.Context, data [][]byte) (ids []string, err error) {
	return q.put(ctx, data, 0)
}

// Put puts an item behind all others with the same priority, or a lower number. It is [Queue.Put] otherwise.
func (p *Priority) Put(ctx context.Context, data []byte, priority int32) (id string, err error) {
	return p.putOne(ctx, data, priority)
}

// PutAll puts all items or none, with the same priority. It is [Queue.PutAll] otherwise.
func (p *Priority) PutAll(ctx context.Context, data [][]byte, priority int32) (ids []string, err error) {
	return p.put(ctx, data, priority)
}

func (b *base) putOne(ctx context.Context, data []byte, priority int32) (string, error) {
	ids, err := b.put(ctx, [][]byte{data}, priority)
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

func (b *base) put(ctx context.Context, data [][]byte, priority int32) (ids []string, err error) {
	if len(data) == 0 {
		return nil, b.explain(fmt.Errorf("%w: there are no items", session.ErrInvalidArgument))
	}
	f := &filing{
		into: &b.store, receipts: b.receipts, requests: b.session.Async(0), priority: priority, mode: session.PersistentSequential,
	}
	if b.opts.Ephemeral {
		f.mode = session.EphemeralSequential
	}
	for i, d := range data {
		if d == nil {
			return nil, b.explain(fmt.Errorf("%w: data of item %d is nil", session.ErrInvalidArgument, i))
		}
		f.items = append(f.items, newItem{session.NewGUID(), d})
		ids = append(ids, f.items[i].id)
		if err := b.fits(f, d); err != nil {
			return nil, b.explain(fmt.Errorf("item %d: %w", i, err))
		}
	}
	if err := b.session.Fits(append(f.ops(target{bucket{priority, math.MaxInt32}, true, true}), b.longestReceipt())...); err != nil {
		return nil, b.explain(err)
	}
	var created []session.OpResult
	if b.opts.MaxItems > 0 {
		created, err = b.fileWithin(ctx, f)
	} else {
		created, err = f.file(ctx)
	}
	if err != nil {
		return nil, b.explain(err)
	}
	if b.layout.flat() {
		clear(ids)
		for i := range created {
			_, ids[i] = session.Split(created[i].Path)
		}
	}
	return ids, nil
}

// fits reports why an item that was put could not be claimed, or moved to the dead letters.
func (b *base) fits(f *filing, data []byte) error {
	if b.layout.flat() {
		return nil
	}
	at := place{bucket{f.priority, math.MaxInt32}, session.GUIDName(f.items[0].id, itemInfix[1:]) + "-2147483648"}
	c := claimed{place: at, data: data, attempt: math.MaxInt32}
	return b.session.Fits(append(b.claimOps(c, strings.Repeat("x", maxName)), b.longestReceipt())...)
}

// longestReceipt returns an operation as long as that of any receipt.
func (b *base) longestReceipt() session.Op {
	return session.SetOp(session.Join(b.receipts.dir, session.GUIDName(session.NewGUID(), "receipt")), nil, 0)
}

// Take takes the first item that no consumer has claimed, and waits for one. The item is delivered once, or lost: if
// Take fails with an error that wraps [session.ErrUnknownOutcome], the item whose data is returned with the error
// may have been taken, or be taken a little later. With any other error nothing was. A lost reply alone is no error.
func (b *base) Take(ctx context.Context) ([]byte, error) {
	data, err := b.take(ctx, true)
	return data, b.explain(err)
}

// TryTake is Take, but fails with [ErrEmpty] when there is no item to take, as the server knows that the session is
// connected to.
func (b *base) TryTake(ctx context.Context) ([]byte, error) {
	data, err := b.take(ctx, false)
	return data, b.explain(err)
}

func (b *base) take(ctx context.Context, wait bool) ([]byte, error) {
	claims := false
	for {
		p, ok := b.listed()
		if !ok {
			v, err := b.lookNow(ctx, 1, claims)
			switch {
			case err != nil:
				return nil, err
			case len(v.places) > 0:
				b.keep(v)
				continue
			case !wait:
				return nil, ErrEmpty
			}
			err = b.changed(ctx, v)
			if err != nil {
				return nil, err
			}
			continue
		}
		data, err := b.takeFrom(ctx, p)
		if _, no := errors.AsType[*refusal](err); !no {
			if err != nil {
				b.keep(view{}) // it may still be the first
			}
			return data, err
		}
		if errors.Is(err, session.ErrNodeExists) { // a consumer has claimed it
			claims = true
			b.keep(view{})
		}
	}
}

// takeFrom takes the item at the place. The error is a [refusal] if it cannot be had.
func (b *base) takeFrom(ctx context.Context, p place) ([]byte, error) {
	for {
		data, stat, err := b.session.Get(ctx, b.node(p))
		if errors.Is(err, session.ErrNoNode) {
			return nil, &refusal{err: err}
		}
		if err != nil {
			return nil, err
		}
		item := itemOf(p, data, stat)
		err = b.commit(ctx, b.takeOps(p, stat.Version))
		var no *refusal
		switch {
		case err == nil, session.InDoubt(err):
			return item.data, err
		case !errors.As(err, &no):
			return nil, err
		case !b.layout.flat() && no.index == 0 && errors.Is(err, session.ErrNoNode): // there has been no claim yet
			if err := b.session.EnsurePath(ctx, b.dir(claimsDir)); err != nil {
				return nil, notDone(ctx, err)
			}
		case isAny(err, session.ErrNoNode, session.ErrNodeExists):
			return nil, err
		case !errors.Is(err, session.ErrBadVersion): // with another version it is the same item
			return nil, no.err
		}
	}
}

// nothingTaken returns the error of a directory that could not be made: it must not say that an item may be taken.
func notDone(ctx context.Context, err error) error {
	switch {
	case !session.InDoubt(err):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return session.ErrDisconnected
}

// listed returns the next item of the last list, and false if there is none. It is not asked for where
// a more urgent item may have come.
func (b *base) listed() (p place, ok bool) {
	b.takeMu.Lock()
	defer b.takeMu.Unlock()
	if len(b.seen) == 0 {
		return place{}, false
	}
	p, b.seen = b.seen[0], b.seen[1:]
	if b.any || b.layout == Kazoo {
		b.seen = nil
	}
	return p, true
}

func (b *base) keep(v view) {
	b.takeMu.Lock()
	defer b.takeMu.Unlock()
	b.seen = v.places
}

// takeOps returns what takes an item that has the version.
func (b *base) takeOps(p place, version int32) []session.Op {
	remove := session.DeleteOp(b.node(p), version)
	if b.layout.flat() {
		return []session.Op{remove}
	}
	claim := b.claim(p.id())
	return []session.Op{session.CreateOp(claim, nil, session.Ephemeral), session.DeleteOp(claim, session.AnyVersion), remove}
}

// A refusal means that a transaction was not done because of one of its operations.
type refusal struct {
	index int // of the operation
	err   error
}

// Error implements the error interface.
func (r *refusal) Error() string { return r.err.Error() }

// Unwrap returns the error of the operation.
func (r *refusal) Unwrap() error { return r.err }

// refused makes a refusal of an error that is one.
func refused(results []session.OpResult, err error) error {
	i := slices.IndexFunc(results, func(r session.OpResult) bool { return r.Err != nil })
	if err == nil || i < 0 || session.InDoubt(err) {
		return err
	}
	return &refusal{i, err}
}

// commit does the operations, and waits. The error is a [refusal] if it is that of one of them.
func (b *base) commit(ctx context.Context, ops []session.Op) error {
	return await(ctx, func(done func(error)) func() bool {
		return b.receipts.begin(b.session.Async(0), ops, func(results []session.OpResult, err error) {
			done(refused(results, err))
		}).cancel
	})
}

// Len returns how many items there are, those that are claimed included, as the server knows it that the session is
// connected to.
func (b *base) Len(ctx context.Context) (int, error) {
	v, err := b.lookNow(ctx, math.MaxInt, false)
	return len(v.places), b.explain(err)
}

// Peek returns the data of the first item that no consumer has claimed, and leaves it where it is. It fails with
// [ErrEmpty] if there is none, as the server knows that the session is connected to.
func (b *base) Peek(ctx context.Context) ([]byte, error) {
	for {
		v, err := b.lookNow(ctx, 1, true)
		if err == nil && len(v.places) == 0 {
			err = ErrEmpty
		}
		if err != nil {
			return nil, b.explain(err)
		}
		for _, p := range v.places {
			data, stat, err := b.session.Get(ctx, b.node(p))
			if err == nil {
				return itemOf(p, data, stat).data, nil
			}
			if !errors.Is(err, session.ErrNoNode) {
				return nil, b.explain(err)
			}
		}
	}
}

func (b *base) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("queue %s: %w", b.path, err)
}
