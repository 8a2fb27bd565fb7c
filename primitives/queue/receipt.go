package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// Receipts are the ephemeral nodes by which a client knows what became of its transactions. Each transaction
// has one for itself while it is under way.
type receipts struct {
	session *session.Session
	dir     string

	mu    sync.Mutex
	free  []receipt // that no transaction has
	over  bool      // set by close. While set, nothing is kept, and nothing begins
	using int       // how many transactions are under way
	idle  func()    // called when the last of them ends after close
}

// A receipt is a node, and the version that it has as far as is known.
type receipt struct {
	node    string
	version int32
}

// take returns a receipt that is free, and otherwise a new one, without a node.
func (rs *receipts) take() (receipt, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.over {
		return receipt{}, ErrClosed
	}
	rs.using++
	n := len(rs.free)
	if n == 0 {
		return receipt{}, nil
	}
	r := rs.free[n-1]
	rs.free = rs.free[:n-1]
	return r, nil
}

// put gives back a receipt whose version is known, or "" if there is none.
func (rs *receipts) put(r receipt) {
	rs.mu.Lock()
	if rs.over && r.node != "" {
		rs.mu.Unlock()
		rs.discard(r)
		return
	}
	if r.node != "" {
		rs.free = append(rs.free, r)
	}
	rs.using--
	idle := rs.idle
	last := rs.over && rs.using == 0
	rs.mu.Unlock()
	if last {
		idle()
	}
}

// discard removes a receipt. If its version is in doubt, the transaction that is in doubt cannot come later.
func (rs *receipts) discard(r receipt) {
	if r.node == "" {
		rs.put(r)
		return
	}
	rs.session.Async(0).Withdraw(r.node, func() { rs.put(receipt{}) })
}

// close removes the receipts, and calls closed when they are gone.
func (rs *receipts) close(closed func()) {
	rs.mu.Lock()
	if rs.over {
		rs.mu.Unlock()
		closed()
		return
	}
	rs.over = true
	free := rs.free
	rs.free = nil
	rs.using += len(free) + 1 // with this one
	rs.idle = closed
	rs.mu.Unlock()
	for _, r := range free {
		rs.discard(r)
	}
	rs.put(receipt{})
}

// A transaction is done once or not at all, whatever reply is lost.
type transaction struct {
	of       *receipts
	requests session.Async
	ops      []session.Op
	answer   func([]session.OpResult, error)
	receipt  receipt
	pauses   owned.Set

	mu        sync.Mutex
	doubt     error // set when a reply was lost, and cleared when it is known what that has done
	sent      bool  // set while the transaction is on its way
	cancelled bool  // set by cancel. While set, nothing is sent, and nothing answered
}

// begin does the operations. The answer has a result for each of them, but none if the transaction was done
// and its reply lost. If the error wraps [session.ErrUnknownOutcome], it may have been done; with any
// other it was not, and will not be.
func (rs *receipts) begin(requests session.Async, ops []session.Op, answer func([]session.OpResult, error)) *transaction {
	t := &transaction{of: rs, requests: requests, ops: ops, answer: answer}
	r, err := rs.take()
	t.receipt = r
	switch {
	case err != nil:
		answer(nil, err)
	case r.node == "":
		t.make()
	default:
		t.send()
	}
	return t
}

// cancel has nothing more sent, and nothing answered. It reports whether the transaction may have been done, or
// may be a little later.
func (t *transaction) cancel() (doubt bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancelled = true
	return t.sent || t.doubt != nil
}

// goes reports whether to go on. Otherwise the transaction has ended.
func (t *transaction) goes(sending bool) bool {
	t.mu.Lock()
	cancelled, doubt := t.cancelled, t.doubt
	t.sent = sending && !cancelled
	t.mu.Unlock()
	switch {
	case !cancelled:
		return true
	case doubt != nil:
		t.of.discard(t.receipt)
	default:
		t.of.put(t.receipt)
	}
	return false
}

