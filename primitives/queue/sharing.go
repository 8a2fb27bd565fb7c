package queue

import (
	"slices"
	"sync"

	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/session"
)

// A sharing is the part of a call that shares its transaction with others.
type sharing struct {
	answer func(results []session.OpResult, err error)
	leaves bool // set when its caller leaves. While set, nothing more is sent for it
	stays  bool // set when its caller leaves as soon as the transaction is answered that is under way. While set, no other is sent for it
	left   bool // set when the caller was answered because it leaves; never cleared. While set, no other answer counts
}

func (c *sharing) self() *sharing { return c }

// A sharer is a call of one kind.
type sharer interface {
	comparable
	self() *sharing
}

// This file has calls share their transactions. A call comes through these states:
//
//	begin ──► waiting ──── next ────► under way ──── done ────► answered
//	             │ ▲                    │ │ again                  ▲
//	             │ └────────────────────┼─┘                        │
//	             └──── abandon ─────────┴──────────────────────────┘

// A pool has few transactions of a handle under way. Calls that come meanwhile wait, and share the
// next.
type pool[C sharer] struct {
	// Constant. They are called with mu held.
	rule poolRule[C]

	mu      sync.Mutex
	waiting []C          // set by begin, and by calls that go again; each leaves it with its transaction, or with its caller
	under   []*shared[C] // the transactions under way
	begins  bool         // set while next is under way. While set, no other next begins a transaction
}

// A poolRule determines which calls share a transaction, and what happens to them.
type poolRule[C sharer] interface {
	// isFree reports whether another transaction may begin for the calls that wait, while so many
	// are under way.
	isFree(waiting []C, under int) bool

	// group returns the number of waiting calls that are next, and the function that begins their
	// transaction.
	group(waiting []C) (n int, begin func(answer func([]session.OpResult, error)) (leave func()))

	// divide returns the part of each call in the answer to their transaction.
	divide(calls []C, results []session.OpResult, err error) []share
}

// A share is the answer for one call, unless its operations go again.
type share struct {
	results []session.OpResult
	err     error
	again   bool
}

// A shared is a transaction for several calls.
type shared[C sharer] struct {
	calls []C
	leave func() // nil until it has begun
}

// isLeft reports whether all callers have left.
func (t *shared[C]) isLeft() bool {
	return !slices.ContainsFunc(t.calls, func(c C) bool { return !c.self().leaves })
}

// begin adds a call, which is answered once. Abandon has it answered at once, if that is possible.
func (p *pool[C]) begin(c C) (abandon func()) {
	p.mu.Lock()
	p.waiting = append(p.waiting, c)
	p.mu.Unlock()
	p.next()
	return func() { p.abandon(c) }
}

// next begins the waiting calls, as far as the rule allows.
func (p *pool[C]) next() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begins {
		return
	}
	p.begins = true
	for len(p.waiting) > 0 && p.rule.isFree(p.waiting, len(p.under)) {
		n, begin := p.rule.group(p.waiting)
		t := &shared[C]{calls: p.waiting[:n:n]}
		p.under, p.waiting = append(p.under, t), p.waiting[n:]
		p.mu.Unlock()
		leave := begin(func(results []session.OpResult, err error) {
			p.done(t, results, err)
			p.next()
		})
		p.mu.Lock()
		if t.leave = leave; t.isLeft() {
			p.mu.Unlock()
			leave()
			p.mu.Lock()
		}
	}
	p.begins = false
}

// done answers the calls of a transaction. Calls that go again are the next.
func (p *pool[C]) done(t *shared[C], results []session.OpResult, err error) {
	p.mu.Lock()
	p.under = slices.DeleteFunc(p.under, func(other *shared[C]) bool { return other == t })
	var answers []func()
	var again []C
	for i, own := range p.rule.divide(t.calls, results, err) {
		switch c := t.calls[i].self(); {
		case c.left:
		case own.again && (c.leaves || c.stays):
			answers = append(answers, func() { c.answer(nil, procedure.Abandoned(false)) })
		case own.again:
			again = append(again, t.calls[i])
		default:
			answers = append(answers, func() { c.answer(own.results, own.err) })
		}
	}
	p.waiting = slices.Concat(again, p.waiting)
	p.mu.Unlock()
	for _, answer := range answers {
		answer()
	}
}

// abandon answers a call whose caller leaves. Others go on with its transaction; the last of them
// leaves it.
func (p *pool[C]) abandon(of C) {
	p.mu.Lock()
	c := of.self()
	c.leaves = true
	leave := func() {}
	if i := slices.Index(p.waiting, of); i >= 0 {
		p.waiting = slices.Delete(slices.Clone(p.waiting), i, i+1)
		c.left = true
		leave = func() { c.answer(nil, procedure.Abandoned(false)) }
	}
	for _, t := range p.under {
		switch {
		case !slices.Contains(t.calls, of):
		case !t.isLeft():
			c.left = true
			leave = func() { c.answer(nil, procedure.Abandoned(true)) }
		case t.leave != nil:
			leave = t.leave
		}
	}
	p.mu.Unlock()
	leave()
}

// linger answers a call whose caller leaves, if it waits yet. Otherwise the caller waits for the
// transaction, which is not sent again for it.
func (p *pool[C]) linger(of C) {
	p.mu.Lock()
	c := of.self()
	c.stays = true
	i := slices.Index(p.waiting, of)
	if i >= 0 {
		p.waiting = slices.Delete(slices.Clone(p.waiting), i, i+1)
		c.left = true
	}
	p.mu.Unlock()
	if i >= 0 {
		c.answer(nil, procedure.Abandoned(false))
	}
}

// halve returns the first number that fits of most, half of it, and so on. It ends with the number
// that was tried last.
func halve(most int, fits func(n int) bool) (n int) {
	for n = most; !fits(n); n /= 2 {
	}
	return n
}
