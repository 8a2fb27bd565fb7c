package line

import (
	"errors"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/session"
)

// This file has the steps of a contender that waits for the contenders ahead of it.
//
//	look ── the list ► rank ── contenders ahead ► wait: target and beside are watched
//	  ▲                  │                           │            │
//	  │                  │ none                      │            │ the deletion of all that was ahead
//	  │                  ▼                           │            ▼
//	  │                first ◄───────────────────────┼────────────┘
//	  └── any other news, and after a suspension ────┘
//
// Invariant: while it waits, a list is under way, or a target is watched, or the czxid of its own
// node is yet to come. So it never waits for nothing. A list that was requested before an event
// counts as newer than the event, unless the rule reads a condition after the list.

// listed handles a list, in the state that has requested it. A holder only looks for contenders of
// another layout, and logs them.
func (m *turn) listed(s Snapshot, stale bool) {
	switch {
	case m.state == recovering:
		m.recovered(s.Names)
	case m.state == waiting:
		m.rank(s)
		if stale && m.state == waiting && !m.listing {
			m.list()
		}
	case m.Holding():
		p := m.locate(s)
		if errors.Is(p.Err, ErrLayout) {
			m.do(Complain{m.attempt, p.Err.Error()})
		}
		if m.unannounced && p.AnnounceGrant {
			m.announceGrant()
		}
		m.unannounced = false
	}
}

// locate returns our position by the rule. A contender of no known layout leaves no place to any
// rule: it counts the nodes that it knows, so it may hold whatever our position is.
func (m *turn) locate(s Snapshot) Position {
	p := m.rule.Locate(s, m.node, m.guid())
	if p.Err == nil && len(s.Unknown) > 0 {
		p.Err = Unknown(s.Unknown[0])
	}
	return p
}

// rank decides, from the names of the children, whether a contender is ahead of us. It checks in
// this order: there is no place for us; our node is gone; the parent was not as the rule needs it;
// contenders are ahead; the czxid of our node, which is the token, is yet to come; none is ahead.
//
// Other nodes with our GUID come from repeated creates. They are withdrawn, and not counted.
func (m *turn) rank(s Snapshot) {
	s.New, s.Unproven, s.Czxid = m.isNew(), !m.proven, m.czxid
	p := m.locate(s)
	m.proven = m.proven || m.czxid != 0
	switch {
	case p.Err != nil:
		m.fail(p.Err)
		return
	case !p.Present:
		m.vanish()
		return
	case p.Invalid:
		m.restart()
		return
	case p.Ahead > 0:
		m.wait(p)
	// no grant without a token: the token comes with the watch on our node
	case m.czxid == 0 && !m.rule.Traits().Claims:
		m.unwatch()
	default:
		m.first()
		if p.AnnounceGrant { // unless another list shows that the contender behind has gone
			m.unannounced = true
			if m.Holding() { // else after the claim
				m.look()
			}
		}
	}
	for _, node := range p.Ask {
		m.do(Ask{m.attempt, node})
	}
	for _, node := range p.Zombies {
		m.do(WithdrawNode{m.attempt, node})
	}
}

// wait watches the targets of a position, and emits the position if it has changed. A target that
// is watched already stays watched, because a new watch would cost a read. The watch on our node
// goes out first: then it stands when the target's stands. The targets beside, of which only the
// deletion counts, go out with it. The others follow the target, so that the target's events are
// reported first. A contender that waits for none in particular watches the members.
func (m *turn) wait(p Position) {
	if p.Watch == (Target{}) {
		p.Watch.Until = Members
	}
	// A contender that has announced its grant reports no more changes before its node is deleted.
	// So all members are watched, until another contender is nearest.
	more := m.watchBeside(p.Beside)
	if m.unwatched && p.Later == "" {
		var with string
		more = slices.DeleteFunc(more, func(t Target) bool {
			if t.Until == Gone {
				with += t.String() + "/"
			}
			return t.Until == Gone
		})
		m.watchOwn(with)
	}
	if p.Watch != m.target && p.Watch != m.instead {
		m.unwatchTarget()
		m.target = p.Watch
		m.watch(m.target)
	}
	for _, t := range more {
		m.watch(t)
	}
	m.deletionGrants, m.later = p.deletionGrants, p.Later
	m.reportAhead(p.Ahead)
}

// watchPredecessor watches our node and the predecessor, after the only contender that was watched
// has gone: most likely it held, and the predecessor holds now. The watches go out with a list and
// do not wait for it, so that the predecessor's deletion is a grant after one round trip. They go
// out before the list, so that the list shows a deletion between the two.
func (m *turn) watchPredecessor(predecessor string) {
	if predecessor != "" {
		m.watchOwn("")
		m.target = Target{Node: predecessor}
		m.watch(m.target)
	}
}

