// Package sharing has calls of a handle share their transactions.
package sharing

import (
	"slices"
	"sync"

	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/session"
)

// A Part is the part of a call that shares its transaction with others.
type Part struct {
	Answer func(results []session.OpResult, err error)
	Leaves bool // set when its caller leaves. While set, nothing more is sent for it
	stays  bool // set when its caller leaves as soon as the transaction is answered that is under way. While set, no other is sent for it
	left   bool // set when the caller was answered because it leaves; never cleared. While set, no other answer counts
}

func (c *Part) self() *Part { return c }

// A Call is a call of one kind.
type Call interface {
	comparable
	self() *Part
}

// This file has calls share their transactions. A call comes through these states:
//
//	begin ──► waiting ──── next ────► under way ──── done ────► answered
//	             │ ▲                    │ │ again                  ▲
//	             │ └────────────────────┼─┘                        │
//	             └──── abandon ─────────┴──────────────────────────┘

// A Pool has few transactions of a handle under way. Calls that come meanwhile wait, and share the
// next.
type Pool[C Call] struct {
	// Constant. They are called with mu held.
	Rule Rule[C]

	mu      sync.Mutex
	waiting []C          // set by begin, and by calls that go again; each leaves it with its transaction, or with its caller
	under   []*shared[C] // the transactions under way
	begins  bool         // set while next is under way. While set, no other next begins a transaction
}

// A Rule determines which calls share a transaction, and what happens to them.
type Rule[C Call] interface {
	// IsFree reports whether another transaction may begin for the calls that wait, while so many
	// are under way.
	IsFree(waiting []C, under int) bool

	// Group returns the number of waiting calls that are next, and the function that begins their
	// transaction.
	Group(waiting []C) (n int, begin func(answer func([]session.OpResult, error)) (leave func()))

	// Divide returns the part of each call in the answer to their transaction.
	Divide(calls []C, results []session.OpResult, err error) []Share
}

// A Share is the answer for one call, unless its operations go again.
type Share struct {
	Results []session.OpResult
	Err     error
	Again   bool
}

// A shared is a transaction for several calls.
type shared[C Call] struct {
	calls []C
	leave func() // nil until it has begun
}

// isLeft reports whether all callers have left.
func (t *shared[C]) isLeft() bool {
	return !slices.ContainsFunc(t.calls, func(c C) bool { return !c.self().Leaves })
}

// Begin adds a call, which is answered once. Abandon has it answered at once, if that is possible.
func (p *Pool[C]) Begin(c C) (abandon func()) {
	p.mu.Lock()
	p.waiting = append(p.waiting, c)
	p.mu.Unlock()
	p.next()
	return func() { p.abandon(c) }
}

// next begins the waiting calls, as far as the rule allows.
func (p *Pool[C]) next() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begins {
		return
	}
	p.begins = true
	for len(p.waiting) > 0 && p.Rule.IsFree(p.waiting, len(p.under)) {
		n, begin := p.Rule.Group(p.waiting)
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
func (p *Pool[C]) done(t *shared[C], results []session.OpResult, err error) {
	p.mu.Lock()
	p.under = slices.DeleteFunc(p.under, func(other *shared[C]) bool { return other == t })
	var answers []func()
	var again []C
	for i, own := range p.Rule.Divide(t.calls, results, err) {
		switch c := t.calls[i].self(); {
		case c.left:
		case own.Again && (c.Leaves || c.stays):
			answers = append(answers, func() { c.Answer(nil, procedure.Abandoned(false)) })
		case own.Again:
			again = append(again, t.calls[i])
		default:
			answers = append(answers, func() { c.Answer(own.Results, own.Err) })
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
func (p *Pool[C]) abandon(of C) {
	p.mu.Lock()
	c := of.self()
	c.Leaves = true
	leave := func() {}
	if i := slices.Index(p.waiting, of); i >= 0 {
		p.waiting = slices.Delete(slices.Clone(p.waiting), i, i+1)
		c.left = true
		leave = func() { c.Answer(nil, procedure.Abandoned(false)) }
	}
	for _, t := range p.under {
		switch {
		case !slices.Contains(t.calls, of):
		case !t.isLeft():
			c.left = true
			leave = func() { c.Answer(nil, procedure.Abandoned(true)) }
		case t.leave != nil:
			leave = t.leave
		}
	}
	p.mu.Unlock()
	leave()
}

// Linger answers a call whose caller leaves, if it waits yet. Otherwise the caller waits for the
// transaction, which is not sent again for it.
func (p *Pool[C]) Linger(of C) {
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
		c.Answer(nil, procedure.Abandoned(false))
	}
}

// Halve returns the first number that fits of most, half of it, and so on. It ends with the number
// that was tried last.
func Halve(most int, fits func(n int) bool) (n int) {
	for n = most; !fits(n); n /= 2 {
	}
	return n
}
