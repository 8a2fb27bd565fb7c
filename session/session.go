package session

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session/internal/order"
)

// A Session talks to ZooKeeper through one session after another: when one is
// lost, the next is established by itself. It is safe for concurrent use, and
// must be closed.
type Session struct {
	*core

	gone    chan struct{} // closed when no goroutine is left
	present atomic.Pointer[present]
	parent  *Session // see Sibling
	beside  map[*Session]struct{}
	stopped atomic.Bool // no goroutine of the session is left

	// These belong to the loop.
	machine     machine
	since       Event // connected
	subscribers map[*subscriber]struct{}

	localMu sync.Mutex
	locals  map[any]any // what recipes keep, see Local
}

// A subscriber receives every event, in the session's order.
type subscriber struct {
	session *Session
	// tell returns a channel that is closed when the subscriber has acted on
	// the event, or nil.
	tell func(Event) (settled <-chan struct{})
	// readable, if not nil, is called when a read-only server answers reads, or if it does already.
	readable func()
	// end, if not nil, is called when the session has ended.
	end func()
	// over means that it was cancelled, perhaps before it began.
	over bool
}

func (sub *subscriber) begin()  { sub.session.order.PutStep((*subscribing)(sub)) }
func (sub *subscriber) cancel() { sub.session.order.PutStep((*unsubscribing)(sub)) }

// The steps with which a subscriber begins and ends.
type (
	subscribing   subscriber
	unsubscribing subscriber
)

func (s *subscribing) Run()   { s.session.subscribe((*subscriber)(s)) }
func (s *unsubscribing) Run() { s.session.unsubscribe((*subscriber)(s)) }

// newSession begins to dial. The loop is not started.
func newSession(addresses []string, o Options) *Session {
	s := &Session{
		core: newCore(addresses, o), gone: make(chan struct{}),
		subscribers: make(map[*subscriber]struct{}), machine: machine{epoch: 1},
	}
	s.order = order.New(s.checkDeadline) // nothing is told after the deadline as if it were before
	s.tell = func(in input) { s.order.Put(func() { s.step(in) }) }
	s.readable = s.announceReadable
	s.opts.Logger = s.identify(o.Logger)
	s.present.Store(&present{lost: time.Now()})
	s.begin(1)
	return s
}

// Close ends the session on the server, so that its ephemeral nodes go at once. It waits until
// that is confirmed, at most for [Options.CloseTimeout] and until the session's deadline. Then
// no goroutine of the session is left. What is held through it is lost before the server
// learns of it. It may be called any number of times.
func (s *Session) Close() {
	s.mu.Lock()
	select {
	case <-s.closing:
	default:
		close(s.closing)
		s.tell(shut{})
	}
	var siblings sync.WaitGroup
	for sibling := range s.beside {
		siblings.Go(sibling.Close)
	}
	s.mu.Unlock()
	<-s.gone
	siblings.Wait()
	if s.parent != nil {
		s.parent.mu.Lock()
		defer s.parent.mu.Unlock()
		delete(s.parent.beside, s)
	}
}

// State returns the newest event, which may be [Resumed]; nil before the first [Connected], see [Start].
func (s *Session) State() Event {
	return s.present.Load().event
}

// ReadOnly reports whether the blocking reads of the session are answered by a read-only server:
// see [Options.ReadOnly].
func (s *Session) ReadOnly() bool {
	e := s.newestEpoch()
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reading != nil
}

// ID returns the id of the newest session that was established, which servers and
// other clients know it by.
func (s *Session) ID() int64 { return s.id.Load() }

