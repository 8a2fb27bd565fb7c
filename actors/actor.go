package actors

import (
	"errors"
	"reflect"
	"sync"
)

// ErrEnded means that the machine has ended and takes no more inputs.
var ErrEnded = errors.New("actors: ended")

// A Machine is a state machine as a value.
type Machine[M, In, Do, Ev any] interface {
	// Step returns the machine that follows when in happens, and appends its effects and events to
	// out. It modifies nothing else, and keeps no part of out.
	Step(in In, out *Effects[Do, Ev]) M

	// Ended reports whether the machine will never again act on an input.
	Ended() bool
}

// Effects are the results of a step: effects to perform and events to emit, each in order. The next
// step reuses the memory of both slices.
type Effects[Do, Ev any] struct {
	Do   []Do
	Emit []Ev
}

// A Role describes an actor, except for its machine. Its functions run on the goroutine of the
// actor, or as Inline says. They may run before [Start] has returned, and must neither block nor
// close their own actor.
type Role[M, In, Do, Ev any] struct {
	// Name labels the goroutine in profiles, as "actor".
	Name string

	// Begin is performed before the first input.
	Begin []Do

	// Perform starts one effect and returns at once. It may call answer at any time and on any
	// goroutine, also before it returns. answer never blocks, and does nothing once the machine has
	// ended. Effects are started in the order in which the machine appended them.
	Perform func(do Do, answer func(In))

	// Observe, if not nil, is called with the machine and the events of every step, before its
	// effects are performed and before its events can be read. A handle closes its Done channel
	// here. Observe must not keep events.
	Observe func(m M, events []Ev)

	// Inline, if not nil, reports whether an input is stepped by the goroutine that calls answer,
	// if the actor has no goroutine of its own. Then answer returns after the step and its effects,
	// and no goroutine has to be started. Do not answer while holding a lock that a function of the
	// role acquires. Use Inline for answers that lead to little work: their caller waits for it.
	Inline func(In) bool

	// Stop is the input that asks the machine to end.
	Stop In

	// Merge, if not nil, may fold next into last, the newest event that no
	// reader has received yet.
	Merge func(last, next Ev) (merged Ev, ok bool)

	// Cancel, if not nil, reports whether next undoes last, the newest event that no reader has
	// received yet. If so, neither is delivered. Cancel is called only after Merge has declined.
	// While there is no reader, it is called for each event that has stayed, and next is delivered
	// if no other stays.
	Cancel func(last, next Ev) bool

	// Keep, if not nil, reports whether earlier stays before next, the newest event, while events
	// have no reader. It is called for each event that has stayed, so it must let a bounded number
	// stay: for example one of each type, until the next of that type. Without Keep only the newest
	// event stays. With [StartKept] every event does.
	Keep func(earlier, next Ev) bool
}

// An Actor is a running machine. It is safe for concurrent use, and must be
// closed.
type Actor[In, Ev any] struct {
	inbox mailbox[In]
	stop  In
	ended signal // raised when the machine has ended
	gone  signal // raised when there will be no goroutine any more

	mu sync.Mutex
	// Made by Events, with room for one event, so that it needs no goroutine; nil before.
	events chan Ev

	over bool // set when the last event is in out
	out  outbox[Ev]
}

// Start runs m.
func Start[M Machine[M, In, Do, Ev], In, Do, Ev any](m M, role Role[M, In, Do, Ev]) *Actor[In, Ev] {
	return start(m, role, false)
}

// StartKept is [Start], but keeps every event for the reader, also those before the first call of
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

	// Memory that suffices for most actors.
	room struct {
		do     [3]Do
		emit   [2]Ev
		inputs [2][usual]In
		events [1]Ev
	}
}

// run is the goroutine of the actor. It ends when there is nothing to do, and the next input starts
// another: there is at most one. It blocks only while the reader is slower than the events.
func (l *loop[M, In, Do, Ev]) run(begin []Do) {
	if reflect.TypeFor[M]().Size() >= large {
		growLarge()
	} else {
		grow()
	}
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

// answered takes an answer. If it is to be stepped inline and the actor has no goroutine, the
// caller's goroutine becomes the actor's until that step is done. A goroutine of the actor's own
// handles inputs that arrive meanwhile.
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

// A progress says why the goroutine of an actor stopped, and which goroutine goes on.
type progress int

const (
	over  progress = iota // there will be no goroutine any more
	rests                 // the next input begins another
	full                  // the reader is slower than the events
	more                  // there are inputs
)

// endless is the number of batches of inputs that a goroutine of the actor takes: any.
const endless = -1

// advance does all work that needs no waiting. It takes at most the given number of batches of
// inputs.
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

// leave ends the work of a goroutine for the actor. If there is more to do, it starts another.
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

// receive steps the inputs in the mailbox.
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

// Tell hands the machine an input, or returns [ErrEnded] once the machine has ended. The machine
// may still end before it reaches this input: a caller that waits for a consequence also waits for
// [Actor.Ended].
func (a *Actor[In, Ev]) Tell(in In) error {
	if !a.inbox.put(in) {
		return ErrEnded
	}
	return nil
}

// Events returns the channel of events, always the same one. It begins with the newest event before
// the first call, preceded by older events that Keep and Cancel of the [Role] have let stay. The
// last event is always delivered. The channel is closed after it: receive with "ev, ok :=
// <-events", because a select over a closed channel spins.
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

// Stop asks the machine to end, and returns at once. Events that are undelivered when it ends are
// discarded, except for the last one.
func (a *Actor[In, Ev]) Stop() { a.inbox.stop(a.stop) }

// Close asks the machine to end, and waits until it has ended and its goroutine is gone. Events
// that are undelivered by then are discarded, except for the last one. Close may be called any
// number of times.
func (a *Actor[In, Ev]) Close() {
	a.Stop()
	<-a.gone.wait()
}

// large is the size of a machine, in bytes, from which on 8 kB of stack are too small for a step: a
// step copies the machine several times.
const large = 512

// grow makes the stack of the calling goroutine grow to 8 kB, which most actors need for a step. It
// grows once, while it is empty. Without this call it would grow twice in the middle of a step, and
// the runtime would copy the frames of the step each time.
//
//go:noinline
func grow() (least byte) {
	var room [7 << 9]byte // with that the next size, 4 kB, is too small
	for i := 0; i < len(room); i += 1 << 10 {
		least = min(least, room[i])
	}
	return least
}

// growLarge is grow, to 16 kB.
//
//go:noinline
func growLarge() (least byte) {
	var room [15 << 9]byte // with that 8 kB are too small
	for i := 0; i < len(room); i += 1 << 10 {
		least = min(least, room[i])
	}
	return least
}
