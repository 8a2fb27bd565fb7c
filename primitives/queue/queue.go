package queue

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/queue/internal/filing"
	"github.com/zkactors/zkactors/primitives/queue/internal/keys"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/primitives/queue/internal/taking"
	"github.com/zkactors/zkactors/session"
)

// A Queue delivers each item once, first in, first out. It is safe for concurrent use. It should be
// closed when it is not used any more, at the latest with its session.
type Queue struct{ *base }

// A Priority is a queue from which items of the lowest number come first. Items of one priority
// come in the order in which they were put. It is used like a [Queue].
type Priority struct{ *base }

// base is the part that all kinds of queues share.
type base struct {
	at        stock.Store
	live      *session.Session
	opts      Options
	receipts  *receipt.Writer
	dead      *filing.Destination // nil if it has none
	outlet    *taking.Outlet      // for Take
	desk      *filing.Desk        // for Put
	keys      *keys.Keeper        // for PutOnce
	allowance func() allowance    // measured by the first call
}

// New returns the queue at path. It does no I/O: the path need not exist. At a path of another
// recipe all calls fail with [ErrForeign].
//
// If opts is nil, the default options are used. The error describes the problem in the arguments.
func New(s *session.Session, path string, opts *Options) (*Queue, error) {
	b, err := newBase(s, path, client.Options(opts))
	if err != nil {
		return nil, err
	}
	return &Queue{b}, nil
}

// NewPriority returns the queue with priorities at path. It is [New] otherwise. A path is for one
// of the two: calls of a [Queue] that meet an item whose priority is not 0 fail with [ErrLayout].
func NewPriority(s *session.Session, path string, opts *Options) (*Priority, error) {
	o := client.Options(opts)
	b, err := newBase(s, path, o)
	if err != nil {
		return nil, err
	}
	b.at.Any = true
	return &Priority{b}, nil
}

func newBase(s *session.Session, path string, o Options) (*base, error) {
	if err := validate(s, path, o); err != nil {
		return nil, err
	}
	b := newBaseOf(client.Of(s), path, o.defaults(path))
	b.live = s
	b.outlet.Serve(s)
	return b, nil
}

// newBaseOf is newBase, for any session.
func newBaseOf(s client.Session, path string, o Options) *base {
	b := &base{opts: o}
	b.at.Session, b.at.Path = s, path
	b.receipts = receipt.New(s, b.at.Dir(layout.ReceiptsDir))
	b.outlet = taking.NewOutlet(&b.at, b.receipts)
	b.desk = filing.NewDesk(&b.at, b.receipts)
	b.keys = keys.New(&b.at, b.receipts, o.KeepKeys)
	b.desk.Most, b.desk.Refuse = o.MaxItems, o.RefuseWhenFull
	if o.Ephemeral {
		b.desk.Mode = session.EphemeralSequential
	}
	b.allowance = sync.OnceValue(b.allow)
	if o.DeadLetter != "" {
		b.dead = &filing.Destination{Store: &stock.Store{Session: s, Path: o.DeadLetter, Any: true}}
	}
	return b
}

// Close removes the nodes that the handle has beside its items. It waits until they are deleted, or
// the session is over, which deletes them too. If the server refuses that for a session timeout,
// the error says so, and the attempts go on. If ctx ends before, the removal goes on. Later calls
// fail with [ErrClosed], and so do calls that wait for an item, or for room. Requests that are
// under way are still answered. Consumers are not closed.
func (b *base) Close(ctx context.Context) error {
	b.outlet.Followed.ForgetAll()
	b.keys.End()
	return b.explain(b.receipts.EndAll(ctx, b.live))
}

// Len returns the number of items, including claimed items and items that are not due yet. The
// session's server may lag behind the others.
func (b *base) Len(ctx context.Context) (int, error) {
	if err := b.receipts.Open(); err != nil {
		return 0, b.explain(err)
	}
	v, err := b.lookNow(ctx, stock.All, false)
	return len(v.Places), b.explain(err)
}

// lookNow is [stock.Store.Look], and waits.
func (b *base) lookNow(ctx context.Context, want int, claims bool) (stock.View, error) {
	return stock.AskAgain(ctx, func(answer func(stock.View, error)) { b.at.Look(b.receipts, 0, want, claims, answer) })
}

func (b *base) explain(err error) error {
	return client.Wrap(b.at.Session, err, "queue ", b.at.Path)
}

// String describes the queue in one short line.
func (b *base) String() string { return "queue " + b.at.Path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (b *base) Format(f fmt.State, _ rune) { client.Print(f, b) }

// An allowance is the number of bytes of data that fit into the requests for claims, at least. No
// item is accepted that could not be claimed, or moved.
type allowance struct {
	claim  int // of an item that is claimed, or moved
	beside int // what the claim of another item takes beside its data
}

// allow returns what the longest requests have room for.
func (b *base) allow() allowance {
	item := filing.Item{ID: b.receipts.NewID()}
	claim := b.longestClaim(&b.at, item)
	a := allowance{claim: b.at.Session.Room(claim...)}
	a.beside = a.claim - b.at.Session.Room(append(claim, claim[:2]...)...)
	for _, ops := range b.longestMoves(item) {
		a.claim = min(a.claim, b.at.Session.Room(ops...))
	}
	return a
}

// fits reports why an item could not be claimed, or moved to the dead letters.
func (b *base) fits(item filing.Item) error {
	if len(item.Data) <= b.allowance().claim {
		return nil
	}
	for _, ops := range append(b.longestMoves(item), b.longestClaim(&b.at, item)) {
		if err := b.at.Session.Fits(ops...); err != nil {
			return err
		}
	}
	return nil
}

// longestClaim returns the operations that claim an item, as long as they can be.
func (b *base) longestClaim(at *stock.Store, item filing.Item) []session.Op {
	c := layout.Claimed{Place: layout.LongestPlace(item.ID), Data: item.Data, Record: layout.Record{}.Longest()}
	return append(at.ClaimOps(c, strings.Repeat("x", maxName)), b.receipts.Longest())
}

// longestMoves returns the operations that move an item to the dead letters, that claim it there,
// and that move it back, as long as they can be.
func (b *base) longestMoves(item filing.Item) [][]session.Op {
	if b.dead == nil {
		return nil
	}
	item.Data = layout.Record{Origin: b.at.Path}.Longest().With(item.Data)
	move := func(from *stock.Store, into *filing.Destination) []session.Op {
		p := &filing.Producer{Into: into, Receipts: b.receipts, Items: []filing.Item{item}, First: from.TakeOps(layout.LongestPlace(item.ID), 1)}
		return append(p.LongestOps(), b.receipts.Longest())
	}
	return [][]session.Op{move(&b.at, b.dead), b.longestClaim(b.dead.Store, item), move(b.dead.Store, b.desk.Destination)}
}

// maxName is the greatest length of the name of a consumer: it is sent beside the item.
const maxName = 256
