package claim

import (
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// This file is the protocol as a pure function: the next request, and the conclusion
// from its answer.
//
//	                         refused: look
//	             ┌────────────────────────────────────┐
//	             ▼                                    │
//	doubted ► looking ── free, or handed over ──► taking ◄ new
//	             │                                    │
//	             ├── ours ───────────┐                ├── made
//	             └── another's ──────┤                └── refused, or unknown
//	                                 ▼                    ▼
//	                               over                 over
//
//	given up ► resigning ── refused ──► removing ► over

// A Claim is a contender's knowledge of its own claim. It is comparable.
type Claim struct {
	Node    string // the name of the contender; "" when there is no claim
	Held    bool   // set when the claim is confirmed: then it is ours until it is given up or deleted
	Zxid    int64  // of the claim, from its confirmation; 0 before
	Version int32  // of the node that guards the claim, at the confirmation or at the last write
}

// A Found is the result of reading a node. Err is nil if there is a node.
type Found struct {
	Data []byte
	Stat *session.Stat
	Err  error
}

// A Spec says what the claims of a recipe are. Its methods are pure, and its values
// comparable: a value knows the contender, and its newest sight of the line.
type Spec[S any] interface {
	comparable

	// Take returns the transaction that makes the claim. It fails while another claim stands.
	Take() []session.Op

	// Refused says what follows when the operation has failed the transaction.
	Refused(op int, err error) (S, Verdict)

	// Evidence returns the paths of the nodes that tell whose the claim is. Judge says so.
	Evidence() []string
	Judge(found []Found) (S, Verdict)

	// Resign returns the transaction that deletes the contender and its confirmed claim.
	Resign(c Claim) []session.Op

	// Remove returns the removal of a contender, or of all with the prefix if node is "". If
	// claimed, their claims are removed afterwards: no contender is left then that makes one.
	Remove(node, prefix string, c Claim, claimed bool) session.Removal
}

// A Verdict is the conclusion from an answer. Without Next the protocol is over.
type Verdict struct {
	Next    Next
	Zxid    int64 // of our claim, if it stands
	Version int32
	Taken   bool  // another contender has it
	Err     error // why it was not made, or may have been
}

// Next is the next step.
type Next int8

// The next steps.
const (
	Over Next = iota
	Look      // at the evidence
	Take      // make the claim
)

// A step is the newest request.
type step int8

const (
	looking   step = iota // at the evidence: whose the claim is
	taking                // the transaction that makes the claim is on its way
	resigning             // the transaction that deletes a confirmed claim is on its way
	removing              // the contender is being removed, and then what it may have claimed
)

// A machine is one claim under way, or the end of one. It asks for one thing after the
// other, and nothing is on its way twice.
type machine[S Spec[S]] struct {
	step step
	spec S // as the answers have left it: it knows what was seen

	// Of the end of a claim: set by givesUp, and never changed.
	node    string // the contender that ends; "" if it may be several
	prefix  string // of their names
	claim   Claim  // of the contender; held if it was confirmed, and then its version is known
	claimed bool   // set if they may have claimed: then what stands as their claim is removed too
}

// takes makes a claim. Doubted says that an earlier one may have been made: then the
// evidence tells, because a second claim would fail for the first one's sake.
func takes[S Spec[S]](spec S, doubted bool) machine[S] {
	m := machine[S]{step: taking, spec: spec}
	if doubted {
		m.step = looking
	}
	return m
}

// givesUp ends a claim, and its contender. A confirmed claim of one contender goes with
// it, in one transaction. Otherwise the contender goes first: afterwards no late claim
// succeeds for it.
func givesUp[S Spec[S]](spec S, node, prefix string, c Claim, claimed bool) machine[S] {
	m := machine[S]{step: removing, spec: spec, node: node, prefix: prefix, claim: c, claimed: claimed}
	if c.Held && node != "" && node == c.Node {
		m.step = resigning
	}
	return m
}

// A request is a transaction, some reads, or a removal.
type request struct {
	ops    []session.Op
	read   []string
	remove *session.Removal
}

// ask returns what the step asks for.
func (m machine[S]) ask() request {
	switch m.step {
	case looking:
		return request{read: m.spec.Evidence()}
	case taking:
		return request{ops: m.spec.Take()}
	case resigning:
		return request{ops: m.spec.Resign(m.claim)}
	case removing:
		r := m.spec.Remove(m.node, m.prefix, m.claim, m.claimed)
		return request{remove: &r}
	}
	panic("claim: a step without a request")
}

// A reply answers a request.
type reply struct {
	found   []Found
	failed  int // the operation that failed the transaction; -1 if none did
	zxid    int64
	version int32 // of the last node that the transaction has set
	err     error
}

// next follows the answer to the step's request. A resignation that was refused, or may
// have been done, is followed by the removal: that finds out by itself what is left.
func (m machine[S]) next(r reply) (machine[S], Verdict) {
	switch m.step {
	case looking:
		return m.follow(m.spec.Judge(r.found))
	case taking:
		if r.err == nil {
			return m, Verdict{Zxid: r.zxid, Version: r.version}
		}
		return m.follow(m.spec.Refused(r.failed, r.err))
	case resigning:
		if r.err == nil || client.Over(r.err) {
			return m, Verdict{}
		}
		m.step = removing
		return m, Verdict{Next: Take}
	case removing:
		return m, Verdict{}
	}
	panic("claim: a step without an answer")
}

// follow goes on as the recipe says, with what it has seen.
func (m machine[S]) follow(spec S, v Verdict) (machine[S], Verdict) {
	m.spec = spec
	switch v.Next {
	case Look:
		m.step = looking
	case Take:
		m.step = taking
	case Over:
	}
	return m, v
}
