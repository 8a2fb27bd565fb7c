package conn

import (
	"time"

	"github.com/zkactors/zkactors/session/internal/lease"
)

// Tend does the regular work on the connection, and returns when to call it again, as a duration
// from now. If the lease has ended, it reports that and does nothing. The epoch must not be locked.
func (e *Epoch) Tend() (next time.Duration, overdue bool) {
	next = time.Hour // some work will be due earlier
	now := e.session.Clock.Now()
	if ends := time.Duration(e.ends.Load()); ends != 0 {
		if next = ends - now; next <= 0 {
			return next, true
		}
	}
	e.mu.Lock()
	l, failed := e.current, false
	if e.id != 0 {
		next = min(next, e.terms().Spacing) // timers stand still while the machine sleeps
	}
	if l != nil && l.phase != phaseFailed {
		left, silent := l.check(now)
		next = min(next, left)
		failed = silent != nil && l.condemn(silent) // before an answer can arrive
	}
	warn := e.warnOfLatency(l, now)
	e.mu.Unlock()
	warn()
	if failed {
		l.cut()
	}
	return next, false
}

// Overdue reports whether the lease has ended, and that has to be acted on.
func (e *Epoch) Overdue() bool {
	ends := e.ends.Load()
	return ends != 0 && int64(e.session.Clock.Now()) >= ends
}

// Live reports whether the lease has not ended since it had ended so often: else the connection of
// that time is given up.
func (e *Epoch) Live(lapses int32) bool { return e.lapses.Load() == lapses }

// warnOfLatency returns a function that logs a warning if answers take nearly as long as the lease
// can bear. It does so at most once a minute, and only while a recipe relies on the session. The
// epoch is locked; it must not be locked during the call of log.
func (e *Epoch) warnOfLatency(l *connection, now time.Duration) (log func()) {
	const quiet = time.Minute
	if l == nil || l.readOnly || e.session.relied.Load() == 0 || e.warned != 0 && now-e.warned < quiet {
		return func() {}
	}
	server, took, longest := l.server, l.trip, lease.Terms.Latency
	switch {
	case l.longs >= 2:
		took, longest = l.long, lease.Terms.Reply
		l.longs = 0
	case l.late < 2 || now-l.prompt < e.timeout/2: // some answers behind long replies are late
		return func() {}
	}
	terms := e.terms()
	e.warned = now
	return func() {
		e.session.Logger.Warn("answers are slow: if they take longer, what is held is lost",
			"server", server, "answer", took, "longest", longest(terms))
	}
}
