package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// An epoch is one ZooKeeper session, from the dialling of its first connection until it
// is retired. It is never used again after that. (ZooKeeper calls the reign of a leader
// an epoch; here that is a reign.)
//
// It queues calls while there is no open connection, and sends them, one behind the other,
// without waiting for their answers while there is one.
type epoch struct {
	session *Session
	number  int
	retire  context.CancelFunc // has the client below end; set by newClient

	deadline   atomic.Int64 // age of the session; 0 while there is no ZooKeeper session
	announced  atomic.Bool  // as Connected
	ephemerals ephemerals

	mu        sync.Mutex
	queue     fifo[*call]
	coalescer coalescer
	abandoned int         // at least so many of them
	current   *connection // the newest
	open      *connection // that takes calls, or nil
	reading   *connection // to a read-only server that takes reads, or nil
	over      error       // why the epoch has ended
	refused   error       // why the last connection was refused, until one is not

	id      int64                 // 0 until the first handshake
	timeout time.Duration         // negotiated
	newest  int64                 // the newest zxid seen
	told    int64                 // the newest up to which watches have told everything
	watches map[watchKey]struct{} // those that stand on the server
	trusted time.Duration         // what the leader of the connections counts from, deposed or not
	proved  time.Duration         // the same, as far as a quorum has committed it

	parting bool          // whatever connection there is closes the session
	parted  chan struct{} // closed when that was confirmed, or the epoch has ended
	gone    func()        // closes parted
}

// terms are the times that follow from a session timeout.
type terms struct {
	timeout   time.Duration // less a margin for clocks that do not agree, and for us to act
	report    time.Duration // within which a server reports to the leader whom it has heard
	heartbeat time.Duration // between signs of life
	silence   time.Duration // how long to wait for an answer before trying another server
}

// termsOf computes them. Half of what is left of a lease when a heartbeat is overdue is
// for finding another server.
func termsOf(timeout, tick time.Duration) terms {
	if tick <= 0 || tick > timeout/2 {
		tick = timeout / 2
	}
	t := terms{
		timeout:   timeout - min(max(timeout/40, 10*time.Millisecond), 250*time.Millisecond),
		report:    tick * 5 / 8, // half a tick, and what a server needs for it
		heartbeat: timeout / 9,
	}
	// The newest sign of life that is proven to have been reported is that many
	// heartbeats older than the one that is overdue.
	lag := 3 + t.report/t.heartbeat
	t.silence = (t.timeout - lag*t.heartbeat) / 2
	return t
}

// newEpoch returns an epoch, which begins to dial with [epoch.newClient].
func newEpoch(s *Session, number int) *epoch {
	parted := make(chan struct{})
	return &epoch{
		session: s, number: number, watches: make(map[watchKey]struct{}),
		coalescer: coalescer{limits: shareLimitsOf(&s.opts)},
		parted:    parted, gone: sync.OnceFunc(func() { close(parted) }),
	}
}

// dial returns a connection to some server, or nil once the epoch is retired. Until then
// it does not give up. The loss of the last connection is told before there is a next.
func (e *epoch) dial(ctx context.Context) *connection {
	e.mu.Lock()
	last := e.current
	again := last != nil && last.proven
	e.mu.Unlock()
	if last != nil {
		<-last.told
	}
	for ctx.Err() == nil {
		server, socket := e.session.servers.dial(ctx, again)
		if socket == nil {
			return nil
		}
		l := newConnection(e, server, socket)
		e.mu.Lock()
		usable := ctx.Err() == nil && e.session.servers.has(server) // the list may have changed meanwhile
		if usable {
			e.current = l
		}
		e.mu.Unlock()
		if usable {
			e.session.workers.Go(l.writeAll)
			e.session.poke()
			return l
		}
		_ = socket.Close() // nothing was sent on it
	}
	return nil
}

// setServers replaces the list of servers, and leaves the one of the present connection if the
// spread of the sessions demands it. The epoch must not be locked.
func (e *epoch) setServers(addresses []string) {
	e.mu.Lock()
	l, current := e.current, ""
	if l != nil && l.phase != phaseFailed && !l.leaving {
		current = l.server
	}
	now := false
	if e.session.servers.replace(addresses, current, rand.Float64) {
		now = l.leave()
	}
	e.mu.Unlock()
	if now {
		l.fail(errLeaving)
	}
}

// submit queues a call, and writes it if it can go out at once and alone. It returns why it cannot.
func (e *epoch) submit(c *call) error {
	e.mu.Lock()
	l := e.open
	reserved := l.reserve()
	err := e.enqueue(c)
	var frame []byte
	if reserved {
		frame = l.lone()
	}
	e.mu.Unlock()
	if frame != nil {
		l.writeLone(frame)
	}
	return err
}

