package conn

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/session/internal/ephemerals"
	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/lease"
	"github.com/zkactors/zkactors/session/internal/window"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// A Call is one request, from its submission until its answer. Its caller encodes it. Its caller,
// or the connection's goroutine that writes, writes it. The goroutine that reads decodes the reply,
// and the session's order delivers the answer.
type Call struct {
	Of        Caller
	Op        string // the operation, for errors
	Path      string // the path that users of the session know, for errors
	Opcode    wire.Op
	Frame     []byte        // the encoded request; its xid is set when it is sent
	Ops       []wire.Op     // the operations, if it is a transaction
	FewOps    [2]wire.Op    // memory for Ops
	Write     bool          // executing it twice could act twice
	Absent    bool          // a missing node is a result, and no error
	Ephemeral int           // bytes of the paths of the ephemeral nodes that it creates
	Plants    bool          // it plants a watch
	Roomy     bool          // its reply may be larger than Options.MaxReply
	Blocking  bool          // its caller blocks: a read-only server may answer it, see readonly.go
	Litter    []string      // persistent nodes that it creates instead of containers
	Errand    bool          // it is part of a removal of the node at its target
	Fleeting  bool          // it is sent on the present connection, or not at all
	Target    string        // the path on the server
	Lease     int64         // if it is not 0, that of [Epoch.Lease] under which it may be done
	Began     time.Duration // the age of the session when the caller asked for it

	// Sharing of transactions: see coalescer.go. The lock of the epoch guards all fields but Lane.
	Lane    *Lane   // the lane of its caller, or nil
	behind  []*Call // while it is the write of its lane: later calls in the lane
	members []*Call // if it is a shared transaction: the calls in it; otherwise nil
	Joins   bool    // it may share a transaction; cleared when one has failed, and it must go alone
	counted bool    // it is in flight as a transaction of its own, and takes the place of a shared one
	Company int32   // set with the reply: the number of callers in the transaction that has done it
	spoilt  int8    // the number of failed transactions that it was in

	// own is set for requests of the session itself: the goroutine that reads calls it at once.
	own func(wire.Code) error

	epoch atomic.Pointer[Epoch] // to which it was submitted
	state atomic.Int32          // a callState

	// Set when the call is sent. The lock of the epoch guards them until the reader has the reply.
	xid    int32
	sent   time.Duration
	Since  int64 // the newest zxid that the session had seen
	lapses int32 // of the epoch

	counts bool           // it is in the window of its connection: calls of callers, and those that set watches again
	flight window.Request // the window's record of it
	ahead  bool           // a request of the session itself, sent when no call of a caller was in flight

	// Set with the reply.
	Zxid int64 // the server's newest zxid
	Err  error
}

// A Caller is the part of a call that knows its purpose.
type Caller interface {
	// Take converts the body of a successful reply, which is valid only now.
	Take(reply *wire.Reply) error

	// Answer gives the result to the caller, in the session's order.
	Answer(err error)

	// Unsent receives a call that was never sent, because its epoch has ended.
	Unsent(why error)

	// Parent returns the parent of the node that an operation of the transaction creates.
	Parent(operation int) string

	// Ephemerals yields the paths on the server of the ephemeral nodes that the call creates; of a
	// sequential node without the number.
	Ephemerals(yield func(path string) bool)
}

type callState = int32

const (
	callQueued callState = iota
	callSent
	callAbandoned
	callAnswered
)

// Epoch returns the epoch to which the call was submitted last, or nil.
func (c *Call) Epoch() *Epoch { return c.epoch.Load() }

// Answered reports whether the caller has the answer.
func (c *Call) Answered() bool { return c.state.Load() == callAnswered }

// Abandon withdraws a call that has not been sent. It reports whether it was early enough.
func (c *Call) Abandon() bool {
	if !c.state.CompareAndSwap(callQueued, callAbandoned) {
		return false
	}
	if e := c.epoch.Load(); e != nil {
		e.sweep()
	}
	return true
}

// Run gives the answer. It is a step of the session's order. An answer of a connection on which the
// lease has ended meanwhile is none: a recipe could take it for a grant. A caller that blocks makes
// no such use of it.
func (c *Call) Run() {
	e := c.epoch.Load()
	e.Ephemerals.Release(c.Ephemeral)
	if !c.Blocking && c.sent != 0 && c.lapses != e.lapses.Load() {
		c.Err = c.lost(nil)
	}
	c.give(e.session)
}

// Refuse answers a call that was never queued, in the session's order.
func (c *Call) Refuse(s *Session, why error) {
	if c.Err = why; c.Began == 0 {
		c.Began = s.Clock.Now()
	}
	s.Order.Put(func() { c.give(s) })
}

// give gives the answer, in the session's order, unless the caller has left.
func (c *Call) give(s *Session) {
	if c.state.Load() == callAbandoned {
		return
	}
	c.state.Store(callAnswered)
	err := c.Err
	if err != nil {
		err = s.Owner.Name(c.Op, c.Path, err)
	}
	observed := false
	defer func() {
		if !observed { // the observer ends the goroutine
			s.Order.Left(c.answerer(err))
		}
	}()
	s.Owner.Observe(c.Op, s.Clock.Now()-c.Began, c.failure(err))
	observed = true
	c.Of.Answer(err)
}

