package conn

import (
	"time"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// This file has the nudge. ZooKeeper 3.8.0 loses a wake-up in its CommitProcessor about once in
// 40,000 operations of a session that pipelines: it answers only when the next packet comes, which
// may be the next heartbeat, seconds later. So a ping goes out when something is unanswered and
// nothing at all has arrived for a while. It neither proves anything of the lease, nor changes when
// the server counts as silent.

const (
	leastNudge  = 50 * time.Millisecond // no nudge goes out earlier
	nudgeFactor = 4                     // of the shortest answer times: those that were forgotten do not count
)

// expect has the connection look for a forgotten answer. It is called when a caller's request is
// sent, and after an answer while others are awaited; a timer that runs is left alone. Locked.
func (l *connection) expect() {
	switch {
	case l.expecting || l.phase != phaseOpen:
		return
	case l.nudger == nil:
		l.nudger = time.AfterFunc(l.nudgeAfter(), l.nudge)
	default:
		l.nudger.Reset(l.nudgeAfter())
	}
	l.expecting = true
}

// nudgeAfter returns how long a silence lasts before the nudge. Locked.
func (l *connection) nudgeAfter() time.Duration {
	return max(leastNudge, nudgeFactor*l.window.Shortest())
}

// nudge sends a ping, unless something has arrived lately, or a ping is on its way already. If the
// oldest request is still unanswered after that, the server works on it: it is nudged once.
func (l *connection) nudge() {
	e := l.epoch
	e.mu.Lock()
	defer e.mu.Unlock()
	l.expecting = false
	if l.phase != phaseOpen || l.parting || l.pending.Len() <= l.unwritten {
		return // the next request expects its answer, and behind the last one there is none
	}
	oldest := l.pending.All()[0]
	if oldest.xid == l.nudged {
		return
	}
	now := e.session.Clock.Now()
	since := max(oldest.sent, time.Duration(l.arrived.Load()))
	switch rest := since + l.nudgeAfter() - now; {
	case rest > 0:
		l.nudger.Reset(rest)
		l.expecting = true
	case len(l.pinged) == 0:
		l.nudged = oldest.xid
		l.pinged = append(l.pinged, now)
		l.write(wire.AppendRequest(nil, wire.XidPing, &wire.Request{Op: wire.OpPing}))
	}
}
