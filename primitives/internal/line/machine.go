package line

import (
	"fmt"
	"strings"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// This file has the state of a machine, and hands each input to the part that it is
// for. The protocol is a pure function: no goroutines, no channels, no clock, no I/O.
// What an input leads to is in the file of the state:
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
//	          our turn │  │ └──────────► clearing ► joining  │
//	                   ▼  │ another has it                  │
//	holding.go     claiming (only where the rule claims)    │
//	                   │ ours                               │
//	                   ▼                                    │
//	                 held ──────────────────────────────────┘ or lost with the session
//	                   │ left, or lost
//	                   ▼
//	leaving.go     leaving ── confirmed ► ended
//
// Every state but ended leads to leaving by Leave, and to ended by the end of the
// sessions. A downgrade (downgrade.go) takes place in held. The performer of the
// effects is in performer.go.

// A state is the step of the protocol that the contender is in. It says which inputs
// mean something.
type state int

const (
	outside    state = iota // there is no session
	preparing               // the parent is being looked at, or made
	joining                 // our node is being created
	recovering              // our node may have been created: we are looking for it
	waiting                 // our node exists, others are ahead
	claiming                // it is our turn: what the line is for is being claimed
	held                    // it is ours
	clearing                // our node is gone, and nodes that a lost create may have left are being removed
	leaving                 // our node is being removed
	ended
)

func (s state) String() string {
	return [...]string{
		"outside", "preparing", "joining", "recovering", "waiting", "claiming", "held", "clearing", "leaving", "ended",
	}[s]
}

// A parent is our knowledge of the parent of the contenders. It decides how a node is
// created: one transaction with a write to the parent tells how many children there
// were.
type parent int

const (
	unseen  parent = iota // nothing
	bare                  // it is empty and ours to write: we join in one transaction
	foreign               // it carries data, or is not ours to write: we join by the published recipe
)

func (p parent) String() string { return [...]string{"unseen", "bare", "foreign"}[p] }

// A Machine is the state of one place in line. It is comparable.
type Machine struct {
	id           string // the handle's GUID, from which those of its attempts are derived; constant
	rule         Rule   // which contender waits for which; another, weaker one after a downgrade
	inBackground bool   // leave without waiting for the confirmation; constant

	// The state, and the fields that outlive one attempt.
	state   state
	parent  parent  // set by inspectParent or makeParent; unseen again when the rule finds it to be another
	session int64   // the id of the present or last session; set when it is heard of
	attempt attempt // epoch is set when a session is heard of, and cleared when it expires; n counts

	// What the caller was told. None of these is cleared but suspended: events are not taken back.
	ahead        int  // what the last Waiting said; -1 if there was none
	suspended    bool // set by Suspended, cleared by Resumed; only while we hold
	revoked      bool // set by Revoked; marked holds then
	finalEmitted bool // set by Released and Lost, the last events; afterwards none is emitted
	place
}

// place has the fields of one attempt. It is cleared when another begins, and when the
// session ends.
type place struct {
	// Our own node.
	node  string // set when its creation is known, cleared when its deletion is; set while we stand in line
	czxid int64  // of node; 0 until it is known. It is known before a grant, but where the rule claims
	token int64  // set by the grant, and never changed; 0 before
	owned bool   // set when the watch on node is confirmed, cleared when a downgrade exchanges node

	// Set by the first sight that finds czxid known, cleared with node. While it is not set, what the rule depends on may have
	// been another when node was created.
	proven bool

	// Set when node is known and the watch on it is yet to be requested, cleared by that request. It is never set
	// while we claim, or hold.
	unwatched bool

	// Set when a create, or a downgrade, of unknown outcome is repeated. While set, there may be nodes with our GUID
	// that we do not know, so that all are removed at the end.
	maybeDuplicate bool

	// What we know of others. Target and beside are set while we wait, and cleared by the grant.
	listing bool   // set while a list is under way, cleared by its answer
	stale   bool   // set when something has happened that the list under way may not show, cleared with listing
	target  Target // what is watched beside our node: a contender or the members while we wait, our claim while we hold
	instead Target // set when target has replaced it: it has announced itself, or cannot be read; cleared with target
	beside  string // the keys of targets that are watched as well until they are gone, each with a slash behind it

	// Set by a list when target and beside are all that is ahead, cleared by any other news. While set, the
	// deletion of the last of them is the grant.
	deletionGrants bool

	// Set when we hold and have to announce that, unless a list shows no contender behind; cleared with that.
	silent bool

	// Set when target is found to be of our own session, cleared with target. While set, the end of the session
	// may be what has deleted target, and our node with it.
	sameSession bool

	// Requests to leave, and downgrades.
	marked     bool      // set when node is found to carry a mark of revocation, cleared by a downgrade
	until      time.Time // set with marked: by when it has us leave; zero if that is up to us, or while there is no mark
	downgraded bool      // set when a reader's claim has replaced the writer's; while set, no other contender can own it
	change
}

// New returns the machine of a handle. id is a UUID in text form. warm says that the
// parent has been seen to exist and to be empty.
func New(id string, rule Rule, warm, inBackground bool) Machine {
	m := Machine{id: id, rule: rule, inBackground: inBackground, ahead: -1}
	if warm {
		m.parent = bare
	}
	return m
}

// Again returns the machine that stands in line anew, at its end, for a machine that
// has ended, unless the session is closed. It keeps what belongs to the handle, and
// nothing of the last place.
func (m Machine) Again(out *Effects) Machine {
	next := Machine{
		id: m.id, rule: m.rule, inBackground: m.inBackground,
		parent: m.parent, session: m.session, attempt: m.attempt, ahead: -1,
	}
	if next.attempt.epoch == 0 {
		return next
	}
	t := turn{next, out}
	t.enter()
	return t.Machine
}

func (m Machine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v(%d.%d %v", m.state, m.attempt.epoch, m.attempt.n, m.parent)
	for _, f := range []struct {
		set  bool
		text string
	}{
		{m.inBackground, "background"},
		{m.ahead >= 0, fmt.Sprintf("ahead=%d", m.ahead)},
		{m.node != "", "node=" + m.node},
		{m.czxid != 0, fmt.Sprintf("czxid=%d", m.czxid)},
		{m.token != m.czxid && m.token != 0, fmt.Sprintf("token=%d", m.token)},
		{m.owned, "owned"},
		{m.proven, "proven"},
		{m.unwatched, "unwatched"},
		{m.maybeDuplicate, "maybeDuplicate"},
		{m.listing, "listing"},
		{m.stale, "stale"},
		{m.target != Target{}, "target=" + m.target.String()},
		{m.beside != "", "beside=" + m.beside},
		{m.deletionGrants, "deletionGrants"},
		{m.silent, "silent"},
		{m.sameSession, "sameSession"},
		{m.marked, "marked"},
		{m.to != "", "to=" + m.to},
		{m.without, "without"},
		{m.downgraded, "downgraded"},
		{m.suspended, "suspended"},
		{m.revoked, "revoked"},
		{m.finalEmitted, "finalEmitted"},
	} {
		if f.set {
			b.WriteString(" " + f.text)
		}
	}
	return b.String() + ")"
}

// Ended implements [actors.Machine].
func (m Machine) Ended() bool { return m.state == ended }

// Holding reports whether the contender holds.
func (m Machine) Holding() bool { return m.state == held }

// Waiting reports whether our node stands in line, and others are ahead as far as we
// know.
func (m Machine) Waiting() bool { return m.state == waiting }

// Leaving reports whether it is given up, and that is not confirmed.
func (m Machine) Leaving() bool { return m.state == leaving }

// Epoch returns that of the session in which we stand in line; 0 if there is none.
func (m Machine) Epoch() int { return m.attempt.epoch }

// Node returns the name of our node; "" while there is none.
func (m Machine) Node() string {
	if m.Ended() {
		return ""
	}
	return m.node
}

// guid is the GUID of the present attempt.
func (m Machine) guid() string { return attemptGUID(m.id, m.attempt.n) }

// Step implements [actors.Machine]. Inputs that mean nothing in the current state are
// ignored: their question is not open any more. The answer to an open question never
// is.
func (m Machine) Step(in Input, out *Effects) Machine {
	t := turn{m, out}
	t.step(in)
	return t.Machine
}

// A turn is one step of a machine: the next machine, and its effects. Effects are
// performed in the order in which they were asked for, after the step.
type turn struct {
	Machine
	out *Effects
}

func (m *turn) do(e Effect)   { m.out.Do = append(m.out.Do, e) }
func (m *turn) emit(ev Event) { m.out.Emit = append(m.out.Emit, ev) }

// step is Step in place. An answer for another attempt is too late; a command to a
// machine that has ended gets an answer all the same.
func (m *turn) step(in Input) {
	if a, ok := in.(interface{ of() attempt }); ok && a.of() != m.attempt {
		return
	}
	if _, ok := in.(Downgrade); m.Ended() && !ok {
		return
	}
	m.take(in)
}

// take hands an input to the part of the machine that is in charge in this state.
func (m *turn) take(in Input) {
	switch in := in.(type) {
	case Leave:
		m.leave()
	case reevaluate:
		switch {
		case m.state == waiting:
			m.look()
		case m.Holding() && m.rule.Announces():
			m.announce()
		}
	case Take:
		if m.state == waiting && m.rule.Claims() {
			m.first()
		}
	case heard:
		m.heard(in.Event)
	case inspected:
		if m.state == preparing {
			m.inspected(in.exists, in.empty)
		}
	case made:
		if m.state == preparing {
			m.parent = bare
			m.join()
		}
	case joined:
		if m.state == joining {
			m.joined(in)
		}
	case listed:
		if m.listing {
			stale := m.stale
			m.listing, m.stale = false, false
			m.listed(in.Sight, stale)
		}
	case seen:
		if m.state == waiting {
			m.rank(in.Sight)
		}
	case watched:
		m.watched(in)
	case gone:
		m.gone(in.target)
	case marked:
		if m.Standing() && !m.marked && in.target == (Target{Node: m.node}) {
			m.marked, m.until = true, in.deadline
			m.revoke()
		}
	case claimed:
		if m.state == claiming {
			m.token = in.zxid
			m.grant()
		}
	case occupied:
		if m.state == claiming {
			m.yield()
		}
	case changed:
		if m.to != "" {
			m.changed()
		}
	case asked:
		if in.overdue && m.state == waiting {
			m.look()
		}
	case withdrawn:
		m.withdrawn(in.node)
	case failed:
		m.failed(in.what, in.err)
	case Downgrade:
		m.downgrade(in.Reply)
	case announced: // nothing to do
	}
}

// heard follows what became of the session. A session begins an attempt only from
// outside: after an expiry the machine is there, or has ended.
func (m *turn) heard(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		if m.state == outside {
			m.session, m.attempt.epoch = ev.ID, ev.Epoch
			m.enter()
		}
	case session.Suspended:
		m.suspend(ev.Deadline)
	case session.Resumed:
		m.resume()
	case session.Expired:
		if ev.Epoch == m.attempt.epoch {
			m.expire()
		}
	case session.Closed:
		m.end(Lost{session.ErrClosed})
	}
}

// Standing reports whether our node stands in line, as far as we know. Then node is set, but for a moment
// before it is left.
func (m Machine) Standing() bool {
	return m.state == waiting || m.state == claiming || m.state == held
}

// failed follows the failure of e. What ended with its session is forgotten: the
// session tells us of its end. What passes is done again at once: if the server was
// busy, the answer has come after a pause. Each case asks first whether the machine
// still wants what has failed.
func (m *turn) failed(e Effect, err error) {
	if client.Over(err) {
		return
	}
	switch e := e.(type) {
	case inspectParent:
		if m.state == preparing {
			m.notInspected(err)
		}
	case makeParent:
		if m.state == preparing {
			m.notMade(err)
		}
	case createNode:
		if m.state == joining {
			m.notJoined(e.plain, err)
		}
	case listParent:
		if m.listing {
			m.listing, m.stale = false, false
			m.notListed(err)
		}
	case watchTarget:
		m.notWatched(e.target, err)
	case claim:
		if m.state == claiming && e.node == m.node {
			m.notClaimed(e, err)
		}
	case changeNode:
		if m.to == e.to {
			m.notChanged(e, err)
		}
	case announce:
		if session.Passing(err) && m.Holding() && e.node == m.node {
			m.do(e)
		}
	case ask, watchTogether, unwatchTarget, complain, withdrawNode, withdrawAll, answer: // do not fail
	}
}
