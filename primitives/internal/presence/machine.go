package presence

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file is how a node is kept, as a pure function. It compares what is to be with
// what is there, and makes one request after the other until they agree; whatever goes
// wrong on the way, it looks again. The performer of its effects is in presence.go.

// An asked is the request that is under way.
type asked int

const (
	nothing asked = iota
	creating
	making     // the parent
	looking    // at what is there
	confirming // what is there, as the leader knows it
	marking    // what is to be taken over: only a write tells for certain whose node has a version
	taking     // over: deleting what is there, and creating ours
	setting
	withdrawing // what is ours, to leave
)

func (a asked) String() string {
	return [...]string{"idle", "creating", "making", "looking", "confirming", "marking", "taking", "setting", "withdrawing"}[a]
}

// birth is the version that nodes of ours begin with. Those of others begin with 0, so that
// what is meant for a node of ours never hits a new one of theirs.
const birth = 1

// A turn names a request: answers to earlier ones mean nothing.
type turn struct{ epoch, n int }

// A Sight is what was seen at the path.
type Sight struct {
	Exists  bool
	Owner   int64 // the session that owns the node, 0 if none does
	Past    bool  // the owner is an earlier session of ours
	Czxid   int64 // 0 if it is not known
	Version int32
	Data    string
}

func (s Sight) String() string {
	if !s.Exists {
		return "nothing"
	}
	text := fmt.Sprintf("owner=%d czxid=%d version=%d data=%s", s.Owner, s.Czxid, s.Version, s.Data)
	if s.Past {
		text += " past"
	}
	return text
}

// A ghost is a node that is waited for, or will be taken for a rival's.
type ghost struct{ owner, czxid int64 }

func (s Sight) ghost() ghost { return ghost{s.Owner, s.Czxid} }

// An Input is something that happened.
//
//sumtype:decl
type Input interface{ input() }

type (
	// Leave is the command to remove the node, for the reason, or on request if it is nil.
	Leave struct{ Why error }
	// Update is the command to store other data.
	Update struct {
		Data  string
		Reply actors.Reply[error]
	}
	// Insist is the command to replace at once what stands there, unless the node was told
	// to stand.
	Insist struct{}
	// heard tells what became of the session.
	heard struct{ session.Event }
	saw   struct { // told at any time after follow
		epoch int
		Sight
	}
	blind struct { // told instead, when the node cannot be watched
		epoch int
		err   error
	}
	created struct { // answers create and takeOver
		turn
		czxid   int64
		version int32
	}
	done struct { // answers makeParent and withdraw
		turn
		other bool // another node was found in the place of what was to be withdrawn
	}
	looked struct { // answers look
		turn
		Sight
	}
	stored struct { // answers store
		turn
		ghost   // whose data it is now
		version int32
	}
	failed struct { // answers any of them
		turn
		err error
	}
	patient struct{ n int } // answers wait
)

func (Leave) input()   {}
func (Update) input()  {}
func (Insist) input()  {}
func (heard) input()   {}
func (saw) input()     {}
func (blind) input()   {}
func (created) input() {}
func (done) input()    {}
func (looked) input()  {}
func (stored) input()  {}
func (failed) input()  {}
func (patient) input() {}

// An Effect is something to do about it.
//
//sumtype:decl
type Effect interface{ effect() }

type (
	create struct {
		turn
		data string
	}
	makeParent struct{ turn }
	look       struct {
		turn
		sync bool // after the server was brought up to date
	}
	takeOver struct { // delete the node at its version and create ours, in one transaction
		turn
		version int32
		data    string
	}
	store struct {
		turn
		version int32
		data    string
	}
	withdraw struct { // what is of the session, until it is gone
		turn
		session int64
	}
	follow struct{ epoch int } // answered by any number of saw, and blind
	wait   struct {            // replaces an earlier one
		n    int
		long time.Duration
	}
	answer struct { // to commands; answered by nothing
		replies []actors.Reply[error]
		err     error
	}
)

func (create) effect()     {}
func (makeParent) effect() {}
func (look) effect()       {}
func (takeOver) effect()   {}
func (store) effect()      {}
func (withdraw) effect()   {}
func (follow) effect()     {}
func (wait) effect()       {}
func (answer) effect()     {}

// Effects are what a step asks for.
type Effects = actors.Effects[Effect, Event]

// A waiter is a command that is answered when what it wants is stored.
type waiter struct {
	rev   int
	reply actors.Reply[error]
}

