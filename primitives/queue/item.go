package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/session"
)

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

// A settlement is the fate of an item that is claimed, but for the last two.
type settlement int

const (
	acknowledge settlement = iota // the item is deleted
	reject                        // it goes back
	takeBack                      // it goes back as if it had not been claimed
	retreat                       // it moves into a delayed bucket
	bury                          // it moves to the dead letters
	strand                        // it could not move there, and goes back
	discard                       // it is not claimed, and moves to the dead letters
	note                          // it is not claimed, could not move there, and has the reason in its record
)

func (s settlement) String() string {
	return [...]string{"acknowledge", "reject", "take back", "retreat", "bury", "strand", "discard", "note"}[s]
}

// settleOps returns the operations that settle an item. There are two operations of each kind,
// before those of a caller.
func (b *base) settleOps(q settling) []session.Op {
	unclaim := session.DeleteOp(b.at.Claim(q.Place.ID()), session.AnyVersion)
	write := func(r layout.Record) session.Op { return session.SetOp(b.at.Node(q.Place), q.Written(r), q.Version) }
	switch q.how {
	case reject, strand:
		return []session.Op{unclaim, write(q.Rejected(q.cause))} // a stranded one has the reason
	case takeBack:
		return []session.Op{unclaim, write(q.Record)}
	case note:
		return []session.Op{session.CheckOp(b.at.Path, session.AnyVersion), write(q.Record)}
	case discard:
		return b.at.TakeOps(q.Place, q.Version)
	case acknowledge, bury, retreat:
	}
	return append([]session.Op{unclaim, session.DeleteOp(b.at.Node(q.Place), q.Version)}, q.ops...)
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
// [session.ErrUnknownOutcome], the item may be deleted, or delivered again.
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
// bytes of text for its next delivery, or the dead letters. A delay of 0 or less means none: the
// item goes back to its place, as the first of its queue. The cause may be nil.
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
