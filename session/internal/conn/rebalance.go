package conn

import (
	"math/rand/v2"
	"time"
)

// This file returns sessions to the server where they belong, after that server was down. Without
// it, a server that comes back would stay without sessions. Each session has the list of servers in
// an order of its own, and belongs to the first server of the list. So if all sessions are where
// they belong, they are spread evenly.

// homesick returns when a connection that is made now may be left for the server where the session
// belongs; 0 means never. Each failed attempt makes the next one later, because a server may accept
// connections and still be of no use. Locked.
func (l *connection) homesick(now time.Duration) time.Duration {
	e := l.epoch
	within := e.session.Rebalance
	if within <= 0 || e.dialect.keeper { // leaving Keeper would end the session
		return 0
	}
	if e.session.Servers.Home() == l.server {
		e.strayed = 0
	}
	return now + (within/10+rand.N(within*9/10+1))<<min(e.strayed, 4)
}

// rebalance begins an attempt to return to the server where the session belongs, if the time for
// that has come. Locked.
func (l *connection) rebalance(now time.Duration) {
	s := l.epoch.session
	if l.returns == 0 || now < l.returns || s.Servers.Home() == l.server {
		return
	}
	l.returns = l.homesick(now)
	s.Workers.Go(l.goHome)
}

// goHome leaves the connection for the server where the session belongs, if that server accepts
// connections. It stays if little of the lease is left, or if answers are slow.
func (l *connection) goHome() {
	e := l.epoch
	s := e.session
	ctx, cancel := s.Workers.Until(l.failed)
	defer cancel()
	home := s.Servers.Home()
	if !s.Servers.Accepts(ctx, home) || l.shuns() && s.Servers.Mode(ctx, home, home) == "leader" {
		return
	}
	if l.moveTo(home) {
		e.mu.Lock()
		e.strayed++
		e.mu.Unlock()
	}
}

// moveTo leaves the connection for another server, and reports whether it does. It stays if little
// of the lease is left, or if answers are slow.
func (l *connection) moveTo(server string) (leaves bool) {
	e := l.epoch
	s := e.session
	e.mu.Lock()
	left := time.Duration(e.deadline.Load()) - s.Clock.Now()
	leaves, now := l.phase == phaseOpen && l.proven && !l.leaving && !l.slow() && left > e.timeout/3 && s.Servers.Has(server), false
	if leaves {
		s.Servers.Prefer(server)
		now = l.leave()
	}
	e.mu.Unlock()
	if now {
		l.fail(errLeaving)
	}
	return leaves
}
