// Package lease says from when on a session has a whole timeout, as a pure function of the requests
// that were sent and answered. The argument stands in the documentation of package session.
package lease

import (
	"math"
	"slices"
	"time"
)

// A Vouch is the part of the ensemble that an answer rests on.
type Vouch int

// The parts of the ensemble.
const (
	ByServer Vouch = iota // the server alone: a read, a ping
	ByLeader              // the leader that the server follows, deposed or not: a sync
	ByQuorum              // a leader that a quorum follows: a transaction
)

// A Role is what a server does, for as long as a connection to it lasts. A server closes its
// connections before it becomes anything else.
type Role int

// The roles that are known.
const (
	Unknown Role = iota // or it leads, or observes
	Follows             // a leader, which takes part in its answers to syncs
	Alone               // it is no member of an ensemble: no other can depose it
)

// A Lease has the proofs that one connection has about the leader of its server. All times are on
// the clock of the session.
type Lease struct {
	report  time.Duration // a server in touch with its leader reports at least so often which sessions it has heard
	grain   time.Duration // signs that are closer together count as one
	spacing time.Duration // between signs that begin a proof: see Due
	begun   time.Duration // when the newest of these was sent
	prompt  time.Duration // the newest answer took longer, if it was slow: see Saw
	slow    bool
	tardy   time.Duration // when the newest request was sent whose answer was slow: see Next

	// signs are requests that were answered and that no report is known to contain.
	// They are ordered by both times.
	signs []sign

	// claims are signs that a report contains which was on its way to the leader when
	// an answer came back. They are ordered by both times.
	claims []claim

	served    time.Duration // when the newest request was sent that was answered
	heard     time.Duration // when the newest request was sent in whose answer the leader took part
	touched   time.Duration // the leader of this connection has counted from then, or later
	committed time.Duration // no later leader had begun by then

	// mark is the newest sync with an answer. It is cleared when a greater zxid is seen, which
	// proves it.
	mark   mark
	marked bool

	role Role // of the server
}

// A mark is a sync, and the zxid of its answer.
type mark struct {
	sent time.Duration
	zxid int64
}

// A sign is a request that the server has heard by the time that it was answered.
type sign struct {
	sent, answered time.Duration
	begins         bool // a proof
}

// A claim says that a report with a sign left the server before the given time.
type claim struct {
	sent, left time.Duration
	begins     bool // the proof of a sign that does
}

// New begins with an accepted handshake, which the leader has agreed to. A handshake that made a
// new session was committed by a quorum, too.
func New(terms Terms, sent time.Duration, created bool) Lease {
	l := Lease{
		report: terms.Report, grain: terms.Spacing / 16, spacing: terms.Spacing,
		begun: sent - terms.Spacing, prompt: terms.Prompt, served: sent, heard: sent, touched: sent,
	}
	if created {
		l.committed = sent
	}
	return l
}

// Learn records what the server does: from the handshake of the connection on, and as long as it
// lasts.
func (l *Lease) Learn(role Role) {
	if l.role = role; role == Alone {
		l.signs, l.claims = nil, nil // no report is waited for
	}
}

// Shares reports whether the commits of other clients are proofs, as they are on a server that
// follows.
func (l *Lease) Shares() bool { return l.role == Follows }

// Settles reports whether the answer of the server to a sync is a proof, as it is of one that is
// alone.
func (l *Lease) Settles() bool { return l.role == Alone }

// Answered records an answer that came at the given time.
//
// A server that is alone counts each request itself, before it answers.
//
// The server hears from its leader in order: pings, each of which it answers with a report
// of the sessions that it has heard, and the leader's part of answers. A request that is
// sent l.report after an answer, and in whose answer the leader takes part, has a ping
// before its answer: a report with the first request has left the server by then. The
// leader hears from the server in order, too: it has the report when it answers a request
// that is sent after that.
func (l *Lease) Answered(sent, now time.Duration, by Vouch) {
	l.served, l.slow = max(l.served, sent), now-sent > l.prompt
	if l.slow {
		l.tardy = max(l.tardy, sent)
	}
	if l.role == Alone {
		l.heard, l.touched, l.committed = max(l.heard, sent), max(l.touched, sent), max(l.committed, sent)
		return
	}
	if by != ByServer {
		l.heard = max(l.heard, sent)
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
			begins := slices.ContainsFunc(l.signs[:n], func(s sign) bool { return s.begins })
			l.claims = append(l.claims, claim{sent: l.signs[n-1].sent, left: now, begins: begins})
			l.signs = l.signs[n:]
		}
	}
	if by == ByQuorum {
		l.committed = max(l.committed, sent)
	}
	if n := len(l.signs); n == 0 || sent-l.signs[n-1].sent > l.grain {
		begins := sent-l.begun >= l.spacing
		if begins {
			l.begun = sent
		}
		l.signs = append(l.signs, sign{sent: sent, answered: now, begins: begins})
	}
	l.forget(sent)
}

