package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// This file is the whole protocol of a handle, as a pure function: no goroutines, no
// channels, no clock, no I/O. The performer of its effects is in config.go.
//
// A handle follows the node, and performs its writes one after the other. Each is done once
// or not at all, by package once: a transaction that begins with a write to our marker. The
// steps of the first write in the queue:
//
//	  a connection, a reading     the marker stands          done, refused, or unknown
//	idle ───────────────► marking ──────────────────► writing ────────────────► answered
//	  ▲                                                 │ │
//	  │                                    no directory │ │ it came or went: the other way,
//	  └────────────────────────────────── ensuring ◄────┘ │ or not sent before the end of
//	  └───────────────────────────────────────────────────┘ the session
//
// A write can be taken back until its marker stands. Then it is sent, and stays the first until its
// outcome is known: so no write overtakes another.
//
// A handle that closes waits for the answer to its first write, refuses the others, and
// removes its marker: open ► closing ► leaving ► ended.

// A phase is the progress of the handle towards its end. It only grows.
type phase int

const (
	open    phase = iota // the node is followed, and writes are accepted
	closing              // the question about the first write is open; no other begins
	leaving              // our marker is being removed; no write is under way
	ended                // Closed was emitted
)

func (p phase) String() string { return [...]string{"open", "closing", "leaving", "ended"}[p] }

// A step is the open question about the first write of the queue.
type step int

const (
	idle     step = iota // none: there is no write, or no connection
	marking              // marked: our marker is being created, unless there is one
	writing              // wrote: the write is on its way, or in doubt
	ensuring             // ensured: the directory of the value is being made
)

func (s step) String() string {
	return [...]string{"idle", "marking", "writing", "ensuring"}[s]
}

// A write is a command to store data in the node.
type write struct {
	data    []byte
	version int32 // the version that the node must have, unless create or always is set
	create  bool  // set if no node must exist; toggled by a refusal if always is set
	always  bool  // set if the write replaces any value: create is only the guess that is tried next
	lease   int64 // under which the version was read, unless always is set
	reply   actors.Reply[error]
	n       int // numbers the writes of this handle, from 1
}

func (w write) String() string {
	how := "set"
	if !w.always {
		how = fmt.Sprintf("update=%d", w.version)
	}
	if w.create {
		how += "+"
	}
	if w.lease != 0 {
		how += fmt.Sprintf(" under %d", w.lease)
	}
	return fmt.Sprintf("%s#%d", how, w.n)
}

// An attempt names a question by the epoch in which it was asked, and the write that it
// is about. There is at most one open question.
type attempt struct{ epoch, n int }

// An input is an event that the machine reacts to.
//
//sumtype:decl
type input interface{ input() }

type (
	leave      struct{}                  // commanded, or the actor was stopped
	heard      struct{ session.Event }   // an event of the session
	read       struct{ session.Reading } // answers follow, any number of times
	unfollowed struct{ err error }       // the last answer to follow
	submit     struct{ write }           // commanded; its reply gets exactly one answer, unless forget takes the write back
	forget     struct {                  // commanded: take a write back, if its value was not sent
		what  actors.Reply[error] // the reply of the write, which identifies it
		reply actors.Reply[bool]  // gets true if the write was taken back
	}
	answered struct { // answers mark, put and ensure
		attempt
		step
		err error
	}
	withdrawn struct{} // answers withdraw
)

func (leave) input()      {}
func (heard) input()      {}
func (read) input()       {}
func (unfollowed) input() {}
func (submit) input()     {}
func (forget) input()     {}
func (answered) input()   {}
func (withdrawn) input()  {}

// An effect asks the performer for one thing. Effects that name an attempt are answered by one
// input.
//
//sumtype:decl
type effect interface{ effect() }

type (
	follow   struct{} // the node, through all sessions; answered by any number of read, and by unfollowed
	unfollow struct{}
	mark     struct{ attempt } // create our marker, unless there is one
	put      struct {          // write the value in the epoch, once or not at all
		attempt
		write
	}
	ensure   struct{ attempt } // make the directory of the value
	withdraw struct{}          // remove our marker
	answer   struct {          // give a write its reply; is not answered
		reply actors.Reply[error]
		err   error
	}
	confirm struct { // give forget its reply; is not answered
		reply actors.Reply[bool]
		done  bool
	}
)

