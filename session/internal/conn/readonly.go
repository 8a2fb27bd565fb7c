package conn

import (
	"errors"
	"time"

	"github.com/zkactors/zkactors/session/internal/window"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// This file, with [Epoch.submitReadOnly], has all code for servers that have lost their quorum and
// still answer reads. A connection to such a server serves the blocking reads of the session, and
// nothing else. It is never [Epoch.open], and its answers prove nothing. So the machine of the
// session, and recipes, see no connection.

var errNoQuorum = errors.New("the server has no quorum")

// visits reports whether the connection asks for a session of its own: behind its deadline, to read
// from a server without a quorum that does not know the session, or has seen less. It does so at
// every other attempt. Locked.
func (l *connection) visits() bool {
	e := l.epoch
	l.guest = e.stranger == l.server && e.left() <= 0
	e.stranger = ""
	return l.guest
}

// acceptReadOnly takes the answer of a server without a quorum. If that server does not know the
// session, the session may live all the same. If the server creates a session, it belongs to this
// connection, and not to the epoch. The epoch is locked.
func (e *Epoch) acceptReadOnly(l *connection, h *wire.ConnectResponse) error {
	timeout := time.Duration(h.Timeout) * time.Millisecond
	switch {
	case !e.session.ReadOnly || e.parting:
		return errNoQuorum
	case h.Session == 0 || e.id != 0 && h.Session != e.id && !l.guest || timeout <= 0:
		e.stranger = l.server
		return errors.New("the server has no quorum, and does not know the session")
	case len(h.Password) > longestPassword:
		return wire.ErrMalformed
	}
	l.readOnly, l.timeout = true, timeout
	now := e.session.Clock.Now()
	l.window = window.New(timeout/20, now-l.greeted, now, e.replies)
	return nil
}

// openedReadOnly is called when a connection to a read-only server takes reads. The epoch is
// locked.
func (e *Epoch) openedReadOnly(l *connection) {
	s := e.session
	e.reading = l
	clear(e.refusals)
	waiting := e.queue.All()
	e.queue.Set(nil)
	for _, c := range waiting {
		if !c.Blocking {
			e.queue.Push(c)
			continue
		}
		if err := e.submitReadOnly(c); err != nil {
			e.refuse(c, err)
		}
	}
	s.Workers.Go(func() {
		s.Logger.Info("reads are answered by a read-only server", "server", l.server, "epoch", e.Number)
		e.seekQuorum(l)
	})
	s.Owner.Tell(Changed{})
}

// seekQuorum asks all servers, with growing pauses, until one of them has a quorum. Then it leaves
// the connection for that server.
func (e *Epoch) seekQuorum(l *connection) {
	s := e.session
	ctx, cancel := s.Workers.Until(l.failed)
	defer cancel()
	const first, longest = 100 * time.Millisecond, 10 * time.Second
	for pause := first; ; pause = min(2*pause, longest) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		for _, server := range s.Servers.All() {
			if !s.Servers.Leads(ctx, server) || ctx.Err() != nil {
				continue
			}
			s.Servers.Prefer(server)
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
