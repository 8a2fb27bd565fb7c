package line

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
)

// This file has the steps of a contender that holds: it claims the first place, keeps it, and gives
// up a part of it by a downgrade. While it holds, it watches its own node and, if the rule claims,
// its claim. It watches no other contender.

// first handles the news that no contender is ahead. If the rule claims, that is not yet a grant:
// the server decides which contender holds. Otherwise it is the grant, and the czxid of our node is
// the token, which must be known by now.
func (m *turn) first() {
	if m.rule.Traits().Claims {
		m.unwatch()
		m.state = claiming
		m.do(Claim{Attempt: m.attempt, Node: m.node})
	} else {
		m.token = m.czxid
		m.grant()
	}
	m.watchOwn("")
}

// inherit is the grant of the next in line, before its claim: the holder has given up its own in a
// way that leaves no other contender to claim. Until ours is confirmed, only our node is watched.
func (m *turn) inherit(token int64) {
	if m.exceedsPast(token) {
		m.token = token
		m.do(Claim{Attempt: m.attempt, Node: m.node, Token: token})
		m.grant()
	}
}

// claimConfirmed is the grant, unless we have inherited it.
func (m *turn) claimConfirmed(czxid int64) {
	switch {
	case m.Holding():
		m.claimed = czxid
		m.watchClaim()
	case m.exceedsPast(czxid):
		m.token, m.claimed = czxid, czxid
		m.grant()
	}
}

// claims reports whether our claim is under way: before the grant, or after an inherited one.
func (m Machine) claims() bool {
	return m.state == claiming || m.Holding() && m.rule.Traits().Claims && m.claimed == 0
}

// promote claims although others may be ahead: the claim was handed over to us.
func (m *turn) promote() {
	if m.rule.Traits().Claims {
		m.first()
	}
}

// checkCzxid checks the czxid of our node when it becomes known. It is the token, or less than the
// token of a claim. So a claim is not made, and seen by others, if its token would be refused.
// checkCzxid reports whether the contender goes on.
func (m *turn) checkCzxid() bool {
	return m.czxid == 0 || m.state != waiting || m.exceedsPast(m.czxid)
}

// exceedsPast reports whether a token is greater than all tokens granted before this session, as
// far as earlier sessions can know. If not, there is no grant: the servers have come back with
// older data, and the resource that the token protects may have seen greater tokens.
func (m *turn) exceedsPast(token int64) bool {
	if token > m.past || m.rule.Traits().Unfenced {
		return true
	}
	m.fail(fmt.Errorf("%w: fencing token %d is not greater than %d; reset what checks tokens, and open a new session", session.ErrHistoryLost, token, m.past))
	return false
}

// grant emits the grant. From here on we watch only our node and our claim. A revoke request that
// came while we waited is emitted now.
func (m *turn) grant() {
	m.unwatch()
	m.state = held
	m.watchClaim()
	m.emit(Acquired{Token: m.token, Node: m.node})
	m.revoke()
	if m.unannounced && !m.listing { // since the claim began
		m.look()
	}
}

func (m *turn) watchClaim() {
	if m.claimed != 0 {
		m.target = Target{m.node, Unclaimed}
		m.watch(m.target)
	}
}

// revokeRequest keeps the revoke request that our node carries.
func (m *turn) revokeRequest(in RevokeRequested) {
	if in.Target == (Target{Node: m.node}) {
		m.revokeRequested, m.revokeBy = true, in.Deadline
		m.revoke()
	}
}

// revoke emits Revoked to a holder, once. A waiter has nothing to release: revokeRequested keeps
// the request until the grant. Later requests are not emitted, though their deadline may differ.
func (m *turn) revoke() {
	if m.Holding() && m.revokeRequested && !m.revoked {
		m.revoked = true
		m.emit(Revoked{m.revokeBy})
	}
}

// conditionRead keeps the condition, and emits its change.
func (m *turn) conditionRead(data string) {
	before := m.condition
	m.condition = data
	if before != "" && before != data && m.state != leaving {
		m.emit(ConditionChanged{before, data})
	}
	m.reevaluate()
}

// reevaluate handles news of the condition, or of the members. It may be the grant of a waiter. By
// the new condition a holder may look like a waiter to the contenders behind, so it announces its
// grant.
func (m *turn) reevaluate() {
	switch {
	case m.state == waiting:
		m.look()
	case m.Holding() && m.rule.Traits().AnnouncesGrants:
		m.announceGrant()
	}
}

// announceGrant notifies the contenders behind that we hold.
func (m *turn) announceGrant() {
	m.unannounced = false
	m.do(AnnounceGrant{m.attempt, m.node})
}

// yield waits until the claim of another contender is free, and counts it as one contender ahead.
// That contender may rank behind us: with priorities, a contender of lower priority may hold.
func (m *turn) yield() {
	m.state, m.target = waiting, Target{m.node, Unclaimed}
	m.watch(m.target)
	m.reportAhead(1)
}