// A Machine keeps one node.
type Machine struct {
	conflictAfter time.Duration // 0: twice the timeout of the session
	takeOver      bool          // from others, after that; until Joined is told
	atOnce        bool          // without waiting, and what no session owns too

	data    string // that is to be stored
	rev     int    // counts them
	stored  int    // the newest that is known to have been, or was refused
	waiters []waiter

	turn      turn // epoch 0: there is no session
	session   int64
	timeout   time.Duration
	asked     asked
	sending   int // the rev of what the request stores
	sent      string
	aim       Sight // what it stores it in
	seen      Sight
	doubt     bool // what is there is not known
	orphan    bool // there is no parent
	stalled   bool // the session has ended, which will be told
	offline   bool // the session is suspended: requests would wait, and be made when they are wrong
	joined    bool // Joined was told, and no Gone
	suspended bool // Suspended was told, and no Resumed
	waits     int  // how often we have waited
	ghost     ghost
	waiting   int   // for it to go: which wait it is; 0 if it is none
	impatient bool  // it has not gone
	barred    error // why it cannot be taken over
	leaving   bool
	stood     bool  // Joined was told then, and no Gone, and no other node was found instead
	why       error // of leaving
	undeleted error // why the node stands still, which is tried to be deleted for as long as the session lasts
	ended     bool
}

func (m Machine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v(epoch=%d", m.asked, m.turn.epoch)
	if m.seen.Exists {
		fmt.Fprintf(&b, " %v", m.seen)
	}
	for _, f := range []struct {
		set  bool
		text string
	}{
		{m.doubt, "doubt"},
		{m.orphan, "orphan"},
		{m.stalled, "stalled"},
		{m.offline, "offline"},
		{m.joined, "joined"},
		{m.suspended, "suspended"},
		{m.waiting != 0, "waiting"},
		{m.impatient, "impatient"},
		{m.barred != nil, "barred"},
		{m.leaving, fmt.Sprintf("leaving=%v", m.why)},
		{len(m.waiters) > 0, fmt.Sprintf("waiters=%d", len(m.waiters))},
		{m.ended, "ended"},
	} {
		if f.set {
			b.WriteString(" " + f.text)
		}
	}
	return b.String() + ")"
}

// Ended implements [actors.Machine].
func (m Machine) Ended() bool { return m.ended }

// Step implements [actors.Machine].
func (m Machine) Step(in Input, out *Effects) Machine {
	if m.ended {
		if in, ok := in.(Update); ok {
			out.Do = append(out.Do, answer{[]actors.Reply[error]{in.Reply}, m.Reason()})
		}
		return m
	}
	s := stepper{Machine: m, out: out}
	s.take(in)
	if !s.ended {
		s.advance()
	}
	return s.Machine
}

// A stepper is a machine during a step.
type stepper struct {
	Machine
	out *Effects
}

func (m *stepper) do(e Effect)      { m.out.Do = append(m.out.Do, e) }
func (m *stepper) emit(event Event) { m.out.Emit = append(m.out.Emit, event) }

// take notes what has happened.
func (m *stepper) take(in Input) {
	switch in := in.(type) {
	case Leave:
		m.leave(in.Why)
	case Update:
		m.rev++
		m.data = in.Data
		m.waiters = append(slices.Clone(m.waiters), waiter{m.rev, in.Reply})
	case Insist:
		if !m.joined {
			m.takeOver, m.atOnce = true, true
		}
	case heard:
		m.heard(in.Event)
	case saw:
		if in.epoch == m.turn.epoch {
			m.seen = in.Sight
		}
	case blind:
		if in.epoch == m.turn.epoch && !session.Over(in.err) {
			m.leave(in.err)
		}
	case patient:
		if in.n == m.waiting {
			m.impatient = true
		}
	case created:
		if m.answered(in.turn) {
			m.asked = nothing
			m.seen = Sight{Exists: true, Owner: m.session, Czxid: in.czxid, Version: in.version, Data: m.sent}
			m.confirm(m.sending)
		}
	case done:
		if m.answered(in.turn) {
			m.done(in.other)
		}
	case looked:
		if m.answered(in.turn) {
			m.looked(in.Sight)
		}
	case stored:
		if m.answered(in.turn) {
			m.wrote(in)
		}
	case failed:
		if m.answered(in.turn) {
			m.fail(in.err)
		}
	}
}

// heard follows what became of the session.
func (m *stepper) heard(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		if m.turn.epoch == 0 {
			m.turn.epoch, m.session, m.timeout = ev.Epoch, ev.ID, ev.Timeout
			m.stalled = false
		}
	case session.Suspended:
		m.offline = true
		if m.joined && !m.suspended {
			m.suspended = true
			m.emit(Suspended{ev.Deadline})
		}
	case session.Resumed:
		m.offline, m.doubt = false, true
		m.waiting, m.impatient = 0, false // ghosts live longer while the servers cannot be reached
	case session.Expired:
		if ev.Epoch == m.turn.epoch {
			m.expire()
		}
	case session.Closed:
		if !m.leaving {
			m.why = session.ErrClosed
		}
		m.end()
	}
}