// enqueue queues a call. It returns why it cannot. The epoch is locked.
func (e *epoch) enqueue(c *call) error {
	switch {
	case e.over != nil:
		return ErrExpired
	case e.refused != nil:
		return e.refused
	case c.fleeting && (e.open == nil || e.open.leaving):
		return ErrDisconnected
	}
	c.epoch.Store(e)
	if e.reading != nil && c.blocking {
		return e.submitReadOnly(c)
	}
	e.queue.push(c)
	e.advance()
	return nil
}

// advance sends the next calls, if that can be done now. A write waits until it is known
// what was there before it: see [call.knew]. Writes that may share transactions come last, so that
// all that wait are there. The epoch is locked.
func (e *epoch) advance() {
	for e.open != nil && !e.open.leaving && e.over == nil {
		if e.queue.len() > 0 && e.open.pending.len() < maxInFlight && (e.open.synced || !e.queue.all()[0].write) {
			e.route(e.queue.pop())
			continue
		}
		n := e.coalescer.next()
		if n == 0 {
			return
		}
		e.share(n)
	}
}

// sweep removes abandoned calls from the queue when they may be the most of it.
func (e *epoch) sweep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.abandoned++; e.abandoned <= e.queue.len()/2 {
		return
	}
	e.abandoned = 0
	e.queue.set(slices.DeleteFunc(e.queue.all(), func(c *call) bool {
		if c.state.Load() != callAbandoned {
			return false
		}
		e.ephemerals.release(c.ephemeral)
		return true
	}))
}

// longestPassword is well below what the client can present. Those of ZooKeeper have 16 bytes.
const longestPassword = 128

var errReplaced = errors.New("the server replaced the session by another")

// accept takes the server's answer to the connect request.
func (e *epoch) accept(l *connection, h *wire.ConnectResponse) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	const shortest = 60 * time.Millisecond // less leaves no time to act
	timeout := time.Duration(h.Timeout) * time.Millisecond
	switch {
	case l.phase != phaseGreeting:
		return l.why
	case l.greeted < 0:
		return wire.ErrMalformed // there was no connect request
	case h.ReadOnly:
		return e.acceptReadOnly(l, h)
	case h.Session == 0 && e.id == 0:
		return errors.New("the server refused a new session")
	case h.Session == 0:
		e.gone()
		e.session.tell(rejected{e.number})
		return ErrExpired
	case e.id != 0 && e.id != h.Session && e.announced.Load():
		e.session.tell(rejected{e.number})
		return errReplaced
	case len(h.Password) > longestPassword:
		return wire.ErrMalformed
	case timeout < shortest:
		return fmt.Errorf("the server offers a session timeout of %v", timeout)
	}
	// A session that no connection has opened was used for nothing: another does as well.
	created := e.id != h.Session
	if created {
		e.id, e.timeout = h.Session, timeout
	}
	// The leader counts a shorter timeout from this handshake, not from what was proved
	// before it. A longer timeout counts for nothing: reports with the shorter one may be
	// on their way.
	before := e.terms()
	e.timeout = min(e.timeout, timeout)
	terms := e.terms()
	if shorter := before.timeout - terms.timeout; shorter > 0 {
		e.trusted, e.proved = min(e.trusted+shorter, l.greeted), min(e.proved+shorter, l.greeted)
	}
	l.lease = newLease(terms.report, terms.heartbeat/16, l.greeted, created)
	if created {
		e.prove(l)
	}
	e.settle()
	return nil
}

// restore begins to set again what the session had on the server. The epoch must not be locked.
func (e *epoch) restore(l *connection) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.phase == phaseGreeting {
		l.restore(slices.Collect(maps.Keys(e.watches)))
	}
}

// What follows is called with the epoch locked, unless it says otherwise.

func (e *epoch) terms() terms { return termsOf(e.timeout, e.session.opts.ServerTick) }

// opened is called when a connection takes calls. What its handshake has proved counts
// only now: a session that can be reached, but not restored, comes to an end.
func (e *epoch) opened(l *connection) {
	if l.readOnly {
		e.openedReadOnly(l)
		return
	}
	e.open, e.refused = l, nil
	e.told = e.newest // not before: the next connection must ask again
	e.prove(l)
	e.session.tell(established{epoch: e.number, id: e.id, timeout: e.timeout, server: l.server})
	e.advance()
}

// prove counts what a connection has proved.
func (e *epoch) prove(l *connection) {
	trusted, proved := max(e.trusted, l.lease.since(true)), max(e.proved, l.lease.since(false))
	if trusted != e.trusted || proved != e.proved {
		e.trusted, e.proved = trusted, proved
		e.settle()
	}
}

// rely is called when the session begins to be relied on. What it will be relied on for
// rests on a transaction that is sent from now on: if it is done, no leader can
// count from earlier than what the present one has been told.
func (e *epoch) rely() {
	e.proved = max(e.proved, e.trusted)
	e.settle()
}

