package session

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// The limits of transactions that several callers share (docs/adr/0023).
const (
	maxShared      = 4 // at a time
	maxSharedOps   = 600
	maxSharedBytes = 512 << 10

	maxSpoilt = 2 // how many transactions that fail a call is part of, before it goes alone
	maxBroken = 2 // how many connections in a row break with a transaction unanswered, before all go alone
)

// A lane keeps the order of the requests of one caller, whose writes may share transactions with
// those of others: while such a write waits, or may have to be sent again without another, what
// the caller asks for after it waits, too. The zero lane is ready for use, with one epoch.
type lane struct {
	write *call // waits in the coalescer, or is a part of a transaction without an answer; or nil. The lock of the epoch guards it
}

// mayShare reports whether writes may share transactions.
func (a Async) mayShare() bool { return a.lane != nil && a.epoch != 0 }

// A coalescer decides which writes share a transaction. They wait in it, as long as the
// transactions in flight leave no room, and go out together then. It is guarded by the lock of its
// epoch, and does nothing but decide: see [epoch.advance].
type coalescer struct {
	limits shareLimits

	// Calls that may share, the oldest first; none while there is room for another transaction.
	waiting fifo[*call]

	// Of those that wait and create a node: the call, by the parent of the node.
	creating map[string]*call

	inFlight int // transactions without an answer, those of one call included
	broken   int // how many connections in a row broke with a shared one unanswered
}

type shareLimits struct{ ops, bytes int }

// shareLimitsOf keeps shared requests, and the replies to them, below what the options allow.
func shareLimitsOf(o *Options) shareLimits {
	const reply = 200 // at most, but for the path of the request
	const more = 16   // bytes of a transaction, at most, than its members have when they go alone
	return shareLimits{
		ops:   max(1, min(maxSharedOps, o.MaxReply/2/reply)),
		bytes: min(maxSharedBytes, o.MaxRequest-more, o.MaxReply/2),
	}
}

// join takes a call that may share. If that is to go alone, it reports so, and returns the call
// that waits and has to go before it, or nil. If nothing waits and there is room, the call goes at
// once as a transaction of its own, which is in flight then.
func (q *coalescer) join(c *call) (before *call, alone bool) {
	if q.broken >= maxBroken {
		return nil, true
	}
	if q.waiting.len() == 0 && q.inFlight < maxShared {
		q.inFlight++
		c.counted = true
		return nil, true
	}
	for parent := range c.createsUnder {
		if rival := q.creating[parent]; rival != nil {
			q.remove(rival)
			return rival, true
		}
	}
	q.waiting.push(c)
	q.note(c)
	return nil, false
}

// next returns how many of the calls that wait, the oldest, go out as one transaction now. It is
// in flight then, and [coalescer.take] is to follow.
func (q *coalescer) next() (n int) {
	waiting := q.waiting.all()
	if len(waiting) == 0 || q.inFlight == maxShared {
		return 0
	}
	ops, bytes := 0, 0
	for n < len(waiting) {
		ops += waiting[n].width()
		bytes += len(waiting[n].frame)
		if n > 0 && (ops > q.limits.ops || bytes > q.limits.bytes) {
			break
		}
		n++
	}
	q.inFlight++
	return n
}

// take returns the oldest call that waits, which does not wait any more.
func (q *coalescer) take() *call {
	c := q.waiting.pop()
	q.forget(c)
	return c
}

// failed notes that a transaction has failed, at the operation of the call with that index. If
// that is negative, the call is not known. Those that may share again wait, before the others.
// The rest is returned, and goes alone, the oldest first.
func (q *coalescer) failed(members []*call, culprit int) (alone []*call) {
	q.inFlight--
	var again []*call
	for i, c := range members {
		c.spoilt++
		clash := false
		for parent := range c.createsUnder {
			clash = clash || q.creating[parent] != nil
		}
		if culprit < 0 || i == culprit || c.spoilt >= maxSpoilt || clash {
			c.joins = false
			alone = append(alone, c)
			continue
		}
		again = append(again, c)
		q.note(c)
	}
	if len(again) > 0 {
		q.waiting.set(append(again, q.waiting.all()...))
	}
	return alone
}