func (m *stepper) answered(t turn) bool { return t == m.turn && m.asked != nothing }

// done follows the parent's creation, or the end of what was ours.
func (m *stepper) done(other bool) {
	if m.asked == withdrawing {
		m.seen, m.stood = Sight{}, m.stood && !other
		m.end()
	}
	m.asked, m.orphan = nothing, false
}

func (m *stepper) looked(s Sight) {
	confirmed := m.asked == confirming
	m.asked, m.doubt = nothing, false
	m.seen = s
	if m.own() && s.Data == m.sent {
		m.confirm(m.sending)
	}
	switch {
	case !confirmed || !m.foreign() || m.leaving || m.offline || s.ghost() != m.ghost || !m.waited():
	case m.takeOver && m.barred == nil && (s.Owner != 0 || m.atOnce):
		m.mark(s.Data)
	default:
		m.leave(m.duplicate())
	}
}

// duplicate says who has the name.
func (m Machine) duplicate() error {
	err := fmt.Errorf("%w: held by session %#x", ErrDuplicate, m.seen.Owner)
	if m.seen.Owner == 0 {
		err = fmt.Errorf("%w: held by a node of no session", ErrDuplicate)
	}
	if m.barred != nil {
		err = fmt.Errorf("%w, and it could not be taken over: %w", err, m.barred)
	}
	return err
}

// wrote follows data that was stored in what stands there, which may be another node by
// now that has been changed as often.
func (m *stepper) wrote(in stored) {
	was := m.asked
	m.asked = nothing
	if in.owner != m.aim.Owner || m.aim.Czxid != 0 && in.czxid != m.aim.Czxid {
		m.doubt = true
		return
	}
	m.seen = m.aim // which is newer than what was seen meanwhile
	m.seen.Czxid, m.seen.Version, m.seen.Data = in.czxid, in.version, m.sent
	switch {
	case was == setting:
		m.confirm(m.sending)
	case m.offline || m.doubt: // it is marked again, if it is still there
	case m.leaving: // it is not to be deleted any more
	case in.version <= birth:
		m.mark(m.sent)
	default:
		m.ask(taking)
		m.do(takeOver{m.turn, in.version, m.data})
	}
}

// confirm answers those whose data is known to have been stored.
func (m *stepper) confirm(rev int) {
	m.stored = max(m.stored, rev)
	m.give(m.stored, nil)
}

// give answers those who wait for the data that counts up to rev.
func (m *stepper) give(rev int, err error) {
	var replies []actors.Reply[error]
	for len(m.waiters) > 0 && m.waiters[0].rev <= rev {
		replies = append(replies, m.waiters[0].reply)
		m.waiters = m.waiters[1:]
	}
	if replies != nil {
		m.do(answer{replies, err})
	}
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}

// fail follows a request that was not done, or may not have been.
func (m *stepper) fail(err error) {
	was := m.asked
	m.asked, m.orphan = nothing, false
	switch {
	case was == withdrawing:
		m.undeleted = err
		m.end()
	case session.Over(err):
		m.stalled = true
	case isAny(err, session.ErrUnknownOutcome, session.ErrDisconnected):
		m.doubt = true
	case was == creating && isAny(err, session.ErrNoNode):
		m.orphan = true
	case was == looking && isAny(err, session.ErrNoNode), was == confirming && isAny(err, session.ErrNoNode):
		m.looked(Sight{})
	case isAny(err, session.ErrNodeExists, session.ErrBadVersion, session.ErrNoNode):
		m.doubt = true
	case was == setting:
		m.refuse(err)
	case session.Busy(err): // it may have been done
		m.doubt = true
	case was == marking, was == taking && isAny(err, session.ErrNoAuth):
		m.barred = err
	default:
		m.leave(err)
	}
}

// refuse gives up to store what the server does not accept.
func (m *stepper) refuse(err error) {
	if m.rev == m.sending {
		m.data, m.stored = m.aim.Data, m.rev
	}
	m.give(m.sending, err)
}

func (m *stepper) leave(why error) {
	if !m.leaving {
		m.leaving, m.stood, m.why = true, m.joined, why
	}
}

func (m *stepper) expire() {
	m.turn.epoch, m.asked, m.seen, m.doubt, m.orphan, m.offline = 0, nothing, Sight{}, false, false, false
	m.forget()
	m.gone(session.ErrExpired)
}

// forget ends the wait for a ghost.
func (m *stepper) forget() { m.ghost, m.waiting, m.impatient, m.barred = ghost{}, 0, false, nil }

