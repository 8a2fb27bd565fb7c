package conn

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/lease"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// This file has the requests that a connection sends by itself so that the lease lasts. It also
// decides when the server counts as silent. Methods whose comment says "locked" are called with the
// lock of the epoch held.

// heartbeat sends a request that shows the leader that the session lives. While a recipe relies on
// the session, some heartbeats are transactions that change nothing: only they prove that a quorum
// follows the leader. On a server that follows, the transactions of other clients prove it, too;
// and a server that is alone proves it itself. Locked.
func (l *connection) heartbeat() {
	frugal := l.frugal()
	if l.epoch.stake.Beats(frugal); frugal {
		l.ping()
		return
	}
	s := l.epoch.session
	commits := l.stale || l.beats.Delayed()
	if !l.lease.Shares() && !l.lease.Settles() {
		commits = commits || l.beats.Commits(&l.lease, s.Clock.Now(), l.terms())
	}
	l.beat(s.strict() && commits)
}

// ping sends a ping. Replies to pings arrive in the order of the pings. Locked.
func (l *connection) ping() {
	now := l.epoch.session.Clock.Now()
	l.beats.Pinged(now)
	l.pinged = append(l.pinged, now)
	l.write(wire.AppendRequest(nil, wire.XidPing, &wire.Request{Op: wire.OpPing}))
}

// beat sends a transaction if commits is set, and otherwise a sync. Locked.
func (l *connection) beat(commits bool) {
	l.stale = false
	r := &wire.Request{Op: wire.OpSync, Path: "/"}
	switch {
	case l.readOnly:
		r.Op = wire.OpExists
	case commits:
		r = &wire.Request{Op: wire.OpMulti, Ops: []wire.Request{{Op: wire.OpCheck, Path: "/", Version: -1}}}
	}
	sent, terms := l.ask(r, l.beaten), l.terms() // not a moment earlier: else its own answer were that to another request
	l.beats.Sent(sent, commits && !l.readOnly, terms, l.trip <= terms.Prompt, l.hastens())
}

// precede sends a heartbeat ahead of a request that is about to go out alone, if answers are slow
// or the answer to the request may be. Suppose that a caller sends one large request after the
// other. Heartbeats that come due behind them would all have slow answers, and a proof takes three
// of them. The heartbeat ahead is answered at once: it ends one proof, and begins the next. Locked.
func (l *connection) precede(c *Call) {
	if l.phase != phaseOpen || !l.window.Empty() {
		return
	}
	now := l.epoch.session.Clock.Now()
	long := l.epoch.stake.High() && now > l.beats.Asked() && l.window.Long(c.Opcode, len(c.Frame))
	least := l.terms().Spacing / 2
	if long {
		least = l.window.Target() // closer together they prove nothing that counts
	}
	if (long || l.slow()) && now-l.preceded >= least {
		l.preceded = now
		l.heartbeat()
		l.beats.Recount()
	}
}

// beaten takes the answer to a heartbeat. A server that refuses all heartbeats is left, like a
// silent server.
func (l *connection) beaten(code wire.Code) error {
	err := l.epoch.session.Owner.ErrorOf(code)
	if err == nil {
		return nil
	}
	l.epoch.mu.Lock()
	defer l.epoch.mu.Unlock()
	l.beats.Refused()
	if !errors.Is(err, fault.ErrBusy) {
		return nil
	}
	if terms := l.terms(); l.epoch.session.Clock.Now()-l.lease.Heard() < terms.Heartbeat+terms.Silence {
		return nil
	}
	return fmt.Errorf("heartbeats: %w", err)
}

// share lets commits of other clients prove the lease, on a server that follows. If the newest
// proof is too old after a sync, a transaction follows, unless one has gone out since. Locked.
func (l *connection) share(zxid int64, sync bool, sent time.Duration) {
	_, stale := l.lease.Saw(zxid, sync, sent)
	if stale && l.epoch.session.strict() && l.phase == phaseOpen && !l.beats.CommitsSince(sent) {
		l.stale = true
		l.heartbeat()
	}
}

// ponged takes the reply to a ping. It vouches only for the server.
func (l *connection) ponged(zxid int64) {
	e := l.epoch
	now := e.session.Clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.phase == phaseFailed || len(l.pinged) == 0 {
		return
	}
	sent := l.pinged[0]
	l.pinged = l.pinged[1:]
	l.replied.Store(int64(now))
	l.timed(now - sent)
	l.lease.Answered(sent, now, lease.ByServer)
	l.share(zxid, false, sent)
	l.compare(zxid)
	if l.phase == phaseOpen {
		e.prove(l)
	}
	if l.pending.Len() > 0 {
		l.expect()
	}
}