func (follow) effect()   {}
func (unfollow) effect() {}
func (mark) effect()     {}
func (put) effect()      {}
func (ensure) effect()   {}
func (withdraw) effect() {}
func (answer) effect()   {}
func (confirm) effect()  {}

// effects accumulates the effects of one step.
type effects = actors.Effects[effect, Event]

// errConflict is an outcome of a write for which package session has no error.
var errConflict = errors.New("the node has changed since it was read")

// A view is the handle's knowledge of the node, and its last event.
type view[T any] struct {
	zxid   int64         // of the newest reading of the present follow; 0 before, and never falls meanwhile
	told   bool          // set by the first reading; while clear, no event was emitted
	stat   *session.Stat // of the newest value that was emitted, or was invalid; nil while the node does not exist
	theirs error         // set while the node belongs to another recipe: nothing is written then

	good    bool  // set by the first value that decodes; never cleared
	value   T     // the newest value that has decoded; set with good
	version int32 // of the node with that value
}

// A machine is one handle: a view of the value, and a queue of writes. One of them is
// under way at a time, so that no write overtakes another. After every step:
//
//   - A step other than idle has one open question, which asked names.
//   - In the step writing, the first write of the queue is the write that was asked about.
type machine[T any] struct {
	codec watch.Codec[T] // constant
	phase phase
	err   error // set when closing begins; nil if a caller asked
	view[T]

	// The session.
	epoch  int  // set by Connected, 0 after its end
	up     bool // set while the session has a connection; while clear, nothing is sent
	lapsed bool // set by Lapsed, cleared by the next connection: the end waits for nothing
	over   bool // set by Closed: no session follows

	// The writes.
	queue []write // oldest first; replaced, never written to
	n     int     // the number of the newest write
	step  step    // the open question, about the first write; kept when the session ends, until it is answered
	asked attempt // named by that question; set with step
	marks bool    // set with mark: a marker may stand, and is removed in the end; cleared when the session ends
}

// A turn is a machine during a step, with the accumulator of its effects.
type turn[T any] struct {
	machine[T]
	out *effects
}

// newMachine returns the machine of a handle that has not heard of a session.
func newMachine[T any](codec watch.Codec[T]) machine[T] { return machine[T]{codec: codec} }

// String is canonical: machines with equal strings do the same.
func (m machine[T]) String() string {
	s := fmt.Sprintf("%v(", m.phase)
	switch {
	case m.over:
		s += "over"
	default:
		s += fmt.Sprintf("epoch=%d", m.epoch)
		if m.epoch != 0 && !m.up {
			s += " suspended"
		}
	}
	if m.told {
		s += fmt.Sprintf(" zxid=%d exists=%v", m.zxid, m.exists())
		if m.exists() {
			s += fmt.Sprintf(" mzxid=%d", m.stat.Mzxid)
		}
	}
	if m.theirs != nil {
		s += " theirs"
	}
	if m.good {
		s += fmt.Sprintf(" good=%d", m.version)
	}
	if m.marks {
		s += " marks"
	}
	if m.lapsed {
		s += " lapsed"
	}
	if m.step != idle {
		s += fmt.Sprintf(" %v@%d", m.step, m.asked.epoch)
	}
	if len(m.queue) > 0 {
		s += fmt.Sprintf(" %v", m.queue)
	}
	if m.err != nil {
		s += " err=" + m.err.Error()
	}
	return s + ")"
}

// Ended implements [actors.Machine]. A machine that has ended has answered every command
// so far.
func (m machine[T]) Ended() bool { return m.phase == ended }

// Step implements [actors.Machine]. take enters the input into the state; advance then asks the
// next question. An answer that names another attempt than the open attempt is ignored.
func (m machine[T]) Step(in input, out *effects) machine[T] {
	if m.Ended() {
		return m
	}
	t := turn[T]{machine: m, out: out}
	t.take(in)
	t.advance()
	return t.machine
}

