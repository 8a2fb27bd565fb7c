package line

import (
	"errors"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/session"
)

// This file has the steps of a contender that waits for its turn.
//
//	look ── the list ► rank ── contenders ahead ► wait: target and beside are watched
//	  ▲                  │                           │            │
//	  │                  │ none, our turn            │            │ the deletion of all that was ahead
//	  │                  ▼                           │            ▼
//	  │                first ◄───────────────────────┼────────────┘
//	  └── any other news, and after a suspension ────┘
//
// While it waits, at least one of these holds, so that it never waits for nothing: a
// list is under way, a target is watched, or the czxid of its own node is yet to come.
// A list that was requested before an event counts like one from after it, except for
// rules that are read in two steps.

// look asks for a list, unless one is under way. That one will do: whatever made us ask
// has reached us before its answer, so it happened before. Not so where the answer is
// made of two reads: then stale holds, and another list follows. No deletion is a
// grant before the list.
func (m *turn) look() {
	m.deletionGrants = false
	if m.listing {
		m.stale = m.rule.Announces()
		return
	}
	m.listing = true
	m.do(listParent{m.attempt})
}

// listed takes a list to the question for which it was asked. A holder looks only for
// contenders of another layout, and says so to people.
func (m *turn) listed(s Sight, stale bool) {
	switch {
	case m.state == recovering:
		m.recovered(s)
	case m.state == waiting:
		m.rank(s)
		if stale && m.state == waiting && !m.listing {
			m.listing = true
			m.do(listParent{m.attempt})
		}
	case m.Holding():
		p := m.rule.Locate(s, m.node, m.guid())
		if errors.Is(p.Err, ErrLayout) {
			m.do(complain{m.attempt, p.Err.Error()})
		}
		if m.silent && p.Announce {
			m.announce()
		}
		m.silent = false
	}
}

// announce tells the contenders behind that we hold.
func (m *turn) announce() {
	m.silent = false
	m.do(announce{m.attempt, m.node})
}

// rank decides, from the names of the children, whether it is our turn. In this order:
// there is no place for us; our node is gone; the parent was another one than we
// thought; others are ahead; the czxid of our node, which is the token, is yet to
// come; it is our turn.
//
// Other nodes with our GUID are of creates that were repeated. They are withdrawn, and
// not counted.
func (m *turn) rank(s Sight) {
	s.New, s.Unproven, s.Czxid = m.isNew(), !m.proven, m.czxid
	p := m.rule.Locate(s, m.node, m.guid())
	m.proven = m.proven || m.czxid != 0
	switch {
	case p.Err != nil:
		m.fail(p.Err)
		return
	case !p.Present:
		m.vanish()
		return
	case p.Invalid:
		m.start()
		return
	case p.Ahead > 0:
		m.wait(p)
	case m.czxid == 0 && !m.rule.Claims(): // no grant without a token: it comes with the watch on our node
		m.unwatch()
	default:
		m.first()
		if p.Announce { // unless it is over before another list, of which the end tells
			m.silent = true
			m.look()
		}
	}
	for _, node := range p.Ask {
		m.do(ask{m.attempt, node})
	}
	for _, node := range p.Zombies {
		m.do(withdrawNode{m.attempt, node})
	}
}

