package queue

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// An Item is one delivery of an item. Its methods are safe for concurrent use.
type Item struct {
	ID       string // as returned by Put
	Data     []byte
	Attempt  int   // counts the deliveries, from 1
	Priority int32 // 0 in a [Queue]

	// Cause is the error of the last rejection, as text of at most 512 bytes. It is "" if there was
	// none, or it had no error.
	Cause string

	// Put is when the item was first put, by the server's clock.
	Put time.Time

	consumer *Consumer
	claimed  claimed
	tenure   *tenure // of the claim
}

// A claimed is an item that a consumer has claimed, or is to claim.
type claimed struct {
	place place
	data  []byte
	record
	since   int64 // when it was first put, in ms by the server's clock
	version int32 // of the item
}

// itemOf returns the item that was read. An item of an earlier client has no record: once it was
// written to, the number of its deliveries precedes its data.
func itemOf(p place, data []byte, stat *session.Stat) claimed {
	c := claimed{place: p, data: data, version: stat.Version}
	switch infixOf(p.name) {
	case itemInfix:
		c.record, c.data = parseRecord(data)
	case earlierInfix:
		head, rest, ok := bytes.Cut(data, []byte("\n"))
		if n, err := strconv.Atoi(string(head)); ok && err == nil && stat.Version > 0 {
			c.Attempts, c.data = n, rest
		}
	}
	c.since = cmp.Or(c.Put, stat.Ctime)
	return c
}

// written returns the data of the node of an item that has the record. That of an earlier client
// keeps the attempts alone, which those clients read too.
func (c claimed) written(r record) []byte {
	if infixOf(c.place.name) == earlierInfix {
		return append([]byte(strconv.Itoa(r.Attempts)+"\n"), c.data...)
	}
	return r.with(c.data)
}

// tried returns the record of the item after n more deliveries.
func (c claimed) tried(n int) record {
	c.Attempts += n
	return c.record
}

// next returns the item as it is after it was claimed.
func (c claimed) next() claimed {
	c.Attempts++
	c.version++
	return c
}

// claimOps returns the operations that claim an item, for the consumer with the name.
func (b *base) claimOps(c claimed, consumer string) []session.Op {
	return []session.Op{
		session.CreateOp(b.claim(c.place.id()), []byte(consumer), session.Ephemeral),
		session.SetOp(b.node(c.place), c.written(c.tried(1)), c.version),
	}
}

// A settlement is the fate of a claimed item.
type settlement int

const (
	acknowledge settlement = iota // the item is deleted
	reject                        // it goes back
	takeBack                      // it goes back as if it had not been claimed
)

func (s settlement) String() string { return [...]string{"acknowledge", "reject", "take back"}[s] }

// settleOps returns the operations that settle a claimed item. There are two operations of each
// kind.
func (b *base) settleOps(c claimed, how settlement) []session.Op {
	unclaim := session.DeleteOp(b.claim(c.place.id()), session.AnyVersion)
	switch how {
	case reject:
		return []session.Op{unclaim, session.CheckOp(b.node(c.place), c.version)}
	case takeBack:
		return []session.Op{unclaim, session.SetOp(b.node(c.place), c.written(c.tried(-1)), c.version)}
	case acknowledge:
	}
	return []session.Op{unclaim, session.DeleteOp(b.node(c.place), c.version)}
}

// Age returns how long ago the item was first put, by the server's clock.
func (i Item) Age() time.Duration {
	if i.consumer == nil {
		return 0
	}
	low, _, _ := i.consumer.receipts.clock.at(i.consumer.base.session.Age()) // known since the claim
	return max(0, time.Duration(low-i.claimed.since)*time.Millisecond)
}

// Ack acknowledges the item: it is done, and deleted when Ack returns nil. The error wraps
// [ErrNotClaimed] if this delivery does not count any more: the item was settled before, or it went
// back, and another consumer may have it. Then Ack has changed nothing. If the error wraps
// [session.ErrUnknownOutcome], the item may be deleted, or delivered again.
func (i Item) Ack(ctx context.Context) error { return i.settle(ctx, acknowledge) }

// Reject gives the item back: it is delivered again, to any consumer, or moves to the dead letters
// after [Options.MaxAttempts] deliveries. The errors are those of [Item.Ack].
func (i Item) Reject(ctx context.Context) error { return i.settle(ctx, reject) }

func (i Item) settle(ctx context.Context, how settlement) error {
	if i.consumer == nil {
		return fmt.Errorf("queue: %w: the zero Item", session.ErrInvalidArgument)
	}
	if err := client.Usable(ctx); err != nil {
		return i.consumer.explain(err)
	}
	outcome, err := actors.Ask(ctx, i.consumer.actor, func(reply actors.Reply[error]) input {
		return settle{settling{i.claimed, how, reply}}
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
		session.GuardOp(b.claim(i.claimed.place.id()), ErrNotClaimed),
		session.CheckOp(b.node(i.claimed.place), i.claimed.version),
	}
}