// take enters the input into the state.
func (m *turn[T]) take(in input) {
	switch in := in.(type) {
	case leave:
		m.end(nil)
	case heard:
		m.heard(in.Event)
	case read:
		if m.phase == open {
			m.read(in.Reading)
		}
	case unfollowed:
		switch {
		case m.phase != open:
		case session.Passing(in.err):
			m.zxid = 0 // the next session may read older data: the servers may have been restored from a backup
			m.do(follow{})
		default:
			m.end(in.err)
		}
	case submit:
		m.n++ // never used twice: no answer is mistaken for that to another write
		in.n = m.n
		m.queue = append(slices.Clip(m.queue), in.write)
	case forget:
		m.forget(in)
	case answered:
		// Its session may be over by now. The queue stands still until the answer comes, so that no
		// write overtakes another.
		if m.step == in.step && m.asked == in.attempt {
			m.answered(in)
		}
	case withdrawn:
		if m.phase == leaving {
			m.finish()
		}
	}
}

// heard follows an event of the session.
func (m *turn[T]) heard(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		m.enter(ev.Epoch)
	case session.Suspended:
		m.up = false
	case session.Lapsed:
		m.lapsed = true
	case session.Resumed:
		m.up, m.lapsed = m.epoch != 0, false
	case session.Expired:
		if ev.Epoch == m.epoch {
			m.enter(0)
		}
	case session.Closed:
		m.over = true
		m.enter(0)
		m.end(session.ErrClosed)
	}
}

// enter begins an epoch, or the time without one. Our marker of the epoch before has gone
// with its session.
func (m *turn[T]) enter(epoch int) {
	m.epoch, m.up, m.lapsed, m.marks = epoch, epoch != 0, false, false
}

// do asks for an effect, after the earlier effects of the same step.
func (m *turn[T]) do(e effect) { m.out.Do = append(m.out.Do, e) }

// --- the view

// read enters a reading of the node, unless an older one follows a newer in one session. It
// compares zxids, not versions: a node that was deleted and created again has version 0 once more.
func (m *turn[T]) read(r session.Reading) {
	if r.Zxid < m.zxid {
		return
	}
	m.zxid = r.Zxid
	if m.told && client.SameWrite(r.Stat, m.stat) { // the same value was read again, or there is still none
		return
	}
	m.told, m.stat, m.theirs = true, r.Stat, nil
	if r.Stat == nil {
		m.emit(Deleted{}) // also if there was never a node, so that a reader knows that
		return
	}
	value, err := decode(m.codec, r.Data)
	if err != nil {
		m.theirs = own(r.Data)
		m.emit(Invalid{err, r.Stat.Version})
		return
	}
	m.good, m.value, m.version = true, value, r.Stat.Version
	m.emit(Changed[T]{value, r.Stat.Version})
}

// exists reports whether there is a node, as far as is known.
func (v view[T]) exists() bool { return v.stat != nil }

// emit emits an event, after the earlier events of the same step.
func (m *turn[T]) emit(ev Event) { m.out.Emit = append(m.out.Emit, ev) }

// own returns an error if the data is the record of another recipe.
func own(data []byte) error {
	if owner := nodes.Owner(data); owner != "" {
		return fmt.Errorf("the node is %w: it belongs to %s", ErrForeign, owner)
	}
	return nil
}

