package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// This file is the whole protocol, as a pure function: no goroutines, no channels, no
// clock, no I/O. The performer of its effects is in config.go.
//
// A handle follows the node, and performs its writes one after the other. A write is one
// transaction: it writes the number of the write to our marker, an ephemeral node, and
// then the value. If the reply is lost, the marker says whether the write was done. The
// steps of the first write in the queue:
//
//	       a connection           the marker stands          done, or refused
//	idle ───────────────► marking ────────► idle ─► writing ────────────────► answered
//	  ▲                      │                       │  │  ▲
//	  │          no directory│           no directory│  │  │ the marker is unchanged:
//	  │                      ▼                       │  │  │ not done, sent again
//	  └────────────────── ensuring ◄─────────────────┘  ▼  │
//	                                    reply lost ► looking ─► done, or unknown
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
	marking              // marked: our marker is being created
	writing              // wrote: the transaction is on its way
	looking              // looked: the marker is being read, to learn what became of the transaction
	ensuring             // ensured: a directory is being made, for markers or for the value
)

func (s step) String() string {
	return [...]string{"idle", "marking", "writing", "looking", "ensuring"}[s]
}

// A write is a command to store data in the node.
type write struct {
	data    []byte
	version int32 // the version that the node must have, unless create or always is set
	create  bool  // set if no node must exist; toggled by a refusal if always is set
	always  bool  // set if the write replaces any value: create is only the guess that is tried next
	reply   actors.Reply[error]
	n       int // numbers the writes of this handle, from 1; the marker has the newest that was done
}

