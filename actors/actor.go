package actors

import (
	"errors"
	"sync"
)

// ErrEnded means that the machine has ended and takes no more inputs.
var ErrEnded = errors.New("actors: ended")

// A Machine is a state machine as a value.
type Machine[M, In, Do, Ev any] interface {
	// Step returns the machine that follows when in happens, and appends to out
	// what it asks for. It modifies nothing else, and keeps nothing of out.
	Step(in In, out *Effects[Do, Ev]) M

	// Ended reports whether the machine will never again act on an input.
	Ended() bool
}

// Effects gather what a step asks for: things to do, in order, and events to
// emit, in order. The memory of both slices serves the next step too.
type Effects[Do, Ev any] struct {
	Do   []Do
	Emit []Ev
}

// A Role is everything about an actor but its machine. Its functions are
// called on a goroutine of the actor, or as Inline says. They may be called before [Start]
// has returned, and must neither block nor close their own actor.
type Role[M, In, Do, Ev any] struct {
	// Name labels the goroutine in profiles, as "actor".
	Name string

	// Begin is performed before the first input.
	Begin []Do

	// Perform starts one thing and returns at once. The answer may be given at
	// any time and from any goroutine, also by Perform itself; giving it never
	// blocks, and means nothing once the machine has ended. Things are started
	// in the order in which the machine asked for them.
	Perform func(do Do, answer func(In))

	// Observe, if not nil, is called with the machine and the events of every step. It
	// is called before the effects of the step are performed, and before its events can
	// be read. A handle closes its Done channel here. It must not keep events.
	Observe func(m M, events []Ev)

	// Inline, if not nil, reports whether an answer that finds the actor without a goroutine does its
	// work: the machine is stepped, and what it asks for performed, before answer returns. It saves to
	// begin a goroutine for such an answer. Its giver must hold no lock then that a function of the role
	// takes, and is held up by these functions: so it is for answers that lead to little work.
	Inline func(In) bool

	// Stop is the input that asks the machine to end.
	Stop In

	// Merge, if not nil, may fold next into last, the newest event that no
	// reader has received yet.
	Merge func(last, next Ev) (merged Ev, ok bool)

	// Cancel, if not nil, reports whether next undoes last, the newest event that no
	// reader has received yet. Neither of them is delivered then. It is asked only
	// where Merge declined. While events have no reader, it is asked of each that has stayed, and next is delivered if no other stays.
	Cancel func(last, next Ev) bool

	// Keep, if not nil, reports whether earlier stays before next, the newest event, while events have no
	// reader. It is asked of each that has stayed, so what it lets stay has to be bounded: as where a type of
	// events stays until another, or the same, comes. Without Keep only the newest stays. With [StartKept]
	// every event does.
	Keep func(earlier, next Ev) bool
}

// An Actor is a running machine. It is safe for concurrent use, and must be
// closed.
type Actor[In, Ev any] struct {
	inbox mailbox[In]
	stop  In
	ended signal // raised when the machine has ended
	gone  signal // raised when there will be no goroutine any more

	mu     sync.Mutex
	events chan Ev // made by Events, with room for one, so that an event does not need a goroutine; nil before
	over   bool    // set when the last event is in out
	out    outbox[Ev]
}

// Start runs m.
func Start[M Machine[M, In, Do, Ev], In, Do, Ev any](m M, role Role[M, In, Do, Ev]) *Actor[In, Ev] {
	return start(m, role, false)
}

// StartKept is [Start], but every event is kept for the reader, also those before the first call of
// [Actor.Events].
func StartKept[M Machine[M, In, Do, Ev], In, Do, Ev any](m M, role Role[M, In, Do, Ev]) *Actor[In, Ev] {
	return start(m, role, true)
}

func start[M Machine[M, In, Do, Ev], In, Do, Ev any](m M, role Role[M, In, Do, Ev], kept bool) *Actor[In, Ev] {
	l := newLoop(m, role)
	if kept {
		l.actor.Events()
	}
	go l.run(role.Begin)
	return &l.actor
}

// newLoop returns the state of an actor whose first goroutine is about to begin.
func newLoop[M Machine[M, In, Do, Ev], In, Do, Ev any](m M, role Role[M, In, Do, Ev]) *loop[M, In, Do, Ev] {
	l := &loop[M, In, Do, Ev]{
		actor: Actor[In, Ev]{
			stop: role.Stop,
			out:  outbox[Ev]{merge: role.Merge, cancel: role.Cancel, keep: role.Keep},
		},
		name:    role.Name,
		perform: role.Perform,
		observe: role.Observe,
		inline:  role.Inline,
		m:       m,
	}
	a := &l.actor
	l.out = Effects[Do, Ev]{l.room.do[:0], l.room.emit[:0]}
	l.inputs, a.inbox.queue = l.room.inputs[0][:0], l.room.inputs[1][:0]
	a.out.queue = l.room.events[:0]
	l.answer = l.answered
	a.inbox.begin = func() { go l.run(nil) }
	a.inbox.awake = true
	return l
}

// A loop is the state that an actor keeps from one of its goroutines to the next.
type loop[M Machine[M, In, Do, Ev], In, Do, Ev any] struct {
	actor   Actor[In, Ev]
	name    string
	perform func(Do, func(In)) // those of the role
	observe func(M, []Ev)
	inline  func(In) bool
	answer  func(In) // answered

	m       M
	inputs  []In            // empty: memory for the next ones
	out     Effects[Do, Ev] // empty but during a step
	ended   bool            // set after the step that ended the machine
	closing bool            // set by Stop: only the last event is wanted

	// Memory for most actors.
	room struct {
		do     [3]Do
		emit   [2]Ev
		inputs [2][usual]In
		events [1]Ev
	}
}

