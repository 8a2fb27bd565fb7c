package conn

import (
	"slices"
	"time"

	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/lease"
)

// This file connects the epoch with the machine of its lease, lease.Stake. The machine decides
// which heartbeats the session sends for its lease, and when the lease ends. While nothing rests on
// the lease, the session sends pings like a plain client. See docs/adr/0060.

// moment returns the input of the machine: the terms of the lease, and the time. The epoch is
// locked, here and in all functions below.
func (e *Epoch) moment(l *connection) lease.Moment {
	return lease.Moment{Terms: e.terms(), Now: e.session.Clock.Now(), Slow: l != nil && l.slow()}
}

// frugal reports whether the heartbeats of the session are pings.
func (l *connection) frugal() bool { return !l.readOnly && l.epoch.stake.Frugal(l.epoch.moment(l)) }

// prove counts the proofs that a connection has brought.
func (e *Epoch) prove(l *connection) {
	if e.stake.Prove(e.moment(l), &l.lease, e.session.strict(), l.greeted) {
		e.settle()
	}
	if !e.stake.Lapsed() && e.open == l {
		e.owes, e.mute = 0, false
	}
}

// rely is called when the first recipe begins to rely on the session.
func (e *Epoch) rely() {
	e.stake.Rely()
	e.raise(true)
	e.settle()
}

// rest is called when the last recipe stops relying on the session.
func (e *Epoch) rest() {
	e.stake.Rest(e.session.Clock.Now())
	e.settle()
	e.advance()
}

// settle computes the deadline. While nothing rests on the lease, or while it has ended and is not
// proven again, it is acted on only without a connection: a party that waits for the servers then
// learns that they are away. If answers are slow all the time, proofs may come too late: a session
// on which no recipe relies then goes on without them.
func (e *Epoch) settle() {
	if e.id == 0 {
		return // there is no session yet
	}
	relied := e.session.relied.Load() > 0
	bound := e.session.bound()
	switch high := bound || e.Ephemerals.Some(); {
	case high && !e.stake.High():
		e.raise(false)
	case !high:
		e.stake.Lower()
	}
	until := int64(e.stake.Deadline(e.terms(), e.session.strict(), !relied && e.steady > e.slowness()))
	e.deadline.Store(until)
	ends := until
	if !e.closing && (e.lapsed || e.open != nil && (!bound || e.stake.Lapsed())) {
		ends = 0
	}
	if before := e.ends.Swap(ends); ends != 0 && (before == 0 || ends < before) {
		e.session.Poke()
	}
}

// Lapse follows the end of the lease. What was held is lost, and others may have it soon. So from
// now on nothing counts that a server has said before: the connection is given up, and the requests
// of a session on which a recipe relies go out when a later connection has proved the lease anew.
// Requests that wait fail, but for those that wait on. Lapse returns when the lease has ended, and
// whether something was held; or that it has not ended after all. It is called in the session's
// order, and the epoch must not be locked.
func (e *Epoch) Lapse() (ended time.Time, held, is bool) {
	e.mu.Lock()
	if !e.Overdue() { // a connection has opened since
		e.mu.Unlock()
		return time.Time{}, false, false
	}
	ended, held = e.until(), e.session.held.Load() > 0
	e.lapses.Add(1)
	if e.lapsed = true; e.session.bound() {
		if e.owes == 0 {
			e.owes, e.mute = e.session.Clock.Now(), false
		}
		e.stake.Lapse()
	}
	l := e.open
	cut := l != nil && l.condemn(errLapsed)
	if l != nil {
		l.lapsed, l.held, e.open = true, held, nil
	}
	over, on := outlived(e.queue.All(), held)
	e.queue.Set(on)
	e.settle()
	e.mu.Unlock()
	if cut {
		l.cut()
	}
	e.lapse(over)
	return ended, held, true
}

// outlived divides calls that have waited when the lease ended. A recipe has made its requests from
// what it has read before; other data may have come in its place, so it looks anew. If something
// was held, any request may have been made for it. Otherwise the callers that block wait on.
func outlived(waiting []*Call, held bool) (over, on []*Call) {
	for _, c := range waiting {
		if held || !c.Blocking {
			over = append(over, c)
		} else {
			on = append(on, c)
		}
	}
	return over, on
}

// lapse answers calls that have waited when the lease ended. The epoch must not be locked.
func (e *Epoch) lapse(waiting []*Call) {
	for _, c := range waiting {
		if c.state.CompareAndSwap(callQueued, callSent) {
			c.sent, c.Err = 0, fault.ErrLapsed
			e.session.Order.Add(c)
		} else {
			e.Ephemerals.Release(c.Ephemeral)
		}
	}
}

// raise is called when the lease begins to matter: the session has ephemeral nodes, or a recipe
// relies on it.
func (e *Epoch) raise(relies bool) {
	e.session.Poke() // the next heartbeat is due earlier now
	switch {
	case e.id == 0:
		e.stake.Raise(lease.Moment{Slow: true}, relies, nil) // nothing to prove yet, and no timeout
	case e.open == nil:
		e.stake.Raise(e.moment(e.current), relies, nil)
	case e.stake.Raise(e.moment(e.current), relies, &e.open.lease):
		e.open.beat(false)
	}
}

// hastens reports whether each proof begins as early as possible.
func (l *connection) hastens() bool {
	e := l.epoch
	left := e.left()
	return l.slow() || e.stake.Unproven() || e.stake.High() && left > 0 && left < e.timeout/3
}

// assures reports whether calls may go out.
func (e *Epoch) assures() bool {
	return !e.stake.Unproven() || e.stake.Assures(e.moment(e.open), &e.open.lease)
}

// bears records that a call has gone out whose answer will be the proof, so no heartbeat is due.
func (l *connection) bears(now time.Duration) {
	if l.epoch.stake.Unproven() && slices.ContainsFunc(l.pending.All(), func(c *Call) bool { return IsWrite(c.Opcode) && c.sent >= now }) {
		l.beats.Served(now)
	}
}