// decode wraps the error of the codec in [ErrInvalid].
func decode[T any](codec watch.Codec[T], data []byte) (value T, err error) {
	if err = own(data); err == nil {
		value, err = watch.Decode(codec, data)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return value, err
}

// --- the writes

// advance asks the next question, if none is open: about the first write, or for the
// removal of the marker.
func (m *turn[T]) advance() {
	if m.lapsed && (m.phase == closing || m.phase == leaving) {
		m.abandon()
		return
	}
	if m.step != idle || m.phase == leaving || m.phase == ended {
		return
	}
	// No question is open: a queued write was not done.
	if m.phase == closing {
		m.refuse()
		if !m.marks {
			m.finish()
			return
		}
		m.phase = leaving
		m.do(withdraw{})
		return
	}
	for m.theirs != nil && len(m.queue) > 0 {
		m.settle(m.theirs)
	}
	// Without a connection a write stays here: a write that was handed to the session could not be
	// taken back. So does a write before the first reading, which shows whose record the node has.
	if m.epoch == 0 || !m.up || !m.told || len(m.queue) == 0 {
		return
	}
	m.asked, m.step, m.marks = attempt{m.epoch, m.queue[0].n}, marking, true
	m.do(mark{m.asked})
}

// settle gives the first write its reply, and removes it. The question about it is
// closed.
func (m *turn[T]) settle(err error) {
	// The session was closed before the write was sent: this handle counts as closed too.
	if errors.Is(err, session.ErrClosed) && !errors.Is(err, session.ErrUnknownOutcome) {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	m.do(answer{m.queue[0].reply, err})
	m.queue, m.step = m.queue[1:], idle
}

// again closes the question about the first write, which is known not to have been done.
// advance tries it once more.
func (m *turn[T]) again() { m.step = idle }

// give settles the write of a question that was asked before its value was sent. The
// caller may have taken that write back meanwhile.
func (m *turn[T]) give(at attempt, err error) {
	m.again()
	if len(m.queue) > 0 && m.queue[0].n == at.n {
		m.settle(err)
	}
}

// answered follows the answer to the open question.
func (m *turn[T]) answered(in answered) {
	switch in.step {
	case marking:
		m.marked(in)
	case writing:
		m.wrote(in)
	case ensuring:
		m.ensured(in.err)
	case idle:
	}
}

// marked follows the creation of our marker. The write that comes first is sent, which may be
// another than the write that it was created for. A write that waits for a connection can still be
// taken back.
func (m *turn[T]) marked(in answered) {
	m.again()
	switch {
	case session.Passing(in.err):
	case in.err != nil:
		m.give(in.attempt, in.err)
	case m.theirs == nil && in.epoch == m.epoch && m.up && m.phase == open && len(m.queue) > 0:
		m.step, m.asked.n = writing, m.queue[0].n
		m.do(put{m.asked, m.queue[0]})
	}
}

// wrote follows the outcome of a write.
func (m *turn[T]) wrote(in answered) {
	w := m.queue[0]
	switch err := in.err; {
	case err == nil, session.InDoubt(err):
		m.settle(err)
	case errors.Is(err, session.ErrLapsed) && !w.always:
		m.settle(errConflict) // the value may be another by now
	case session.Passing(err):
		m.again() // it was not sent before its session ended
	case errors.Is(err, session.ErrNoNode) && w.create: // the parent is missing
		m.step = ensuring
		m.do(ensure{in.attempt})
	case errors.Is(err, session.ErrNoNode) && w.always, errors.Is(err, session.ErrNodeExists) && w.always:
		// The node came or went: try the other way.
		w.create = !w.create
		m.queue = slices.Concat([]write{w}, m.queue[1:])
		m.again()
	case errors.Is(err, session.ErrNoNode), errors.Is(err, session.ErrNodeExists), errors.Is(err, session.ErrBadVersion):
		m.settle(errConflict) // Update reads again
	default:
		m.settle(err)
	}
}

// ensured follows the making of a directory. The write starts again with its first
// question.
func (m *turn[T]) ensured(err error) {
	if err != nil && !session.Passing(err) {
		m.give(m.asked, err)
		return
	}
	m.again()
}

// forget takes a write back, unless its value may have been sent. A question about its
// marker or a directory goes on, and means nothing then.
func (m *turn[T]) forget(in forget) {
	for i, w := range m.queue {
		if w.reply == in.what && (i > 0 || m.step != writing) {
			m.queue = slices.Concat(m.queue[:i], m.queue[i+1:])
			m.do(confirm{in.reply, true})
			return
		}
	}
	m.do(confirm{in.reply, false})
}

// --- the end

// end begins to close: no write is accepted, and the one under way is still answered. At
// the end of the sessions nothing is waited for.
func (m *turn[T]) end(err error) {
	if m.phase == open {
		m.phase, m.err = closing, err
		m.do(unfollow{}) // readings on their way are ignored
	} else if m.phase == leaving && m.over {
		m.finish()
	}
}

// abandon ends a handle while the servers are out of reach: the session removes its marker when it
// has a connection.
func (m *turn[T]) abandon() {
	if m.step == writing {
		m.settle(fmt.Errorf("%w: %w", session.ErrUnknownOutcome, m.refusal()))
	}
	if m.phase == closing && m.marks {
		m.do(withdraw{})
	}
	m.finish()
}

// refuse answers the writes that have not been sent, and will not be.
func (m *turn[T]) refuse() {
	for _, w := range m.queue {
		m.do(answer{w.reply, m.refusal()})
	}
	m.queue = nil
}

// refusal returns the error of a write that comes too late.
func (m *turn[T]) refusal() error { return client.Because(ErrClosed, m.err) }

// finish emits the last event.
func (m *turn[T]) finish() {
	m.refuse()
	m.phase = ended
	m.emit(Closed{m.err})
}
