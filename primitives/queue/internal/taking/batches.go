package taking

import (
	"errors"

	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/sharing"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

const (
	// BatchDepth is the greatest number of transactions of takers that are under way.
	BatchDepth = 1

	// FullBatch is the greatest number of items that one transaction of takers takes.
	FullBatch = 64
)

// Batches are the transactions of a handle that take items. A refused taker is left out, and the
// others go again.
type batches struct {
	sharing.Pool[*removal]

	store    *stock.Store
	receipts *receipt.Writer
	size     int // of the next; doubled by a success, and halved by a refusal
}

// A removal is the part of one taker in a transaction.
type removal struct {
	sharing.Part

	items int // how many it takes
	claim int // the first operation that creates a claim; -1 if there is none
	ops   []session.Op
}

// begin does the operations, with the operations of others. See [once.Writer.Begin].
func (b *batches) begin(r *removal, answer func([]session.OpResult, error)) (linger, leave func()) {
	r.Answer = answer
	leave = b.Begin(r)
	return func() { b.Linger(r) }, leave
}

func (b *batches) IsFree(_ []*removal, under int) bool { return under < BatchDepth }

func (b *batches) Group(waiting []*removal) (n int, begin func(func([]session.OpResult, error)) func()) {
	var ops []session.Op
	most, items := 0, 0
	for _, r := range waiting {
		if items += r.items; most > 0 && items > b.size {
			break
		}
		most++
	}
	n = sharing.Halve(most, func(n int) bool {
		ops = nil
		for _, p := range waiting[:n] {
			ops = append(ops, p.ops...)
		}
		return n == 1 || b.receipts.Takes(ops...)
	})
	return n, func(answer func([]session.OpResult, error)) func() { return b.receipts.Begin(0, ops, answer) }
}

// Divide divides an answer. If there is no directory for a claim, every taker that creates one is
// refused.
func (b *batches) Divide(calls []*removal, results []session.OpResult, err error) (parts []sharing.Share) {
	no, isRefusal := errors.AsType[*stock.RefusalError](stock.Refused(results, err))
	tooLarge := errors.Is(err, session.ErrTooLarge) && len(calls) > 1
	switch {
	case err == nil:
		b.size = min(2*max(b.size, 1), FullBatch)
	case isRefusal, tooLarge:
		b.size = max(b.size/2, 1)
	}
	begins := 0 // where the operations of the part begin
	unclaimable := false
	for _, c := range calls {
		ends := begins + len(c.ops)
		own := sharing.Share{Err: err}
		if len(results) >= ends {
			own.Results = results[begins:ends]
		}
		own.Again = tooLarge || isRefusal && (no.Index < begins || no.Index >= ends)
		unclaimable = unclaimable || isRefusal && !own.Again && errors.Is(err, session.ErrNoNode) && b.store.IsClaim(c.ops[no.Index-begins])
		parts = append(parts, own)
		begins = ends
	}
	for i, c := range calls {
		if unclaimable && parts[i].Again && c.claim >= 0 && !c.Leaves {
			parts[i] = sharing.Share{Results: make([]session.OpResult, len(c.ops)), Err: err}
			parts[i].Results[c.claim].Err = err
		}
	}
	return parts
}