// watched handles the confirmation of a watch, which comes with a reading of the node. From then on
// the end of the node is reported.
//
// A node of our name with another owner or another czxid is not ours: then our node is gone. The
// target may have announced its grant before it was watched, which no event reports: then all
// members are watched in its place. A claim with another czxid belongs to another contender, unless
// a downgrade has replaced it.
func (m *turn) watched(in Watched) {
	switch {
	case in.Target == Target{Node: m.node} && m.Standing():
		if in.Owner != m.session || m.czxid != 0 && in.Czxid != m.czxid {
			m.happened(in.Target) // a node of that name, but not ours
			return
		}
		m.czxid, m.owned = in.Czxid, true
		if !m.checkCzxid() {
			return
		}
		if m.state == waiting && !m.listing && m.target == (Target{}) { // no contender was ahead
			m.look()
		}
	// it was granted since the list that named it, or before
	case in.GrantAnnounced && m.Standing() && m.isWatchedBeside(in.Target):
		m.look()
	case in.Target != m.target || !m.Standing():
	case in.Target.Until == Unclaimed:
		if m.Holding() && in.Czxid != m.claimed && !m.downgraded {
			m.happened(in.Target)
		}
	case in.Target.Until == Members: // earlier changes are not reported
		m.look()
	case in.GrantAnnounced:
		m.watchMembers(in.Target)
	default:
		m.sameSession = in.Owner == m.session
	}
}

// watchMembers watches all members in place of a target that reports no more. The rule still names
// that target: instead keeps it, so that it is not watched again.
func (m *turn) watchMembers(of Target) {
	m.unwatchTarget()
	m.target, m.instead = Target{Until: Members}, of
	m.watch(m.target)
}

// happened handles the awaited change of a target. The deletion of the last contender ahead is the
// grant if
//
//   - the watched contenders are all that are ahead (deletionGrants), by a list that no other event
//     has followed,
//   - the watch on our own node is confirmed and has not fired (owned), and
//   - it was the predecessor, and not of our own session (sameSession), which may have ended. If
//     another contender is the last one, its session is not known.
//
// In every other case a list decides.
func (m *turn) happened(target Target) {
	switch {
	case !m.Standing():
	case m.to != "" && (target == Target{Node: m.node} || target == m.target):
		m.without = true // by the change, or not: the answer shows which
	case target == Target{Node: m.node}:
		m.vanish()
	case m.isWatchedBeside(target):
		m.beside = strings.TrimPrefix(strings.Replace("/"+m.beside, "/"+target.String()+"/", "/", 1), "/")
		if m.deletionGrants && m.beside == "" { // only the target is ahead now
			m.reportAhead(1)
			return
		}
		m.look()
	case target != m.target:
	case m.Holding(): // our claim is gone; nothing else is watched
		m.fail(m.deleted())
	default:
		granted := m.deletionGrants && m.owned && !m.sameSession && m.beside == ""
		predecessor, token := m.later, m.inherits
		m.forgetTarget()
		switch {
		case granted && token != 0:
			m.inherit(token)
			return
		case granted:
			m.first()
			return
		}
		m.watchPredecessor(predecessor)
		m.look()
	}
}

// notListed handles the failure of a list. A list that is too large does no harm while a contender
// is watched. Without a parent, our node is gone too.
func (m *turn) notListed(err error) {
	switch {
	case m.Holding() && m.unannounced && !session.Passing(err):
		m.announceGrant()
	case m.Holding() && m.unannounced:
		m.look()
	case m.state != recovering && m.state != waiting: // it is not wanted any more
	case session.Passing(err):
		m.look()
	case errors.Is(err, session.ErrTooLarge) && m.state == waiting && m.target.Until != Members && m.target != Target{}:
		// There is nothing to do until the watch has fired.
	case !errors.Is(err, session.ErrNoNode):
		m.fail(err)
	case m.state == recovering:
		m.maybeDuplicate = true
		m.make()
	default:
		m.vanish() // with its parent
	}
}

// notWatched follows the failure of a watch. A node that does not exist is gone, at an
// unknown time: so this is no grant. A contender that may not be read does not stop the
// wait, because the names of the members show when it is gone.
func (m *turn) notWatched(target Target, err error) {
	switch {
	case !m.Standing() || target != Target{Node: m.node} && target != m.target && !m.isWatchedBeside(target):
		return
	case errors.Is(err, session.ErrNoNode):
	case target == Target{Node: m.node}, target.Until == Members, target.Until == Unclaimed:
		m.fail(err)
		return
	case m.isWatchedBeside(target): // the predecessor's news suffices
		return
	default: // another's node that may not be read, or is too large
		m.watchMembers(target)
		return
	}
	m.deletionGrants = false // it was gone before it was watched: no event, no grant
	m.happened(target)
}