// forget drops the signs before the newest one of which a report will have left when an answer of
// the leader comes: requests are answered in order, and the next ones were sent after that time. A
// session that only reads, or sends pings, has no such answer for days.
func (l *Lease) forget(sent time.Duration) {
	n := 0
	for n+1 < len(l.signs) && l.signs[n+1].answered <= sent-l.report {
		n++
	}
	if n > 0 {
		l.signs[n].begins = slices.ContainsFunc(l.signs[:n+1], func(s sign) bool { return s.begins })
		l.signs = l.signs[n:]
	}
}

// Due returns when the next request helps a proof that has begun. The newest request in which the
// leader takes part was sent at the time asked. If answers are slow, proofs that follow each other
// take too long: they begin once in a heartbeat, overlap, and each goes on at the first moment.
func (l *Lease) Due(asked time.Duration) time.Duration {
	due := time.Duration(math.MaxInt64)
	for _, c := range l.claims {
		if c.begins && c.left > asked {
			due = min(due, c.left)
		}
	}
	for _, s := range l.signs {
		if s.begins && s.answered+l.report > asked {
			due = min(due, s.answered+l.report)
		}
	}
	return due
}

// Next returns the first and the last moment of the next request without which the newest proof
// would become older than terms.lag, with prompt answers. The newest request in which the leader
// takes part was sent at the time asked, and the next heartbeat is at the time regular. Heartbeats
// at equal distances need none earlier. A request between them has the next ones come at other
// moments: one of these may come just before a report is known to have left. Then the proof takes
// one interval more.
//
// If an answer was slow since the request that is proven, there are no such moments: proofs are
// late then, however many requests there are.
func (l *Lease) Next(asked, regular time.Duration, terms Terms) (first, last time.Duration) {
	if last = math.MaxInt64; l.tardy > l.touched {
		return 0, last
	}
	consider := func(from, until time.Duration) {
		if from > asked && max(from, until) < last {
			first, last = from, max(from, until)
		}
	}
	base := l.touched
	for _, c := range l.claims {
		consider(c.left, base+terms.lag())
		base = c.sent
	}
	// The request that follows the sign is not the last one of the proof: one more follows behind
	// its answer. Two prompt answers are time enough for both, so a little later does no harm. Else
	// sessions that have written together would send it together.
	if until := base + terms.lag() - 2*terms.Prompt; len(l.signs) > 0 && until < regular-terms.Heartbeat/16 {
		consider(l.signs[0].answered+l.report, until)
	}
	return first, last
}

// Saw records the zxid of an answer of a server that follows. It reports whether that proves the
// last sync, and whether a transaction is due behind a sync's answer: if it is all that the lease
// lacks. If answers are slow, it is due earlier, so that it takes the place of the next request of
// a proof.
//
// A follower receives the leader's answer to a sync behind all earlier proposals. So a greater zxid
// of the same reign was proposed after the sync was sent. A quorum has acknowledged it: no later
// leader had begun when the sync was sent. A server that leads answers syncs at once. There, a
// greater zxid proves nothing.
func (l *Lease) Saw(zxid int64, sync bool, sent time.Duration) (grew, stale bool) {
	const reign = 32
	if !l.Shares() {
		return false, false
	}
	if grew = l.marked && zxid > l.mark.zxid && zxid>>reign == l.mark.zxid>>reign; grew {
		l.committed = max(l.committed, l.mark.sent)
		l.marked = false
	}
	if sync {
		l.mark, l.marked = mark{sent, zxid}, true
		stale = l.committed < l.touched || l.slow && l.committed < l.Claimed()
	}
	return grew, stale
}

// Served returns when the newest request was sent that was answered, by the server alone or not.
func (l *Lease) Served() time.Duration { return l.served }

// Heard returns when the newest request was sent in whose answer the leader took part.
func (l *Lease) Heard() time.Duration { return l.heard }

// Since returns from when on the session has a whole timeout. Trusting, it takes the leader
// of this connection for the newest one.
func (l *Lease) Since(trusting bool) time.Duration {
	if trusting {
		return l.touched
	}
	return min(l.touched, l.committed)
}

