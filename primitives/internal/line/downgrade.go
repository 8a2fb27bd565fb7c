package line

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file turns a holder into a weaker one, such as a reader: one transaction creates
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
// At most one of several changes is done, because the first has deleted the present node. The performer
// reports a change that finds the weaker node as done. The deletion of the present node is part of the
// change: while that is under way, its event says nothing alone.

// A change is that of our node into one that excludes less. It is zero while none is
// under way, but for without.
type change struct {
	to      string              // what the node is to be; set by the command, cleared when the change is done or refused
	reply   actors.Reply[error] // of the command; answered exactly once, when to is cleared
	without bool                // set when our node is gone: by the change, or not; cleared with to
}

// downgrade turns what excludes others that share into what does not. It is refused
// while nothing is held, while another is under way, and where the rule has nothing
// weaker. The reply comes with the end of the change.
func (m *turn) downgrade(reply actors.Reply[error]) {
	_, to, ok := m.rule.Downgrade(m.node)
	switch {
	case !m.Holding():
		m.do(answer{m.attempt, reply, ErrNotHeld})
		return
	case !ok:
		m.do(answer{m.attempt, reply, ErrNotWrite})
		return
	case m.to != "":
		m.do(answer{m.attempt, reply, fmt.Errorf("%w: a downgrade is under way", ErrNotWrite)})
		return
	}
	m.to, m.reply = to, reply
	m.do(changeNode{m.attempt, m.node, m.to})
}

// changed follows the creation of the node that stands for us now. Its czxid is not
// known yet, and it is no token: that of the grant stays. The watches on the node and
// on the claim move to the new ones. The mark of revocation is gone with the node that
// carried it, unless the change has carried it on.
func (m *turn) changed() {
	m.do(unwatchTarget{m.attempt, Target{Node: m.node}})
	m.watch(Target{Node: m.to})
	m.do(answer{m.attempt, m.reply, nil})
	m.rule, _, _ = m.rule.Downgrade(m.node)
	m.node, m.czxid, m.owned, m.change = m.to, 0, false, change{}
	if m.rule.Claims() {
		m.do(unwatchTarget{m.attempt, m.target})
		m.target, m.downgraded = Target{m.node, unclaimed}, true
		m.watch(m.target)
	}
	m.marked, m.until = false, time.Time{} // the mark is gone with the node that carried it
}

// notChanged follows the failure of a change. In doubt it is repeated; the first may
// yet be done when that one has failed: from then on maybeDuplicate holds. If our node is
// gone, and not by the change, it is lost. Any other failure is the answer to the
// command, and we hold what we held.
func (m *turn) notChanged(e changeNode, err error) {
	switch {
	case session.Passing(err):
		m.maybeDuplicate = m.maybeDuplicate || session.InDoubt(err)
		m.do(e)
	case m.without, errors.Is(err, session.ErrNoNode):
		m.vanish()
	default:
		m.do(answer{m.attempt, m.reply, err})
		m.change = change{}
	}
}