// suspend handles the loss of the connection. The grant lasts until the deadline. A deletion that
// is reported after the reconnect may be one of several: so no deletion is a grant until the next
// list.
func (m *turn) suspend(deadline time.Time) {
	m.deletionGrants, m.inherits = false, 0
	if m.Holding() && !m.suspended {
		m.suspended = true
		m.emit(Suspended{deadline})
	}
}

// lapse handles the end of the lease: others may have the grant, or soon. The session lives on, so
// our node has to be deleted: the session does that before all else when it has a connection. A
// contender that waits keeps its place.
func (m *turn) lapse() {
	m.lapsed = true
	switch {
	case m.Holding():
		m.fail(session.ErrLapsed)
	case m.state == leaving:
		m.end(Released{})
	}
}

// resume handles the return of the connection, with the same session. The session has set the
// watches again, and they have reported the changes that they had missed. So nothing depends on a
// list at once. But only after a list a deletion may be a grant again, and a list shows contenders
// of another layout, which no watch reports. The lists of a fleet are spread over time, because its
// connections return all at once (docs/adr/0056).
func (m *turn) resume() {
	m.lapsed = false
	switch {
	case m.Holding() && m.suspended:
		m.suspended = false
		m.emit(Resumed{})
	case m.state != waiting:
		return
	}
	m.do(ListLater{m.attempt, znode.Spread(m.id, m.timeout/3)})
}

// notClaimed handles the failure of a claim. In doubt the claim is repeated, with the note that the
// first may have been executed. If the server contradicts our knowledge, we wait, and list again;
// what we have inherited is lost.
func (m *turn) notClaimed(e Claim, err error) {
	switch {
	case session.InDoubt(err):
		e.Again = true
		m.do(e)
	case session.Passing(err):
		m.do(e)
	case errors.Is(err, session.ErrNoNode), errors.Is(err, session.ErrNodeExists),
		errors.Is(err, session.ErrBadVersion), errors.Is(err, session.ErrNotEmpty):
		if m.Holding() {
			m.fail(m.deleted())
			return
		}
		m.state = waiting
		m.look()
	default:
		m.fail(err)
	}
}

// A downgrade turns a holder into a weaker one, such as a reader: one transaction creates
// the weaker node and deletes the present one.
//
//	              in doubt, or not sent: again
//	                    ┌──────┐
//	                    ▼      │
//	held ─ Downgrade ► change is under way ── done, now or before ► held, with the weaker rule
//	                     │         │
//	                     │         └── refused ► held, as before
//	                     └── the present node is gone, and the weaker one was not created ► lost
//
// At most one of several changes is executed, because the first deletes the present node. The
// performer reports a change that finds the weaker node as executed. The deletion of the present
// node is part of the change: while the change is under way, the event of the deletion alone says
// nothing.

// downgrade begins a downgrade. It refuses if nothing is held, if another downgrade is under way,
// and if the rule has no weaker grant. The reply comes at the end of the change.
func (m *turn) downgrade(reply actors.Reply[error]) {
	_, to, ok := m.rule.Downgrade(m.node)
	var refused error
	switch {
	case !m.Holding():
		refused = ErrNotHeld
	case !ok:
		refused = ErrNotWrite
	case m.to != "":
		refused = fmt.Errorf("%w: a downgrade is under way", ErrNotWrite)
	default:
		m.to, m.reply = to, reply
		m.do(ChangeNode{m.attempt, m.node, m.to})
		return
	}
	m.do(Answer{m.attempt, reply, refused})
}

// changed handles the creation of the node that stands for us now. Its czxid is not known yet, and
// is no token: the token of the grant stays. The watches move to the new node and the new claim. A
// revoke request is gone with the node that carried it, unless the change has copied it.
func (m *turn) changed() {
	m.do(UnwatchTarget{m.attempt, Target{Node: m.node}})
	m.watch(Target{Node: m.to})
	m.do(Answer{m.attempt, m.reply, nil})
	m.rule, _, _ = m.rule.Downgrade(m.node)
	m.node, m.czxid, m.owned, m.change = m.to, 0, false, change{}
	if m.rule.Traits().Claims {
		m.do(UnwatchTarget{m.attempt, m.target})
		m.downgraded = true
		m.watchClaim()
	}
	m.revokeRequested, m.revokeBy = false, time.Time{}
}

// notChanged handles the failure of a change. In doubt the change is repeated; the first may yet be
// executed after the second has failed, so from then on maybeDuplicate holds. notChanged reports
// whether our node is gone without the change. Any other failure is the answer to the command, and
// the grant stays as it was.
func (m *turn) notChanged(e ChangeNode, err error) (lost bool) {
	switch {
	case session.Passing(err):
		m.maybeDuplicate = m.maybeDuplicate || session.InDoubt(err)
		m.do(e)
	case m.without, errors.Is(err, session.ErrNoNode):
		return true
	default:
		m.do(Answer{m.attempt, m.reply, err})
		m.change = change{}
	}
	return false
}
