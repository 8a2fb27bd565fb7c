package session

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zkactors/zkactors/session/internal/order"
)

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
		server, socket := e.session.servers.Dial(ctx, again)
		if socket == nil {
			return nil
		}
		l := newConnection(e, server, socket)
		e.mu.Lock()
		usable := ctx.Err() == nil && e.session.servers.Has(server) // the list may have changed meanwhile
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
	if e.session.servers.Replace(addresses, current, rand.Float64) {
		now = l.leave()
	}
	e.mu.Unlock()
	if now {
		l.fail(errLeaving)
	}
}

// restore begins to set again what the session had on the server. The epoch must not be locked.
func (e *epoch) restore(l *connection) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.phase == phaseGreeting {
		l.restore(slices.Collect(maps.Keys(e.watches)))
	}
}

// opened is called when a connection takes calls. What its handshake has proved counts
// only now: a session that can be reached, but not restored, comes to an end. The epoch is locked.
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
	waiting := append(unsent, e.queue.All()...)
	var refused, dropped []*call
	switch {
	case over != nil: // what waited for a reply that came since the end is in the queue
		refused, waiting = waiting, nil
	case errors.Is(why, ErrAuthFailed):
		e.refused = ErrAuthFailed
		refused, waiting = waiting, nil
	}
	e.queue.Set(slices.DeleteFunc(waiting, func(c *call) bool {
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
		s.servers.Failed(l.server, why)
	case over == nil:
		s.servers.Note(l.server, why)
	}
	s.opts.Logger.Info("connection lost", "server", l.server, "epoch", e.number, "reason", why)
	for _, c := range lost {
		if c.err = c.lost(over); len(lost) == 1 && over == nil {
			c.err = blamedError{c.err}
		}
		s.order.Add(c)
	}
	for _, c := range dropped {
		c.err = ErrDisconnected
		s.order.Add(c)
	}
	for _, c := range refused {
		if over == nil {
			c.err = ErrAuthFailed
			s.order.Add(c)
		} else {
			s.unsent(c, over)
		}
	}
	if errors.Is(why, ErrAuthFailed) {
		s.refuseAuth()
	}
	s.order.Add(order.Func(func() { close(l.told) }))
	s.order.Run()
}

// salvage returns the calls that were sent on the connection, and those that were to be. The epoch
// is locked.
func (e *epoch) salvage(l *connection) (lost, unsent []*call) {
	pending := l.pending.All()
	lost, unsent = pending[:len(pending)-l.unwritten], pending[len(pending)-l.unwritten:]
	l.out = nil // the writer must not find what is queued again
	inCompany := slices.ContainsFunc(lost, func(c *call) bool { return c.members != nil })
	lost, unsent = users(lost), append(users(unsent), e.coalescer.reset(inCompany)...)
	return lost, append(laggards(lost), requeued(unsent)...)
}

// users returns the calls that are not the session's own.
func users(calls []*call) (all []*call) {
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

// end retires the epoch: from now on nothing of it reaches a server. The epoch must not
// be locked.
func (e *epoch) end(why error) {
	e.retire()
	e.mu.Lock()
	e.over, e.open, e.reading = why, nil, nil
	l, queue := e.current, e.queue.All()
	e.queue.Set(nil)
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
