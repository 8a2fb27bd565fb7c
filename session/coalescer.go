package session

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session/internal/fifo"
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

// A coalescer decides which writes share a transaction. They wait in it, as long as the
// transactions in flight leave no room, and go out together then. It is guarded by the lock of its
// epoch, and does nothing but decide: see [epoch.advance].
type coalescer struct {
	limits shareLimits

	// Calls that may share, the oldest first; none while there is room for another transaction.
	waiting fifo.Queue[*call]

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
	if q.waiting.Len() == 0 && q.inFlight < maxShared {
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
	q.waiting.Push(c)
	q.note(c)
	return nil, false
}

// next returns how many of the calls that wait, the oldest, go out as one transaction now. It is
// in flight then, and [coalescer.take] is to follow.
func (q *coalescer) next() (n int) {
	waiting := q.waiting.All()
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
	c := q.waiting.Pop()
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
		q.waiting.Set(append(again, q.waiting.All()...))
	}
	return alone
}

// reset returns the calls that wait, when the connection has failed. Shared reports whether a
// transaction of several calls was lost with it.
func (q *coalescer) reset(shared bool) (waiting []*call) {
	waiting = slices.Clone(q.waiting.All())
	q.waiting.Set(nil)
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
	q.waiting.Set(slices.DeleteFunc(q.waiting.All(), func(o *call) bool { return o == c }))
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

// newShared returns the transaction that goes out for several calls, which are about to be sent.
func newShared(members []*call) *call {
	t := &call{members: members, opcode: wire.OpMulti, write: true}
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

// settleShared takes the reply to a shared transaction. It returns the index of the call whose operation has failed all, or -1
// if the reply does not say which; nothing was done for any of them then. If failed is false,
// each call has its outcome, as if it had been sent alone.
func settleShared(t *call, h wire.Header, rest []byte, reply *wire.Reply) (culprit int, failed bool, err error) {
	if h.Code != wire.CodeOK {
		return -1, !refusedShared(t, h), nil
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

// refusedShared gives the error of a reply to all calls, if it has nothing to do with their
// operations. It reports whether it has done so.
func refusedShared(t *call, h wire.Header) bool {
	err := errOf(h.Code)
	if h.Code == wire.CodeTooLarge {
		err = fmt.Errorf("%w: reply: %w", ErrUnknownOutcome, ErrTooLarge)
	}
	switch h.Code { //nolint:exhaustive // the others may be about one operation
	case wire.CodeTooLarge, wire.CodeSessionMoved, wire.CodeSessionExpired, wire.CodeAuthFailed, wire.CodeNotReadOnly, wire.CodeSessionClosedRequireSASLAuth:
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