// Events returns a subscription of its own to the events of the session:
//
//	(Connected (Suspended Resumed)* Suspended? Expired)* (Connected (Suspended Resumed)* Suspended?)? Closed
//
// It starts with the present state: with Connected of the present epoch, and Suspended behind it
// while the session is suspended; with Closed after the end; and while there is no epoch, before
// the first Connected and after Expired, with nothing. It loses nothing however slowly it is read:
// only what a reader has not taken by the time that Close returns is discarded, but
// for Closed. The channel is closed after Closed, or when ctx ends: receive with
// "ev, ok := <-events", and set the channel to nil when ok is false. A select over a closed
// channel spins. If ctx is nil, the channel is closed only after Closed.
func (s *Session) Events(ctx context.Context) <-chan Event {
	stream := actors.NewStream[Event]("session events", nil)
	sub := &subscriber{session: s, tell: func(ev Event) <-chan struct{} {
		if _, last := ev.(Closed); last {
			stream.End(ev)
		} else {
			stream.Put(ev)
		}
		return nil
	}}
	stop := func() bool { return true }
	if ctx != nil {
		stop = context.AfterFunc(ctx, func() {
			sub.cancel()
			stream.Close()
		})
	}
	sub.end = func() {
		stop()
		stream.Close()
	}
	sub.begin()
	return stream.Events()
}

// Subscribe has every event of the session told, beginning with the present state,
// until the subscription is cancelled. If tell returns a channel, the session waits
// before it ends itself on the server until that is closed, at most for
// [Options.CloseTimeout].
func (s *Session) Subscribe(tell func(Event) (settled <-chan struct{})) (cancel func()) {
	sub := &subscriber{session: s, tell: tell}
	sub.begin()
	return sub.cancel
}

// String describes the session in one short line: its id and its newest event.
func (s *Session) String() string {
	ev := s.State()
	if ev == nil {
		return "session: not connected yet"
	}
	return fmt.Sprintf("session %#x: %v", s.ID(), ev)
}

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (s *Session) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// loop runs the steps that callers have put, and watches the deadline and the connection, until
// no goroutine of the session is left. Everything that touches the session's state is
// done in its order, here or by the goroutine that reads, one after the other.
func (s *Session) loop() {
	defer close(s.gone)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for !s.stopped.Load() {
		select {
		case <-s.order.Ready():
			s.order.Run()
		case <-s.wake:
		case <-timer.C:
		}
		timer.Reset(max(s.tend(), time.Millisecond))
	}
	s.order.End()
}

// tend looks after the deadline and the connection, and returns for how long they can
// be left alone.
func (s *Session) tend() time.Duration {
	e := s.newestEpoch()
	next := time.Hour // there will be something to do before
	if e == nil {
		return next
	}
	now := s.clock.now()
	if deadline := time.Duration(e.deadline.Load()); deadline != 0 {
		if next = deadline - now; next <= 0 {
			s.order.Put(func() {}) // which looks at the deadline
			return time.Hour
		}
	}
	e.mu.Lock()
	l, failed := e.current, false
	if e.id != 0 {
		next = min(next, e.terms().Heartbeat) // timers stand still while the machine sleeps
	}
	if l != nil && l.phase != phaseFailed {
		left, silent := l.check(now)
		next = min(next, left)
		failed = silent != nil && l.condemn(silent) // before an answer can come
	}
	e.mu.Unlock()
	if failed {
		l.cut()
	}
	return next
}

// checkDeadline counts the session as lost when its time is over, whatever has been
// heard from the server.
func (s *Session) checkDeadline() {
	if deadline := s.epoch.deadline.Load(); deadline != 0 && int64(s.clock.now()) >= deadline {
		s.step(overdue{s.epoch.number})
	}
}

func (s *Session) step(in input) {
	var e effects
	s.machine = s.machine.Step(in, &e)
	var settled []<-chan struct{}
	for _, ev := range e.Emit {
		settled = append(settled, s.announce(ev)...)
	}
	var tell func()
	for _, do := range e.Do {
		switch do := do.(type) {
		case dial:
			s.begin(do.epoch)
		case retire:
			tell = s.retire()
		case part:
			s.part(settled)
		}
	}
	if tell != nil {
		tell() // now that there is another epoch to be asked
	}
}