// settle computes the deadline.
func (e *epoch) settle() {
	if e.id == 0 {
		return // there is no session yet
	}
	since := e.trusted
	if e.session.strict() {
		since = e.proved
	}
	until := int64(since + e.terms().timeout)
	if before := e.deadline.Swap(until); before == 0 || until < before {
		e.session.poke()
	}
}

// until returns when the session must be counted as lost; zero if there is none. The
// epoch need not be locked.
func (e *epoch) until() time.Time {
	d := e.deadline.Load()
	if d == 0 {
		return time.Time{}
	}
	return e.session.clock.time(time.Duration(d))
}

// notified passes on what a watch has to tell. The epoch must not be locked.
func (e *epoch) notified(ev wire.Event) {
	e.mu.Lock()
	for _, kind := range watchesEndedBy(ev.Kind) {
		delete(e.watches, watchKey{ev.Path, kind})
	}
	e.mu.Unlock()
	e.session.order.add(function(func() { e.session.notified(e, ev) }))
}

// severed tells the session that a connection has failed, and answers the calls that were
// lost with it. The goroutine that reads calls it, once, behind everything that came on
// the connection. The epoch must not be locked.
//
// A connection that fails early counts as one that could not be made. So a server that
// accepts and hangs up is not asked again without a pause.
func (e *epoch) severed(l *connection) {
	s := e.session
	e.mu.Lock()
	why, over, parting := l.why, e.over, e.parting
	if e.open == l {
		e.open = nil
	}
	if e.reading == l {
		e.reading = nil
	}
	lost, unsent := e.salvage(l)
	var refused []*call
	switch {
	case errors.Is(why, ErrAuthFailed) && over == nil:
		e.refused = ErrAuthFailed
		refused = append(unsent, e.queue.all()...)
		e.queue.set(nil)
	case over == nil:
		e.queue.set(append(unsent, e.queue.all()...))
	default: // what waited for a reply that came since the end is in the queue
		refused = append(unsent, e.queue.all()...)
		e.queue.set(nil)
	}
	var dropped []*call
	e.queue.set(slices.DeleteFunc(e.queue.all(), func(c *call) bool {
		if c.fleeting {
			dropped = append(dropped, c)
		}
		return c.fleeting
	}))
	e.mu.Unlock()
	s.tell(severed{e.number, e.until()})
	switch {
	case errors.Is(why, errLeaving), parting: // as it was asked to
	case !l.proven:
		s.servers.failed(l.server, why)
	case over == nil:
		s.servers.note(l.server, why)
	}
	s.opts.Logger.Info("connection lost", "server", l.server, "epoch", e.number, "reason", why)
	for _, c := range lost {
		if c.err = c.lost(over); len(lost) == 1 && over == nil {
			c.err = blamedError{c.err}
		}
		s.order.add(c)
	}
	for _, c := range dropped {
		c.err = ErrDisconnected
		s.order.add(c)
	}
	for _, c := range refused {
		if over == nil {
			c.err = ErrAuthFailed
			s.order.add(c)
		} else {
			s.unsent(c, over)
		}
	}
	if errors.Is(why, ErrAuthFailed) {
		s.refuseAuth()
	}
	s.order.add(function(func() { close(l.told) }))
	s.order.run()
}

// salvage returns the calls that were sent on the connection, and those that were to be. The epoch
// is locked.
func (e *epoch) salvage(l *connection) (lost, unsent []*call) {
	pending := l.pending.all()
	lost, unsent = pending[:len(pending)-l.unwritten], pending[len(pending)-l.unwritten:]
	l.out = nil // the writer must not find what is queued again
	inCompany := slices.ContainsFunc(lost, func(c *call) bool { return c.shared != nil })
	lost, unsent = users(lost), append(users(unsent), e.coalescer.reset(inCompany)...)
	return lost, append(laggards(lost), requeued(unsent)...)
}

// users returns the calls that are not the session's own.
func users(calls []*call) (all []*call) {
	for _, c := range calls {
		switch {
		case c.shared != nil:
			all = append(all, c.shared.members...)
		case c.own == nil:
			all = append(all, c)
		}
	}
	return all
}

// end retires the epoch: from now on nothing of it reaches a server. The epoch must not
// be locked.
func (e *epoch) end(why error) {
	e.retire()
	e.mu.Lock()
	e.over, e.open, e.reading = why, nil, nil
	l, queue := e.current, e.queue.all()
	e.queue.set(nil)
	e.mu.Unlock()
	e.gone()
	for _, c := range queue {
		e.session.unsent(c, why)
	}
	if l != nil {
		l.fail(why)
	}
}

// part tells the server that the session ends, as soon as there is a connection. It
// waits for the confirmation, at most for the given time. The epoch must not be locked.
func (e *epoch) part(patience time.Duration) {
	e.mu.Lock()
	e.parting = true
	if e.current != nil {
		e.current.part()
	}
	id := e.id
	e.mu.Unlock()
	if id == 0 {
		return
	}
	select {
	case <-e.parted:
	case <-time.After(patience):
	}
}
