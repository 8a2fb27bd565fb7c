package session

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/session/internal/lease"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// A call is one request, from its submission until its answer. It is encoded by its
// caller, and written by that or by the goroutine of the connection that writes. It is
// decoded by the goroutine that reads, and answered in the session's order.
type call struct {
	typed     typed
	op        string // in errors
	path      string // as users of the session know it
	opcode    wire.Op
	frame     []byte        // as it goes out, but for its xid
	ops       []wire.Op     // of a transaction
	fewOps    [2]wire.Op    // memory for ops
	asked     []Op          // the operations as the caller has asked for them
	number    int           // of the epoch that it belongs to; 0 if it may be sent in any
	write     bool          // repeating it could act twice
	absent    bool          // a missing node is an answer like others
	ephemeral int           // bytes of paths of the ephemeral nodes that it creates
	plants    bool          // it plants a watch
	blocking  bool          // a caller waits for it: it may go to a read-only server, see readonly.go
	fleeting  bool          // it is sent on the present connection, or not at all
	target    string        // path on the server
	began     time.Duration // age of the session when it was asked for

	// See coalescer.go. The lock of the epoch guards all but lane.
	lane    *lane   // of its caller; or nil
	behind  []*call // asked for after it in its lane; none unless it is the write of that
	members []*call // if it is a transaction that goes out for several calls: those; else nil
	joins   bool    // it may share a transaction; cleared when one has failed, and it is to go alone
	counted bool    // it is in flight as a transaction of its own that others might have shared
	company int32   // how many callers share the transaction that has done it, when the reply has come
	spoilt  int8    // how many transactions have failed that it was a part of

	// own is set for the session's own requests: the reader calls it at once.
	own func(wire.Code) error

	epoch atomic.Pointer[epoch] // that it was submitted to
	state atomic.Int32          // a callState

	// Set when it goes out on a connection. The lock of the epoch guards them until
	// the reader has taken the reply.
	xid   int32
	sent  time.Duration
	since int64 // the newest zxid seen

	// Set with the reply.
	zxid int64 // what the server knew
	err  error
}

// typed is the part of a call that knows the type of its result.
type typed interface {
	// take converts the body of a successful reply, which is valid only now.
	take(*wire.Reply) error
	// answer gives the result to the caller.
	answer(error)
}

type callState = int32

const (
	callQueued callState = iota
	callSent
	callAbandoned
	callAnswered
)

// abandon withdraws a call that has not been sent. It reports whether it was in
// time.
func (c *call) abandon() bool {
	if !c.state.CompareAndSwap(callQueued, callAbandoned) {
		return false
	}
	if e := c.epoch.Load(); e != nil {
		e.sweep()
	}
	return true
}

// Run gives the answer. It is a step of the session's order.
func (c *call) Run() {
	e := c.epoch.Load()
	e.ephemerals.release(c.ephemeral)
	c.give(e.session)
}

// refuse answers, in its turn, a call that cannot be made.
func (c *call) refuse(s *core, why error) *call {
	if c.err = why; c.began == 0 {
		c.began = s.clock.now()
	}
	s.order.Put(func() { c.give(s) })
	return c
}

// give gives the answer, in the session's order, unless the caller has left.
func (c *call) give(s *core) {
	if c.state.Load() == callAbandoned {
		return
	}
	c.state.Store(callAnswered)
	err := c.err
	if err != nil {
		if _, named := err.(*OpError); !named { //nolint:errorlint // only an error that is one itself needs no name
			err = &OpError{Op: c.op, Path: c.path, Err: err}
		}
	}
	s.opts.Observer.Request(c.op, s.clock.now()-c.began, c.failure(err))
	c.typed.answer(err)
}

// failure returns what an observer is told of the error of a request.
func (c *call) failure(err error) error {
	if !c.write && isNoNode(err) {
		return nil
	}
	return err
}

// settle records the outcome that the header of a reply tells, and takes its body.
func (c *call) settle(h wire.Header, rest []byte, reply *wire.Reply) error {
	c.zxid = h.Zxid
	if h.Code == wire.CodeNoNode && !c.opcode.IsCreate() {
		c.epoch.Load().ephemerals.disown(c.target)
	}
	switch {
	case h.Code == wire.CodeTooLarge && c.write:
		c.err = fmt.Errorf("%w: reply: %w", ErrUnknownOutcome, ErrTooLarge)
	case h.Code == wire.CodeNoNode && c.absent:
	case h.Code != wire.CodeOK:
		c.err = errOf(h.Code)
	default:
		if err := wire.ParseReply(c.opcode, c.ops, rest, reply); err != nil {
			c.err = blamedError{fmt.Errorf("%w: reply: %w", c.lost(nil), err)}
			return err
		}
		c.err = c.typed.take(reply)
	}
	return nil
}

// lost returns the error of a call whose reply did not come. If why is nil, the epoch
// goes on.
func (c *call) lost(why error) error {
	if why == nil {
		why = ErrDisconnected
	}
	if c.write {
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, why)
	}
	return why
}

// vouches returns the part of the ensemble that the reply rests on.
func (c *call) vouches(code wire.Code) lease.Vouch {
	if c.opcode == wire.OpSync && code == wire.CodeOK {
		return lease.ByLeader
	}
	if isWrite(c.opcode) {
		switch code { //nolint:exhaustive // the others may be the server's alone
		case wire.CodeOK, wire.CodeNoNode, wire.CodeBadVersion, wire.CodeNoChildrenForEphemerals, wire.CodeNodeExists, wire.CodeNotEmpty:
			return lease.ByQuorum // a transaction that fails is proposed, too
		}
	}
	return lease.ByServer
}

func isWrite(op wire.Op) bool {
	return op.IsCreate() || op == wire.OpDelete || op == wire.OpSetData || op == wire.OpSetACL || op == wire.OpMulti
}

// errBlamed is in the error of a call whose reply was malformed, or that was the only one
// sent when its connection broke. If that happens again and again, the call is the reason,
// and repeating it keeps the session from working.
var errBlamed = errors.New("the request may be the reason")

// A blamedError is errBlamed, without a word of it: once is no reason to suspect a request.
type blamedError struct{ error }

func (e blamedError) Unwrap() error      { return e.error }
func (blamedError) Is(target error) bool { return target == errBlamed }

// maxBlamed is the number of connections in a row that a request may break before it fails for good, with
// an error that wraps errHopeless.
const maxBlamed = 5

var errHopeless = errors.New("given up after five connections")

// A request is a call with a result.
type request[T any] struct {
	call
	result  T
	convert func(*call, *wire.Reply) (T, error)
	tell    func(T, error)
}

func (r *request[T]) take(reply *wire.Reply) (err error) {
	r.result, err = r.convert(&r.call, reply)
	return err
}

func (r *request[T]) answer(err error) { r.tell(r.result, err) }

func newRequest[T any](op, path string, convert func(*call, *wire.Reply) (T, error), tell func(T, error)) *request[T] {
	r := &request[T]{convert: convert, tell: tell}
	r.typed, r.op, r.path = r, op, path
	return r
}

// A lane keeps the order of the requests of one caller, whose writes may share transactions with
// those of others: while such a write waits, or may have to be sent again without another, what
// the caller asks for after it waits, too. The zero lane is ready for use, with one epoch.
type lane struct {
	write *call // waits in the coalescer, or is a part of a transaction without an answer; or nil. The lock of the epoch guards it
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
