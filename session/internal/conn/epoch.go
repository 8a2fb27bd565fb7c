package conn

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/session/internal/ephemerals"
	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/fifo"
	"github.com/zkactors/zkactors/session/internal/lease"
	"github.com/zkactors/zkactors/session/internal/order"
	"github.com/zkactors/zkactors/session/internal/watches"
	"github.com/zkactors/zkactors/session/internal/window"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// An Epoch is one ZooKeeper session, from the dialling of its first connection until it is retired.
// It is never used again after that. (ZooKeeper calls the reign of a leader an epoch; here that is
// a reign.)
//
// While there is no open connection the epoch queues calls. Otherwise it sends them one behind the
// other, without waiting for their answers.
type Epoch struct {
	session *Session
	Number  int
	past    int64              // the newest zxid that earlier epochs have seen; constant
	retire  context.CancelFunc // ends the client below; set by newClient

	// Ages of the session: when the lease ends, by the proofs so far, and when that has to be acted
	// on. Both are 0 while there is no ZooKeeper session, and ends while that need not be.
	deadline, ends atomic.Int64

	lapses     atomic.Int32 // how often the lease has ended; changed in the session's order
	announced  atomic.Bool  // see Announce
	Ephemerals ephemerals.Count

	mu        sync.Mutex
	first     fifo.Queue[*Call] // deletions of what a lapsed session has lost: they go out first
	queue     fifo.Queue[*Call]
	coalescer coalescer
	abandoned int         // a lower bound of the abandoned calls in queue
	current   *connection // the newest connection
	open      *connection // the connection that takes calls, or nil
	reading   *connection // the connection to a read-only server that takes reads, or nil
	over      error       // why the epoch has ended; nil before

	// refusals has the servers that have refused the credentials, until a connection takes calls.
	refusals map[string]struct{}

	// refusal is the error of the newest of these refusals. It is kept when refusals is cleared.
	refusal error

	dialect dialect // knowledge about the servers

	id       int64         // 0 until the first handshake
	password []byte        // of that session
	stranger string        // the server, which may have no quorum, that did not take the session last, see readonly.go
	timeout  time.Duration // negotiated
	newest   int64         // the newest zxid seen
	told     int64         // the zxid up to which watches have reported all changes
	haunted  bool          // the servers may have older data: see ghosts.go
	shunned  shunning
	unlisted bool             // set when a server did not know that request
	standing watches.Standing // the watches on the server
	replies  window.Replies   // how long replies have been
	warned   time.Duration    // when slow answers were logged last; 0 before
	steady   time.Duration    // a low estimate of answer times: it falls at once, and rises slowly

	stake lease.Stake // the proofs for the lease, and the users of the lease: see stake.go

	owing   bool   // set when a connection delays its first transaction, cleared when a transaction is answered
	vain    int    // questions what a server does, and moves from one that leads, since one was found to be of use
	leads   string // the server that was left because it leads
	strayed int    // attempts to return to the server where the session belongs, since it was there; see homesick

	lapsed  bool          // the lease has ended, and no connection has opened since
	owes    time.Duration // when it did, if others may wait for the session; 0 if it is proven since
	mute    bool          // since then a server that may have taken the session has come to nothing
	closing bool          // the session is closed, and its lease bounds the wait for that
	parting bool          // every connection closes the session
	parted  chan struct{} // closed when that was confirmed, or the epoch has ended
	gone    func()        // closes parted
}

// NewEpoch returns the epoch that follows before, which is nil for the first epoch. dial makes it
// begin to dial.
func NewEpoch(s *Session, number int, before *Epoch) (e *Epoch, dial func()) {
	e = newEpoch(s, number)
	if before != nil {
		before.mu.Lock()
		e.past, e.replies = max(before.past, before.newest), maps.Clone(before.replies)
		before.mu.Unlock()
	}
	return e, e.newClient()
}

func newEpoch(s *Session, number int) *Epoch {
	parted := make(chan struct{})
	return &Epoch{
		session: s, Number: number, standing: make(watches.Standing),
		replies: make(window.Replies), refusals: make(map[string]struct{}),
		coalescer: coalescer{limits: shareLimitsOf(&s.Options)},
		parted:    parted, gone: sync.OnceFunc(func() { close(parted) }),
	}
}

