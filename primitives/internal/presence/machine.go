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
	taking     // over: deleting what is there, and creating ours
	setting
	deleting
	withdrawing // deleting what the server does not let us delete for now
)

func (a asked) String() string {
	return [...]string{"idle", "creating", "making", "looking", "confirming", "taking", "setting", "deleting", "withdrawing"}[a]
}

// A turn names a request: answers to earlier ones mean nothing.
type turn struct{ epoch, n int }

// A Sight is what was seen at the path.
type Sight struct {
	Exists  bool
	Owner   int64 // the session that owns the node, 0 if none does
	Past    bool  // the owner is an earlier session of ours
	Version int32
	Data    string
}

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
	connected struct {
		epoch   int
		session int64
		timeout time.Duration
	}
	suspended struct{ deadline time.Time }
	resumed   struct{}
	expired   struct{ epoch int }
	closed    struct{}
	saw       struct { // told at any time after follow
		epoch int
		Sight
	}
	blind struct { // told instead, when the node cannot be watched
		epoch int
		err   error
	}
	done struct { // answers create, makeParent, takeOver, remove and withdraw
		turn
	}
	looked struct { // answers look
		turn
		Sight
	}
	stored struct { // answers store
		turn
		version int32
	}
	failed struct { // answers any of them
		turn
		err error
	}
	patient struct{ n int } // answers wait
)

func (Leave) input()     {}
func (Update) input()    {}
func (connected) input() {}
func (suspended) input() {}
func (resumed) input()   {}
func (expired) input()   {}
func (closed) input()    {}
func (saw) input()       {}
func (blind) input()     {}
func (done) input()      {}
func (looked) input()    {}
func (stored) input()    {}
func (failed) input()    {}
func (patient) input()   {}

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
	remove struct {
		turn
		version int32
	}
	withdraw struct{ turn }
	follow   struct{ epoch int } // answered by any number of saw, and blind
	wait     struct {            // replaces an earlier one
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
func (remove) effect()     {}
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
	takeOver      bool          // from others, after that
	atOnce        bool          // without waiting

	data    string // that is to be stored
	rev     int    // counts them
	stored  int    // the newest that is known to have been
	waiters []waiter

	turn      turn // epoch 0: there is no session
	session   int64
	timeout   time.Duration
	asked     asked
	sending   int // the rev of what the request stores
	sent      string
	seen      Sight
	doubt     bool // what is there is not known
	stalled   bool // the session has ended, which will be told
	joined    bool // Joined was told, and no Gone
	suspended bool // Suspended was told, and no Resumed
	waits     int  // how often we have waited
	waiting   int  // for a ghost to go: which wait it is; 0 if it is none
	impatient bool // it has not gone
	leaving   bool
	why       error // of leaving
	ended     bool
}