// reset returns the calls that wait, when the connection has failed. Shared reports whether a
// transaction of several calls was lost with it.
func (q *coalescer) reset(shared bool) (waiting []*call) {
	waiting = slices.Clone(q.waiting.all())
	q.waiting.set(nil)
	clear(q.creating)
	q.inFlight = 0
	if shared {
		q.broken++
	}
	return waiting
}

func (q *coalescer) note(c *call) {
	for parent := range c.createsUnder {
		if q.creating == nil {
			q.creating = make(map[string]*call)
		}
		q.creating[parent] = c
	}
}

func (q *coalescer) forget(c *call) {
	for parent := range c.createsUnder {
		delete(q.creating, parent)
	}
}

func (q *coalescer) remove(c *call) {
	q.forget(c)
	q.waiting.set(slices.DeleteFunc(q.waiting.all(), func(o *call) bool { return o == c }))
}

// width returns the number of operations that a call adds to a transaction.
func (c *call) width() int { return max(1, len(c.ops)) }

// createsUnder yields the parents of the nodes that the call creates.
func (c *call) createsUnder(yield func(parent string) bool) {
	for i := range c.asked {
		if c.asked[i].kind == opKindCreate {
			if dir, _ := znode.Split(c.asked[i].path); !yield(dir) {
				return
			}
		}
	}
}

// A shared transaction goes out for several calls.
type shared struct {
	call
	members []*call
}

// newShared returns the transaction of calls that are about to be sent.
func newShared(members []*call) *shared {
	t := &shared{members: members}
	t.shared, t.opcode, t.write = t, wire.OpMulti, true
	size, width := recordSize(0, nil), 0
	for _, c := range members {
		size += len(c.frame)
		width += c.width()
	}
	t.frame = wire.BeginMulti(make([]byte, 0, size), 0)
	t.ops = make([]wire.Op, 0, width)
	for _, c := range members {
		t.frame = wire.AppendPartsOf(t.frame, c.frame)
		if c.opcode == wire.OpMulti {
			t.ops = append(t.ops, c.ops...)
		} else {
			t.ops = append(t.ops, c.opcode)
		}
	}
	t.frame = wire.EndMulti(t.frame)
	return t
}

// settle takes the reply. It returns the index of the call whose operation has failed all, or -1
// if the reply does not say which; nothing was done for any of them then. If failed is false,
// each call has its outcome, as if it had been sent alone.
func (t *shared) settle(h wire.Header, rest []byte, reply *wire.Reply) (culprit int, failed bool, err error) {
	if h.Code != wire.CodeOK {
		return -1, !t.refused(h), nil
	}
	if err := wire.ParseReply(wire.OpMulti, t.ops, rest, reply); err != nil {
		for _, c := range t.members {
			c.err = fmt.Errorf("%w: reply: %w", c.lost(nil), err)
		}
		return -1, false, err
	}
	results, at := reply.Results, 0
	for i, c := range t.members {
		of := results[at : at+c.width()]
		at += len(of)
		if slices.ContainsFunc(of, func(r wire.Result) bool {
			return r.Op == wire.OpError && r.Code != wire.CodeOK && r.Code != wire.CodeRuntimeInconsistency
		}) {
			return i, true, nil
		}
	}
	at = 0
	for _, c := range t.members {
		c.zxid, c.company = h.Zxid, int32(len(t.members))
		reply.Results = results[at : at+c.width()]
		at += len(reply.Results)
		c.err = c.typed.take(reply)
	}
	reply.Results = results
	return -1, false, nil
}

