package queue

import (
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// This file is the protocol by which a transaction is done once or not at all, whatever
// reply is lost. It is a pure function; its performer is in receipt.go.
//
// The transaction begins with a write to a receipt, an ephemeral node, at the version
// that the client knows. After a lost reply it is sent again. It cannot be done twice,
// and the version says whether it was done:
//
//	unbegun ── no receipt ► making ── no directory ► ensuring ► making
//	   │                      │ made ── it has to be older ► ended
//	   │ a receipt            ▼
//	   └─────────────────► sending ── reply lost ► sending (in doubt)
//	                          │ │ refused, in doubt
//	                          │ └──────────► voiding ── the receipt is gone ► refused
//	                          │                 └ the receipt has changed ► done
//	                          │ done, refused, or in doubt and the receipt has changed: done
//	                          ▼
//	                        ended

// A stage is the question whose answer a transaction waits for. There is one at a time.
type stage int

const (
	unbegun  stage = iota // granted: a receipt
	making                // made: the receipt is being created
	ensuring              // ensured: the directory of the receipts is being made
	sending               // sent: the transaction is on its way
	voiding               // voided: the receipt is being deleted, after which no earlier attempt can be done
)

func (s stage) String() string {
	return [...]string{"unbegun", "making", "ensuring", "sending", "voiding"}[s]
}

// A receipt is a node, and its version as far as the client knows. No two transactions
// under way use the same.
type receipt struct {
	node    string // the path; "" if there is none
	version int32
	made    int // numbers the receipts of a handle, from 1, when they are known to be there
}

// next returns the receipt after a transaction was done.
func (r receipt) next() receipt {
	r.version++
	return r
}

// errYounger refuses a transaction, before it is sent, whose receipt was made too late.
var errYounger = errors.New("the receipt is younger than what the transaction relies on")

// A writeInput is an event that a transaction reacts to.
//
//sumtype:decl
type writeInput interface{ writeInput() }

type (
	granted struct { // begins: with a receipt, without a node if none is free
		receipt receipt
		err     error
	}
	made struct { // answers makeReceipt
		receipt receipt
		err     error
	}
	ensured struct{ err error } // answers ensureReceipts
	sent    struct {            // answers send; the first result is the receipt's
		results []session.OpResult
		err     error
	}
	voided  struct{ err error } // answers void
	abandon struct{}            // commanded: the caller waits no longer
)

func (granted) writeInput() {}
func (made) writeInput()    {}
func (ensured) writeInput() {}
func (sent) writeInput()    {}
func (voided) writeInput()  {}
func (abandon) writeInput() {}

// A writeEffect asks the performer for one thing. Questions are answered by one input
// each; putAway and outcome are not.
//
//sumtype:decl
type writeEffect interface{ writeEffect() }

type (
	makeReceipt    struct{ node string }     // create the node, with a new name if it is ""
	ensureReceipts struct{}                  // make the directory of the receipts
	send           struct{ receipt receipt } // send the transaction, with the write to the receipt
	void           struct{ receipt receipt } // delete the receipt at its version
	putAway        struct {                  // the transaction uses the receipt no more
		receipt receipt
		doubt   bool // set if its version may change yet: it is deleted, which refuses a transaction that arrives late
	}
	outcome struct { // answer the caller, once
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

// A transaction is the state of one that is to be done once. After the end no attempt of
// it can be done any more, or the caller was told that the outcome is unknown.
type transaction struct {
	epoch   int // the session in which it is to be done; 0 if the next will do as well; constant
	before  int // the number under which all receipts were made that will do; 0 if any will do; constant
	stage   stage
	receipt receipt // of the attempts; another one only when none of them can have been done

	doubt    error // set when a reply was lost; never cleared. It wraps [session.ErrExpired] if one was lost with its session. While set, an attempt may have been done, or may yet be
	refusal  sent  // set when voiding begins: the answer, if the voiding confirms it
	answered bool  // set with outcome. While set, nothing more is sent
	ended    bool  // set when the receipt is put away, or none was granted
}

// Ended implements [actors.Machine].
func (t transaction) Ended() bool { return t.ended }

// A writeStep is a transaction during a step, with the accumulator of its effects.
type writeStep struct {
	transaction
	*actors.Effects[writeEffect, none]
}

func (s *writeStep) do(e writeEffect) { s.Do = append(s.Do, e) }

// Step implements [actors.Machine]. A caller that has abandoned the transaction has its
// answer; the machine goes on until the receipt can be put away.
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
		s.receipt = in.receipt
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

// end ends the transaction. It puts the receipt away before it answers, so that the next
// transaction of the caller finds it free.
func (s *writeStep) end(r receipt, doubt bool, results []session.OpResult, err error) {
	s.ended = true
	s.do(putAway{r, doubt})
	s.answer(results, err)
}

// make creates a receipt, unless the caller is gone.
func (s *writeStep) make() {
	if s.answered {
		s.end(s.receipt, true, nil, nil)
		return
	}
	s.stage = making
	s.do(makeReceipt{s.receipt.node})
}

// unmade follows the failure to create a receipt. The transaction was not sent: its
// outcome is not in doubt.
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

// send sends the transaction, for the first time or again, unless the caller is gone.
func (s *writeStep) send() {
	switch {
	case s.answered:
		s.end(s.receipt, s.doubt != nil, nil, nil)
		return
	case s.before > 0 && s.receipt.made >= s.before:
		s.end(s.receipt, false, nil, errYounger)
		return
	}
	s.stage = sending
	s.do(send{s.receipt})
}

// sent follows an answer. The write to the receipt is the first operation. If another
// operation is refused, the receipt had its version: no earlier attempt was done before
// this one, but an earlier one could still arrive.
func (s *writeStep) sent(results []session.OpResult, err error) {
	next := s.receipt.next()
	refused := error(nil)
	if len(results) > 0 {
		refused, results = results[0].Err, results[1:]
	}
	switch {
	case err == nil:
		s.end(next, false, results, nil)
	case session.InDoubt(err) || passes(s.epoch, err):
		if session.InDoubt(err) && !errors.Is(s.doubt, session.ErrExpired) {
			s.doubt = err
		}
		if passes(s.epoch, err) {
			s.send()
			return
		}
		s.fail(err)
	// The version has changed: an attempt in doubt was done. Its results are lost.
	case s.doubt != nil && errors.Is(refused, session.ErrBadVersion):
		s.end(next, false, nil, nil)
	case s.doubt == nil && errors.Is(refused, session.ErrNoNode):
		// The receipt went with its session, or another client has deleted it.
		s.receipt = receipt{}
		s.make()
	// If a reply was lost before, nothing says any more whether that attempt was done.
	case refused != nil || client.Over(err):
		s.fail(err)
	// The refusal counts only if no earlier attempt arrives after it.
	case s.doubt != nil:
		s.refusal = sent{results, err}
		s.void()
	default:
		s.end(s.receipt, false, results, err)
	}
}

// void deletes the receipt at the version that all attempts expect.
func (s *writeStep) void() {
	if s.answered {
		s.end(s.receipt, true, nil, nil)
		return
	}
	s.stage = voiding
	s.do(void{s.receipt})
}

// voided follows the deletion of the receipt. If that succeeded, or the node is gone,
// every attempt is refused from now on. Another version means that an attempt was done.
// A receipt of an earlier session may have gone with it. An attempt of that session may
// have come before that, and after the refusal.
func (s *writeStep) voided(err error) {
	switch {
	case errors.Is(err, session.ErrNoNode) && errors.Is(s.doubt, session.ErrExpired):
		s.fail(err)
	case err == nil, errors.Is(err, session.ErrNoNode):
		s.end(receipt{}, false, s.refusal.results, s.refusal.err)
	case errors.Is(err, session.ErrBadVersion):
		s.end(s.receipt.next(), false, nil, nil)
	case passes(s.epoch, err):
		s.void()
	default:
		s.fail(err)
	}
}

// fail ends the transaction with an error that leaves open whether an attempt in doubt
// was done.
func (s *writeStep) fail(err error) {
	if s.doubt != nil && !session.InDoubt(err) {
		err = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, err)
	}
	s.end(s.receipt, true, nil, err)
}
