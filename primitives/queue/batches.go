package queue

import (
	"errors"
	"slices"
	"sync"

	"github.com/zkactors/zkactors/session"
)

const (
	// batchDepth is the greatest number of transactions of takers that are under way.
	batchDepth = 1

	// fullBatch is the greatest number of items that one of them takes.
	fullBatch = 64
)

// Batches are the transactions of a handle that take items. Takers that come while enough of them are under way wait,
// and share the next. A taker that is refused is left out, and the others go again.
type batches struct {
	of *base

	mu      sync.Mutex
	waiting []*removal
	under   []*batch // that are under way
	size    int      // of the next; doubled by a success, and halved by a refusal
	begins  bool     // set while next is under way
}

// A batch is one transaction.
type batch struct {
	parts []*removal
	leave func() // nil until it has begun
}

// A removal is the part of one taker in a transaction.
type removal struct {
	ops    []session.Op
	answer func([]session.OpResult, error)
	leaves bool // set when its caller leaves
	left   bool // set when the caller was answered because it leaves
}

// begin does the operations, with those of others. See [receipts.begin].
func (b *batches) begin(ops []session.Op, answer func([]session.OpResult, error)) (leave func()) {
	p := &removal{ops: ops, answer: answer}
	b.mu.Lock()
	b.waiting = append(b.waiting, p)
	b.mu.Unlock()
	b.next()
	return func() { b.abandon(p) }
}

// next begins what waits, as far as it may be under way.
func (b *batches) next() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.begins {
		return
	}
	b.begins = true
	for len(b.waiting) > 0 && len(b.under) < batchDepth {
		n, ops := b.gather()
		t := &batch{parts: b.waiting[:n:n]}
		b.under, b.waiting = append(b.under, t), b.waiting[n:]
		b.mu.Unlock()
		leave := b.of.receipts.begin(0, ops, func(results []session.OpResult, err error) {
			b.done(t, results, err)
			b.next()
		})
		b.mu.Lock()
		if t.leave = leave; t.isLeft() {
			b.mu.Unlock()
			leave()
			b.mu.Lock()
		}
	}
	b.begins = false
}

// gather returns how many of the waiting takers are next, and their operations.
func (b *batches) gather() (n int, ops []session.Op) {
	n = min(len(b.waiting), max(b.size, 1))
	for {
		ops = nil
		for _, p := range b.waiting[:n] {
			ops = append(ops, p.ops...)
		}
		if n == 1 || b.of.session.Fits(append(slices.Clone(ops), b.of.longestReceipt())...) == nil {
			return n, ops
		}
		n /= 2
	}
}

// done answers the takers of a transaction.
func (b *batches) done(t *batch, results []session.OpResult, err error) {
	no, isRefusal := errors.AsType[*refusal](refused(results, err))
	b.mu.Lock()
	b.under = slices.DeleteFunc(b.under, func(other *batch) bool { return other == t })
	switch {
	case err == nil:
		b.size = min(2*max(b.size, 1), fullBatch)
	case isRefusal:
		b.size = max(b.size/2, 1)
	}
	var answers []func()
	var again []*removal
	unclaimable := isRefusal && errors.Is(err, session.ErrNoNode) && t.claims(no.index) // there is no directory for it
	first := 0                                                                          // of the operations of the part
	for _, p := range t.parts {
		own := []session.OpResult(nil)
		begins, ends := first, first+len(p.ops)
		first = ends
		if len(results) >= ends {
			own = results[begins:ends]
		}
		of := isRefusal && no.index >= begins && no.index < ends
		switch {
		case p.left:
		case isRefusal && !of && p.leaves:
			answers = append(answers, func() { p.answer(nil, abandoned(false)) })
		case unclaimable && !of && len(p.ops) > 1:
			own = make([]session.OpResult, len(p.ops))
			own[0].Err = err
			answers = append(answers, func() { p.answer(own, err) })
		case isRefusal && !of:
			again = append(again, p)
		default:
			answers = append(answers, func() { p.answer(own, err) })
		}
	}
	b.waiting = slices.Concat(again, b.waiting)
	b.mu.Unlock()
	for _, answer := range answers {
		answer()
	}
}

// abandon answers a taker whose caller leaves. Others go on with its transaction; the last of them leaves it.
func (b *batches) abandon(p *removal) {
	b.mu.Lock()
	p.leaves = true
	leave := func() {}
	if i := slices.Index(b.waiting, p); i >= 0 {
		b.waiting = slices.Delete(slices.Clone(b.waiting), i, i+1)
		p.left = true
		leave = func() { p.answer(nil, abandoned(false)) }
	}
	for _, t := range b.under {
		switch {
		case !slices.Contains(t.parts, p):
		case !t.isLeft():
			p.left = true
			leave = func() { p.answer(nil, abandoned(true)) }
		case t.leave != nil:
			leave = t.leave
		}
	}
	b.mu.Unlock()
	leave()
}

// claims reports whether the operation creates a claim: the first of several of a part.
func (t *batch) claims(index int) bool {
	first := 0
	for _, p := range t.parts {
		if first == index && len(p.ops) > 1 {
			return true
		}
		first += len(p.ops)
	}
	return false
}

// isLeft reports whether all callers have left.
func (t *batch) isLeft() bool {
	return !slices.ContainsFunc(t.parts, func(p *removal) bool { return !p.leaves })
}
