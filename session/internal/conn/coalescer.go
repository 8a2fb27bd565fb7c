package conn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/fifo"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// The limits of shared transactions (docs/adr/0023).
const (
	maxShared      = 4 // transactions in flight
	maxSharedOps   = 600
	maxSharedBytes = 512 << 10

	maxSpoilt = 2 // a call goes alone after it was in this many failed transactions
	maxBroken = 2 // all calls go alone after this many connections in a row broke with a shared transaction unanswered
)

// A coalescer decides which writes share a transaction. While too many transactions are in flight,
// writes wait in it, and then go out together. The lock of its epoch guards it. It only decides:
// [Epoch.advance] sends.
type coalescer struct {
	limits shareLimits

	// The calls that wait and may share, the oldest first. No call waits while another transaction
	// may go out.
	waiting fifo.Queue[*Call]

	// The waiting calls that create a node, by the parent of the node.
	creating map[string]*Call

	inFlight int // transactions without an answer, including those of one call
	broken   int // how many connections in a row broke with a shared transaction unanswered
}

type shareLimits struct{ ops, bytes int }

// shareLimitsOf returns limits with which shared requests, and the replies to them, stay below
// those of the options.
func shareLimitsOf(o *Options) shareLimits {
	const reply = 200 // an upper bound, without the path of the request
	const more = 16   // by which a transaction is longer than its members together, at most
	return shareLimits{
		ops:   max(1, min(maxSharedOps, o.MaxReply/2/reply)),
		bytes: min(maxSharedBytes, o.MaxRequest-more, o.MaxReply/2),
	}
}

// join takes a call that may share. If it returns alone, the call must be sent by itself, after the
// waiting call before, if that is not nil. Otherwise the call waits. If no call waits and another
// transaction may go out, the call goes alone at once, and counts as a transaction in flight.
func (q *coalescer) join(c *Call) (before *Call, alone bool) {
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

// next returns how many of the oldest waiting calls go out as one transaction now; 0 for none. The
// transaction then counts as in flight, and the caller must call [coalescer.take] for each of its
// calls. The transaction has at most as many bytes as there is room for, unless its oldest call
// alone has more.
func (q *coalescer) next(room func() int) (n int) {
	waiting := q.waiting.All()
	if len(waiting) == 0 || q.inFlight == maxShared {
		return 0
	}
	most := min(room(), q.limits.bytes)
	if most == 0 {
		return 0
	}
	ops, bytes := 0, 0
	for n < len(waiting) {
		ops += waiting[n].width()
		bytes += len(waiting[n].Frame)
		if n > 0 && (ops > q.limits.ops || bytes > most) {
			break
		}
		n++
	}
	q.inFlight++
	return n
}

// take removes the oldest waiting call, and returns it.
func (q *coalescer) take() *Call {
	c := q.waiting.Pop()
	q.forget(c)
	return c
}

// failed records that a transaction has failed because of the member with the index culprit; -1 if
// that is not known. Members that may share again wait, before all others. The other members are
// returned, the oldest first: they must go alone.
func (q *coalescer) failed(members []*Call, culprit int) (alone []*Call) {
	q.inFlight--
	var again []*Call
	for i, c := range members {
		c.spoilt++
		clash := false
		for parent := range c.createsUnder {
			clash = clash || q.creating[parent] != nil
		}
		if culprit < 0 || i == culprit || c.spoilt >= maxSpoilt || clash {
			c.Joins = false
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

// reset is called when the connection has failed. It removes the waiting calls, and returns them.
// shared reports whether a transaction of several calls was lost with the connection.
func (q *coalescer) reset(shared bool) (waiting []*Call) {
	waiting = slices.Clone(q.waiting.All())
	q.waiting.Set(nil)
	clear(q.creating)
	q.inFlight = 0
	if shared {
		q.broken++
	}
	return waiting
}

func (q *coalescer) note(c *Call) {
	for parent := range c.createsUnder {
		if q.creating == nil {
			q.creating = make(map[string]*Call)
		}
		q.creating[parent] = c
	}
}

func (q *coalescer) forget(c *Call) {
	for parent := range c.createsUnder {
		delete(q.creating, parent)
	}
}

func (q *coalescer) remove(c *Call) {
	q.forget(c)
	q.waiting.Set(slices.DeleteFunc(q.waiting.All(), func(o *Call) bool { return o == c }))
}

// width returns the number of operations that a call adds to a transaction.
func (c *Call) width() int { return max(1, len(c.Ops)) }

// createsUnder yields the parents of the nodes that the call creates.
func (c *Call) createsUnder(yield func(parent string) bool) {
	for i, op := range c.Ops {
		if op.IsCreate() && !yield(c.Of.Parent(i)) {
			return
		}
	}
}

// newShared returns the transaction of several calls, which are about to be sent.
func newShared(members []*Call) *Call {
	t := &Call{members: members, Opcode: wire.OpMulti, Write: true}
	size, width := wire.RecordSize(0, nil), 0
	for _, c := range members {
		size += len(c.Frame)
		width += c.width()
	}
	t.Frame = wire.BeginMulti(make([]byte, 0, size), 0)
	t.Ops = make([]wire.Op, 0, width)
	for _, c := range members {
		t.Frame = wire.AppendPartsOf(t.Frame, c.Frame)
		if c.Opcode == wire.OpMulti {
			t.Ops = append(t.Ops, c.Ops...)
		} else {
			t.Ops = append(t.Ops, c.Opcode)
		}
	}
	t.Frame = wire.EndMulti(t.Frame)
	return t
}

// settleShared takes the reply to a shared transaction. If failed is set, the servers have executed
// none of its calls; culprit is the index of the call whose operation failed, or -1 if the reply
// does not show it. Otherwise each call has its outcome, as if it had been sent alone.
func (s *Session) settleShared(t *Call, h wire.Header, rest []byte, reply *wire.Reply) (culprit int, failed bool, err error) {
	if h.Code != wire.CodeOK {
		return -1, !s.refusedShared(t, h), nil
	}
	if err := wire.ParseReply(wire.OpMulti, t.Ops, rest, reply); err != nil {
		for _, c := range t.members {
			c.Err = fmt.Errorf("%w: reply: %w", c.lost(nil), err)
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
		c.Zxid, c.Company = h.Zxid, int32(len(t.members))
		reply.Results = results[at : at+c.width()]
		at += len(reply.Results)
		c.takes(reply)
	}
	reply.Results = results
	return -1, false, nil
}

// refusedShared handles a reply whose error does not depend on the operations: it gives the error
// to all calls. It reports whether the reply is of this kind.
func (s *Session) refusedShared(t *Call, h wire.Header) bool {
	err := s.Owner.ErrorOf(h.Code)
	if h.Code == wire.CodeTooLarge {
		err = fmt.Errorf("%w: reply: %w", fault.ErrUnknownOutcome, fault.ErrTooLarge)
	}
	switch h.Code { //nolint:exhaustive // the others may be about one operation
	case wire.CodeTooLarge, wire.CodeSessionMoved, wire.CodeSessionExpired, wire.CodeAuthFailed, wire.CodeNotReadOnly, wire.CodeSessionClosedRequireSASLAuth:
	default:
		if !errors.Is(err, fault.ErrBusy) {
			return false
		}
	}
	for _, c := range t.members {
		c.Zxid, c.Err = h.Zxid, err
	}
	return true
}
