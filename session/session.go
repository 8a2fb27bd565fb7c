package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// A Session talks to ZooKeeper through one session after another: when one is
// lost, the next is established by itself. It is safe for concurrent use, and
// must be closed.
type Session struct {
	opts    Options
	chroot  // converts paths
	servers *servers
	acl     []wire.ACL // of the nodes that it creates
	clock   *clock
	order   *order // of everything that the session tells
	workers sync.WaitGroup

	mu      sync.Mutex
	newest  *epoch        // takes requests; nil once closed
	closing chan struct{} // closed when Close was called
	gone    chan struct{} // closed when no goroutine is left
	wake    chan struct{} // holds a value when the loop has something new to wait for
	refused chan struct{} // closed when the credentials were refused
	refuse  sync.Once
	present atomic.Pointer[present]
	id      atomic.Int64
	parent  *Session // see Sibling
	beside  map[*Session]struct{}
	stopped atomic.Bool  // no goroutine of the session is left
	rooted  atomic.Bool  // the chroot has been seen
	relied  atomic.Int32 // by how many, see Rely; changed with mu and the newest epoch locked

	// These belong to the loop.
	machine     machine
	epoch       *epoch // of the machine
	connected   Connected
	since       Event // connected
	subscribers map[*subscriber]struct{}

	watches watchTable
	warmth  warmth

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

func (sub *subscriber) begin()  { sub.session.order.putStep((*subscribing)(sub)) }
func (sub *subscriber) cancel() { sub.session.order.putStep((*unsubscribing)(sub)) }

// The steps with which a subscriber begins and ends.
type (
	subscribing   subscriber
	unsubscribing subscriber
)

func (s *subscribing) run()   { s.session.subscribe((*subscriber)(s)) }
func (s *unsubscribing) run() { s.session.unsubscribe((*subscriber)(s)) }

// Open establishes a session with one of the servers, each host:port. It returns when
// that is done. If ctx ends before, or the server refuses the credentials in opts,
// nothing is left behind. The error names the servers and the last failure of each.
//
// If opts is nil, the default options are used. With [Options.Resolve], the list may be empty.
func Open(ctx context.Context, addresses []string, opts *Options) (*Session, error) {
	if ctx == nil {
		return nil, fmt.Errorf("open session: %w", errNilContext)
	}
	s, err := Start(addresses, opts)
	if err != nil {
		return nil, err
	}
	if err := s.reach(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("open session: %w", err)
	}
	return s, nil
}

// Start is [Open] without waiting: it returns at once, and the session is established as soon
// as a server can be reached. So a service can start while ZooKeeper is down. The error is about
// the arguments.
//
// Until the first [Connected], [Session.State] returns nil, [Session.ID] returns 0, and a
// subscription delivers no event. Requests wait for the connection, or until their context ends.
// Recipes join when the session is connected. Requests fail with [ErrAuthFailed] while the servers
// refuse the credentials. [Session.Await] waits for the connection, and Close may be called at any
// time.
func Start(addresses []string, opts *Options) (*Session, error) {
	o := opts.withDefaults()
	err := o.validate()
	if len(addresses) > 0 || o.Resolve == nil {
		var invalid error
		addresses, invalid = checkServers(addresses)
		err = errors.Join(invalid, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	s := newSession(addresses, o)
	if o.Resolve != nil {
		s.workers.Go(s.resolve)
	}
	go s.loop()
	return s, nil
}

// Await waits until the session is connected: before the first connection, and while it is suspended
// or expired. With [Options.ReadOnly], a read-only server suffices. If ctx ends before, or the server
// has refused the credentials, the error names the servers and the last failure of each. The session
// goes on.
func (s *Session) Await(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("await session: %w", errNilContext)
	}
	if err := s.reach(ctx); err != nil {
		return fmt.Errorf("await session: %w", err)
	}
	return nil
}

// reach waits for a connection that answers reads.
func (s *Session) reach(ctx context.Context) error {
	reached := make(chan error, 1)
	report := func(err error) {
		select {
		case reached <- err:
		default: // it is known
		}
	}
	sub := &subscriber{session: s, readable: func() { report(nil) }, tell: func(Event) <-chan struct{} {
		switch s.machine.state {
		case stateConnecting, stateSuspended:
		case stateConnected:
			report(nil)
		case stateClosing, stateClosed:
			report(ErrClosed)
		}
		return nil
	}}
	sub.begin()
	defer sub.cancel()
	err := error(nil)
	select {
	case err = <-reached:
		return err
	case <-s.refused:
		err = ErrAuthFailed
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%w (%s)", err, s.servers.troubles())
}

// SetServers replaces the list of servers of the session and its siblings, each host:port. The
// session keeps its server if it can. It moves if its server is not in the list. If the list has
// grown, it moves with the probability that spreads sessions evenly. So when many sessions are given
// the same list, they are spread as evenly as before, and no more of them move than necessary.
//
// A session that moves first waits for the answers to all that it has sent. It is suspended for
// the time of a reconnect, and neither expires nor loses a request. With [Options.Resolve],
// the next resolution replaces the list again.
func (s *Session) SetServers(addresses []string) error {
	addresses, err := checkServers(addresses)
	if err != nil {
		return fmt.Errorf("set servers: %w", err)
	}
	return s.setServers(addresses)
}

func (s *Session) setServers(addresses []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil {
		return fmt.Errorf("set servers: %w", ErrClosed)
	}
	s.newest.setServers(addresses)
	for sibling := range s.beside {
		_ = sibling.setServers(addresses) // one that is closed needs none
	}
	return nil
}

// resolve keeps the list of servers up to date until the session is closed.
func (s *Session) resolve() {
	ctx, cancel := s.until(s.closing)
	defer cancel()
	for ctx.Err() == nil {
		wait := s.opts.ResolveEvery
		if err := s.resolveOnce(ctx); err != nil && ctx.Err() == nil {
			s.servers.unresolved(err)
			wait = min(wait, time.Second)
		}
		select {
		case <-time.After(wait):
		case <-s.servers.exhaust:
		case <-ctx.Done():
		}
	}
}

// until returns a context that ends when the channel is closed, or cancel is called.
func (s *Session) until(ended <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	s.workers.Go(func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

func (s *Session) resolveOnce(ctx context.Context) error {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	addresses, err := s.opts.Resolve(ctx)
	if err == nil {
		addresses, err = checkServers(addresses)
	}
	if err != nil {
		return err
	}
	return s.setServers(addresses)
}

// newSession begins to dial. The loop is not started.
func newSession(addresses []string, o Options) *Session {
	s := &Session{
		opts: o, chroot: chroot(o.Chroot), clock: newClock(),
		closing: make(chan struct{}), gone: make(chan struct{}), wake: make(chan struct{}, 1), refused: make(chan struct{}),
		watches:     watchTable{entries: make(map[watchKey]*watchEntry)},
		subscribers: make(map[*subscriber]struct{}),
		machine:     machine{epoch: 1},
	}
	s.present.Store(&present{lost: time.Now()})
	s.opts.Logger = s.identify(o.Logger)
	s.acl = wireACL(o.ACL)
	s.order = newOrder(s.checkDeadline) // nothing is told after the deadline as if it were before
	s.servers = newServers(addresses, &s.opts)
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

// newestEpoch returns the epoch that takes requests; nil once the session is closed.
func (s *Session) newestEpoch() *epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
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
		case <-s.order.ready:
			s.order.run()
		case <-s.wake:
		case <-timer.C:
		}
		timer.Reset(max(s.tend(), time.Millisecond))
	}
	s.order.end()
}

// poke has the loop look at what it waits for.
func (s *Session) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
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
			s.order.put(func() {}) // which looks at the deadline
			return time.Hour
		}
	}
	e.mu.Lock()
	l := e.current
	silent := error(nil)
	if e.id != 0 {
		next = min(next, e.terms().heartbeat) // timers stand still while the machine sleeps
	}
	if l != nil && l.phase != phaseFailed {
		var left time.Duration
		left, silent = l.check(now)
		next = min(next, left)
	}
	e.mu.Unlock()
	if silent != nil {
		l.fail(silent)
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

func (s *Session) addRelied(n int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.newest
	if e == nil {
		s.relied.Add(n)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch s.relied.Add(n) {
	case 0:
		e.settle()
	case n: // the first
		e.rely()
	}
}

// strict reports whether only what a quorum has committed extends the lease.
func (s *Session) strict() bool { return s.opts.Lease == LeaseCommitted && s.relied.Load() > 0 }

// tell hands the machine an input, in its turn.
func (s *Session) tell(in input) { s.order.put(func() { s.step(in) }) }

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
	e := newEpoch(s, number)
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
			s.order.put(s.stop)
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

// submit gives a call to the newest epoch, or refuses it in its turn.
func (s *Session) submit(c *call) {
	if why := s.enqueue(c); why != nil {
		c.refuse(s, why)
	}
}

// enqueue returns why the call cannot be made.
func (s *Session) enqueue(c *call) error {
	e := s.newestEpoch()
	switch {
	case e == nil:
		return ErrClosed
	case c.number != 0 && c.number != e.number:
		return ErrExpired
	case !e.ephemerals.reserve(c.ephemeral):
		return ErrSessionFull
	}
	err := e.submit(c)
	if err != nil {
		e.ephemerals.release(c.ephemeral)
	}
	return err
}

// unsent answers a call that its epoch did not send: the next one may, if the call
// belongs to none, and this epoch was never announced or the call is a read.
func (s *Session) unsent(c *call, why error) {
	s.order.put(func() {
		e := c.epoch.Load()
		if free := c.number == 0 && (!c.write || !e.announced.Load()); free && errors.Is(why, ErrExpired) {
			e.ephemerals.release(c.ephemeral)
			if why = s.enqueue(c); why == nil {
				return
			}
			c.ephemeral = 0
		}
		c.err = why
		c.run()
	})
}

// refuseAuth is called when a server does not accept the credentials.
func (s *Session) refuseAuth() {
	s.opts.Logger.Error("the server refused the credentials in Options.Auth or Options.SASL")
	s.refuse.Do(func() { close(s.refused) })
}
