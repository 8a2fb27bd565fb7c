package election

import (
	"errors"
	"strings"

	"github.com/zkactors/zkactors/session"
)

// This file is how leadership is claimed and given up in the standard layout, as pure
// functions. An errand asks for one thing after the other, until it knows its result.
//
// What keeps two from leading at once:
//
//   - The leader's node is made only where there is none, in one transaction with a check
//     that the candidate's own node exists. There it is set as well, which tells the zxid.
//   - It is replaced only by the successor that it names, in one transaction that deletes the
//     node of the candidate that has handed over. That has a name of its own, and goes once:
//     who acts on what has been true earlier changes nothing.
//   - Whoever gives up deletes his own node, and the leader's node only if it says that it
//     is his.

// A request is one thing to ask the server for.
type request struct {
	kind requestKind
	ops  []op // of a transaction
}

type requestKind int8

const (
	readLeader requestKind = iota
	transact               // all the operations, or none
	withdraw               // the node of the errand, or all with its prefix; and then the leader's node if it is ours
)

// An op is one operation of a transaction.
type op struct {
	kind    opKind
	node    string // the name of a candidate; "" for the leader's node
	version int32
	record  record // to write
}

type opKind int8

const (
	check opKind = iota
	create
	set
	remove
)

// A reply answers a request.
type reply struct {
	err    error
	failed int   // the index of the operation that failed a transaction
	zxid   int64 // of a transaction that has set the leader's node

	// What was read, if there is a node; the version also of what was set.
	record  record
	czxid   int64
	owner   int64
	version int32
}

// A step is what an errand is about.
type step int8

const (
	trying    step = iota // to make the leader's node where there is none
	looking               // whose it is
	taking                // it over from who hands over to us
	replacing             // a node that no session owns

	resigning // the leader's node and ours are deleted at once
	removing  // one after the other
)

// An errand is a claim, or the end of one. It is comparable.
type errand struct {
	step    step
	node    string // that claims, or is given up; "" if it may be several
	prefix  string // of their names
	record  record // to write
	from    string // who hands over to us
	version int32  // of the leader's node that is to be replaced or deleted
	zxid    int64  // of the claim that is given up; 0 if it is not known
	sure    bool   // there is no claim to give up
}

// A handover is what is known of a leader that hands over: the name of its node, and the
// version of the leader's. It is zero where there is none.
type handover struct {
	to, from string
	version  int32
}

// claims returns the errand to claim leadership. h is what was seen last; again says that an
// earlier claim may have been done.
func claims(node, data string, h handover, again bool) errand {
	e := errand{node: node, record: record{node: node, data: data}}
	switch {
	case again:
		e.step = looking
	case h.to == node:
		e.step, e.from, e.version = taking, h.from, h.version
	}
	return e
}

// A claim is what is known of the claims of a candidate's node.
type claim struct {
	node    string // that may have claimed; "" if there is none
	held    bool   // it has
	zxid    int64  // at that
	version int32  // of the leader's node then
}

// withdraws returns the errand to give up a node, or all with the prefix, and what was
// claimed.
func withdraws(node, prefix string, c claim) errand {
	e := errand{step: removing, node: node, prefix: prefix, version: c.version, zxid: c.zxid, sure: c == claim{}}
	if c.held && node != "" && node == c.node {
		e.step = resigning
	}
	return e
}

// ask returns what is to be done next.
func (e errand) ask() request {
	made := []op{{kind: create, record: e.record}, {kind: set, record: e.record}}
	own := op{kind: check, node: e.node, version: session.AnyVersion}
	switch e.step {
	case trying:
		return request{kind: transact, ops: append([]op{own}, made...)}
	case taking:
		gone := op{kind: remove, node: e.from, version: session.AnyVersion}
		return request{kind: transact, ops: append([]op{own, gone, {kind: remove, version: e.version}}, made...)}
	case replacing:
		return request{kind: transact, ops: append([]op{own, {kind: remove, version: e.version}}, made...)}
	case looking:
		return request{kind: readLeader}
	case resigning:
		return request{kind: transact, ops: []op{
			{kind: remove, node: e.node, version: session.AnyVersion},
			{kind: remove, version: e.version},
		}}
	case removing:
		return request{kind: withdraw}
	}
	panic("election: an errand without a request")
}

// A result is what has become of an errand.
type result struct {
	done    bool
	zxid    int64 // of the claim
	version int32 // of the leader's node
	taken   bool  // it is another's
	err     error // it was not done, or may have been
}

// next follows the reply to what was asked for.
func (e errand) next(r reply) (errand, result) {
	switch e.step {
	case trying, taking, replacing:
		return e.claimed(r)
	case looking:
		return e.looked(r)
	case resigning, removing:
		return e.withdrawn(r)
	}
	panic("election: an errand without a step")
}

// claimed follows a transaction that was to make us the leader.
func (e errand) claimed(r reply) (errand, result) {
	switch {
	case r.err == nil:
		return e, result{done: true, zxid: r.zxid, version: r.version}
	case errors.Is(r.err, session.ErrNotEmpty):
		return e, result{done: true, err: ErrNotElection}
	case errors.Is(r.err, session.ErrNodeExists), r.failed > 0 && e.step == replacing && errors.Is(r.err, session.ErrNoNode):
		e.step = looking
		return e, result{}
	case errors.Is(r.err, session.ErrBadVersion):
		if e.step == taking { // somebody else has been quicker
			return e, result{done: true, taken: true}
		}
		e.step = looking
		return e, result{}
	case r.failed > 0 && e.step == taking && errors.Is(r.err, session.ErrNoNode): // likewise, or who hands over is gone with all of it
		return e, result{done: true, taken: true}
	}
	return e, result{done: true, err: r.err}
}

// looked follows the news of whose the leader's node is.
func (e errand) looked(r reply) (errand, result) {
	switch {
	case errors.Is(r.err, session.ErrNoNode):
		e.step = trying
	case errors.Is(r.err, session.ErrDisconnected): // a read that is repeated, though it may not be the first
		return e, result{}
	case r.err != nil:
		return e, result{done: true, err: r.err}
	case r.owner == 0:
		e.step, e.version = replacing, r.version
	case r.record.node == e.node:
		return e, result{done: true, zxid: r.czxid, version: r.version}
	case r.record.successor == e.node:
		e.step, e.from, e.version = taking, r.record.node, r.version
	default:
		return e, result{done: true, taken: true}
	}
	return e, result{}
}

// withdrawn follows a step of giving up.
func (e errand) withdrawn(r reply) (errand, result) {
	if e.step == removing || r.err == nil || session.Over(r.err) {
		return e, result{done: true}
	}
	e.step = removing
	return e, result{}
}

// The leader's node is that of the claim that is given up by its czxid where that is known,
// whatever the node says; otherwise by what it says.
func (e errand) is(stat *session.Stat) bool {
	return stat.EphemeralOwner != 0 && (e.zxid == 0 || stat.Czxid == e.zxid)
}

func (e errand) says(data []byte) bool {
	node := parseRecord(data).node
	switch {
	case e.zxid != 0:
		return true
	case e.node != "":
		return node == e.node
	}
	return strings.HasPrefix(node, e.prefix)
}