// begin starts an epoch.
func (s *Session) begin(number int) {
	e := newEpoch(s.core, number)
	start := e.newClient()
	s.epoch = e
	s.mu.Lock()
	s.newest = e
	s.mu.Unlock()
	start()
}

// retire ends the present epoch, and returns what notifies the subscribers to its nodes.
func (s *Session) retire() (tell func()) {
	why := ErrExpired
	if s.machine.Ended() {
		why = ErrClosed
		s.mu.Lock()
		s.newest = nil
		s.mu.Unlock()
	}
	tell = s.forgetWatches(s.epoch, why)
	s.epoch.end(why)
	if s.machine.Ended() {
		go func() {
			s.workers.Wait()
			s.order.Put(s.stop)
		}()
	}
	return tell
}

// stop ends the loop and the streams of events.
func (s *Session) stop() {
	s.stopped.Store(true)
	s.poke()
	for sub := range s.subscribers {
		if sub.end != nil {
			sub.end()
		}
	}
	clear(s.subscribers)
}

// part tells the server that the session ends, after its holders have stopped to rely on
// it, or its deadline has passed.
func (s *Session) part(settled []<-chan struct{}) {
	e := s.epoch
	s.workers.Go(func() {
		begun := time.Now()
		timer := time.NewTimer(s.opts.CloseTimeout)
		defer timer.Stop()
		for _, done := range settled {
			select {
			case <-done:
			case <-timer.C:
				timer.Reset(0)
			case <-e.parted:
			}
		}
		e.part(s.opts.CloseTimeout - time.Since(begun))
		s.tell(parted{})
	})
}

// announce reports an event to all subscribers, and then to the observer and the log, which
// may be slow.
func (s *Session) announce(ev Event) []<-chan struct{} {
	if c, ok := ev.(Connected); ok {
		s.connected = c
		s.id.Store(c.ID)
		s.epoch.announced.Store(true)
	}
	if r, ok := ev.(Resumed); ok {
		s.connected.Server = r.Server
	}
	s.since = s.connected
	s.announced(ev)
	var settled []<-chan struct{}
	for sub := range s.subscribers {
		if done := sub.tell(ev); done != nil {
			settled = append(settled, done)
		}
	}
	s.observer().State(ev)
	return settled
}

// subscribe tells a new subscriber the present state.
func (s *Session) subscribe(sub *subscriber) {
	if sub.over {
		return
	}
	if !s.stopped.Load() {
		s.subscribers[sub] = struct{}{}
	}
	if sub.readable != nil && s.ReadOnly() {
		sub.readable()
	}
	switch s.machine.state {
	case stateConnected:
		sub.tell(s.since)
	case stateSuspended:
		sub.tell(s.since)
		if ev := s.State(); ev != nil {
			sub.tell(ev)
		}
	case stateClosing, stateClosed:
		sub.tell(Closed{})
	case stateConnecting:
	}
	if s.stopped.Load() && sub.end != nil {
		sub.end()
	}
}

// announceReadable is called when a read-only server begins to answer reads.
func (s *Session) announceReadable() {
	if !s.ReadOnly() {
		return // no longer
	}
	for sub := range s.subscribers {
		if sub.readable != nil {
			sub.readable()
		}
	}
}

func (s *Session) unsubscribe(sub *subscriber) {
	sub.over = true
	delete(s.subscribers, sub)
}

// A present is the state of a session, which readers see without waiting.
type present struct {
	event Event     // the newest; nil before the first
	lost  time.Time // set when the connection was lost or the session started; zero while it is connected
}

// announced notes that an event is the newest.
func (s *Session) announced(ev Event) {
	next := &present{event: ev}
	switch ev.(type) {
	case Connected, Resumed:
	case Suspended, Expired, Closed:
		if next.lost = s.present.Load().lost; next.lost.IsZero() {
			next.lost = time.Now()
		}
	}
	s.present.Store(next)
}
