package conn

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"github.com/zkactors/zkactors/session/internal/lease"
	"github.com/zkactors/zkactors/session/internal/servers"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// This file finds out what the server of a connection does. If it follows, the commits of all
// clients prove the lease; if it is alone, its own answers do. Then a session that relies on its
// lease need not write. No answer of the protocol says it, but three facts together do (ADR 0090):
//
//   - The configuration of the ensemble, read on the connection itself, has the address at its
//     other end: nothing between chooses a server. That of a server that is alone is empty.
//   - The server at that address says what it does, on another connection.
//   - The connection answers a request that was sent after that. So its server was there all the
//     time: it is the one that has said it, and servers close their connections before they become
//     anything else.
//
// In all other cases the session writes.

// curious returns when a connection that is made now asks what its server does: when a fleet that
// comes back is through with it, and spread. 0 means never. Locked.
func (l *connection) curious(now time.Duration) time.Duration {
	e := l.epoch
	if e.session.Committed || e.session.Lenient || e.dialect.keeper || l.readOnly {
		return 0
	}
	return now + e.timeout + rand.N(5*e.timeout)<<min(e.vain, 8)
}

// wonder asks what the server does, if the time for that has come and a recipe relies on it.
// Locked.
func (l *connection) wonder(now time.Duration) {
	if l.asks == 0 || now < l.asks || !l.proven || !l.epoch.session.strict() {
		return
	}
	l.asks = 0
	l.ask(&wire.Request{Op: wire.OpGetData, Path: "/zookeeper/config"}, func(code wire.Code) error {
		if code == wire.CodeOK {
			config := string(l.reply.Data)
			l.epoch.session.Workers.Go(func() { l.inquire(config) })
		}
		return nil
	})
}

// inquire asks the server at the other end of the connection what it does. From a server that leads
// the session moves to one that follows.
func (l *connection) inquire(config string) {
	e, s := l.epoch, l.epoch.session
	ctx, cancel := s.Workers.Until(l.failed)
	defer cancel()
	remote := l.socket.RemoteAddr()
	if remote == nil {
		return // a user's own kind of socket
	}
	address, is := remote.String(), true
	var err error
	if config != "" {
		looking, end := context.WithTimeout(ctx, s.Timeout)
		is, err = servers.IsMember(looking, config, address, net.DefaultResolver.LookupHost)
		end()
	}
	mode := ""
	if is {
		mode = s.Servers.Mode(ctx, l.server, address)
	}
	if mode == "leader" && l.defect(ctx) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := s.Clock.Now()
	switch {
	case !is && err == nil:
		l.foreign = true
		l.log(slog.LevelDebug, "the session writes: its server is not a member of the ensemble, by its address", "address", address)
	case mode == "follower" && config != "":
		l.said, l.learned = lease.Follows, now
	case mode == "standalone" && config == "":
		l.said, l.learned = lease.Alone, now
	case mode == "leader", mode == "": // or a name server is silent
		e.vain++
		l.asks = l.curious(now)
	}
}

// defect leaves a server that leads for one that follows. It reports whether it does. One that says
// that it follows may take no sessions: so each move makes the next later, until one is of use.
func (l *connection) defect(ctx context.Context) bool {
	e, s := l.epoch, l.epoch.session
	all := s.Servers.All()
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, server := range all {
		if server != l.server && s.Servers.Mode(ctx, server, server) == "follower" {
			e.mu.Lock()
			e.vain, e.leads = e.vain+1, l.server
			e.mu.Unlock()
			return l.moveTo(server)
		}
	}
	return false
}

// shuns reports whether the session does not return to its server while that leads: a recipe relies
// on it, and it may find out what servers do; or it has left that server, and would leave it again.
func (l *connection) shuns() bool {
	e := l.epoch
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.session.Committed && (e.session.strict() && !l.foreign || e.leads == e.session.Servers.Home())
}

// confirm takes the answer to a request that was sent at the given time. Locked.
func (l *connection) confirm(sent time.Duration) {
	if l.said == lease.Unknown || sent <= l.learned {
		return
	}
	l.lease.Learn(l.said)
	l.said, l.epoch.vain = lease.Unknown, 0
	if l.lease.Shares() {
		l.log(slog.LevelDebug, "the server follows: the transactions of all clients extend the lease")
	} else {
		l.log(slog.LevelDebug, "the server is alone: its answers extend the lease")
	}
}
