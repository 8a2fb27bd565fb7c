package conn

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zkactors/zkactors/session/internal/fault"
)

// dial returns a connection to some server, or nil when the epoch is retired. It tries until then.
// It begins only after the loss of the last connection has been reported.
func (e *Epoch) dial(ctx context.Context) *connection {
	e.mu.Lock()
	last := e.current
	lost := last != nil && last.proven && !last.leaving
	e.mu.Unlock()
	if last != nil {
		<-last.told
	}
	e.relent(ctx)
	for ; ctx.Err() == nil; lost = false {
		server, socket := e.session.Servers.Dial(ctx, e.left, lost)
		if socket == nil {
			return nil
		}
		l := newConnection(e, server, socket)
		e.mu.Lock()
		usable := ctx.Err() == nil && e.session.Servers.Has(server) // the list may have changed in the meantime
		if usable {
			e.current = l
		}
		e.mu.Unlock()
		if usable {
			e.session.Workers.Go(l.writeAll)
			e.session.Poke()
			return l
		}
		_ = socket.Close() // nothing was sent on it
	}
	return nil
}

// relent pauses for a timeout, if others may wait for what the session has lost, or for its turn in
// line, and for three timeouts each server that may have taken it has come to nothing: each may
// have made the session live for another timeout, and so it might never end.
func (e *Epoch) relent(ctx context.Context) {
	e.mu.Lock()
	now := e.session.Clock.Now()
	pauses, pause := e.owes != 0 && e.mute && now-e.owes >= 3*e.timeout, e.timeout+e.timeout/10
	if pauses {
		e.owes, e.mute = now+pause, false
	}
	e.mu.Unlock()
	if pauses {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// left returns the rest of the lease, less than 0 when it has ended, or 0 without one. The epoch
// need not be locked.
func (e *Epoch) left() time.Duration {
	deadline := time.Duration(e.deadline.Load())
	if deadline == 0 {
		return 0
	}
	return deadline - e.session.Clock.Now()
}

// SetServers replaces the list of servers. It leaves the server of the present connection if the
// sessions would not be spread evenly otherwise. The epoch must not be locked.
func (e *Epoch) SetServers(addresses []string) {
	e.mu.Lock()
	l, current := e.current, ""
	if l != nil && l.phase != phaseFailed && !l.leaving {
		current = l.server
	}
	now := false
	if e.session.Servers.Replace(addresses, current, rand.Float64) && (!e.dialect.keeper || !e.session.Servers.Has(current)) {
		now = l.leave()
	}
	e.mu.Unlock()
	if now {
		l.fail(errLeaving)
	}
}

// restore begins to set up again the credentials and watches of the session. The epoch must not be
// locked.
func (e *Epoch) restore(l *connection) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.phase == phaseGreeting {
		l.restore(slices.Collect(maps.Keys(e.standing)))
	}
}

// opened is called when a connection takes calls. The proof of its handshake counts only from now
// on: otherwise a session that can connect, but cannot restore its watches, would live on without
// an end. The epoch is locked.
func (e *Epoch) opened(l *connection) {
	if l.readOnly {
		e.openedReadOnly(l)
		return
	}
	e.open, e.lapsed = l, false
	clear(e.refusals)
	e.told = e.newest // not earlier: the next connection would miss events
	e.stake.Opened(&l.lease)
	e.prove(l)
	e.settle()
	e.session.Owner.Tell(Established{e.Number, e.lapses.Load(), e.id, e.timeout, l.server, e.past})
	e.advance()
}

// severed reports to the session that a connection has failed, and answers the calls that were lost
// with it. The goroutine that reads calls it once, after it has handled all frames of the
// connection. The epoch must not be locked.
//
// A connection that fails early counts as an attempt that failed. So there is a pause before the
// next attempt at a server that accepts connections and hangs up.
func (e *Epoch) severed(l *connection) {
	s := e.session
	e.mu.Lock()
	why, over, parting := l.why, e.over, e.parting
	opened := l == e.open || l == e.reading || errors.Is(why, errLapsed)
	if e.open == l {
		e.open = nil
		e.settle()
	}
	if e.reading == l {
		e.reading = nil
	}
	e.mute = e.mute || l.greeted >= 0 && !l.readOnly && !errors.Is(why, errLapsed)
	lost, unsent := e.salvage(l)
	var lapsed, refused, dropped []*Call
	if l.lapsed {
		lapsed, unsent = outlived(unsent, l.held)
	}
	waiting := append(unsent, e.queue.All()...)
	rejects := false
	switch {
	case over != nil: // a reply after the end may have put calls of its lane into the queue
		refused, waiting = waiting, nil
	case errors.Is(why, fault.ErrAuthFailed):
		was := e.refused()
		e.refusals[l.server], e.refusal = struct{}{}, why
		if e.refused() {
			refused, waiting, rejects = waiting, nil, !was
		}
	}
	e.queue.Set(slices.DeleteFunc(waiting, func(c *Call) bool {
		if c.Fleeting {
			dropped = append(dropped, c)
		}
		return c.Fleeting
	}))
	e.mu.Unlock()
	s.Owner.Tell(Severed{e.Number, e.until()})
	switch {
	case errors.Is(why, errLeaving), parting, over != nil: // we have left it
	case !opened && errors.Is(why, fault.ErrExpired): // the session is of no use, not the server
	case !l.proven:
		s.Servers.Failed(l.server, why, opened)
	default:
		s.Servers.Note(l.server, why)
	}
	if parting || errors.Is(over, fault.ErrClosed) {
		s.Logger.Debug("connection closed", "server", l.server, "epoch", e.Number)
	} else {
		s.Logger.Info("connection lost", "server", l.server, "epoch", e.Number, "reason", why)
	}
	for _, c := range lost {
		if c.Err = c.lost(over); len(lost) == 1 && over == nil {
			c.Err = fault.Blame(c.Err, l.proven)
		}
		c.doubt()
		s.Order.Add(c)
	}
	e.lapse(lapsed)
	for _, c := range dropped {
		c.Err = fault.ErrDisconnected
		s.Order.Add(c)
	}
	for _, c := range refused {
		if over == nil {
			c.Err = why
			s.Order.Add(c)
		} else {
			c.Of.Unsent(over)
		}
	}
	if rejects {
		s.Logger.Error("the servers refuse the credentials in Options.Auth or Options.SASL")
		s.Owner.Tell(Changed{})
	}
	s.Order.Put(func() { close(l.told) })
}

// salvage returns the calls that were sent on the connection, and the calls that were not yet sent.
// The epoch is locked.
func (e *Epoch) salvage(l *connection) (lost, unsent []*Call) {
	pending := l.pending.All()
	lost, unsent = pending[:len(pending)-l.unwritten], pending[len(pending)-l.unwritten:]
	l.out = nil // so that the writer does not send them as well
	inCompany := slices.ContainsFunc(lost, func(c *Call) bool { return c.members != nil })
	lost, unsent = users(lost), append(users(unsent), e.coalescer.reset(inCompany)...)
	return lost, append(laggards(lost), requeued(unsent)...)
}

// users returns the calls of callers, without the session's own requests.
func users(calls []*Call) (all []*Call) {
	for _, c := range calls {
		switch {
		case c.members != nil:
			all = append(all, c.members...)
		case c.own == nil:
			all = append(all, c)
		}
	}
	return all
}

// End retires the epoch: from now on it sends nothing to a server. The epoch must not be locked.
func (e *Epoch) End(why error) {
	e.retire()
	e.mu.Lock()
	e.over, e.open, e.reading = why, nil, nil
	l, queue := e.current, slices.Concat(e.first.All(), e.queue.All())
	e.first.Set(nil)
	e.queue.Set(nil)
	e.mu.Unlock()
	e.gone()
	for _, c := range queue {
		c.Of.Unsent(why)
	}
	if l != nil {
		l.fail(why)
	}
}

// Closing says that the session is being closed: from now on the end of its lease counts, whatever
// rests on it. The epoch must not be locked.
func (e *Epoch) Closing() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closing = true
	e.settle()
}

// Part asks the server to close the session, as soon as there is a connection. It waits for the
// confirmation, at most for the given time. It does not wait if the epoch was never announced,
// and every server refuses the credentials: the session owns nothing, and the next attempt would be
// refused too. The epoch must not be locked.
func (e *Epoch) Part(patience time.Duration) {
	e.mu.Lock()
	e.parting = true
	if e.current != nil {
		e.current.part()
	}
	vain := e.id == 0 || e.refused() && !e.announced.Load()
	e.mu.Unlock()
	if vain {
		return
	}
	select {
	case <-e.parted:
	case <-time.After(patience):
	}
}

// Parted returns a channel that is closed when the server has confirmed that the session is closed,
// or when the epoch has ended.
func (e *Epoch) Parted() <-chan struct{} { return e.parted }
