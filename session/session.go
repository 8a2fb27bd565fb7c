package session

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session/internal/clock"
	"github.com/zkactors/zkactors/session/internal/conn"
	"github.com/zkactors/zkactors/session/internal/order"
	"github.com/zkactors/zkactors/session/internal/servers"
	"github.com/zkactors/zkactors/session/internal/watches"
	"github.com/zkactors/zkactors/session/internal/workers"
)

// A Session talks to ZooKeeper. It keeps one ZooKeeper session after another: when a session is
// lost, the next is established without the caller. It is safe for concurrent use, and must be
// closed.
type Session struct {
	opts    Options
	encoder // of requests, which converts paths
	conn    conn.Session
	watches *watches.Table
	tidier  tidier

	mu     sync.Mutex
	newest *epoch // takes requests; nil once closed

	id     atomic.Int64
	rooted atomic.Bool // the chroot has been seen

	gone    chan struct{} // closed when no goroutine is left
	present atomic.Pointer[present]
	parent  *Session // see Sibling
	beside  map[*Session]struct{}
	stopped atomic.Bool // no goroutine of the session is left

	// These belong to the order.
	epoch       *epoch // of the machine
	connected   Connected
	machine     machine
	story       []Event       // what describes the present, while there is a session: from Connected on
	subscribers []*subscriber // in the order in which they have subscribed, and receive an event
	ended       int           // how many of the subscribers are over

	localMu sync.Mutex
	locals  map[any]any // values that recipes keep, see Local
}

// A subscriber receives every event, in the session's order.
type subscriber struct {
	session *Session
	// tell returns a channel that is closed when the subscriber has acted on
	// the event, or nil.
	tell func(Event) (settled <-chan struct{})
	// look, if not nil, is called when a read-only server begins to answer reads, or the last
	// server has refused the credentials. It is also called when the subscription begins, in any
	// state.
	look func()
	// recipe means that the subscriber receives a Lapsed although nothing was held.
	recipe bool
	// end, if not nil, is called when the session has ended.
	end func()
	// over means that the subscription was cancelled, perhaps before it began.
	over bool
}

func (sub *subscriber) begin()  { sub.session.conn.Order.PutStep((*subscribing)(sub)) }
func (sub *subscriber) cancel() { sub.session.conn.Order.PutStep((*unsubscribing)(sub)) }

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
		opts: o, encoder: encoder{chroot(o.Chroot), wireACL(o.ACL), o.MaxRequest}, gone: make(chan struct{}),
		machine: machine{epoch: 1},
	}
	s.opts.Logger = s.identify(o.Logger)
	s.conn = conn.Session{
		Options: s.opts.ofConnections(), Owner: (*owner)(s), Logger: s.opts.Logger,
		Clock: clock.New(), Workers: workers.New(), Wake: make(chan struct{}, 1),
		Order: order.New(s.checkDeadline), // no report after the deadline looks as if it came before
		Servers: servers.New(addresses, servers.Options{
			Timeout: o.Timeout, Dialer: o.Dialer, TLS: o.TLS, Log: s.log,
		}),
	}
	s.watches = watches.New(s.conn.Order, s.unwatchable)
	s.present.Store(&present{lost: time.Now()})
	s.begin(1)
	return s
}

// tell hands an input to the machine of the session, in its turn.
func (s *Session) tell(in input) { s.conn.Order.PutStep(order.Report(func() { s.step(in) })) }

// newestEpoch returns the epoch that takes requests; nil once the session is closed.
func (s *Session) newestEpoch() *epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// count adds to the number of recipes that rely on the session, or to that of parties that hold
// what excludes others.
func (s *Session) count(relied bool, n int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var newest *conn.Epoch
	if s.newest != nil {
		newest = s.newest.Epoch
	}
	if relied {
		s.conn.Rely(newest, n)
	} else {
		s.conn.Hold(newest, n)
	}
}