// Claimed returns what Since(true) returns behind the answer to a request that is sent now, and in
// whose answer the leader takes part.
func (l *Lease) Claimed() time.Duration {
	if n := len(l.claims); n > 0 {
		return l.claims[n-1].sent
	}
	return l.touched
}

// Terms are the times that follow from a session timeout.
type Terms struct {
	whole     time.Duration // the timeout
	Timeout   time.Duration // less a margin for clocks that do not agree, and for the session to act
	Report    time.Duration // within which a server reports to the leader which sessions it has heard
	Spacing   time.Duration // between proofs that begin, and between heartbeats that take longer than Prompt
	Prompt    time.Duration // answers that take no longer than that are prompt
	Heartbeat time.Duration // between heartbeats whose answers are prompt
	Ping      time.Duration // between heartbeats of a session that has nothing at stake
	Silence   time.Duration // how long to wait for an answer before trying another server
}

// Rest is what is left of the lease, at least, when the first heartbeat stays without an answer.
func (t Terms) Rest() time.Duration { return t.Timeout - t.lag() }

// lag is the age of the newest proof then. The newest sign that is proven to have been reported is
// so many heartbeats older than the one that is overdue.
func (t Terms) lag() time.Duration { return (t.steps() + 2) * t.Heartbeat }

// steps is the number of heartbeats from a sign to the first request that has a report before its
// answer.
func (t Terms) steps() time.Duration { return (t.Report + t.Prompt + t.Heartbeat - 1) / t.Heartbeat }

// Idle is the time that a session on which nothing relies has after a request in whose answer the
// leader took part. A report was at most t.Report old then, and a sign in it t.Spacing older, if
// requests took about the same time. That is no proof, but needs one round trip.
func (t Terms) Idle() time.Duration { return t.Timeout - t.Report - t.Spacing }

// Holds reports whether prompt answers can prove a lease before it ends.
func (t Terms) Holds() bool { return t.Latency() > t.Prompt }

// Latency is the longest answer time with which proofs still keep a session that is relied on. The
// handshake proves when it was sent. The next proof takes a request at its end, one that is sent
// t.Report after the answer to that, and a third: four answers in all. In the steady state proofs
// begin t.Spacing apart, and take three.
func (t Terms) Latency() time.Duration {
	return min((t.Timeout-t.Report)/4, (t.Timeout-t.Report-t.Spacing)/3)
}

// Reply is the longest time that each of many long replies may take, whatever pause is between
// them. The round trip is short. What is asked during a reply is answered at its end. So a proof
// that begins ahead of one reply is complete behind it at the earliest. The next proof is complete
// behind the next reply: without a pause there is no report to wait for in between, and each may
// take half of the timeout.
func (t Terms) Reply() time.Duration { return (t.Timeout - t.Report) / 2 }

// TermsOf computes the terms. When a heartbeat is overdue, half of the rest of the lease is for
// finding another server. A tick of 0 is not known: then it is half of the timeout, the longest
// that servers allow by default. A longer one leaves little or nothing, see [Terms.Holds].
func TermsOf(timeout, tick time.Duration) Terms { return termsOf(timeout, tick, enough) }

// enough is what a lease must have left when servers fall silent, before it saves heartbeats: twice
// the time in which fleets of thousands have come back after an election.
const enough = 10 * time.Second

func termsOf(timeout, tick, enough time.Duration) Terms {
	if tick <= 0 {
		tick = timeout / 2
	}
	t := Terms{
		whole:     timeout,
		Timeout:   timeout - min(max(timeout/40, 10*time.Millisecond), 250*time.Millisecond),
		Report:    tick * 5 / 8, // half a tick, and what a server needs for it
		Spacing:   timeout / 9,
		Prompt:    timeout / 72,
		Heartbeat: timeout / 9,
		Ping:      timeout / 3,
	}
	// A shorter report allows longer heartbeats. The lag may be what it is with the shortest ones;
	// with long timeouts, what it is if the tick is not known.
	longest := max((3+t.Report/t.Spacing)*t.Spacing, min(5*t.Spacing, t.Timeout-enough))
	for steps := time.Duration(1); steps <= 3; steps++ {
		if h := longest / (steps + 2); h > t.Heartbeat && h*steps >= t.Report+t.Prompt {
			t.Heartbeat = h
		}
	}
	t.Silence = max((t.Timeout-(3+t.Report/t.Heartbeat)*t.Heartbeat)/2, timeout/18)
	return t
}
