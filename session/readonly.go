package session

import (
	"errors"
	"time"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// This file, with [epoch.submitReadOnly], is all that concerns servers that have lost their quorum and go on answering reads. A
// connection to one serves the blocking reads of the session, and nothing else: it is never
// [epoch.open], and what it answers proves nothing. So the machine of the session, and recipes,
// see no connection.

var errNoQuorum = errors.New("the server has no quorum")

// acceptReadOnly takes the answer of a server without a quorum. An answer that does not know the
// session says nothing about it. A session that such a server has created is one of the
// connection, not of the epoch. The epoch is locked.
func (e *epoch) acceptReadOnly(l *connection, h *wire.ConnectResponse) error {
	timeout := time.Duration(h.Timeout) * time.Millisecond
	switch {
	case !e.session.opts.ReadOnly || e.parting:
		return errNoQuorum
	case h.Session == 0 || e.id != 0 && h.Session != e.id || timeout <= 0:
		return errors.New("the server has no quorum, and does not know the session")
	case len(h.Password) > longestPassword:
		return wire.ErrMalformed
	}
	l.readOnly, l.timeout = true, timeout
	return nil
}

// openedReadOnly is called when a connection to a read-only server takes reads. The epoch is
// locked.
func (e *epoch) openedReadOnly(l *connection) {
	s := e.session
	e.reading, e.refused = l, nil
	waiting := e.queue.All()
	e.queue.Set(nil)
	for _, c := range waiting {
		if !c.blocking {
			e.queue.Push(c)
			continue
		}
		if err := e.submitReadOnly(c); err != nil {
			e.ephemerals.release(c.ephemeral)
			c.ephemeral, c.err = 0, err
			s.order.Put(c.Run)
		}
	}
	s.opts.Logger.Info("reads are answered by a read-only server", "server", l.server, "epoch", e.number)
	s.workers.Go(func() { e.seekQuorum(l) })
	s.order.Put(s.readable)
}

// seekQuorum asks the servers, with longer and longer pauses, until one of them has a quorum. Then
// the connection is left for that.
func (e *epoch) seekQuorum(l *connection) {
	s := e.session
	ctx, cancel := s.until(l.failed)
	defer cancel()
	const first, longest = 100 * time.Millisecond, 10 * time.Second
	for pause := first; ; pause = min(2*pause, longest) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		for _, server := range s.servers.All() {
			if !s.servers.Leads(ctx, server) || ctx.Err() != nil {
				continue
			}
			s.servers.Prefer(server)
			e.mu.Lock()
			now := l.leave()
			e.mu.Unlock()
			if now {
				l.fail(errLeaving)
			}
			return
		}
	}
}