// refused gives the error of a reply to all calls, if it has nothing to do with their
// operations. It reports whether it has done so.
func (t *shared) refused(h wire.Header) bool {
	err := errOf(h.Code)
	if h.Code == codeTooLarge {
		err = fmt.Errorf("%w: reply: %w", ErrUnknownOutcome, ErrTooLarge)
	}
	switch h.Code { //nolint:exhaustive // the others may be about one operation
	case codeTooLarge, wire.CodeSessionMoved, wire.CodeSessionExpired, wire.CodeAuthFailed, wire.CodeNotReadOnly, wire.CodeSessionClosedRequireSASLAuth:
	default:
		if !errors.Is(err, ErrBusy) {
			return false
		}
	}
	for _, c := range t.members {
		c.zxid, c.err = h.Zxid, err
	}
	return true
}

// What follows is called with the epoch locked, unless it says otherwise.

// route sends a call, or lets it wait for others.
func (e *epoch) route(c *call) {
	if c.lane != nil && c.lane.write != nil {
		before := c.lane.write
		before.behind = append(before.behind, c)
		return
	}
	if c.joins {
		before, alone := e.coalescer.join(c)
		if before != nil {
			e.dispatch(before)
		}
		if !alone {
			c.lane.write = c
			return
		}
	}
	e.dispatch(c)
}

// dispatch sends a call that goes alone, unless it was abandoned. What waited for it in its lane comes next.
func (e *epoch) dispatch(c *call) {
	e.requeue(c.leaveLane())
	if c.state.CompareAndSwap(callQueued, callSent) {
		e.open.send(c)
		return
	}
	e.ephemerals.release(c.ephemeral)
	if c.counted {
		c.counted = false
		e.coalescer.inFlight--
	}
}

// share sends the oldest calls of the coalescer as one transaction.
func (e *epoch) share(n int) {
	if n == 1 {
		c := e.coalescer.take()
		c.counted = true
		e.dispatch(c)
		return
	}
	members := make([]*call, 0, n)
	now := e.session.clock.now()
	for range n {
		c := e.coalescer.take()
		if c.state.CompareAndSwap(callQueued, callSent) {
			c.sent, c.since = now, e.newest
			members = append(members, c)
			continue
		}
		e.ephemerals.release(c.ephemeral)
		e.requeue(c.leaveLane())
	}
	if len(members) == 0 {
		e.coalescer.inFlight--
		return
	}
	e.open.send(&newShared(members).call)
}

// requeue lets calls go out next.
func (e *epoch) requeue(calls []*call) {
	if len(calls) > 0 {
		e.queue.set(append(calls, e.queue.all()...))
	}
}

// shared takes the reply to a transaction of several calls, and gives their answers, or has them
// sent again. The epoch must not be locked.
func (e *epoch) shared(t *shared, h wire.Header, rest []byte, reply *wire.Reply) error {
	culprit, failed, err := t.settle(h, rest, reply)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case failed:
		for _, c := range t.members {
			c.state.Store(callQueued)
		}
		e.requeue(requeued(e.coalescer.failed(t.members, culprit)))
	default:
		e.coalescer.inFlight--
		e.requeue(laggards(t.members))
		for _, c := range t.members {
			e.session.order.add(c)
		}
	}
	if e.coalescer.broken = 0; err != nil {
		e.coalescer.broken = maxBroken
	}
	e.advance()
	return err
}

// leaveLane returns the calls that waited for this in its lane.
func (c *call) leaveLane() (behind []*call) {
	if c.lane == nil || c.lane.write != c {
		return nil
	}
	behind = c.behind
	c.lane.write, c.behind = nil, nil
	return behind
}

// laggards returns the calls that waited for these in their lanes.
func laggards(calls []*call) (all []*call) {
	for _, c := range calls {
		all = append(all, c.leaveLane()...)
	}
	return all
}

// requeued returns calls that are to be sent again, each with those that wait for it in its lane.
func requeued(calls []*call) (all []*call) {
	for _, c := range calls {
		c.state.CompareAndSwap(callSent, callQueued) // a call that waited may have been abandoned
		c.counted = false
		all = append(append(all, c), c.leaveLane()...)
	}
	return all
}
