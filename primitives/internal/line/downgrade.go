package line

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file turns a holder into a weaker one, such as a reader: one transaction creates
// the weaker node and deletes the present one.
//
//	held ── Downgrade ► change is under way ── done ─────────────► held, with the weaker rule
//	                     │   ▲          │
//	          in doubt   │   │ not done └── refused ► held, as before
//	                     ▼   │
//	                    unclear: a list is to tell ── neither node ► lost
//
// The deletion of the present node is part of the change: while that is under way it
// says nothing alone.

// A change is that of our node into one that excludes less. It is zero while none is
// under way, but for without.
type change struct {
	to      string              // what the node is to be; set by the command, cleared when the change is done or refused
	reply   actors.Reply[error] // of the command; answered exactly once, when to is cleared
	without bool                // set when our node is gone: by the change, or not
	unclear bool                // set when the change was done or not: a list is to tell, and clears it
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

// compared finds out what has become of a change: the list shows the weaker node, or
// the present one, or neither. Where it was not done it is repeated, and the first may
// yet be done when this one has failed: from then on maybeDuplicate holds.
func (m *turn) compared(s Sight) {
	switch {
	case slices.Contains(s.Names, m.to):
		m.changed()
	case slices.Contains(s.Names, m.node) && !m.without:
		m.maybeDuplicate, m.unclear = true, false // the first may yet be done, when this one has failed
		m.do(changeNode{m.attempt, m.node, m.to})
	default:
		m.vanish()
	}
}

// notChanged follows the failure of a change. If our node is gone, and no earlier
// change can have deleted it, it is lost. In doubt a list tells. What passes was never
// sent. Any other failure is the answer to the command, and we hold what we held.
func (m *turn) notChanged(err error) {
	switch {
	case errors.Is(err, session.ErrNoNode) && !m.maybeDuplicate && !m.rule.Claims(): // nor has an earlier one been done
		m.vanish()
	case m.without, session.InDoubt(err), errors.Is(err, session.ErrNoNode), errors.Is(err, session.ErrNodeExists):
		m.unclear = true
		m.look()
	case session.Passing(err):
		m.do(changeNode{m.attempt, m.node, m.to})
	default:
		m.do(answer{m.attempt, m.reply, err})
		m.change = change{}
	}
}