// Submit queues a call, and writes it at once if it can go out alone. An error means that it was
// not queued. The epoch must not be locked.
func (e *Epoch) Submit(c *Call) error {
	if !e.Ephemerals.Reserve(c.Ephemeral) {
		return fault.ErrSessionFull
	}
	err := e.submit(c)
	if err != nil {
		e.Ephemerals.Release(c.Ephemeral)
	}
	return err
}

func (e *Epoch) submit(c *Call) error {
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

// enqueue queues a call. An error means that it was not queued. The epoch is locked.
func (e *Epoch) enqueue(c *Call) error {
	switch {
	case e.over != nil:
		return fault.ErrExpired
	case e.refused():
		return e.refusal
	case c.Fleeting && (e.open == nil || e.open.leaving):
		return fault.ErrDisconnected
	case c.Lease != 0 && c.Lease != e.Lease():
		return fault.ErrLapsed
	}
	c.epoch.Store(e)
	if e.reading != nil && c.Blocking {
		return e.submitReadOnly(c)
	}
	if c.Errand && e.owes != 0 && e.Ephemerals.Owns(c.Target) {
		c.Joins = false // it waits for no others
		e.first.Push(c)
	} else {
		e.queue.Push(c)
	}
	e.advance()
	return nil
}

// next returns the queue whose first call may go out next; nil if none may. The epoch is locked.
func (e *Epoch) next() *fifo.Queue[*Call] {
	switch {
	case e.open == nil || e.open.leaving || e.open.seeking || e.over != nil:
		return nil
	case e.first.Len() > 0:
		return &e.first
	case e.assures():
		return &e.queue
	}
	return nil
}

// advance sends as many calls as possible now. A write waits until the newest zxid before it is
// known: see Since. Calls that may share transactions are sent last, so that they can all share.
// The epoch is locked.
func (e *Epoch) advance() {
	for queue := e.next(); queue != nil; queue = e.next() {
		if queue.Len() > 0 {
			switch c := queue.All()[0]; {
			case c.Write && !e.open.synced:
				e.open.sync()
			case e.open.admits(c):
				e.route(queue.Pop())
				continue
			}
			if queue == &e.first {
				return
			}
		}
		n := e.coalescer.next(e.open.room)
		if n == 0 {
			return
		}
		e.share(n)
	}
}

// sweep removes abandoned calls from the queue when they may be most of it.
func (e *Epoch) sweep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.abandoned++; e.abandoned <= e.queue.Len()/2 {
		return
	}
	e.abandoned = 0
	e.queue.Set(slices.DeleteFunc(e.queue.All(), func(c *Call) bool {
		if c.state.Load() != callAbandoned {
			return false
		}
		e.Ephemerals.Release(c.Ephemeral)
		return true
	}))
}

// ID returns the id of the session; 0 until the first handshake. The epoch must not be locked, here
// and in the functions below.
func (e *Epoch) ID() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.id
}

// Lease returns a number that changes when the lease ends, and is another in each epoch. The epoch
// may be locked.
func (e *Epoch) Lease() int64 { return int64(e.Number)<<32 | int64(e.lapses.Load()) }

// Announce records that users know the session: no other session can replace it from now on.
func (e *Epoch) Announce() { e.announced.Store(true) }

// Announced reports whether users know the session.
func (e *Epoch) Announced() bool { return e.announced.Load() }

// Access says which calls the epoch can execute at present.
type Access struct {
	Open    bool // a connection takes calls
	Reading bool // a read-only server answers reads
	Refused bool // every server has refused the credentials
}

// Access returns which calls the epoch can execute at present.
func (e *Epoch) Access() Access {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Access{e.open != nil, e.reading != nil, e.refused()}
}

// Plants records watches that are about to be planted, as if they stood already. So they are set
// again after a reconnect, which does no harm.
func (e *Epoch) Plants(keys iter.Seq[watches.Key]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key := range keys {
		e.standing[key] = struct{}{}
	}
}

// Removes records that a watch will be removed. It reports whether the servers may be able to
// remove it.
func (e *Epoch) Removes(key watches.Key) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.standing.Removed(key)
	return e.dialect.removesWatches()
}

// The functions below are called with the epoch locked, unless their comments say otherwise.

