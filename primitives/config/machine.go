package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// This file is the whole protocol, as a pure function: no goroutines, no
// channels, no clock, no I/O. The performer of its effects is in config.go.

type phase int

const (
	open    phase = iota
	closing       // a write is under way, and may still say what became of it
	leaving       // our marker is being removed
	ended
)

func (p phase) String() string { return [...]string{"open", "closing", "leaving", "ended"}[p] }

// A step is what the first write in the queue waits for.
type step int

const (
	idle     step = iota // a connection, if there is a write at all
	marking              // our marker
	writing              // the answer to its transaction
	looking              // what our marker says about it
	ensuring             // a directory
)

func (s step) String() string {
	return [...]string{"idle", "marking", "writing", "looking", "ensuring"}[s]
}

// A write is what somebody asks for.
type write struct {
	data    []byte
	version int32 // that the node must have
	create  bool  // there must be no node instead
	always  bool  // neither matters: create is only what is tried next
	reply   actors.Reply[error]
	n       int // counts the writes of this handle, from 1
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

// An attempt belongs to an epoch of the session, and is about the n-th write. Every
// answer names it; there is at most one question open about each.
type attempt struct{ epoch, n int }

// An input is something that happened.
//
//sumtype:decl
type input interface{ input() }

type (
	leave      struct{}                  // commanded, or the actor was stopped
	heard      struct{ session.Event }   // what became of the session
	read       struct{ session.Reading } // answers follow, any number of times
	unfollowed struct{ err error }       // its last answer
	submit     struct{ write }           // commanded; its reply gets one answer
	forget     struct {                  // commanded: take it back, if that is still possible
		what  actors.Reply[error]
		reply actors.Reply[bool] // whether it was
	}
	marked struct { // answers mark
		attempt
		err error
	}
	wrote struct { // answers put
		attempt
		err    error
		marker bool  // the error is about the marker
		seen   int32 // the version that the marker has now
	}
	looked struct { // answers look
		attempt
		err    error
		exists bool
		n      int // which write the marker tells of
		seen   int32
	}
	ensured struct { // answers ensure
		attempt
		err error
	}
	withdrawn struct{ epoch int } // answers withdraw
)

func (leave) input()      {}
func (heard) input()      {}
func (read) input()       {}
func (unfollowed) input() {}
func (submit) input()     {}
func (forget) input()     {}
func (marked) input()     {}
func (wrote) input()      {}
func (looked) input()     {}
func (ensured) input()    {}
func (withdrawn) input()  {}

// An effect is something to do about it.
//
//sumtype:decl
type effect interface{ effect() }

type (
	follow   struct{} // the node, in whichever epoch is present
	unfollow struct{}
	mark     struct{ attempt } // make our marker: it must be known to stand before a write relies on it
	put      struct {          // in one transaction: the marker first, then the value
		attempt
		write
		seen int32 // the version of the marker, so that a transaction that was thought lost cannot come after this one
	}
	look   struct{ attempt } // at the marker
	ensure struct {          // that there is a directory: for markers, or for the value
		attempt
		markers bool
	}
	withdraw struct{ epoch int } // our marker, until it is confirmed or the epoch has ended
	answer   struct {
		reply actors.Reply[error]
		err   error
	}
	confirm struct {
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

type effects = actors.Effects[effect, Event]

// What becomes of a write, beside the errors of package session.
var (
	errConflict = errors.New("the node is not what was expected")
	errMarker   = errors.New("our marker was deleted or changed by somebody else")
)

// A view is what is known of the node, and what was told of it.
type view[T any] struct {
	zxid         int64 // of the newest reading that was taken
	told, exists bool
	mzxid        int64 // of what was told, if it exists

	good    bool // there has been a good value
	value   T    // the last good one
	version int32
}

// A machine is one handle: a view of the value, and a queue of writes, of which one is
// under way at a time: our marker can tell of no more.
type machine[T any] struct {
	codec watch.Codec[T]
	phase phase
	err   error // why we end
	view[T]

	epoch   int  // of the present session; 0 if there is none
	up      bool // it has a connection
	over    bool // there will not be another
	queue   []write
	n       int // of the newest write
	step    step
	asked   attempt // what the answer to the open question will name
	doubted bool    // the reply to a transaction of the first write was lost
	touched bool    // our marker may exist in this epoch
	stands  bool    // it does
	seen    int32   // the version that it has
}

// A turn is one step of a machine: what it becomes, and what it asks for.
type turn[T any] struct {
	machine[T]
	out *effects
}

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
		s += fmt.Sprintf(" zxid=%d exists=%v mzxid=%d", m.zxid, m.exists, m.mzxid)
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

// Ended implements [actors.Machine].
func (m machine[T]) Ended() bool { return m.phase == ended }

// Step implements [actors.Machine]. Inputs that mean nothing in the current state are
// ignored: they answer a question nobody asks any more.
func (m machine[T]) Step(in input, out *effects) machine[T] {
	if m.Ended() {
		return m
	}
	t := turn[T]{machine: m, out: out}
	t.take(in)
	t.advance()
	return t.machine
}

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
		m.n++
		in.n = m.n
		m.queue = append(slices.Clip(m.queue), in.write)
	case forget:
		m.forget(in)
	case marked:
		if m.awaits(marking, in.attempt) {
			m.marked(in)
		}
	case wrote:
		if m.awaits(writing, in.attempt) {
			m.wrote(in)
		}
	case looked:
		if m.awaits(looking, in.attempt) {
			m.looked(in)
		}
	case ensured:
		if m.awaits(ensuring, in.attempt) {
			m.ensured(in.err)
		}
	case withdrawn:
		if m.phase == leaving {
			m.finish()
		}
	}
}

// heard follows what became of the session.
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

// enter begins an epoch, in which we have no marker yet.
func (m *turn[T]) enter(epoch int) {
	m.epoch, m.up = epoch, epoch != 0
	m.touched, m.stands, m.seen = false, false, 0
}

func (m *turn[T]) do(e effect) { m.out.Do = append(m.out.Do, e) }

// awaits reports whether an answer is the one that the first write waits for. Its epoch
// may be over meanwhile, but not forgotten: the queue stands still until it comes.
func (m *turn[T]) awaits(s step, a attempt) bool {
	return m.step == s && m.asked == a
}

// --- the view

// read takes what is at the path, unless it is older than what was taken before. It
// compares transactions, not versions: what was made again is another node.
func (m *turn[T]) read(r session.Reading) {
	if r.Zxid < m.zxid {
		return
	}
	m.zxid = r.Zxid
	told, existed := m.told, m.exists
	m.told, m.exists = true, r.Stat != nil
	if r.Stat == nil {
		if !told || existed {
			m.emit(Deleted{})
		}
		m.mzxid = 0
		return
	}
	if existed && m.mzxid == r.Stat.Mzxid {
		return
	}
	m.mzxid = r.Stat.Mzxid
	value, err := decode(m.codec, r.Data)
	if err != nil {
		m.emit(Invalid{err, r.Stat.Version})
		return
	}
	m.good, m.value, m.version = true, value, r.Stat.Version
	m.emit(Changed[T]{value, r.Stat.Version})
}

func (m *turn[T]) emit(ev Event) { m.out.Emit = append(m.out.Emit, ev) }

func decode[T any](codec watch.Codec[T], data []byte) (T, error) {
	value, err := watch.Decode(codec, data)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return value, err
}

// --- the writes

// advance starts what can be started.
func (m *turn[T]) advance() {
	if m.step != idle || m.phase == leaving || m.phase == ended {
		return
	}
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
	// What is handed to a session without a connection cannot be taken back.
	if m.epoch == 0 || !m.up || len(m.queue) == 0 {
		return
	}
	m.asked = attempt{m.epoch, m.queue[0].n}
	if !m.stands {
		m.step = marking
		m.do(mark{m.asked})
		return
	}
	m.step = writing
	m.do(put{m.asked, m.queue[0], m.seen})
}

// settle answers the first write.
func (m *turn[T]) settle(err error) {
	if errors.Is(err, session.ErrClosed) && !errors.Is(err, session.ErrUnknownOutcome) {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	m.do(answer{m.queue[0].reply, err})
	m.queue, m.step, m.doubted = m.queue[1:], idle, false
}

// again tries the first write once more, which is known not to have been done.
func (m *turn[T]) again() { m.step = idle }

// give answers the write that a question was about, whose value has not been sent, unless
// it was taken back meanwhile.
func (m *turn[T]) give(at attempt, err error) {
	m.again()
	if len(m.queue) > 0 && m.queue[0].n == at.n {
		m.settle(err)
	}
}

// marked goes on when our marker is known to stand. Only then can what it says, or
// that it is gone, tell what has become of a write.
func (m *turn[T]) marked(in marked) {
	present := in.epoch == m.epoch
	switch err := in.err; {
	case err == nil, errors.Is(err, session.ErrNodeExists): // one that was thought lost has come
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

func (m *turn[T]) wrote(in wrote) {
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
		m.again() // it was never sent
	case in.marker:
		m.moved(in)
	case errors.Is(err, session.ErrNoNode) && w.create:
		m.step = ensuring
		m.do(ensure{in.attempt, false})
	case errors.Is(err, session.ErrNoNode) && w.always, errors.Is(err, session.ErrNodeExists) && w.always:
		w.create = !w.create
		m.queue = slices.Concat([]write{w}, m.queue[1:])
		m.again()
	case errors.Is(err, session.ErrNoNode), errors.Is(err, session.ErrNodeExists), errors.Is(err, session.ErrBadVersion):
		m.settle(errConflict)
	default:
		m.settle(err)
	}
}

// moved follows a transaction that failed because our marker is not what it was thought
// to be.
func (m *turn[T]) moved(in wrote) {
	switch {
	case in.epoch != m.epoch && !m.doubted:
		m.again() // that marker is of the past
	case errors.Is(in.err, session.ErrNoNode) && !m.doubted:
		m.stands = false // it was deleted by somebody else: make another one
		m.again()
	case errors.Is(in.err, session.ErrNoNode), errors.Is(in.err, session.ErrBadVersion):
		m.doubt(in.attempt, fmt.Errorf("%w: %w", session.ErrUnknownOutcome, in.err)) // one that was thought lost has come
	default:
		m.settle(in.err)
	}
}

// doubt looks what became of a write whose reply was lost, if that can be known.
func (m *turn[T]) doubt(at attempt, err error) {
	if at.epoch != m.epoch || session.Over(err) {
		m.settle(err)
		return
	}
	m.step = looking
	m.do(look{at})
}

// looked settles a write whose reply was lost. It was not done if the marker is as it was
// before; one that is gone, or that somebody else has written to, proves nothing.
func (m *turn[T]) looked(in looked) {
	switch {
	case in.err == nil && in.exists && in.n == in.attempt.n:
		if in.epoch == m.epoch {
			m.seen = in.seen
		}
		m.settle(nil)
	case in.epoch != m.epoch:
		m.settle(fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrExpired))
	case session.Passing(in.err) && !session.Over(in.err):
		m.do(look{in.attempt})
	case in.err != nil:
		m.settle(fmt.Errorf("%w: %w", session.ErrUnknownOutcome, in.err))
	case in.exists && in.seen == m.seen:
		m.again()
	default:
		m.stands, m.seen = in.exists, in.seen
		m.settle(fmt.Errorf("%w: %w", session.ErrUnknownOutcome, errMarker))
	}
}

func (m *turn[T]) ensured(err error) {
	if err != nil && !session.Passing(err) {
		m.give(m.asked, err)
		return
	}
	m.again()
}

// forget takes a write back, unless its value may have been sent.
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

// end begins to close. What is under way may still be answered.
func (m *turn[T]) end(err error) {
	if m.phase == open {
		m.phase, m.err = closing, err
		m.do(unfollow{})
	} else if m.phase == leaving && m.over {
		m.finish()
	}
}

// refuse answers what has not been done and will not be.
func (m *turn[T]) refuse() {
	for _, w := range m.queue {
		m.do(answer{w.reply, m.refusal()})
	}
	m.queue = nil
}

func (m *turn[T]) refusal() error {
	if m.err == nil {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrClosed, m.err)
}

func (m *turn[T]) finish() {
	m.refuse()
	m.phase = ended
	m.emit(Closed{m.err})
}