func (w write) String() string {
	how := "set"
	if !w.always {
		how = fmt.Sprintf("update=%d", w.version)
	}
	if w.create {
		how += "+"
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
	answered struct { // answers mark, put, look and ensure
		attempt
		step
		err    error
		marker bool  // after writing: set if the server refused the operation on the marker
		exists bool  // after looking: whether the marker does
		tells  int   // after looking: the number of the write that the marker tells; 0 if it is none of ours
		seen   int32 // after writing and looking: the version of the marker
	}
	withdrawn struct{ epoch int } // answers withdraw
)

func (leave) input()      {}
func (heard) input()      {}
func (read) input()       {}
func (unfollowed) input() {}
func (submit) input()     {}
func (forget) input()     {}
func (answered) input()   {}
func (withdrawn) input()  {}

// An effect asks the performer for one thing. Those that name an attempt are answered by
// one input.
//
//sumtype:decl
type effect interface{ effect() }

type (
	follow   struct{} // the node, through all sessions; answered by any number of read, and by unfollowed
	unfollow struct{}
	mark     struct{ attempt } // create our marker: no write is sent before it is known to stand
	put      struct {          // in one transaction: the marker first, then the value
		attempt
		write
		seen int32 // the marker's version: only one of two transactions that name the same version can be done
	}
	look   struct{ attempt } // read the marker
	ensure struct {          // make a directory: for markers, or the parent of the value
		attempt
		markers bool
	}
	withdraw struct{ epoch int } // remove our marker, until that is confirmed or the epoch has ended
	answer   struct {            // give a write its reply; is not answered
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
func (look) effect()     {}
func (ensure) effect()   {}
func (withdraw) effect() {}
func (answer) effect()   {}
func (confirm) effect()  {}

// effects accumulates what one step asks for.
type effects = actors.Effects[effect, Event]

// The outcomes of a write for which package session has no error.
var (
	errConflict = errors.New("the node has changed since it was read")
	errMarker   = errors.New("our marker was deleted or changed by another client")
)

// A view is the handle's knowledge of the node, and its last event.
type view[T any] struct {
	zxid  int64 // of the newest reading; it never goes back
	told  bool  // set by the first reading; while clear, no event was emitted
	mzxid int64 // of the newest value that was emitted, or was invalid; 0 while the node does not exist

	good    bool  // set by the first value that decodes; never cleared
	value   T     // the newest value that has decoded; set with good
	version int32 // of the node with that value
}

// A machine is one handle: a view of the value, and a queue of writes. One of them is
// under way at a time, because the marker can tell of no more. After every step:
//
//   - A step other than idle has one open question, which asked names.
//   - In the steps writing and looking, the first write of the queue is the write that was asked about.
type machine[T any] struct {
	codec watch.Codec[T] // constant
	phase phase
	err   error // set when closing begins; nil if a caller asked
	view[T]

	// The session.
	epoch int  // set by Connected, 0 after its end
	up    bool // set while the session has a connection; while clear, nothing is sent
	over  bool // set by Closed: no session follows

	// The writes.
	queue   []write // oldest first; replaced, never written to
	n       int     // the number of the newest write
	step    step    // the open question, about the first write; kept when the session ends, until it is answered
	asked   attempt // named by that question; set with step
	doubted bool    // set when a reply to a transaction of the first write was lost; cleared with the write

	// Our marker in this epoch. A session without a marker begins with none of these set.
	touched bool  // set when the marker may exist: then it is withdrawn in the end
	stands  bool  // set when it is known to stand, cleared when it is known to be gone
	seen    int32 // its version, as far as is known: 0 when it is created, and then as each answer says
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
		s += fmt.Sprintf(" zxid=%d exists=%v mzxid=%d", m.zxid, m.mzxid != 0, m.mzxid)
	}
	if m.good {
		s += fmt.Sprintf(" good=%d", m.version)
	}
	switch {
	case m.stands:
		s += fmt.Sprintf(" marker=%d", m.seen)
	case m.touched:
		s += " marker?"
	}
	if m.step != idle {
		s += fmt.Sprintf(" %v@%d", m.step, m.asked.epoch)
	}
	if len(m.queue) > 0 {
		if m.doubted {
			s += " doubted"
		}
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

// Step implements [actors.Machine]. take enters the input into the state; advance then
// asks the next question. An answer that names another attempt than the open one is
// ignored.
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
			m.do(follow{})
		default:
			m.end(in.err)
		}
	case submit:
		// Numbers are never used twice, so that the marker is not mistaken for that of
		// another write.
		m.n++
		in.n = m.n
		m.queue = append(slices.Clip(m.queue), in.write)
	case forget:
		m.forget(in)
	case answered:
		// Its session may be over by now. The queue stands still until the answer comes, so that no write overtakes another.
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
	case session.Resumed:
		m.up = m.epoch != 0
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
	m.epoch, m.up = epoch, epoch != 0
	m.touched, m.stands, m.seen = false, false, 0
}

// do asks for an effect, after those of the same step.
func (m *turn[T]) do(e effect) { m.out.Do = append(m.out.Do, e) }

// --- the view

// read enters a reading of the node, unless an older one follows a newer. It compares
// zxids, not versions: a node that was deleted and created again has version 0 once more.
func (m *turn[T]) read(r session.Reading) {
	if r.Zxid < m.zxid {
		return
	}
	m.zxid = r.Zxid
	mzxid := int64(0)
	if r.Stat != nil {
		mzxid = r.Stat.Mzxid
	}
	if m.told && mzxid == m.mzxid { // the same value was read again, or there is still none
		return
	}
	m.told, m.mzxid = true, mzxid
	if r.Stat == nil {
		m.emit(Deleted{}) // also if there was never a node, so that a reader knows that
		return
	}
	value, err := decode(m.codec, r.Data)
	if err != nil {
		m.emit(Invalid{err, r.Stat.Version})
		return
	}
	m.good, m.value, m.version = true, value, r.Stat.Version
	m.emit(Changed[T]{value, r.Stat.Version})
}

// emit emits an event, after those of the same step.
func (m *turn[T]) emit(ev Event) { m.out.Emit = append(m.out.Emit, ev) }

// decode wraps the error of the codec in [ErrInvalid].
func decode[T any](codec watch.Codec[T], data []byte) (T, error) {
	value, err := watch.Decode(codec, data)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return value, err
}

// --- the writes

// advance asks the next question, if none is open: about the first write, or for the
// removal of the marker.
func (m *turn[T]) advance() {
	if m.step != idle || m.phase == leaving || m.phase == ended {
		return
	}
	// No question is open: what is queued was not done.
	if m.phase == closing {
		m.refuse()
		if !m.touched {
			m.finish()
			return
		}
		m.phase = leaving
		m.do(withdraw{m.epoch})
		return
	}
	// Without a connection a write stays here: one that was handed to the session could not be
	// taken back.
	if m.epoch == 0 || !m.up || len(m.queue) == 0 {
		return
	}
	m.asked = attempt{m.epoch, m.queue[0].n}
	if !m.stands { // the first write of this epoch
		m.step = marking
		m.do(mark{m.asked})
		return
	}
	m.step = writing
	m.do(put{m.asked, m.queue[0], m.seen})
}

// settle gives the first write its reply, and removes it. The question about it is
// closed.
func (m *turn[T]) settle(err error) {
	// The session was closed before the write was sent: this handle counts as closed too.
	if errors.Is(err, session.ErrClosed) && !errors.Is(err, session.ErrUnknownOutcome) {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	m.do(answer{m.queue[0].reply, err})
	m.queue, m.step, m.doubted = m.queue[1:], idle, false
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
	case looking:
		m.looked(in)
	case ensuring:
		m.ensured(in.err)
	case idle:
	}
}

// marked follows the creation of our marker. A write is sent only once the marker is
// known to stand: else a missing marker would not prove that the write was not done.
func (m *turn[T]) marked(in answered) {
	present := in.epoch == m.epoch
	switch err := in.err; {
	case err == nil, errors.Is(err, session.ErrNodeExists): // created by an earlier attempt, whose reply was lost
		if present {
			m.touched, m.stands, m.seen = true, true, 0
		}
		m.again()
	case session.Passing(err):
		m.touched = m.touched || present && session.InDoubt(err)
		m.again()
	case errors.Is(err, session.ErrNoNode):
		m.step = ensuring
		m.do(ensure{in.attempt, true})
	default:
		m.give(in.attempt, err)
	}
}

// wrote follows the answer to a transaction. A refusal says which operation: that on the
// marker, or that on the value.
func (m *turn[T]) wrote(in answered) {
	w := m.queue[0]
	if in.epoch == m.epoch && in.err == nil {
		m.seen = in.seen
	}
	switch err := in.err; {
	case err == nil:
		m.settle(nil)
	case session.InDoubt(err):
		if !errors.Is(err, session.ErrUnknownOutcome) {
			err = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, err)
		}
		m.doubted = true
		m.doubt(in.attempt, err)
	case session.Passing(err):
		m.again() // the session has not sent it
	case in.marker:
		m.moved(in)
	case errors.Is(err, session.ErrNoNode) && w.create: // the parent is missing
		m.step = ensuring
		m.do(ensure{in.attempt, false})
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

// moved follows a transaction that was refused because of our marker. If no reply was
// lost before, the write was not done. Otherwise an attempt in doubt may have changed the
// marker.
func (m *turn[T]) moved(in answered) {
	switch {
	case in.epoch != m.epoch && !m.doubted:
		m.again() // the marker went with its session
	case errors.Is(in.err, session.ErrNoNode) && !m.doubted:
		m.stands = false // another client has deleted it: create it again
		m.again()
	case errors.Is(in.err, session.ErrNoNode), errors.Is(in.err, session.ErrBadVersion):
		// The marker tells whether an attempt in doubt was done.
		m.doubt(in.attempt, fmt.Errorf("%w: %w", session.ErrUnknownOutcome, in.err))
	default:
		m.settle(in.err)
	}
}

// doubt reads the marker to learn what became of a write whose reply was lost. In another
// epoch that marker is gone, and the outcome stays unknown.
func (m *turn[T]) doubt(at attempt, err error) {
	if at.epoch != m.epoch || client.Over(err) {
		m.settle(err)
		return
	}
	m.step = looking
	m.do(look{at})
}

// looked settles a write whose reply was lost. A marker with its number proves that it
// was done, and an unchanged marker that it was not: the transaction that is sent again
// excludes the earlier one. A marker that is gone, or that another client has changed,
// proves nothing.
func (m *turn[T]) looked(in answered) {
	switch {
	case in.err == nil && in.exists && in.tells == in.n: // done
		if in.epoch == m.epoch {
			m.seen = in.seen
		}
		m.settle(nil)
	case in.epoch != m.epoch:
		m.settle(fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrExpired))
	case session.Passing(in.err) && !client.Over(in.err):
		m.do(look{in.attempt})
	case in.err != nil:
		m.settle(fmt.Errorf("%w: %w", session.ErrUnknownOutcome, in.err))
	case in.exists && in.seen == m.seen: // not done
		m.again()
	default: // it was changed, but not by this handle
		m.stands, m.seen = in.exists, in.seen
		m.settle(fmt.Errorf("%w: %w", session.ErrUnknownOutcome, errMarker))
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
	sent := m.step == writing || m.step == looking
	for i, w := range m.queue {
		if w.reply == in.what && (i > 0 || !sent) {
			m.queue = slices.Concat(m.queue[:i], m.queue[i+1:])
			m.doubted = m.doubted && i > 0
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