// quiet returns since when the server has been silent although a request waits for its answer. It
// returns now if no request waits. Bytes of replies end the silence. Other bytes, such as events of
// watches, end it too, but only for twice the patience. Locked.
func (l *connection) quiet(now, patience time.Duration) (since time.Duration) {
	oldest := now
	if l.pending.Len() > 0 {
		oldest = l.pending.All()[0].sent
	}
	if len(l.pinged) > 0 {
		oldest = min(oldest, l.pinged[0])
	}
	if oldest == now {
		return now
	}
	replied := max(oldest, time.Duration(l.replied.Load()), time.Duration(l.taken.Load()))
	return max(replied, min(time.Duration(l.arrived.Load()), replied+patience))
}

// slow reports whether answers take so long that proofs must overlap. Locked.
func (l *connection) slow() bool { return l.trip > l.epoch.slowness() }

// timed records how long the answer to a request of the session itself has taken. Locked.
func (l *connection) timed(took time.Duration) {
	e := l.epoch
	l.trip = max(took, l.trip-l.trip/8)
	e.steady = min(took, e.steady+e.steady/8+time.Millisecond)
	if l.late++; took < l.terms().Latency()*3/4 {
		l.late, l.prompt = 0, e.session.Clock.Now()
	}
}

// stretched records how long the answer to a caller has taken. Locked.
func (l *connection) stretched(took time.Duration) {
	if l.longs++; took < l.terms().Reply()*3/4 || l.epoch.session.relied.Load() == 0 {
		l.longs = 0
	}
	l.long = took
}

// check fails the connection if the server has been silent for too long, sends a heartbeat if one
// is due, and returns when to check again. Locked.
func (l *connection) check(now time.Duration) (next time.Duration, silent error) {
	if l.phase == phaseGreeting {
		left := l.made + l.patience() - now
		if left <= 0 {
			return 0, errUnanswered
		}
		return left, nil
	}
	terms := l.terms()
	patience := max(terms.Silence, terms.Spacing+l.trip*3/2)
	next = l.silentAt(now, terms, patience) - now
	if next <= 0 || l.phase == phaseRestoring && now-l.restored > 2*patience {
		return 0, errSilent
	}
	if !l.proven && l.phase == phaseOpen && now-l.made > terms.Spacing/2 {
		l.proven = true
		l.epoch.coalescer.broken = 0
		if say := l.epoch.session.Servers.Succeeded(l.server); say != nil {
			l.epoch.session.Workers.Go(say)
		}
	}
	if l.due(terms) <= now {
		l.heartbeat()
	}
	if until := l.pausesUntil(); until > 0 {
		next = min(next, until-now)
	} else {
		l.epoch.advance() // a pause may be over
	}
	l.rebalance(now)
	l.wonder(now)
	l.tended = l.due(terms)
	return min(next, l.tended-now), nil
}

// patience returns how long the server may take for the handshake. If the lease needs a transaction
// after the handshake, at least as much time is left for that. Locked.
func (l *connection) patience() time.Duration {
	e := l.epoch
	patience := e.session.Servers.Patience()
	if ends := time.Duration(e.ends.Load()); ends != 0 && e.session.strict() {
		patience = min(patience, max((ends-l.made)/2, e.timeout/36))
	}
	return patience
}

// silentAt returns when the server counts as silent, if nothing arrives until then. Slow answers
// earn the server more patience, but only while the lease leaves time for another server. Locked.
func (l *connection) silentAt(now time.Duration, terms lease.Terms, patience time.Duration) time.Duration {
	since := l.quiet(now, patience)
	last := time.Duration(l.epoch.deadline.Load()) - terms.Silence*3/4
	return min(since+patience, max(since+terms.Silence, last))
}

// due returns when the next heartbeat is due. Locked.
func (l *connection) due(terms lease.Terms) time.Duration {
	if l.frugal() {
		return l.beats.DuePing(terms)
	}
	return l.beats.Due(&l.lease, terms, l.trip <= terms.Prompt, l.hastens())
}

// dueEarlier reports whether an answer has made the next heartbeat due earlier than when check has
// looked, with something at stake and without haste. Locked.
func (l *connection) dueEarlier() bool {
	if !l.epoch.stake.High() {
		return false
	}
	terms := l.terms()
	return l.beats.Due(&l.lease, terms, l.trip <= terms.Prompt, false) < l.tended
}

// terms returns the terms of the epoch, or those of the connection's own session if the server is
// read-only. Locked.
func (l *connection) terms() lease.Terms {
	if l.readOnly {
		return lease.TermsOf(l.timeout, 0)
	}
	return l.epoch.terms()
}
