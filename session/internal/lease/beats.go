package lease

import "time"

// Beats say when the heartbeats of one connection are due, and which heartbeats are transactions.
// All times are on the clock of the session.
//
//	another request ── h ──► first ── phase · h ──► second ── h ──► third ── h ──► …
//	       ▲                                                              │
//	       └─────────────────── another request serves ◄──────────────────┘
//
// The second heartbeat behind another request comes earlier than it must, by the phase of the
// connection: many sessions may have made that request at once. From then on heartbeats are equally
// far apart. Where other requests have come between them, the proof may be late: then a heartbeat
// comes between two others, and changes nothing in when these come. Transactions are spread by the
// pace.
type Beats struct {
	// phase and pace are random numbers from a half to one, constant on a connection: the parts of
	// the times after which the second heartbeat, and the first transaction, are due.
	phase, pace float64

	// asked is when the newest request was sent that keeps the session alive. beat is set when this
	// request is a heartbeat, and cleared when another request takes its place. first is set while
	// it is the first heartbeat behind another request.
	asked       time.Duration
	beat, first bool

	// pulse is the moment from which heartbeats at equal distances are counted: when the newest of
	// these requests was sent or, if it is a heartbeat that was a little late, when it was due. A
	// heartbeat between two others does not change it.
	pulse time.Duration

	// commit is when the newest heartbeat was sent that is a transaction. It is cleared when the
	// transaction was refused. Until its answer comes, it counts as done: answers come in order,
	// and no later answer proves anything before. paced is set when it was the lease that needed
	// it, and cleared with the first one of a connection.
	commit time.Duration
	paced  bool

	// proves is when the first transaction is due, without which the handshake does not count. It
	// is set when a connection delays it, and cleared when some transaction goes out, or was
	// committed.
	proves time.Duration
}

// NewBeats begins when a connection sets again what the session had. The random numbers are from 0
// to 1.
func NewBeats(now time.Duration, phase, pace float64) Beats {
	return Beats{phase: (1 + phase) / 2, pace: (1 + pace) / 2, asked: now, pulse: now}
}

// Delay makes the first transaction wait until the given time.
func (b *Beats) Delay(until time.Duration) { b.proves = until }

// Delayed reports whether the next heartbeat is the first transaction.
func (b *Beats) Delayed() bool { return b.proves != 0 }

// Pinged records a heartbeat that is a ping.
func (b *Beats) Pinged(now time.Duration) {
	b.asked, b.pulse, b.beat, b.first = now, now, true, !b.beat && b.proves == 0
	b.proves = 0
}

// Sent records a heartbeat. The one behind a late heartbeat is not late: else delays would add up
// over the heartbeats of a proof, and leave less than Terms.Rest. A heartbeat between two others
// changes nothing in when these come. If a session hastens, heartbeats are counted from the newest.
func (b *Beats) Sent(now time.Duration, commits bool, terms Terms, prompt, hastens bool) {
	first := !b.beat && b.proves == 0 // which came at random
	switch early := b.regular(terms, prompt) - now; {
	case hastens || b.proves != 0 || early < -terms.Heartbeat/4:
		b.pulse, b.first = now, first
	case early <= terms.Heartbeat/16:
		b.pulse, b.first = now+early, first
	case !b.beat:
		b.pulse, b.first = now, first
	}
	b.asked, b.beat = now, true
	if commits {
		b.commit, b.paced = now, b.proves == 0
	}
	b.proves = 0
}

// Recount has heartbeats at equal distances be counted from the newest one, which was sent though
// none was due: the next ones would come in addition to it.
func (b *Beats) Recount() { b.pulse = b.asked }

// Asked returns when the newest request was sent that keeps the session alive.
func (b *Beats) Asked() time.Duration { return b.asked }

// Served records the answer to a request that serves as a heartbeat.
func (b *Beats) Served(sent time.Duration) {
	if sent > b.asked {
		b.asked, b.pulse, b.beat, b.first = sent, sent, false, false
	}
}

// Committed records the answer to a transaction.
func (b *Beats) Committed() { b.proves = 0 }

// Refused records the answer to a heartbeat that has proved nothing.
func (b *Beats) Refused() { b.commit = 0 }

// CommitsSince reports whether a heartbeat that is a transaction was sent at the given time, or
// later.
func (b *Beats) CommitsSince(sent time.Duration) bool { return b.commit >= sent }

// Commits reports whether a heartbeat that is sent now is to be a transaction: if its answer proves
// more than the newest transaction bears.
func (b *Beats) Commits(l *Lease, now time.Duration, terms Terms) bool {
	newest := max(l.committed, b.commit)
	own := b.paced && b.commit == newest
	return l.Claimed() > newest || !own && now-newest >= part(b.pace, terms.lag())
}

// Due returns when the next heartbeat is due. If answers are not prompt, proofs must begin at equal
// distances, and a session that hastens takes the first moment of those that have begun: see
// Lease.Due. For the others a moment is enough at which the lease becomes no older than heartbeats
// at equal distances let it become.
func (b *Beats) Due(l *Lease, terms Terms, prompt, hastens bool) time.Duration {
	due := b.regular(terms, prompt)
	if !hastens {
		due = b.between(l, terms, due)
	}
	if b.proves != 0 {
		due = min(due, b.proves)
	}
	if hastens {
		due = min(due, l.Due(b.asked))
	}
	return due
}

// between returns when a heartbeat is due, if that is before the next one at equal distances.
// Behind another request it waits for the last moment: one more such request makes it superfluous.
// Behind a heartbeat it takes a moment at random before that: many sessions may have the same last
// one.
func (b *Beats) between(l *Lease, terms Terms, regular time.Duration) time.Duration {
	first, last := l.Next(b.asked, regular, terms)
	switch {
	case last >= regular:
		return regular
	case !b.beat || regular-last <= terms.Heartbeat/16: // or a timer was late
		return last
	}
	return first + part(2*b.phase-1, last-first)
}

// regular returns when the next heartbeat at equal distances is.
func (b *Beats) regular(terms Terms, prompt bool) time.Duration {
	if prompt {
		return b.after(terms.Heartbeat)
	}
	return b.pulse + terms.Spacing
}

// DuePing returns when the next ping is due.
func (b *Beats) DuePing(terms Terms) time.Duration { return b.after(terms.Ping) }

func (b *Beats) after(interval time.Duration) time.Duration {
	if b.first {
		interval = part(b.phase, interval)
	}
	return b.pulse + interval
}

func part(share float64, of time.Duration) time.Duration { return time.Duration(share * float64(of)) }
