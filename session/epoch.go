package session

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/session/internal/fifo"
	"github.com/zkactors/zkactors/session/internal/lease"
	"github.com/zkactors/zkactors/session/internal/order"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// An epoch is one ZooKeeper session, from the dialling of its first connection until it
// is retired. It is never used again after that. (ZooKeeper calls the reign of a leader
// an epoch; here that is a reign.)
//
// It queues calls while there is no open connection, and sends them, one behind the other,
// without waiting for their answers while there is one.
type epoch struct {
	session *core
	number  int
	retire  context.CancelFunc // has the client below end; set by newClient

	deadline   atomic.Int64 // age of the session; 0 while there is no ZooKeeper session
	announced  atomic.Bool  // as Connected
	ephemerals ephemerals

	mu        sync.Mutex
	queue     fifo.Queue[*call]
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

// newEpoch returns an epoch, which begins to dial with [epoch.newClient].
func newEpoch(s *core, number int) *epoch {
	parted := make(chan struct{})
	return &epoch{
		session: s, number: number, watches: make(map[watchKey]struct{}),
		coalescer: coalescer{limits: shareLimitsOf(&s.opts)},
		parted:    parted, gone: sync.OnceFunc(func() { close(parted) }),
	}
}

// maxInFlight bounds the unanswered requests of one session, well below the
// thousand at which a server stops reading.
const maxInFlight = 512

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
	e.queue.Push(c)
	e.advance()
	return nil
}

// advance sends the next calls, if that can be done now. A write waits until it is known
// what was there before it: see [call.knew]. Writes that may share transactions come last, so that
// all that wait are there. The epoch is locked.
func (e *epoch) advance() {
	for e.open != nil && !e.open.leaving && e.over == nil {
		if e.queue.Len() > 0 && e.open.pending.Len() < maxInFlight && (e.open.synced || !e.queue.All()[0].write) {
			e.route(e.queue.Pop())
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
	if e.abandoned++; e.abandoned <= e.queue.Len()/2 {
		return
	}
	e.abandoned = 0
	e.queue.Set(slices.DeleteFunc(e.queue.All(), func(c *call) bool {
		if c.state.Load() != callAbandoned {
			return false
		}
		e.ephemerals.release(c.ephemeral)
		return true
	}))
}

// What follows is called with the epoch locked, unless it says otherwise.

func (e *epoch) terms() lease.Terms { return lease.TermsOf(e.timeout, e.session.opts.ServerTick) }

// prove counts what a connection has proved.
func (e *epoch) prove(l *connection) {
	trusted, proved := max(e.trusted, l.lease.Since(true)), max(e.proved, l.lease.Since(false))
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
	until := int64(since + e.terms().Timeout)
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

// route sends a call, or lets it wait for others.
func (e *epoch) route(c *call) {
	if c.lane != nil && c.lane.write != nil {
		before := c.lane.write
		before.behind = append(before.behind, c)
		return
	}
	if c.joins {
		before, alone := e.coalescer.join(c)
		if before != nil {
			e.dispatch(before)
		}
		if !alone {
			c.lane.write = c
			return
		}
	}
	e.dispatch(c)
}

// dispatch sends a call that goes alone, unless it was abandoned. What waited for it in its lane comes next.
func (e *epoch) dispatch(c *call) {
	e.requeue(c.leaveLane())
	if c.state.CompareAndSwap(callQueued, callSent) {
		e.open.send(c)
		return
	}
	e.ephemerals.release(c.ephemeral)
	if c.counted {
		c.counted = false
		e.coalescer.inFlight--
	}
}

// share sends the oldest calls of the coalescer as one transaction.
func (e *epoch) share(n int) {
	if n == 1 {
		c := e.coalescer.take()
		c.counted = true
		e.dispatch(c)
		return
	}
	members := make([]*call, 0, n)
	now := e.session.clock.now()
	for range n {
		c := e.coalescer.take()
		if c.state.CompareAndSwap(callQueued, callSent) {
			c.sent, c.since = now, e.newest
			members = append(members, c)
			continue
		}
		e.ephemerals.release(c.ephemeral)
		e.requeue(c.leaveLane())
	}
	if len(members) == 0 {
		e.coalescer.inFlight--
		return
	}
	e.open.send(newShared(members))
}

// requeue lets calls go out next.
func (e *epoch) requeue(calls []*call) {
	if len(calls) > 0 {
		e.queue.Set(append(calls, e.queue.All()...))
	}
}

// shared takes the reply to a transaction of several calls, and gives their answers, or has them
// sent again. The epoch must not be locked.
func (e *epoch) shared(t *call, h wire.Header, rest []byte, reply *wire.Reply) error {
	culprit, failed, err := settleShared(t, h, rest, reply)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case failed:
		for _, c := range t.members {
			c.state.Store(callQueued)
		}
		e.requeue(requeued(e.coalescer.failed(t.members, culprit)))
	default:
		e.coalescer.inFlight--
		e.requeue(laggards(t.members))
		for _, c := range t.members {
			e.session.order.Add(c)
		}
	}
	if e.coalescer.broken = 0; err != nil {
		e.coalescer.broken = maxBroken
	}
	e.advance()
	return err
}

// submitReadOnly sends a blocking read to the read-only server, or keeps it while the
// connection is leaving. It refuses everything else. The epoch is locked.
func (e *epoch) submitReadOnly(c *call) error {
	switch c.opcode { //nolint:exhaustive // the others need a quorum
	case wire.OpExists, wire.OpGetData, wire.OpGetChildren2, wire.OpGetACL:
	default:
		return ErrReadOnly
	}
	switch {
	case e.reading.leaving:
		e.queue.Push(c)
	case c.state.CompareAndSwap(callQueued, callSent):
		e.reading.send(c)
	}
	return nil
}

// notified passes on what a watch has to tell. The epoch must not be locked.
func (e *epoch) notified(ev wire.Event) {
	e.mu.Lock()
	for _, kind := range watchesEndedBy(ev.Kind) {
		delete(e.watches, watchKey{ev.Path, kind})
	}
	e.mu.Unlock()
	e.session.order.Add(order.Func(func() { e.session.notified(e, ev) }))
}
