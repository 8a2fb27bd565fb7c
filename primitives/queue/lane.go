package queue

import (
	"slices"
	"sync"
	"time"

	"github.com/zkactors/zkactors/session"
)

const (
	// laneItems is the greatest number of items of several calls in one transaction.
	laneItems = bucketSize / 2

	// laneDepth is the greatest number of transactions of a lane that are under way.
	laneDepth = 4
)

// A lane has few transactions of a handle under way for each priority, and one in all if the queue is bounded. Calls
// that come meanwhile wait, and share the next. Side by side, all but one would be refused whenever a bucket is full,
// and would be sent again: so the one that makes a bucket is under way alone.
type lane struct {
	of *base

	mu      sync.Mutex
	waiting []*putCall
	filing  []*shared // that are under way
	begins  bool      // set while next is under way
}

// A shared is a transaction for several calls.
type shared struct {
	calls []*putCall
	stop  func() // nil until it has begun
}

// isLeft reports whether all callers have left.
func (sh *shared) isLeft() bool {
	return !slices.ContainsFunc(sh.calls, func(c *putCall) bool { return !c.leaves })
}

// A putCall is a call that puts items.
type putCall struct {
	priority int32
	delay    int64 // ms
	called   time.Duration
	items    []newItem
	answer   func(created []session.OpResult, err error)
	alone    bool // set when it was refused together with others
	leaves   bool // set when its caller leaves
	left     bool // set when the caller was answered because it leaves
}

// lane returns the lane of a priority.
func (b *base) lane(priority int32) *lane {
	if b.opts.MaxItems > 0 {
		priority = 0
	}
	b.lanesMu.Lock()
	defer b.lanesMu.Unlock()
	if b.lanes == nil {
		b.lanes = make(map[int32]*lane)
	}
	if b.lanes[priority] == nil {
		b.lanes[priority] = &lane{of: b}
	}
	return b.lanes[priority]
}

// begin puts the items of a call when it is their turn.
func (l *lane) begin(c *putCall) (abandon func()) {
	l.mu.Lock()
	c.alone = l.of.opts.MaxItems > 0
	l.waiting = append(l.waiting, c)
	l.mu.Unlock()
	l.next()
	return func() { l.abandon(c) }
}

// next begins what waits, as far as it may be under way.
func (l *lane) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begins {
		return
	}
	l.begins = true
	for len(l.waiting) > 0 && l.isFree() {
		p, n := l.group()
		sh := &shared{calls: l.waiting[:n:n]}
		l.filing, l.waiting = append(l.filing, sh), l.waiting[n:]
		l.mu.Unlock()
		stop := p.begin(func(created []session.OpResult, err error) {
			l.filed(sh, created, err)
			l.next()
		})
		l.mu.Lock()
		if sh.stop = stop; sh.isLeft() {
			l.mu.Unlock()
			stop()
			l.mu.Lock()
		}
	}
	l.begins = false
}

// isFree reports whether another transaction may begin.
func (l *lane) isFree() bool {
	n := len(l.filing)
	return n == 0 || n < laneDepth && l.of.opts.MaxItems == 0 && l.of.isSettled(l.waiting[0].priority)
}

// group returns a producer for the first calls that wait, and how many these are.
func (l *lane) group() (p *producer, n int) {
	head := l.waiting[0]
	items := len(head.items)
	n = 1
	for !head.alone && n < len(l.waiting) && !l.waiting[n].alone && items+len(l.waiting[n].items) <= laneItems {
		items += len(l.waiting[n].items)
		n++
	}
	for {
		p = l.of.producing(head.priority, head.delay)
		p.called = head.called
		for _, c := range l.waiting[:n] {
			p.items = append(p.items, c.items...)
		}
		if n == 1 || l.of.session.Fits(append(p.ops(longestPlan()), l.of.longestReceipt())...) == nil {
			return p, n
		}
		n /= 2
	}
}

// filed answers the calls of a transaction. Those that were refused together are tried one by one.
func (l *lane) filed(sh *shared, created []session.OpResult, err error) {
	l.mu.Lock()
	l.filing = slices.DeleteFunc(l.filing, func(other *shared) bool { return other == sh })
	again := err != nil && !session.InDoubt(err) && len(sh.calls) > 1
	var answers []func()
	var retry []*putCall
	for _, c := range sh.calls {
		own := created[:min(len(created), len(c.items))]
		created = created[len(own):]
		switch {
		case c.left:
		case again && c.leaves:
			answers = append(answers, func() { c.answer(nil, abandoned(false)) })
		case again:
			c.alone = true
			retry = append(retry, c)
		default:
			answers = append(answers, func() { c.answer(own, err) })
		}
	}
	l.waiting = slices.Concat(retry, l.waiting)
	l.mu.Unlock()
	for _, answer := range answers {
		answer()
	}
}

// abandon answers a call whose caller leaves. Others go on with its transaction; the last of them stops it.
func (l *lane) abandon(c *putCall) {
	l.mu.Lock()
	c.leaves = true
	stop := func() {}
	if i := slices.Index(l.waiting, c); i >= 0 {
		l.waiting = slices.Delete(slices.Clone(l.waiting), i, i+1)
		c.left = true
		stop = func() { c.answer(nil, abandoned(false)) }
	}
	for _, sh := range l.filing {
		switch {
		case !slices.Contains(sh.calls, c):
		case !sh.isLeft():
			c.left = true
			stop = func() { c.answer(nil, abandoned(true)) }
		case sh.stop != nil:
			stop = sh.stop
		}
	}
	l.mu.Unlock()
	stop()
}
