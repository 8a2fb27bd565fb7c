package queue

import (
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file is the protocol by which a transaction is done once or not at all, whatever reply is lost. It is a pure
// function; its performer is in receipt.go.
//
// The transaction begins with a write to a receipt, an ephemeral node, at the version that the client knows. After a
// lost reply it is sent again. It cannot be done twice, and the version says whether it was done before.

// A stage is what a transaction waits for.
type stage int

const (
	unbegun  stage = iota
	making         // the receipt
	ensuring       // the directory of the receipts
	sending        // the transaction itself
	voiding        // the removal of the receipt, after which no earlier attempt can be done
)

func (s stage) String() string {
	return [...]string{"unbegun", "making", "ensuring", "sending", "voiding"}[s]
}

// A receipt is a node, and the version that it has as far as is known.
type receipt struct {
	node    string // "" if there is none
	version int32
}

// A writeInput is something that happened to a transaction.
//
//sumtype:decl
type writeInput interface{ writeInput() }

type (
	granted struct { // begins: a receipt, without a node if none is free
		receipt receipt
		err     error
	}
	made struct { // answers makeReceipt
		node string
		err  error
	}
	ensured struct{ err error } // answers ensureReceipts
	sent    struct {            // answers send
		results []session.OpResult
		err     error
	}
	voided  struct{ err error } // answers void
	abandon struct{}            // commanded
)

func (granted) writeInput() {}
func (made) writeInput()    {}
func (ensured) writeInput() {}
func (sent) writeInput()    {}
func (voided) writeInput()  {}
func (abandon) writeInput() {}

// A writeEffect is something to do about it.
//
//sumtype:decl
type writeEffect interface{ writeEffect() }

type (
	makeReceipt    struct{ node string } // "" for a new name
	ensureReceipts struct{}
	send           struct{ receipt receipt }
	void           struct{ receipt receipt } // delete it if it has the version
	putAway        struct {                  // the transaction needs the receipt no more
		receipt receipt
		doubt   bool // whether its version is in doubt: removed, it keeps a late transaction from being done
	}
	outcome struct { // the answer to the caller
		results []session.OpResult
		err     error
	}
)

func (makeReceipt) writeEffect()    {}
func (ensureReceipts) writeEffect() {}
func (send) writeEffect()           {}
func (void) writeEffect()           {}
func (putAway) writeEffect()        {}
func (outcome) writeEffect()        {}

// transaction is the state of a transaction.
type transaction struct {
	epoch   int // 0 if it goes on in the next session
	stage   stage
	receipt receipt

	doubt    error // set when a reply was lost. While set, an attempt may have been done, or may yet be
	refusal  sent  // what voiding is to confirm; empty before that
	answered bool  // set with outcome. While set, nothing more is sent
	ended    bool
}

// Ended implements [actors.Machine].
func (t transaction) Ended() bool { return t.ended }

type writeStep struct {
	transaction
	*actors.Effects[writeEffect, none]
}

func (s *writeStep) do(e writeEffect) { s.Do = append(s.Do, e) }

// Step implements [actors.Machine].
func (t transaction) Step(in writeInput, out *actors.Effects[writeEffect, none]) transaction {
	if t.ended {
		return t
	}
	s := &writeStep{transaction: t, Effects: out}
	switch in := in.(type) {
	case granted:
		switch s.receipt = in.receipt; {
		case in.err != nil:
			s.ended = true
			s.answer(nil, in.err)
		case s.receipt.node == "":
			s.make()
		default:
			s.send()
		}
	case made:
		s.receipt.node = in.node
		switch {
		case in.err == nil, errors.Is(in.err, session.ErrNodeExists):
			s.send()
		case errors.Is(in.err, session.ErrNoNode) && !s.answered:
			s.stage = ensuring
			s.do(ensureReceipts{})
		default:
			s.unmade(in.err)
		}
	case ensured:
		if in.err == nil {
			s.make()
		} else {
			s.unmade(in.err)
		}
	case sent:
		s.sent(in.results, in.err)
	case voided:
		s.voided(in.err)
	case abandon:
		s.answer(nil, abandoned(s.stage == sending || s.doubt != nil))
	}
	return s.transaction
}

// answer answers the caller, once.
func (s *writeStep) answer(results []session.OpResult, err error) {
	if !s.answered {
		s.answered = true
		s.do(outcome{results, err})
	}
}

// end ends the transaction. The receipt is put away first, for the next transaction of the caller.
func (s *writeStep) end(r receipt, doubt bool, results []session.OpResult, err error) {
	s.ended = true
	s.do(putAway{r, doubt})
	s.answer(results, err)
}

func (s *writeStep) make() {
	if s.answered {
		s.end(s.receipt, true, nil, nil)
		return
	}
	s.stage = making
	s.do(makeReceipt{s.receipt.node})
}

// unmade makes the receipt again, or ends the transaction, which was not sent.
func (s *writeStep) unmade(err error) {
	switch {
	case passes(s.epoch, err):
		s.make()
		return
	case session.InDoubt(err):
		err = fmt.Errorf("receipt: %w", session.ErrExpired)
	}
	s.end(s.receipt, true, nil, err)
}

func (s *writeStep) send() {
	if s.answered {
		s.end(s.receipt, s.doubt != nil, nil, nil)
		return
	}
	s.stage = sending
	s.do(send{s.receipt})
}

// sent judges an answer. The receipt is the first operation: an error of another operation implies that the receipt
// had its version, so that no earlier attempt was done before. It could still be done later.
func (s *writeStep) sent(results []session.OpResult, err error) {
	next := receipt{s.receipt.node, s.receipt.version + 1}
	refused := error(nil)
	if len(results) > 0 {
		refused, results = results[0].Err, results[1:]
	}
	switch {
	case err == nil:
		s.end(next, false, results, nil)
	case session.InDoubt(err) || passes(s.epoch, err):
		if session.InDoubt(err) {
			s.doubt = err
		}
		if passes(s.epoch, err) {
			s.send()
			return
		}
		s.fail(err)
	case s.doubt != nil && errors.Is(refused, session.ErrBadVersion):
		s.end(next, false, nil, nil)
	case s.doubt == nil && errors.Is(refused, session.ErrNoNode):
		// It went with its session, or somebody else has removed it.
		s.receipt = receipt{}
		s.make()
	case refused != nil || session.Over(err):
		s.fail(err)
	case s.doubt != nil:
		s.refusal = sent{results, err}
		s.void()
	default:
		s.end(s.receipt, false, results, err)
	}
}

func (s *writeStep) void() {
	if s.answered {
		s.end(s.receipt, true, nil, nil)
		return
	}
	s.stage = voiding
	s.do(void{s.receipt})
}

// voided judges whether the refusal stands. An attempt that was done has given the receipt another version for good.
func (s *writeStep) voided(err error) {
	switch {
	case err == nil, errors.Is(err, session.ErrNoNode):
		s.end(receipt{}, false, s.refusal.results, s.refusal.err)
	case errors.Is(err, session.ErrBadVersion):
		s.end(receipt{s.receipt.node, s.receipt.version + 1}, false, nil, nil)
	case passes(s.epoch, err):
		s.void()
	default:
		s.fail(err)
	}
}

// fail ends the transaction with an error that does not tell what the receipt would say.
func (s *writeStep) fail(err error) {
	if s.doubt != nil && !session.InDoubt(err) {
		err = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, err)
	}
	s.end(s.receipt, true, nil, err)
}
