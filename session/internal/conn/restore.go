package conn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/lease"
	"github.com/zkactors/zkactors/session/internal/watches"
	"github.com/zkactors/zkactors/session/internal/wire"
	"github.com/zkactors/zkactors/session/internal/workers"
)

// This file has the requests at the beginning of every connection, after its handshake: the
// credentials, and the watches that stood. Methods whose comment says "locked" are called with the
// lock of the epoch held.

// restore sends the requests at the beginning of a connection. Locked.
func (l *connection) restore(keys []watches.Key) {
	opts := &l.epoch.session.Options
	l.phase, l.restored = phaseRestoring, l.epoch.session.Clock.Now()
	l.beats = lease.NewBeats(l.restored, rand.Float64(), rand.Float64())
	l.returns, l.asks = l.homesick(l.restored), l.curious(l.restored)
	l.stale = l.epoch.session.strict() // the handshake does not count without a transaction
	for i := range opts.Auth {
		l.missing++
		l.write(wire.AppendRequest(nil, wire.XidAuth, &opts.Auth[i]))
	}
	if l.readOnly {
		l.openIfRestored()
		return
	}
	if l.epoch.parting {
		l.part()
		return
	}
	l.suspect()
	if l.creates || l.epoch.queue.Len()+l.epoch.first.Len() > 0 {
		l.sync()
	}
	switch spread := l.spread(); {
	case l.slow(), l.epoch.stake.Unproven(), l.epoch.owing && l.epoch.session.strict():
		l.heartbeat() // it begins a proof
	case l.epoch.session.strict():
		l.beats.Delay(l.restored + spread)
		l.epoch.owing = true
		l.epoch.session.Poke()
	}
	since := l.epoch.told
	if l.epoch.lapsed {
		since = 0 // servers with older data may have gone on since beyond what the session has seen
	}
	l.resetting = watches.Settings(since, keys)
	l.missing += len(l.resetting)
	l.resetWatches()
	l.openIfRestored()
}

// sync sends a sync, whose answer lets writes go out. A resumed session that writes nothing needs
// no sync. Locked.
func (l *connection) sync() {
	if !l.syncing {
		l.syncing = true
		l.insist("the first sync", newOwn(&wire.Request{Op: wire.OpSync, Path: "/"}, nil), func() error { return nil })
	}
}

// spread returns how long the first transaction waits. Without that transaction the handshake does
// not count. After a failover the transactions of a whole fleet would otherwise arrive at once. The
// nearer the deadline, the shorter the wait. If the connection is lost during the wait, the next
// connection does not wait. Locked.
func (l *connection) spread() time.Duration {
	beat := l.terms().Spacing
	slack := time.Duration(l.epoch.deadline.Load()) - l.restored - beat
	return rand.N(min(max(slack/3, 1), beat))
}

// resetWatches sets watches again, as many as the window has room for. Locked.
func (l *connection) resetWatches() {
	for len(l.resetting) > 0 {
		c := newOwn(l.resetting[0], nil)
		if !l.admits(c) {
			return
		}
		c.counts = true
		l.resetting = l.resetting[1:]
		l.insist("setting watches again", c, func() error {
			l.epoch.mu.Lock()
			l.epoch.prove(l) // the end of restoring has come nearer, so the session may live on
			l.epoch.mu.Unlock()
			return l.answeredMissing()
		})
	}
}

// insist sends a request of the session itself, and fails the connection if a server refuses it.
// Locked.
func (l *connection) insist(what string, c *Call, done func() error) {
	l.repeat(c, func(err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return done()
	})
}

// repeat sends a request of the session itself, and repeats it after a pause while the server is
// busy. Busy servers throttle their clients, and a client that dials again at once would add to
// their load. After some time that is the answer, and the connection should fail, since another
// server may do better. The goroutine that reads calls answered, and fails the connection for the
// error that it returns. Locked.
func (l *connection) repeat(c *Call, answered func(error) error) {
	s := l.epoch.session
	until := s.Clock.Now() + l.terms().Silence
	pauses := workers.NewPauses(20*time.Millisecond, l.terms().Silence/2)
	frame := c.Frame
	c.own = func(code wire.Code) error {
		err := l.epoch.session.Owner.ErrorOf(code)
		if !errors.Is(err, fault.ErrBusy) || s.Clock.Now() > until {
			return answered(err)
		}
		pause := time.After(pauses.NextBackOff())
		s.Workers.Go(func() {
			select {
			case <-pause:
			case <-l.failed:
				return
			}
			l.epoch.mu.Lock()
			defer l.epoch.mu.Unlock()
			if l.phase != phaseFailed {
				l.send(&Call{Opcode: c.Opcode, own: c.own, Frame: frame, counts: c.counts, Roomy: c.Roomy})
			}
		})
		return nil
	}
	l.send(c)
}

// answeredMissing records one more answer for which the connection has waited.
func (l *connection) answeredMissing() error {
	l.epoch.mu.Lock()
	defer l.epoch.mu.Unlock()
	if l.missing--; l.missing < 0 {
		return wire.ErrMalformed // we have sent no such request
	}
	l.restored = l.epoch.session.Clock.Now()
	l.resetWatches()
	l.openIfRestored()
	return nil
}

// openIfRestored lets calls out when all watches stand again and the credentials are accepted.
// Locked.
func (l *connection) openIfRestored() {
	if l.phase == phaseRestoring && l.missing == 0 {
		l.phase = phaseOpen
		l.epoch.opened(l)
	}
}