// make makes the receipt.
func (t *transaction) make() {
	if !t.goes(false) {
		return
	}
	if t.receipt.node == "" {
		t.receipt = receipt{node: session.Join(t.of.dir, session.GUIDName(session.NewGUID(), "receipt"))}
	}
	t.requests.Create(t.receipt.node, nil, session.Ephemeral, func(_ string, err error) {
		switch {
		case err == nil, errors.Is(err, session.ErrNodeExists):
			t.send()
		case errors.Is(err, session.ErrNoNode):
			t.requests.EnsurePath(t.of.dir, func(_ bool, err error) {
				if err == nil || t.passes(err) {
					t.pauses.Answer(err, t.make)
					return
				}
				t.unmade(err)
			})
		case t.passes(err):
			t.pauses.Answer(err, t.make)
		default:
			t.unmade(err)
		}
	})
}

// unmade ends the transaction, which was not sent, for want of a receipt.
func (t *transaction) unmade(err error) {
	if session.InDoubt(err) {
		err = fmt.Errorf("receipt: %w", session.ErrExpired)
	}
	t.of.discard(t.receipt)
	t.tell(nil, err)
}

// passes reports whether to ask again.
func (t *transaction) passes(err error) bool {
	return session.Passing(err) && (t.requests == t.of.session.Async(0) || !errors.Is(err, session.ErrExpired))
}

// send sends the transaction.
func (t *transaction) send() {
	if !t.goes(true) {
		return
	}
	ops := slices.Concat([]session.Op{session.SetOp(t.receipt.node, nil, t.receipt.version)}, t.ops)
	t.requests.Multi(ops, t.sentIs)
}

// sentIs judges an answer. The receipt is the first operation: what is said about another implies that the
// receipt had its version, so that no earlier attempt was done.
func (t *transaction) sentIs(results []session.OpResult, err error) {
	next := receipt{t.receipt.node, t.receipt.version + 1}
	refused := error(nil)
	if len(results) > 0 {
		refused, results = results[0].Err, results[1:]
	}
	t.mu.Lock()
	doubt := t.doubt
	t.mu.Unlock()
	switch {
	case err == nil:
		t.end(results, nil, next)
	case session.InDoubt(err) || session.Passing(err) && t.passes(err):
		if session.InDoubt(err) {
			t.mu.Lock()
			t.doubt = err
			t.mu.Unlock()
		}
		if !t.passes(err) {
			t.fail(err)
			return
		}
		t.pauses.Answer(err, t.send)
	case doubt != nil && errors.Is(refused, session.ErrBadVersion):
		t.end(nil, nil, next)
	case doubt == nil && errors.Is(refused, session.ErrNoNode):
		// It went with its session, or somebody else has removed it.
		t.receipt = receipt{}
		t.make()
	case refused != nil || session.Over(err):
		t.fail(err)
	case doubt != nil:
		t.of.discard(t.receipt)
		t.receipt = receipt{}
		t.tell(results, err)
	default:
		t.end(results, err, t.receipt)
	}
}

// fail ends the transaction with an error after which it is not known what the receipt would say.
func (t *transaction) fail(err error) {
	t.mu.Lock()
	doubt := t.doubt
	t.mu.Unlock()
	if doubt != nil && !session.InDoubt(err) {
		err = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, err)
	}
	t.of.discard(t.receipt)
	t.tell(nil, err)
}

// end ends the transaction, and gives back the receipt.
func (t *transaction) end(results []session.OpResult, err error, r receipt) {
	t.of.put(r)
	t.tell(results, err)
}

func (t *transaction) tell(results []session.OpResult, err error) {
	t.mu.Lock()
	cancelled := t.cancelled
	t.cancelled, t.sent, t.doubt = true, false, nil
	t.mu.Unlock()
	t.pauses.End()
	if !cancelled {
		t.answer(results, err)
	}
}

// await waits for what start begins, whose answer is given by done, until ctx ends. Then cancel says whether what was
// begun may have been done.
func await(ctx context.Context, start func(done func(error)) (cancel func() (doubt bool))) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	answered := make(chan error, 1)
	cancel := start(func(err error) { answered <- err })
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
	}
	doubt := cancel()
	select {
	case err := <-answered:
		return err
	default:
	}
	if doubt {
		return fmt.Errorf("%w: %w", session.ErrUnknownOutcome, context.Cause(ctx))
	}
	return context.Cause(ctx)
}
