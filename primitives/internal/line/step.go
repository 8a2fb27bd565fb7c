package line

import (
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// This file dispatches each input to the state that it is for. The protocol is a pure function: no
// goroutines, no channels, no clock, no I/O. The file on the left has the steps of the state:
//
//	              no session ◄─────────── expired ──────────┐
//	                outside                                 │ while nothing is held
//	                   │ connected                          │
//	                   ▼            no parent               │
//	joining.go     preparing ◄───────────────┐              │
//	                   │ there is a parent   │              │
//	                   ▼                     │              │
//	               joining ── in doubt ► recovering         │
//	                   │   ◄── no node ──    │              │
//	                   │ created             │ found        │
//	                   ▼                     │              │
//	waiting.go     waiting ◄─────────────────┘              │
//	                   │  ▲ │ our node is gone              │
//	        none ahead │  │ └──────────► clearing ► joining  │
//	                   ▼  │ another has it                  │
//	holding.go     claiming (only where the rule claims)    │
//	                   │ ours                               │
//	                   ▼                                    │
//	                 held ──────────────────────────────────┘ or lost with the session
//	                   │ left, or lost
//	                   ▼
//	               leaving ── confirmed ► ended
//
// Leave leads from every state but ended to leaving, and the end of the sessions leads to ended. A
// downgrade takes place in held.

// Step implements [actors.Machine]. It ignores an input that means nothing in the current state,
// because its request is no longer open. It never ignores the answer to an open request.
func (m Machine) Step(in Input, out *Effects) Machine {
	Advance(&m, in, out)
	return m
}

// Advance is [Machine.Step] in place. An answer for another attempt is late, and ignored. A machine
// that has ended still answers a command.
func Advance(m *Machine, in Input, out *Effects) {
	if a, ok := in.(interface{ Of() Attempt }); ok && a.Of() != m.attempt {
		return
	}
	if _, ok := in.(Downgrade); m.Ended() && !ok {
		return
	}
	(&turn{m, out}).dispatch(in)
}

// Again returns, for a machine that has ended, the machine that joins the line anew at its end,
// unless the session is closed. It keeps the fields of the handle, and drops those of the attempt.
func (m Machine) Again(out *Effects) Machine {
	next := Machine{
		id: m.id, rule: m.rule, inBackground: m.inBackground, condition: m.condition,
		parent: m.parent, session: m.session, timeout: m.timeout, past: m.past, attempt: m.attempt, ahead: -1,
		lapsed: m.lapsed,
	}
	if next.attempt.Epoch != 0 {
		(&turn{&next, out}).enter()
	}
	return next
}

// dispatch calls the step of the state that an input is for:
//
//	Inspected, Made          preparing
//	Joined                   joining
//	Listed                   recovering, waiting and held, while a list is under way
//	ListDue                  waiting and held
//	Seen, Promote, Inherit,
//	Asked                    waiting
//	Watched, Happened,
//	RevokeRequested          waiting, claiming and held, where our node stands
//	Claimed, Occupied        claiming, and held if the grant was inherited
//	NodeChanged              held, while a downgrade is under way
//	Withdrawn                clearing and leaving
//
// In other states an input changes nothing: its request is no longer wanted, or its watch has
// ended. A late answer names another attempt, and does not get here. Commands, and news of the
// session or the condition, are for all states.
func (m *turn) dispatch(in Input) {
	switch in := in.(type) {
	case Leave:
		m.leave()
	case ConditionRead:
		m.conditionRead(in.Data)
	case Reevaluate:
		m.reevaluate()
	case Promote:
		if m.state == waiting {
			m.promote()
		}
	case Inherit:
		if m.Next() != "" || in.Token == 0 {
			m.inherits = in.Token
		}
	case Heard:
		m.heard(in.Event)
	case Inspected:
		if m.state == preparing {
			m.inspected(in.Exists, in.Empty)
		}
	case Made:
		if m.state == preparing {
			m.parent = bare
			m.join()
		}
	case Joined:
		if m.state == joining {
			m.joined(in)
		}
	case Listed:
		if m.listing {
			stale := m.stale
			m.listing, m.stale = false, false
			m.listed(in.Snapshot, stale)
		}
	case ListDue:
		if m.state == waiting || m.Holding() {
			m.look()
		}
	case Seen:
		if m.state == waiting {
			m.rank(in.Snapshot)
		}
	case Watched:
		m.watched(in)
	case Happened:
		m.happened(in.Target)
	case RevokeRequested:
		if m.Standing() && !m.revokeRequested {
			m.revokeRequest(in)
		}
	case Claimed:
		if m.claims() {
			m.claimConfirmed(in.Zxid)
		}
	case Occupied:
		switch {
		case m.state == claiming:
			m.yield()
		case m.claims():
			m.fail(m.deleted())
		}
	case NodeChanged:
		if m.to != "" {
			m.changed()
		}
	case Asked:
		if in.Overdue && m.state == waiting {
			m.look()
		}
	case Withdrawn:
		m.withdrawn(in.Node, in.Err)
	case Failed:
		m.failed(in.What, in.Err)
	case Downgrade:
		m.downgrade(in.Reply)
	case GrantAnnounced: // nothing to do
	}
}

// heard handles an event of the session. A session begins an attempt only from the state outside:
// after an expiry the machine is outside, or has ended.
func (m *turn) heard(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		if m.state == outside {
			m.session, m.timeout, m.past, m.attempt.Epoch = ev.ID, ev.Timeout, ev.Past, ev.Epoch
			m.enter()
		}
	case session.Suspended:
		m.suspend(ev.Deadline)
	case session.Lapsed:
		m.lapse()
	case session.Resumed:
		m.resume()
	case session.Expired:
		if ev.Epoch == m.attempt.Epoch {
			m.expire()
		}
	case session.Closed:
		m.cut(session.ErrClosed)
	}
}

// failed handles the failure of e. A request that ended with its session is forgotten, because the
// session reports its end. After a passing error the request is repeated at once: if the server was
// busy, the performer has already paused. Each case first checks that the machine still wants the
// request.
func (m *turn) failed(e Effect, err error) {
	if client.Over(err) {
		return
	}
	switch e := e.(type) {
	case InspectParent:
		if m.state == preparing {
			m.notInspected(err)
		}
	case MakeParent:
		if m.state == preparing {
			m.notMade(err)
		}
	case CreateNode:
		if m.state == joining {
			m.notJoined(e.Plain, err)
		}
	case ListParent:
		if m.listing {
			m.listing, m.stale = false, false
			m.notListed(err)
		}
	case WatchTarget:
		m.notWatched(e.Target, err)
	case Claim:
		if m.claims() && e.Node == m.node {
			m.notClaimed(e, err)
		}
	case ChangeNode:
		if m.to == e.To && m.notChanged(e, err) {
			m.vanish()
		}
	case AnnounceGrant:
		if session.Passing(err) && m.Holding() && e.Node == m.node {
			m.do(e)
		}
	case Ask, ListLater, WatchTogether, UnwatchTarget, Complain, WithdrawNode, WithdrawAll, Answer: // do not fail
	}
}