func (m Machine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v(%d seen=%+v rev=%d/%d/%d waiters=%d", m.asked, m.turn.epoch, m.seen, m.stored, m.sending, m.rev, len(m.waiters))
	for _, f := range []struct {
		set  bool
		text string
	}{
		{m.doubt, "doubt"},
		{m.stalled, "stalled"},
		{m.joined, "joined"},
		{m.suspended, "suspended"},
		{m.waiting != 0, "waiting"},
		{m.impatient, "impatient"},
		{m.leaving, fmt.Sprintf("leaving=%v", m.why)},
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
func (m Machine) Step(in Input) (Machine, Effects) {
	if m.ended {
		if in, ok := in.(Update); ok {
			return m, Effects{Do: []Effect{answer{[]actors.Reply[error]{in.Reply}, m.reason()}}}
		}
		return m, Effects{}
	}
	s := stepper{Machine: m}
	s.take(in)
	if !s.ended {
		s.advance()
	}
	return s.Machine, s.out
}

// A stepper is a machine during a step.
type stepper struct {
	Machine
	out Effects
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
	case connected:
		if m.turn.epoch == 0 {
			m.turn.epoch, m.session, m.timeout = in.epoch, in.session, in.timeout
			m.stalled = false
		}
	case suspended:
		if m.joined && !m.suspended {
			m.suspended = true
			m.emit(Suspended{in.deadline})
		}
	case resumed:
		if m.suspended {
			m.suspended = false
			m.emit(Resumed{})
		}
		if m.waiting != 0 {
			m.impatient = false // ghosts live longer while the servers cannot be reached
			m.wait()
		}
	case expired:
		if in.epoch == m.turn.epoch {
			m.expire()
		}
	case closed:
		if !m.leaving {
			m.why = session.ErrClosed
		}
		m.end()
	case saw:
		if in.epoch == m.turn.epoch {
			m.seen = in.Sight
		}
	case blind:
		if in.epoch == m.turn.epoch && !over(in.err) {
			m.leave(in.err)
		}
	case patient:
		if in.n == m.waiting {
			m.impatient = true
		}
	case done:
		if m.answered(in.turn) {
			m.done()
		}
	case looked:
		if m.answered(in.turn) {
			m.looked(in.Sight)
		}
	case stored:
		if m.answered(in.turn) {
			m.asked, m.seen.Version, m.seen.Data = nothing, in.version, m.sent
			m.confirm(m.sending)
		}
	case failed:
		if m.answered(in.turn) {
			m.fail(in.err)
		}
	}
}

func (m *stepper) answered(t turn) bool { return t == m.turn && m.asked != nothing }

// done follows an answer that carries nothing.
func (m *stepper) done() {
	was := m.asked
	m.asked = nothing
	switch was {
	case creating, taking:
		m.seen = Sight{Exists: true, Owner: m.session, Data: m.sent}
		m.confirm(m.sending)
	case deleting, withdrawing:
		m.seen = Sight{}
	case nothing, making, looking, confirming, setting:
	}
}

func (m *stepper) looked(s Sight) {
	confirmed := m.asked == confirming
	m.asked, m.doubt = nothing, false
	m.seen = s
	if confirmed && m.foreign() && !m.leaving {
		if m.takeOver {
			m.takeAway()
		} else {
			m.leave(fmt.Errorf("%w: held by session %#x", ErrDuplicate, s.Owner))
		}
	}
}

// confirm answers those whose data is known to have been stored.
func (m *stepper) confirm(rev int) {
	m.stored = max(m.stored, rev)
	var replies []actors.Reply[error]
	for len(m.waiters) > 0 && m.waiters[0].rev <= m.stored {
		replies = append(replies, m.waiters[0].reply)
		m.waiters = m.waiters[1:]
	}
	if replies != nil {
		m.do(answer{replies, nil})
	}
}

// over reports whether a request failed with its session.
func over(err error) bool {
	return errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrClosed)
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}

// fail follows a request that was not done, or may not have been.
func (m *stepper) fail(err error) {
	was := m.asked
	m.asked = nothing
	switch {
	case over(err):
		m.stalled = true
	case was == making && isAny(err, session.ErrDisconnected):
	case isAny(err, session.ErrUnknownOutcome, session.ErrDisconnected):
		m.doubt = true
	case was == creating && isAny(err, session.ErrNoNode):
		m.ask(making)
		m.do(makeParent{m.turn})
	case was == looking && isAny(err, session.ErrNoNode), was == confirming && isAny(err, session.ErrNoNode):
		m.looked(Sight{})
	case isAny(err, session.ErrNodeExists, session.ErrBadVersion, session.ErrNoNode):
		m.doubt = true
	case was == setting:
		m.refuse(err)
	case was == deleting:
		m.ask(withdrawing)
		m.do(withdraw{m.turn})
	case m.leaving:
		m.end()
	default:
		m.leave(err)
	}
}

// refuse gives up to store what the server does not accept.
func (m *stepper) refuse(err error) {
	var replies []actors.Reply[error]
	for _, w := range m.waiters {
		replies = append(replies, w.reply)
	}
	m.waiters = nil
	m.data = m.seen.Data
	m.do(answer{replies, err})
}

func (m *stepper) leave(why error) {
	if !m.leaving {
		m.leaving, m.why = true, why
	}
}

func (m *stepper) expire() {
	m.turn.epoch, m.asked, m.seen, m.doubt, m.waiting, m.impatient = 0, nothing, Sight{}, false, 0, false
	m.gone(session.ErrExpired)
}

// gone tells that the node is, if it was told that it stands.
func (m *stepper) gone(why error) {
	if m.joined {
		m.joined, m.suspended = false, false
		if !m.leaving {
			m.emit(Gone{why})
		}
	}
}

func (m Machine) foreign() bool { return m.seen.Exists && m.seen.Owner != m.session && !m.seen.Past }

func (m *stepper) ask(a asked) {
	m.asked = a
	m.turn.n++
	m.sending, m.sent = m.rev, m.data
}

// advance makes the next request, unless one is under way.
func (m *stepper) advance() {
	own := m.seen.Exists && m.seen.Owner == m.session
	switch {
	case m.asked != nothing:
	case m.turn.epoch == 0 && m.leaving:
		m.end()
	case m.turn.epoch == 0 || m.stalled:
	case m.doubt:
		m.ask(looking)
		m.do(look{m.turn, false})
	case m.leaving && own:
		m.ask(deleting)
		m.do(remove{m.turn, m.seen.Version})
	case m.leaving:
		m.end()
	case !m.seen.Exists:
		m.gone(ErrNodeDeleted)
		m.ask(creating)
		m.do(create{m.turn, m.data})
		m.do(follow{m.turn.epoch})
	case own:
		m.own()
	case m.joined:
		m.leave(fmt.Errorf("%w: taken over by session %#x", ErrDuplicate, m.seen.Owner))
		m.end()
	case m.seen.Past:
		m.takeAway()
	default:
		m.conflict()
	}
}

// own keeps the node that is ours up to date.
func (m *stepper) own() {
	if !m.joined {
		m.joined, m.waiting, m.impatient = true, 0, false
		m.emit(Joined{})
	}
	if m.seen.Data == m.data {
		m.confirm(m.rev)
		return
	}
	m.ask(setting)
	m.do(store{m.turn, m.seen.Version, m.data})
}

func (m *stepper) takeAway() {
	m.ask(taking)
	m.do(takeOver{m.turn, m.seen.Version, m.data})
}

// conflict waits for the node of another session to go, and then makes sure that it is
// there before it acts on it.
func (m *stepper) conflict() {
	switch {
	case m.takeOver && m.atOnce:
		m.takeAway()
	case m.impatient || m.seen.Owner == 0 || m.atOnce: // what no session owns goes with none
		m.ask(confirming)
		m.do(look{m.turn, true})
	case m.waiting == 0:
		m.wait()
	}
}

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

func (m Machine) reason() error {
	if m.why != nil {
		return m.why
	}
	return ErrLeft
}

func (m *stepper) end() {
	m.ended = true
	if len(m.waiters) > 0 {
		m.refuse(m.reason())
	}
	m.emit(Left{m.why})
}