// gone tells that the node is, if it was told that it stands.
func (m *stepper) gone(why error) {
	if m.joined {
		m.joined, m.suspended = false, false
		if !m.leaving {
			m.emit(Gone{why})
		}
	}
}

func (m Machine) own() bool { return m.seen.Exists && m.seen.Owner == m.session }

// foreign reports whether what stands is not for us to replace without further ado.
func (m Machine) foreign() bool {
	return m.seen.Exists && m.seen.Owner != m.session && (!m.seen.Past || m.barred != nil)
}

func (m *stepper) ask(a asked) {
	m.asked = a
	m.turn.n++
	m.sending, m.sent, m.aim = m.rev, m.data, m.seen
}

// advance makes the next request, unless one is under way.
func (m *stepper) advance() {
	switch {
	case m.asked != nothing:
	case m.turn.epoch == 0 && m.leaving:
		m.end()
	case m.turn.epoch == 0 || m.stalled:
	case m.leaving && (m.doubt || m.own()):
		m.ask(withdrawing)
		m.do(withdraw{m.turn, m.session})
	case m.leaving:
		m.stood = m.stood && !m.seen.Exists
		m.end()
	case m.offline:
	case m.doubt:
		m.ask(looking)
		m.do(look{m.turn, false})
	case !m.seen.Exists:
		m.gone(ErrNodeDeleted)
		if m.orphan {
			m.ask(making)
			m.do(makeParent{m.turn})
			break
		}
		m.ask(creating)
		m.do(create{m.turn, m.data})
		m.do(follow{m.turn.epoch})
	case m.own():
		m.keep()
	case !m.foreign():
		m.gone(ErrNodeDeleted)
		m.mark(m.seen.Data)
	case m.joined:
		m.leave(fmt.Errorf("%w: taken over by session %#x", ErrDuplicate, m.seen.Owner))
		m.end()
	default:
		m.conflict()
	}
}

// keep keeps the node that is ours up to date.
func (m *stepper) keep() {
	if !m.joined {
		m.joined = true
		m.forget()
		m.takeOver, m.atOnce = false, false // whoever has the name from now on has got it after us
		m.emit(Joined{})
	}
	if m.suspended {
		m.suspended = false
		m.emit(Resumed{})
	}
	// What was seen before an update came says nothing of it: somebody may have taken over
	// since.
	if m.seen.Data == m.data && m.stored == m.rev {
		return
	}
	m.ask(setting)
	m.do(store{m.turn, m.seen.Version, m.data})
}

// mark begins to take over what was seen. Its version alone would not say which node it is,
// as a newer one may have the same: so it is written to, with the data that it has anyway,
// and the answer says whose it is. What is deleted then has a version that no node has which
// comes in between.
func (m *stepper) mark(data string) {
	m.ask(marking)
	m.sent = data
	m.do(store{m.turn, m.seen.Version, data})
}

// conflict waits for the node of another session to go, and then makes sure that it is
// there before it acts on it.
func (m *stepper) conflict() {
	if m.seen.ghost() != m.ghost {
		m.forget()
		m.ghost = m.seen.ghost()
	}
	switch {
	case m.takeOver && m.atOnce && m.barred == nil:
		m.mark(m.seen.Data)
	case m.waited():
		m.ask(confirming)
		m.do(look{m.turn, true})
	case m.waiting == 0:
		m.wait()
	}
}

// waited reports whether there is nothing more to wait for. What no session owns goes with
// none.
func (m Machine) waited() bool { return m.impatient || m.atOnce || m.seen.Owner == 0 }

// wait has the machine told when it has waited for long enough.
func (m *stepper) wait() {
	m.waits++
	m.waiting = m.waits
	long := m.conflictAfter
	if long == 0 {
		long = 2 * m.timeout
	}
	m.do(wait{m.waiting, long})
}

// Joined reports whether the node stands, as far as is known.
func (m Machine) Joined() bool { return m.joined }

// Suspended reports whether that was told, and no Resumed.
func (m Machine) Suspended() bool { return m.suspended }

// Stood reports whether it did when the command came to remove it, as far as is known at
// the end.
func (m Machine) Stood() bool { return m.stood }

// Err returns why the node was given up. It is nil before that, and if that was asked
// for.
func (m Machine) Err() error {
	if !m.ended {
		return nil
	}
	return m.why
}

// Undeleted returns why the server did not let the node be deleted. It is nil if the node
// is gone.
func (m Machine) Undeleted() error { return m.undeleted }

// Reason is [Machine.Err], or [ErrLeft].
func (m Machine) Reason() error {
	if m.why != nil {
		return m.why
	}
	return ErrLeft
}

func (m *stepper) end() {
	m.ended = true
	m.give(m.rev, m.Reason())
	m.emit(Left{m.why})
}
