package conn

import (
	"slices"
	"time"

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

// settle computes the deadline. If answers are slow all the time, proofs may come too late: a
// session on which no recipe relies then goes on without them.
func (e *Epoch) settle() {
	if e.id == 0 {
		return // there is no session yet
	}
	relied := e.session.relied.Load() > 0
	switch high := relied || e.Ephemerals.Some(); {
	case high && !e.stake.High():
		e.raise(false)
	case !high:
		e.stake.Lower()
	}
	until := int64(e.stake.Deadline(e.terms(), e.session.strict(), !relied && e.steady > e.slowness()))
	if before := e.deadline.Swap(until); before == 0 || until < before {
		e.session.Poke()
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
	until := time.Duration(e.deadline.Load())
	return l.slow() || e.stake.Unproven() || e.stake.High() && until-e.session.Clock.Now() < e.timeout/3
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