// run is a goroutine of the actor. It ends when there is nothing to do, and the next input begins another:
// there is one at most. It never blocks but while the reader is slower than the events.
func (l *loop[M, In, Do, Ev]) run(begin []Do) {
	grow()
	a, at := &l.actor, over // if a function of the role calls runtime.Goexit
	defer func() { l.leave(at) }()
	setLabel(l.name)
	for _, do := range begin {
		l.perform(do, l.answer)
	}
	for {
		if progress := l.advance(endless); progress != full {
			at = progress
			return
		}
		ready, next := a.out.next()
		select {
		case ready <- next:
			a.out.pop()
		case <-a.inbox.watch():
			l.receive()
		}
	}
}

// answered takes an answer. If that is to be stepped inline and the actor has no goroutine, that of the caller
// is the one until it is stepped. What comes meanwhile is left to a goroutine of the actor's own.
func (l *loop[M, In, Do, Ev]) answered(in In) {
	if l.inline == nil || !l.inline(in) {
		l.actor.inbox.put(in)
		return
	}
	if _, asleep := l.actor.inbox.queued(in); !asleep {
		return
	}
	at := over
	defer func() { l.leave(at) }()
	at = l.advance(1)
}

// A progress is how far the goroutine of an actor has come.
type progress int

const (
	over  progress = iota // there will be no goroutine any more
	rests                 // the next input begins another
	full                  // the reader is slower than the events
	more                  // there are inputs
)

// endless is for how many batches of inputs a goroutine of the actor takes.
const endless = -1

// advance does what there is to do, without waiting, and takes inputs so many times.
func (l *loop[M, In, Do, Ev]) advance(batches int) progress {
	a := &l.actor
	for {
		if !l.ended && l.m.Ended() {
			l.ended = true
			a.inbox.close()
			a.ended.raise()
		}
		if l.ended && (l.closing || a.out.delivered()) {
			a.finish()
			return over
		}
		ready, next := a.out.next()
		switch {
		case ready == nil && a.inbox.rest():
			return rests
		case ready == nil && batches == 0:
			return more
		case ready == nil:
			batches--
			l.receive()
			continue
		}
		select { // most events find room, so most actors never need the channel of news
		case ready <- next:
			a.out.pop()
		default:
			return full
		}
	}
}

// leave ends the work of a goroutine for the actor, which another goes on with if there is more.
func (l *loop[M, In, Do, Ev]) leave(at progress) {
	switch at {
	case over:
		l.actor.gone.raise()
	case full, more:
		l.actor.inbox.begin()
	case rests:
	}
}

// finish leaves the last event to the reader.
func (a *Actor[In, Ev]) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over = true; a.events != nil {
		a.out.last(a.events)
	}
}

// receive takes what is in the mailbox.
func (l *loop[M, In, Do, Ev]) receive() {
	inputs, wanted, closing := l.actor.inbox.take(l.inputs)
	if l.closing = closing; wanted {
		l.actor.out.ch = l.actor.events // which was made before it was wanted
	}
	for _, in := range inputs {
		if l.m.Ended() {
			break
		}
		l.step(in)
	}
	l.inputs = recycle(inputs)
}

func (l *loop[M, In, Do, Ev]) step(in In) {
	l.m = l.m.Step(in, &l.out)
	if l.observe != nil {
		l.observe(l.m, l.out.Emit)
	}
	for _, do := range l.out.Do {
		l.perform(do, l.answer)
	}
	for _, ev := range l.out.Emit {
		l.actor.out.put(ev)
	}
	l.out.Do, l.out.Emit = recycle(l.out.Do), recycle(l.out.Emit)
	clear(l.room.do[:]) // if they were too short
	clear(l.room.emit[:])
}

// Tell hands the machine an input, or returns [ErrEnded] once the machine has ended.
// The machine may still end before it comes to this input: a caller that waits for a
// consequence waits for [Actor.Ended] too.
func (a *Actor[In, Ev]) Tell(in In) error {
	if !a.inbox.put(in) {
		return ErrEnded
	}
	return nil
}

// Events returns the channel of events, which is always the same one. It begins with the newest
// event before the first call, and with those before it that Keep and Cancel of the [Role] have let stay. The
// last event is always delivered. The channel is closed after it: receive with "ev, ok := <-events",
// because a select over a closed channel spins.
func (a *Actor[In, Ev]) Events() <-chan Ev {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.events == nil {
		a.events = make(chan Ev, 1)
		a.inbox.want()
		if a.over {
			a.out.last(a.events)
		}
	}
	return a.events
}

// Ended returns a channel that is closed when the machine has ended and all its effects
// have been started. It does not depend on a reader of events.
func (a *Actor[In, Ev]) Ended() <-chan struct{} { return a.ended.wait() }

// Stop asks the machine to end, and does not wait until it has. Events
// that are undelivered by then are discarded, but for the last one.
func (a *Actor[In, Ev]) Stop() { a.inbox.stop(a.stop) }

// Close asks the machine to end, and waits until it has and its goroutine is
// gone. Events that are undelivered by then are discarded, but for the last
// one. It may be called any number of times.
func (a *Actor[In, Ev]) Close() {
	a.Stop()
	<-a.gone.wait()
}

// grow has the stack of the calling goroutine grow to 8 kB, which the steps of most actors take: once and while
// it is empty. Otherwise it grows twice, in the middle of a step, and the runtime looks at all frames of that.
//
//go:noinline
func grow() (least byte) {
	var room [7 << 9]byte // with that the next size, 4 kB, is too small
	for i := 0; i < len(room); i += 1 << 10 {
		least = min(least, room[i])
	}
	return least
}