// refused reports whether every server has refused the credentials. Some servers may refuse for a
// while, for example while their configuration is changed.
func (e *Epoch) refused() bool {
	return len(e.refusals) > 0 && !slices.ContainsFunc(e.session.Servers.All(), func(server string) bool {
		_, has := e.refusals[server]
		return !has
	})
}

func (e *Epoch) terms() lease.Terms { return lease.TermsOf(e.timeout, e.session.ServerTick) }

// slowness is a limit of answer times. From it on, heartbeats that wait for each other's answers
// prove too little.
func (e *Epoch) slowness() time.Duration { return e.timeout / 36 }

// until returns when the lease ends, or zero if nothing rests on it. The epoch need not be locked.
func (e *Epoch) until() time.Time {
	d := e.ends.Load()
	if !e.session.bound() {
		d = 0
	}
	if d == 0 {
		return time.Time{}
	}
	return e.session.Clock.Time(time.Duration(d))
}

// route sends a call, or makes it wait: for another call in its lane, or in the coalescer.
func (e *Epoch) route(c *Call) {
	if c.Lane != nil && c.Lane.write != nil {
		before := c.Lane.write
		before.behind = append(before.behind, c)
		return
	}
	if err := e.dialect.adapt(c); err != nil {
		e.refuse(c, err)
		return
	}
	if c.Joins {
		before, alone := e.coalescer.join(c)
		if before != nil {
			e.dispatch(before)
		}
		if !alone {
			c.Lane.write = c
			return
		}
	}
	e.dispatch(c)
}

// refuse answers a call for which the servers have no operation.
func (e *Epoch) refuse(c *Call, why error) {
	e.Ephemerals.Release(c.Ephemeral)
	c.Ephemeral, c.Err = 0, why
	e.session.Order.Put(c.Run)
}

// dispatch sends a call that goes alone, unless it was abandoned. The calls that have waited for it
// in its lane come next.
func (e *Epoch) dispatch(c *Call) {
	e.requeue(c.leaveLane())
	if c.state.CompareAndSwap(callQueued, callSent) {
		e.open.send(c)
		return
	}
	e.Ephemerals.Release(c.Ephemeral)
	if c.counted {
		c.counted = false
		e.coalescer.inFlight--
	}
}

// share sends the oldest calls of the coalescer as one transaction.
func (e *Epoch) share(n int) {
	if n == 1 {
		c := e.coalescer.take()
		c.counted = true
		e.dispatch(c)
		return
	}
	members := make([]*Call, 0, n)
	now := e.session.Clock.Now()
	for range n {
		c := e.coalescer.take()
		if c.state.CompareAndSwap(callQueued, callSent) {
			c.sent, c.Since, c.lapses = now, e.newest, e.lapses.Load()
			members = append(members, c)
			continue
		}
		e.Ephemerals.Release(c.Ephemeral)
		e.requeue(c.leaveLane())
	}
	if len(members) == 0 {
		e.coalescer.inFlight--
		return
	}
	e.open.send(newShared(members))
}

// requeue puts calls at the front of the queue.
func (e *Epoch) requeue(calls []*Call) {
	if len(calls) > 0 {
		e.queue.Set(append(calls, e.queue.All()...))
	}
}

// shared takes the reply to a transaction of several calls. It answers the calls, or has them sent
// again. The epoch must not be locked.
func (e *Epoch) shared(t *Call, h wire.Header, rest []byte, reply *wire.Reply) error {
	culprit, failed, err := e.session.settleShared(t, h, rest, reply)
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
			c.doubt()
			e.session.Order.Add(c)
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
func (e *Epoch) submitReadOnly(c *Call) error {
	switch c.Opcode { //nolint:exhaustive // the others need a quorum
	case wire.OpExists, wire.OpGetData, wire.OpGetChildren2, wire.OpGetACL:
	default:
		return fault.ErrReadOnly
	}
	switch {
	case e.reading.leaving:
		e.queue.Push(c)
	case c.state.CompareAndSwap(callQueued, callSent):
		e.reading.send(c)
	}
	return nil
}

// notified forwards an event of a watch. The epoch must not be locked.
func (e *Epoch) notified(ev wire.Event) {
	e.mu.Lock()
	e.standing.Fired(ev)
	e.mu.Unlock()
	e.session.Order.Add(order.Func(func() { e.session.Owner.Fired(e, ev) }))
}
