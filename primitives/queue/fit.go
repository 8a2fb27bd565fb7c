package queue

import (
	"strings"

	"github.com/zkactors/zkactors/primitives/queue/internal/filing"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

// This file has what the claim of an item must have room for: no item is accepted that could not be
// claimed, or moved.

// An allowance is the number of bytes of data that fit into the requests for claims, at least.
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
