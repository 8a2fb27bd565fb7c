package claim

import (
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// This file is the protocol as a pure function: it returns the next request, and draws the
// conclusion from its answer.
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
	Held    bool   // set when the claim is confirmed, until given up or deleted
	Zxid    int64  // of the claim, when confirmed; 0 before
	Version int32  // of the node that guards the claim, by the newest answer
}

// A Found is the result of a read of a node. Err is nil if the node exists.
type Found struct {
	Data []byte
	Stat *session.Stat
	Err  error
}

// A Spec describes the claims of a recipe. Its methods are pure, and its values comparable. A value
// has the contender, and its newest knowledge of the line.
type Spec[S any] interface {
	comparable

	// Take returns the transaction that makes the claim. The transaction fails while another claim
	// stands.
	Take() []session.Op

	// Refused returns the conclusion when the operation with this index failed the transaction.
	Refused(op int, err error) (S, Verdict)

	// Evidence returns the paths of the nodes that show which contender has the claim. Judge
	// returns the conclusion from reading them.
	Evidence() []string
	Judge(found []Found) (S, Verdict)

	// Resign returns the transaction that deletes the contender and its confirmed claim.
	Resign(c Claim) []session.Op

	// Remove returns the removal of a contender, or of all with the prefix if node is "". If
	// claimed is set, their claims are removed after them, when no contender is left that could
	// claim.
	Remove(node, prefix string, c Claim, claimed bool) session.Removal
}

// A Verdict is the conclusion from an answer. If Next is Over, the protocol is over.
type Verdict struct {
	Next    Next
	Zxid    int64 // of our claim, if it stands
	Version int32
	Taken   bool  // another contender has the claim
	Err     error // why the claim was not made, or may have been; or why it was not given up
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
	looking   step = iota // the evidence is being read
	taking                // the transaction that makes the claim is on its way
	resigning             // the transaction that deletes a confirmed claim is on its way
	removing              // the contender is being removed, and then its claim
)

// A machine makes one claim, or gives one up. It has at most one request under way.
type machine[S Spec[S]] struct {
	step step
	spec S // as the answers have left it

	// For giving up a claim: set by givesUp, and constant.
	node    string // the contender; "" if there may be several
	prefix  string // of the names of the contenders
	claim   Claim  // of the contender; with its version if Held is set
	claimed bool   // set if they may have claimed: then their claim is removed too
}

// takes makes a claim. If doubted is set, an earlier claim may have been made. Then the evidence is
// read first, because the first claim would make the second fail.
func takes[S Spec[S]](spec S, doubted bool) machine[S] {
	m := machine[S]{step: taking, spec: spec}
	if doubted {
		m.step = looking
	}
	return m
}

// givesUp removes a contender and its claim. A confirmed claim of one contender is deleted with it,
// in one transaction. Otherwise the contender is deleted first: after that, no late claim succeeds
// for it.
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

// ask returns the request of the step.
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
	failed  int // index of the operation that failed the transaction; -1 if none did
	zxid    int64
	version int32 // of the last node that the transaction has set
	err     error
}

// next handles the answer to the step's request. After a resignation that was refused, or may have
// been executed, the removal follows: it finds out by itself which nodes are left.
func (m machine[S]) next(r reply) (machine[S], Verdict) {
	switch m.step {
	case looking:
		return m.proceed(m.spec.Judge(r.found))
	case taking:
		if r.err == nil {
			return m, Verdict{Zxid: r.zxid, Version: r.version}
		}
		return m.proceed(m.spec.Refused(r.failed, r.err))
	case resigning:
		if r.err == nil || client.Over(r.err) {
			return m, Verdict{}
		}
		m.step = removing
		return m, Verdict{Next: Take}
	case removing:
		return m, Verdict{Err: r.err}
	}
	panic("claim: a step without an answer")
}

// proceed takes the next step that the recipe decides, with the spec that it has returned.
func (m machine[S]) proceed(spec S, v Verdict) (machine[S], Verdict) {
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
