package queue

import (
	"slices"
	"sync"

	"github.com/zkactors/zkactors/session"
)

// laneItems is how many items of several calls are put in one transaction, at most.
const laneItems = bucketSize / 2

// A lane has one transaction of a handle under way for each priority, and one in all if the queue is bounded. Calls
// that come meanwhile wait, and share the next. Side by side, all but one would be refused whenever a bucket is full,
// and would be sent again.
type lane struct {
	of *base

	mu      sync.Mutex
	waiting []*putCall
	filing  []*putCall // the calls of the transaction that is under way
	stop    func()     // the newest transaction
	begins  bool       // set while next is under way
}

// A putCall is a call that puts items.
type putCall struct {
	priority int32
	delay    int64 // ms
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
		b.lanes[priority] = &lane{of: b, stop: func() {}}
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

// next begins what waits, unless a transaction is under way.
func (l *lane) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begins {
		return
	}
	l.begins = true
	for len(l.filing) == 0 && len(l.waiting) > 0 {
		p, n := l.group()
		l.filing, l.waiting = l.waiting[:n:n], l.waiting[n:]
		l.mu.Unlock()
		stop := p.begin(func(created []session.OpResult, err error) {
			l.filed(created, err)
			l.next()
		})
		l.mu.Lock()
		l.stop = stop
		if l.isLeft() {
			l.mu.Unlock()
			stop()
			l.mu.Lock()
		}
	}
	l.begins = false
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
		for _, c := range l.waiting[:n] {
			p.items = append(p.items, c.items...)
		}
		if n == 1 || l.of.session.Fits(append(p.ops(longestPlan), l.of.longestReceipt())...) == nil {
			return p, n
		}
		n /= 2
	}
}

// filed answers the calls of a transaction. Those that were refused together are tried one by one.
func (l *lane) filed(created []session.OpResult, err error) {
	l.mu.Lock()
	calls := l.filing
	l.filing = nil
	again := err != nil && !session.InDoubt(err) && len(calls) > 1
	var answers []func()
	var retry []*putCall
	for _, c := range calls {
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
	l.waiting = append(retry, l.waiting...)
	l.mu.Unlock()
	for _, answer := range answers {
		answer()
	}
}

// abandon answers a call whose caller leaves. Others go on with its transaction; the last of them stops it.
func (l *lane) abandon(c *putCall) {
	l.mu.Lock()
	c.leaves = true
	i, filing, stop := slices.Index(l.waiting, c), slices.Contains(l.filing, c), l.stop
	last := filing && l.isLeft()
	if i >= 0 {
		l.waiting = slices.Delete(slices.Clone(l.waiting), i, i+1)
	}
	c.left = i >= 0 || filing && !last
	left := c.left
	l.mu.Unlock()
	switch {
	case left:
		c.answer(nil, abandoned(filing))
	case last:
		stop()
	}
}

// isLeft reports whether all callers of the transaction that is under way have left.
func (l *lane) isLeft() bool {
	return len(l.filing) > 0 && !slices.ContainsFunc(l.filing, func(c *putCall) bool { return !c.leaves })
}
