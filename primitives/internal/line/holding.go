package line

import (
	"errors"
	"time"

	"github.com/zkactors/zkactors/session"
)

// This file is how a contender holds what the line is for: how it claims that, keeps
// it, and hears that it is gone.
//
// While it holds, its own node is watched, and where the rule claims, its claim; no
// other contender is.

// first follows the news that it is our turn. Where the rule claims, that is no grant
// yet: the server decides who holds. Otherwise the czxid of our node is the token, and
// has to be known by now.
func (m *turn) first() {
	if !m.rule.Claims() {
		m.token = m.czxid
		m.grant()
		return
	}
	m.unwatch()
	m.state = claiming
	m.do(claim{m.attempt, m.node, false})
}

// grant tells the holder. From here on only our node is watched, and our claim. A mark
// of revocation that came while we waited is told now.
func (m *turn) grant() {
	m.unwatch()
	m.state = held
	if m.rule.Claims() {
		m.target = Target{m.node, Claim}
		m.do(watchTarget{m.attempt, m.target})
	}
	m.emit(Acquired{Token: m.token, Node: m.node})
	m.revoke()
}

// revoke tells a holder, once, that it is asked to leave. A waiter is not told,
// because it can do nothing about it: marked keeps it until the grant. Later marks of
// other clients are not told, and may have another deadline.
func (m *turn) revoke() {
	if m.Holding() && m.marked && !m.revoked {
		m.revoked = true
		m.emit(Revoked{m.until})
	}
}

// yield waits until what another has claimed is free. It counts as one that is ahead.
// Nobody need stand ahead by name: with priorities, a contender of lower priority may
// hold.
func (m *turn) yield() {
	m.state, m.target = waiting, Target{m.node, Claim}
	m.do(watchTarget{m.attempt, m.target})
	m.behind(1)
}

// bereave follows the deletion of our node, or only of our claim, while we hold. The
// server deletes both with the session, and says so before it says that the session
// has ended. So the server is asked once: an answer says that the session lives. Until
// then we hold, for a quarter of a second at most; an expiry says that it was with the
// session.
func (m *turn) bereave(node bool) {
	m.without = m.without || node
	if !m.bereft {
		m.bereft = true
		m.do(ascertain{m.attempt})
	}
}

// deleted is why our node was deleted; lives says that it was not with the session.
// After a mark of revocation it was the client that had set it.
func (m Machine) deleted(lives bool) error {
	switch {
	case m.marked:
		return ErrRevoked
	case lives:
		return ErrNodeDeleted
	}
	return errDeleted
}

// suspend follows the loss of the connection. What is held is held on, until the
// deadline. A deletion that is told after the connection is back may have happened
// together with others: nobody is an heir.
func (m *turn) suspend(deadline time.Time) {
	m.heir = false
	if m.Holding() && !m.suspended {
		m.suspended = true
		m.emit(Suspended{deadline})
	}
}

// resume follows the return of the connection, with the same session. A session that
// is back was not ended: then a node that is gone was deleted by somebody. Events may
// have been missed, so a waiter looks, and so does a holder: for contenders of another
// layout, of which only people are told.
func (m *turn) resume() {
	switch {
	case m.bereft:
		m.fail(m.deleted(true))
	case m.state == waiting:
		m.look()
	case m.Holding() && m.suspended:
		m.suspended = false
		m.emit(Resumed{})
		m.look() // others may stand there by another layout since
	}
}

// notClaimed follows the failure of a claim. In doubt it is repeated, knowing that the
// first one may have been done. Where the server contradicts what we thought to know,
// we wait, and look again.
func (m *turn) notClaimed(e claim, err error) {
	switch {
	case session.InDoubt(err):
		m.do(claim{e.attempt, e.node, true})
	case session.Passing(err):
		m.do(e)
	case errors.Is(err, session.ErrNoNode), errors.Is(err, session.ErrNodeExists),
		errors.Is(err, session.ErrBadVersion), errors.Is(err, session.ErrNotEmpty):
		m.state = waiting // what we thought to know is not so
		m.look()
	default:
		m.fail(err)
	}
}
