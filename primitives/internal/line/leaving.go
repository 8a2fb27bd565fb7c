package line

import (
	"github.com/zkactors/zkactors/session"
)

// This file has the steps of a contender that ends: by itself, by force, or with its
// session. Whatever may stand for it on the server is withdrawn, and the performer
// repeats that until it is confirmed or the epoch ends.
//
// The loss is emitted before the withdrawal is requested. So the holder stops before
// the next contender can be granted it, wherever the holder hears of the reason in
// time.

// vanish follows the deletion of our node by another client. A holder has lost it. A
// waiter stands in line anew, at its end; but first it removes what a repeated create,
// or a claim on its way, may have left.
func (m *turn) vanish() {
	m.node = ""
	if m.Holding() {
		m.fail(m.deleted())
		return
	}
	if m.maybeDuplicate || m.rule.Claims() {
		m.clear()
		return
	}
	m.unwatch()
	m.enter()
}

// clear removes what may stand for us, to stand in line anew. The attempt stays the
// same until that is confirmed, because its GUID tells what to remove. No answer of
// that attempt means anything any more, but for that one.
func (m *turn) clear() {
	m.unwatch()
	m.state, m.place = clearing, place{}
	m.do(withdrawAll{m.attempt, m.guid()})
}

// start takes nothing for known any more, and stands in line anew: the parent is
// inspected again.
func (m *turn) start() {
	m.parent = unseen
	m.clear()
}

// withdrawn follows the confirmation that a node is gone, or all with our GUID. The
// confirmation for a zombie has another node, and means nothing here. After clearing
// the place is free for the next attempt.
func (m *turn) withdrawn(node string) {
	switch {
	case node != m.node: // a zombie
	case m.state == clearing:
		m.enter()
	case m.state == leaving:
		m.end(Released{})
	}
}

// expire follows the end of the session, with all nodes that it owned. A holder has
// lost what it held. A contender that was leaving has left: there is nothing to
// confirm any more. A waiter stands in line anew in the next session, behind all that
// came meanwhile; nothing of its place holds there.
func (m *turn) expire() {
	if m.Holding() || m.state == leaving {
		m.attempt.epoch = 0
		m.end(Lost{session.ErrExpired})
		return
	}
	m.state, m.attempt.epoch, m.place = outside, 0, place{}
}

// leave gives up what is held, or the place in line. Where nothing has to be
// withdrawn, that is the end. To leave twice is to leave once, so that the handle may
// ask for it again.
func (m *turn) leave() {
	if m.state == leaving {
		return
	}
	m.depart()
	if m.state != leaving {
		m.end(Released{})
	}
}

// fail reports the loss at once, and then withdraws what is left of us. The end that
// follows is silent, because a handle tells one last event. The reason is that of the
// first failure.
func (m *turn) fail(err error) {
	m.depart()
	m.finalEmitted = true
	m.emit(Lost{err})
}

// depart withdraws whatever may stand for us: one node where that is known to be all,
// otherwise all with our GUID. A claim that may have been made is withdrawn with the
// node. Where nothing stands, the machine has ended. A machine that leaves in the
// background has ended too: the session sees to the rest.
func (m *turn) depart() {
	m.unwatch()
	claims := m.rule.Claims() && (m.state == claiming || m.Holding())
	switch {
	case m.state == clearing: // it is being withdrawn
	case m.maybeDuplicate, m.state == joining, m.state == recovering, m.to != "", claims && m.node == "":
		m.do(withdrawAll{m.attempt, m.guid()})
		m.node = ""
	case m.node != "":
		m.do(withdrawNode{m.attempt, m.node})
	default:
		m.state = ended
		return
	}
	if m.to != "" {
		m.do(answer{m.attempt, m.reply, ErrNotHeld})
	}
	m.state, m.listing, m.change = leaving, false, change{}
	if m.inBackground {
		m.state = ended
	}
}

// end enters the last state, with last words unless they have been said. A contender
// that was leaving has been released, whatever the end of the session says: the server
// deletes its node either way.
func (m *turn) end(last Event) {
	if m.state == leaving {
		last = Released{}
	}
	m.state = ended
	if !m.finalEmitted {
		m.finalEmitted = true
		m.emit(last)
	}
}
