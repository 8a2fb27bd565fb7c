package line

import (
	"errors"
	"time"

	"github.com/zkactors/zkactors/session"
)

// This file has the steps of a contender that holds: how it claims the first
// place, keeps it, and hears that it is gone.
//
// While it holds, its own node is watched, and where the rule claims, its claim; no
// other contender is.

// first follows the news that it is our turn. Where the rule claims, that is no grant
// yet: the server decides who holds. Otherwise the czxid of our node is the token, and
// has to be known by now.
func (m *turn) first() {
	if m.rule.Claims() {
		m.unwatch()
		m.state = claiming
		m.do(claim{m.attempt, m.node, false})
	} else {
		m.token = m.czxid
		m.grant()
	}
	m.watchOwn("")
}

// grant tells the holder. From here on only our node is watched, and our claim. A mark
// of revocation that came while we waited is told now.
func (m *turn) grant() {
	m.unwatch()
	m.state = held
	if m.rule.Claims() {
		m.target = Target{m.node, unclaimed}
		m.watch(m.target)
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

// yield waits until the claim of another contender is free. It counts as one that is
// ahead. Its contender may rank behind us: with priorities, a contender of lower
// priority may hold.
func (m *turn) yield() {
	m.state, m.target = waiting, Target{m.node, unclaimed}
	m.watch(m.target)
	m.behind(1)
}

// deleted is why our node, or our claim, is gone while we hold. After a mark of
// revocation that counts as the work of the client that had set it. The server deletes
// both also when it ends the session, and tells of the deletion first. The holder has to
// stop then, so the loss is told at once, and not held back to find out.
func (m Machine) deleted() error {
	if m.marked {
		return ErrRevoked
	}
	return ErrNodeDeleted
}

// suspend follows the loss of the connection. What is held is held on, until the
// deadline. A deletion that is told after the connection is back may have happened
// together with others: no deletion is a grant until the next list.
func (m *turn) suspend(deadline time.Time) {
	m.deletionGrants = false
	if m.Holding() && !m.suspended {
		m.suspended = true
		m.emit(Suspended{deadline})
	}
}

// resume follows the return of the connection, with the same session. Events may have
// been missed, so a waiter looks, and so does a holder: for contenders of another
// layout, of which only people are told.
func (m *turn) resume() {
	switch {
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