// Close ends the session on the server, so that its ephemeral nodes are deleted at once. It waits
// until the server confirms that, at most for [Options.CloseTimeout], and until its lease has
// ended. Then no goroutine of the session is left. Holders lose their grants before the server
// learns that the session ends. Close may be called any number of times.
func (s *Session) Close() {
	s.mu.Lock()
	select {
	case <-s.conn.Workers.Closing:
	default:
		close(s.conn.Workers.Closing)
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

// State returns the newest event, which may be [Resumed]; nil before the first [Connected], see
// [Start].
func (s *Session) State() Event {
	return s.present.Load().event
}

// ReadOnly reports whether the blocking reads of the session are answered by a read-only server:
// see [Options.ReadOnly].
func (s *Session) ReadOnly() bool {
	e := s.newestEpoch()
	return e != nil && e.Access().Reading
}

// ID returns the id of the newest session that was established, as servers and other clients know
// it.
func (s *Session) ID() int64 { return s.id.Load() }

// Events returns a subscription of its own to the events of the session, with Away for Suspended
// Lapsed?:
//
//	(Connected (Away Resumed)* Away? Expired)* (Connected (Away Resumed)* Away?)? Closed
//
// The subscription starts with the present state: with Connected of the present epoch, and
// Suspended behind it, and Lapsed if it has, while the session is suspended; with Closed after the
// end; and with no event while there is no epoch, before the first Connected and after Expired. It
// loses no event however slowly it is read, with one exception: when Close returns, all events that
// the reader has not received are discarded, except Closed. The channel is closed after Closed, or
// when ctx ends: receive with "ev, ok := <-events", and set the channel to nil when ok is false. A
// select over a closed channel spins. If ctx is nil, the channel is closed only after Closed.
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

// Subscribe calls tell with every event of the session, beginning with the present state, until the
// subscription is cancelled. If tell returns a channel, Close waits until that channel is closed
// before it ends the session on the server, at most for [Options.CloseTimeout]. Subscribe panics if
// tell is nil.
func (s *Session) Subscribe(tell func(Event) (settled <-chan struct{})) (cancel func()) {
	refuseNil(tell == nil, "Subscribe: tell")
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
	return fmt.Sprintf("session %s: %v", znode.SessionID(s.ID()), ev)
}

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (s *Session) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// loop runs the steps that callers have put, and watches the deadline and the connection, until
// no goroutine of the session is left. Everything that touches the session's state is
// done in its order, here or by the goroutine that reads, one after the other.
func (s *Session) loop() {
	returns := false
	defer func() {
		if returns {
			close(s.gone)
		} else {
			go s.loop() // a callback has ended the goroutine
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !s.stopped.Load() {
		select {
		case <-s.conn.Order.Ready():
			s.conn.Order.Run()
		case <-s.conn.Wake:
		case <-timer.C:
		}
		timer.Reset(max(s.tend(), time.Millisecond))
	}
	s.conn.Order.End()
	returns = true
}

// tend looks after the deadline and the connection, and returns the time until its next call.
func (s *Session) tend() time.Duration {
	e := s.newestEpoch()
	if e == nil {
		return time.Hour // the loop is woken before that
	}
	next, overdue := e.Tend()
	if overdue {
		s.conn.Order.Put(func() {}) // the order looks at the deadline
		return time.Hour
	}
	return next
}

// checkDeadline counts what excludes others as lost when the lease has ended, even if the server
// has answered.
func (s *Session) checkDeadline() {
	if !s.epoch.Overdue() {
		return
	}
	in := overdue{epoch: s.epoch.Number}
	if s.machine.state == stateConnected || s.machine.state == stateSuspended {
		lapsed := false
		if in.deadline, in.held, lapsed = s.epoch.Lapse(); !lapsed {
			return
		}
	}
	s.step(in)
}

func (s *Session) step(in input) {
	var e effects
	s.machine = s.machine.Step(in, &e)
	var settled []<-chan struct{}
	var todo []func()
	for _, ev := range e.Emit {
		todo = append(todo, func() { s.announce(ev, &settled) })
	}
	s.conn.Order.InTurn(append(todo, func() { s.perform(e.Do, settled) })...)
}

// perform performs the effects of a step. The channels are those of the subscribers.
func (s *Session) perform(effects []effect, settled []<-chan struct{}) {
	ended := func() {}
	for _, do := range effects {
		switch do := do.(type) {
		case dial:
			s.begin(do.epoch)
		case retire:
			ended = s.retire()
		case part:
			s.part(settled)
		}
	}
	ended() // now that another epoch takes requests
}

// begin starts an epoch.
func (s *Session) begin(number int) {
	var before *conn.Epoch
	if s.epoch != nil {
		before = s.epoch.Epoch
	}
	next, start := conn.NewEpoch(&s.conn, number, before)
	e := &epoch{next, s}
	s.epoch = e
	s.mu.Lock()
	s.newest = e
	s.mu.Unlock()
	start()
}

// retire ends the present epoch, and returns the function that ends the subscriptions to its nodes.
func (s *Session) retire() (ended func()) {
	why := ErrExpired
	if s.machine.Ended() {
		why = ErrClosed
		s.mu.Lock()
		s.newest = nil
		s.mu.Unlock()
	}
	ended = s.watches.Forget(s.epoch, why)
	s.epoch.End(why)
	if s.machine.Ended() {
		go func() {
			s.conn.Workers.Wait()
			s.conn.Order.Put(s.stop)
		}()
	}
	return ended
}

// stop ends the loop and the streams of events.
func (s *Session) stop() {
	s.stopped.Store(true)
	s.conn.Poke()
	for sub := range s.inOrder {
		if sub.end != nil {
			sub.end()
		}
	}
	s.subscribers, s.ended = nil, 0
}

// part ends the session on the server, after its holders have stopped relying on it, or its
// deadline has passed.
func (s *Session) part(settled []<-chan struct{}) {
	e := s.epoch
	e.Closing()
	s.conn.Workers.Go(func() {
		begun := time.Now()
		timer := time.NewTimer(s.opts.CloseTimeout)
		defer timer.Stop()
		for _, done := range settled {
			select {
			case <-done:
			case <-timer.C:
				timer.Reset(0)
			case <-e.Parted():
			}
		}
		s.tidyLast(e, s.opts.CloseTimeout-time.Since(begun))
		e.Part(s.opts.CloseTimeout - time.Since(begun))
		s.tell(parted{})
	})
}

// announce reports an event to all subscribers, and then to the observer and the log, which
// may be slow. It collects the channels of the subscribers.
func (s *Session) announce(ev Event, settled *[]<-chan struct{}) {
	if c, ok := ev.(Connected); ok {
		s.connected = c
		s.id.Store(c.ID)
		s.epoch.Announce()
	}
	if r, ok := ev.(Resumed); ok {
		s.connected.Server = r.Server
	}
	switch ev.(type) {
	case Connected, Resumed:
		s.story = []Event{s.connected}
	case Suspended, Lapsed:
		s.story = append(s.story, ev)
	case Expired, Closed:
		s.story = nil
	}
	public := isPublic(ev)
	if public {
		s.announced(ev)
	}
	var tell []func()
	for sub := range s.inOrder {
		if !public && !sub.recipe {
			continue
		}
		tell = append(tell, func() {
			if done := sub.tell(ev); done != nil {
				*settled = append(*settled, done)
			}
		})
	}
	if public {
		tell = append(tell, func() { s.observer().State(ev) })
	}
	s.conn.Order.InTurn(tell...)
}

// subscribe adds a subscriber, which receives the present state.
func (s *Session) subscribe(sub *subscriber) {
	if sub.over {
		return
	}
	if !s.stopped.Load() {
		s.subscribers = append(s.subscribers, sub)
	}
	if sub.look != nil {
		sub.look()
	}
	switch s.machine.state {
	case stateConnected:
		sub.tell(s.connected)
	case stateSuspended:
		var tell []func()
		for _, ev := range s.story {
			if sub.recipe || isPublic(ev) {
				tell = append(tell, func() { sub.tell(ev) })
			}
		}
		s.conn.Order.InTurn(tell...)
	case stateClosing, stateClosed:
		sub.tell(Closed{})
	case stateConnecting:
	}
	if s.stopped.Load() && sub.end != nil {
		sub.end()
	}
}

// isPublic reports whether an event is for all: if nothing was held, a Lapsed is the business of
// recipes alone.
func isPublic(ev Event) bool {
	lapsed, is := ev.(Lapsed)
	return !is || !lapsed.quiet
}

// inOrder yields the subscribers. None begins or ends meanwhile: both are steps of the session.
func (s *Session) inOrder(yield func(*subscriber) bool) {
	for _, sub := range s.subscribers {
		if !sub.over && !yield(sub) {
			return
		}
	}
}

// haveLook calls look of each subscriber, for changes that no event reports.
func (s *Session) haveLook() {
	for sub := range s.inOrder {
		if sub.look != nil {
			sub.look()
		}
	}
}

// unsubscribe leaves the subscriber in its place until half of them are over: a list with elements
// takes memory for each, and a search time.
func (s *Session) unsubscribe(sub *subscriber) {
	sub.over = true
	if s.ended++; 2*s.ended > len(s.subscribers) {
		s.subscribers = slices.DeleteFunc(s.subscribers, func(sub *subscriber) bool { return sub.over })
		s.ended = 0
	}
}

// A present is the state of a session. Readers see it without waiting.
type present struct {
	event Event     // the newest; nil before the first
	lost  time.Time // set when the connection was lost or the session started; zero while it is connected
}

// announced records the newest event.
func (s *Session) announced(ev Event) {
	next := &present{event: ev}
	switch ev.(type) {
	case Connected, Resumed:
	case Suspended, Lapsed, Expired, Closed:
		if next.lost = s.present.Load().lost; next.lost.IsZero() {
			next.lost = time.Now()
		}
	}
	s.present.Store(next)
}