// wait watches what the rule says, and tells the position if that is news. What is
// watched already stays watched: a watch that is begun anew would cost a read. The
// watch on our node goes out first: when the target's stands, ours does. With it go those beside
// that are to tell of a deletion only. The others begin after the target's, so that the events
// that are told first are those of the target.
func (m *turn) wait(p Position) {
	// A contender that has announced itself says nothing more before it goes: so all
	// are watched, until another contender is nearest.
	more := m.accompany(p.Beside)
	if m.unwatched {
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
	m.deletionGrants = p.deletionGrants
	m.behind(p.Ahead)
}

// watch has a target watched.
func (m *turn) watch(t Target) { m.do(watchTarget{m.attempt, t}) }

// behind tells how many are ahead, if that is news. A position that is worse than the
// last one is told too: others may have priority.
func (m *turn) behind(ahead int) {
	if ahead != m.ahead {
		m.ahead = ahead
		m.emit(Waiting{ahead})
	}
}

// accompany has the targets watched beside the target, and no others. It returns those
// whose watches are to begin. The keys of the targets are kept in one string, because a machine
// is comparable: each of them with a slash behind it, which no name contains.
func (m *turn) accompany(targets []Target) (begin []Target) {
	before := m.beside // what is watched now
	if before == "" && len(targets) == 0 {
		return nil
	}
	m.beside = ""
	for key := range strings.SplitSeq(before, "/") {
		if t := besideOf(key); key != "" && !slices.Contains(targets, t) {
			m.do(unwatchTarget{m.attempt, t})
		}
	}
	for _, t := range targets {
		if m.beside += t.String() + "/"; !strings.Contains("/"+before, "/"+t.String()+"/") {
			begin = append(begin, t)
		}
	}
	return begin
}

// besideOf returns the target of a key, which is the result of its String. The name of
// a contender ends with a digit.
func besideOf(key string) Target {
	if node, ok := strings.CutSuffix(key, Target{Until: Changed}.String()); ok {
		return Target{node, Changed}
	}
	return Target{Node: key}
}

// accompanied reports whether the target is watched beside another.
func (m *turn) accompanied(t Target) bool {
	return m.beside != "" && t.Until <= Changed && strings.Contains("/"+m.beside, "/"+t.String()+"/")
}

// unwatch ends what is watched beside our node. Our own node stays watched until the
// attempt ends.
func (m *turn) unwatch() {
	m.accompany(nil)
	m.unwatchTarget()
}

// unwatchTarget ends the watch on the target, and forgets what was known of it.
func (m *turn) unwatchTarget() {
	if m.target != (Target{}) {
		m.do(unwatchTarget{m.attempt, m.target})
		m.target, m.instead, m.deletionGrants, m.sameSession = Target{}, Target{}, false, false
	}
}

// watched follows the confirmation of a watch, which comes with a reading of the node.
// From that on its end is told.
//
// A node of our name that another session owns, or with another czxid, is not ours:
// then ours is gone. The target may have announced itself before it was watched, which
// no event tells: then all members are watched in its place. A claim with another
// czxid is another contender's, unless it was exchanged for less.
func (m *turn) watched(in watched) {
	switch {
	case in.target == Target{Node: m.node} && m.Standing():
		if in.owner != m.session || m.czxid != 0 && in.czxid != m.czxid {
			m.gone(in.target) // a node of that name, but not ours
			return
		}
		m.czxid, m.owned = in.czxid, true
		if m.state == waiting && !m.listing && m.target == (Target{}) { // no contender was ahead
			m.look()
		}
	case in.announced && m.Standing() && m.accompanied(in.target): // since the list that had it watched, or before
		m.look()
	case in.target != m.target || !m.Standing():
	case in.target.Until == unclaimed:
		if m.Holding() && in.czxid != m.token && !m.downgraded {
			m.gone(in.target)
		}
	case in.target.Until == Members: // what has changed before is not told
		m.look()
	case in.announced:
		m.watchMembers(in.target)
	default:
		m.sameSession = in.owner == m.session
	}
}

// watchMembers watches all members, in place of one that cannot be read. The rule goes
// on to name that one: instead keeps it, so that it is not watched again.
func (m *turn) watchMembers(of Target) {
	m.unwatchTarget()
	m.target, m.instead = Target{Until: Members}, of
	m.watch(m.target)
}

// gone follows what was awaited of a target. The deletion of the last contender ahead
// is the grant, if
//
//   - those that were watched were all that is ahead (deletionGrants), by a list that no other event has followed,
//   - the watch on our own node is confirmed and has not fired (owned), and
//   - it was not of our own session, which may have ended (sameSession), and was the predecessor. If another
//     is the last one, its session is not known.
//
// In every other case a list decides.
func (m *turn) gone(target Target) {
	switch {
	case !m.Standing():
	case m.to != "" && (target == Target{Node: m.node} || target == m.target):
		m.without = true // by ourselves, or not: the answer will tell
	case target == Target{Node: m.node}:
		m.vanish()
	case m.accompanied(target):
		m.beside = strings.TrimPrefix(strings.Replace("/"+m.beside, "/"+target.String()+"/", "/", 1), "/")
		if m.deletionGrants && m.beside == "" { // the target is all that is ahead now
			m.behind(1)
			return
		}
		m.look()
	case target != m.target:
	case m.Holding(): // our claim, and nothing else is watched
		m.fail(m.deleted())
	default:
		granted := m.deletionGrants && m.owned && !m.sameSession && m.beside == ""
		m.target, m.instead, m.deletionGrants, m.sameSession = Target{}, Target{}, false, false
		if granted {
			m.first()
			return
		}
		m.look()
	}
}

// notListed follows the failure of a list. A list that is too large does no harm while
// something else is watched that will happen. Without a parent, our node is gone too.
func (m *turn) notListed(err error) {
	switch {
	case m.Holding() && m.silent && !session.Passing(err):
		m.announce()
	case m.Holding() && m.silent:
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
// wait, because the names of the members tell when it is gone.
func (m *turn) notWatched(target Target, err error) {
	switch {
	case !m.Standing() || target != Target{Node: m.node} && target != m.target && !m.accompanied(target):
		return
	case errors.Is(err, session.ErrNoNode):
	case target == Target{Node: m.node}, target.Until == Members, target.Until == unclaimed:
		m.fail(err)
		return
	case m.accompanied(target): // the predecessor's news will do
		return
	default: // another's node that may not be read, or is too large: the names of the members tell when it is gone
		m.watchMembers(target)
		return
	}
	m.deletionGrants = false // it was gone before it was watched: no event, no grant
	m.gone(target)
}