func (c *Call) answerer(err error) func() { return func() { c.Of.Answer(err) } }

// failure returns the error of a request that an observer receives.
func (c *Call) failure(err error) error {
	if !c.Write && errors.Is(err, fault.ErrNoNode) {
		return nil
	}
	return err
}

// settle takes the outcome from the header of a reply, and the result from its body.
func (c *Call) settle(h wire.Header, rest []byte, reply *wire.Reply) error {
	c.Zxid = h.Zxid
	c.epoch.Load().read(c, h.Code)
	if h.Code == wire.CodeNoNode && !c.Opcode.IsCreate() {
		c.epoch.Load().Ephemerals.Miss(c.Target)
	}
	defer c.doubt()
	switch {
	case h.Code == wire.CodeTooLarge && c.Write:
		c.Err = fmt.Errorf("%w: reply: %w", fault.ErrUnknownOutcome, fault.ErrTooLarge)
	case h.Code == wire.CodeNoNode && c.Absent:
	case h.Code != wire.CodeOK:
		c.Err = c.epoch.Load().Learn(c, h.Code)
	default:
		if err := wire.ParseReply(c.Opcode, c.Ops, rest, reply); err != nil {
			c.Err = fault.Blame(fmt.Errorf("%w: reply: %w", c.lost(nil), err), true)
			return err
		}
		c.takes(reply)
	}
	return nil
}

// takes passes the body of the reply to the caller.
func (c *Call) takes(reply *wire.Reply) { c.Err = c.Of.Take(reply) }

// Owns records an ephemeral node that the call has created, and releases the bytes that were
// reserved for it. The node counts from now on, because the answer may reach the caller later.
func (c *Call) Owns(path string) {
	e := c.epoch.Load()
	e.Ephemerals.Own(path, c.Zxid, ephemerals.Confirmed)
	e.Ephemerals.Release(c.Ephemeral)
	c.Ephemeral = 0
}

// doubt notes the nodes that the call may have created, if its outcome is in doubt.
func (c *Call) doubt() {
	if c.Ephemeral > 0 && fault.IsAny(c.Err, fault.ErrUnknownOutcome, fault.ErrBusy) {
		c.epoch.Load().Ephemerals.Doubt(c.Of.Ephemerals)
	}
}

// lost returns the error of a call whose reply did not come. why is the end of the epoch, or nil if
// the epoch goes on.
func (c *Call) lost(why error) error {
	if why == nil {
		why = fault.ErrDisconnected
	}
	if c.Write {
		return fmt.Errorf("%w: %w", fault.ErrUnknownOutcome, why)
	}
	return why
}

// vouches returns how much of the ensemble has answered with this reply: the server, the leader, or
// a quorum.
func (c *Call) vouches(code wire.Code) lease.Vouch {
	if c.Opcode == wire.OpSync && code == wire.CodeOK {
		return lease.ByLeader
	}
	if IsWrite(c.Opcode) {
		switch code { //nolint:exhaustive // the others may be the server's alone
		case wire.CodeOK, wire.CodeNoNode, wire.CodeBadVersion, wire.CodeNoChildrenForEphemerals, wire.CodeNodeExists, wire.CodeNotEmpty:
			return lease.ByQuorum // a transaction is proposed to the quorum even if it fails
		}
	}
	return lease.ByServer
}

// IsWrite reports whether executing an operation twice could act twice.
func IsWrite(op wire.Op) bool {
	return op.IsCreate() || op == wire.OpDelete || op == wire.OpSetData || op == wire.OpSetACL || op == wire.OpMulti
}

// A Lane keeps the order of one caller's requests when its writes share transactions with others. A
// write waits in the coalescer, and may have to be sent again if its transaction fails. Until it is
// answered, all later requests of the caller wait behind it. The zero Lane is ready for use, with
// one epoch.
type Lane struct {
	write *Call // its unanswered shared write, or nil; guarded by the lock of the epoch
}

// leaveLane ends the wait for this call in its lane, and returns the calls that have waited.
func (c *Call) leaveLane() (behind []*Call) {
	if c.Lane == nil || c.Lane.write != c {
		return nil
	}
	behind = c.behind
	c.Lane.write, c.behind = nil, nil
	return behind
}

// laggards is leaveLane for several calls.
func laggards(calls []*Call) (all []*Call) {
	for _, c := range calls {
		all = append(all, c.leaveLane()...)
	}
	return all
}

// requeued returns calls that will be sent again, each followed by the calls that waited for it in
// its lane.
func requeued(calls []*Call) (all []*Call) {
	for _, c := range calls {
		c.state.CompareAndSwap(callSent, callQueued) // it may be abandoned while it waits
		c.counted = false
		all = append(append(all, c), c.leaveLane()...)
	}
	return all
}
