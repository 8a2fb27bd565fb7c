// Package lease says from when on a session has a whole timeout, as a pure function of what
// was sent and answered. The argument stands in the documentation of package session.
package lease

import "time"

// A Vouch is the part of the ensemble that an answer rests on.
type Vouch int

// The parts of the ensemble.
const (
	ByServer Vouch = iota // the server alone: a read, a ping
	ByLeader              // the leader that the server follows, deposed or not: a sync
	ByQuorum              // a leader that a quorum follows: a transaction
)

// A Lease has the proofs of one connection about the leader that its server follows. All
// times are on the clock of the session.
type Lease struct {
	report time.Duration // a server in touch with its leader reports at least so often whom it has heard
	grain  time.Duration // signs that are closer together count as one

	// signs are requests that were answered and that no report is known to contain.
	// They are ordered by both times.
	signs []sign

	// claims are signs that a report contains which was on its way to the leader when
	// an answer came back. They are ordered by both times.
	claims []claim

	touched   time.Duration // the leader of this connection has counted from then, or later
	committed time.Duration // no later leader had begun by then
}

// A sign is a request that the server has heard by the time that it was answered.
type sign struct{ sent, answered time.Duration }

// A claim says that a report with a sign left the server before the given time.
type claim struct{ sent, left time.Duration }

// New begins with an accepted handshake, which the leader has agreed to. One that
// made a new session was committed by a quorum, too.
func New(report, grain, sent time.Duration, created bool) Lease {
	l := Lease{report: report, grain: grain, touched: sent}
	if created {
		l.committed = sent
	}
	return l
}

// Answered follows an answer that came at the given time.
//
// The server hears from its leader in order: pings, each of which it answers with a report
// of the sessions that it has heard, and the leader's part of answers. A request that is
// sent l.report after an answer, and in whose answer the leader takes part, has a ping
// before its answer: a report with the first request has left the server by then. The
// leader hears from the server in order, too: it has the report when it answers a request
// that is sent after that.
func (l *Lease) Answered(sent, now time.Duration, by Vouch) {
	if by != ByServer {
		n := 0
		for ; n < len(l.claims) && l.claims[n].left <= sent; n++ {
			l.touched = max(l.touched, l.claims[n].sent)
		}
		l.claims = l.claims[n:]
		n = 0
		for n < len(l.signs) && l.signs[n].answered <= sent-l.report {
			n++
		}
		if n > 0 {
			l.claims = append(l.claims, claim{sent: l.signs[n-1].sent, left: now})
			l.signs = l.signs[n:]
		}
	}
	if by == ByQuorum {
		l.committed = max(l.committed, sent)
	}
	if n := len(l.signs); n == 0 || sent-l.signs[n-1].sent > l.grain {
		l.signs = append(l.signs, sign{sent: sent, answered: now})
	}
}

// Since returns from when on the session has a whole timeout. Trusting, it takes the leader
// of this connection for the newest one.
func (l *Lease) Since(trusting bool) time.Duration {
	if trusting {
		return l.touched
	}
	return min(l.touched, l.committed)
}

// Terms are the times that follow from a session timeout.
type Terms struct {
	Timeout   time.Duration // less a margin for clocks that do not agree, and for us to act
	Report    time.Duration // within which a server reports to the leader whom it has heard
	Heartbeat time.Duration // between signs of life
	Silence   time.Duration // how long to wait for an answer before trying another server
}

// TermsOf computes them. Half of what is left of a lease when a heartbeat is overdue is
// for finding another server.
func TermsOf(timeout, tick time.Duration) Terms {
	if tick <= 0 || tick > timeout/2 {
		tick = timeout / 2
	}
	t := Terms{
		Timeout:   timeout - min(max(timeout/40, 10*time.Millisecond), 250*time.Millisecond),
		Report:    tick * 5 / 8, // half a tick, and what a server needs for it
		Heartbeat: timeout / 9,
	}
	// The newest sign of life that is proven to have been reported is that many
	// heartbeats older than the one that is overdue.
	lag := 3 + t.Report/t.Heartbeat
	t.Silence = (t.Timeout - lag*t.Heartbeat) / 2
	return t
}
