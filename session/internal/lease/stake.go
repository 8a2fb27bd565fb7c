package lease

import "time"

// A Proof has the times that one connection has proved. A *Lease is one.
type Proof interface {
	Served() time.Duration
	Heard() time.Duration
	Since(trusting bool) time.Duration
	Claimed() time.Duration
}

// A Moment is when something happens to a Stake.
type Moment struct {
	Terms Terms
	Now   time.Duration
	Slow  bool // answers take so long that proofs overlap all the time
}

// left returns how much of a lease with that base is left.
func (m Moment) left(base time.Duration) time.Duration { return base + m.Terms.Timeout - m.Now }

// enough reports whether a lease with that base needs no proof at once.
func (m Moment) enough(base time.Duration) bool { return m.left(base) > m.Terms.whole/4 }

// A Stake has the proofs that the lease of a session rests on, over all its connections, and
// whether anything rests on the lease. All times are on the clock of the session. See
// docs/adr/0060.
//
//	        Raise, the proof is young
//	low ────────────────────────────► high ◄──── Prove ──── unproven
//	  │ ◄──────────── Lower ────────── │ ◄───────────────────┐ │ Lower: low
//	  └── Raise, the proof is old ────────────────────────────► │
//
// While it is low, the newest request that was answered counts. While it is unproven, this request
// still counts, and other requests wait: none goes out whose answer would be a grant without a
// proof.
type Stake struct {
	// The newest of all connections: see the methods of Lease. trusted is Since(true), proved is
	// Since(false).
	served, heard, trusted, proved time.Duration

	// high is set when a recipe relies on the session, or the session has ephemeral nodes. It is
	// cleared by Lower.
	high bool

	// rests is when the last recipe has ceased to rely on the session; 0 if none has.
	rests time.Duration

	// pings is set while the heartbeats that were due were pings, and cleared when the stake
	// becomes high.
	pings bool

	// unproven is set when the stake becomes high and the newest proof is old. It is cleared when
	// the lease is proven. relies is set if the proof is for a recipe: then calls wait.
	unproven, relies bool

	// begun is the connection on which that was; nil for none. base is what was claimed there when
	// the first call went out, and 0 before. While it is set, calls of other connections wait for
	// the proof itself.
	begun Proof
	base  time.Duration

	// lapsed is set by Lapse, and cleared with unproven.
	lapsed bool
}

// Lapsed reports whether the lease has ended, and no connection has proved it since.
func (s *Stake) Lapsed() bool { return s.lapsed }

// Unproven reports whether the lease is not proven since the stake has become high.
func (s *Stake) Unproven() bool { return s.unproven }

// High reports whether something rests on the lease.
func (s *Stake) High() bool { return s.high }

// Pings reports whether the last heartbeat that was due was a ping.
func (s *Stake) Pings() bool { return s.pings }

// Beats records a heartbeat that is due, a ping or not.
func (s *Stake) Beats(ping bool) { s.pings = ping }

// Frugal reports whether heartbeats are pings. After the last recipe a timeout passes before
// heartbeats become pings: it may be the first of many.
func (s *Stake) Frugal(m Moment) bool {
	return !s.high && !m.Slow && (s.rests == 0 || m.Now-s.rests > m.Terms.whole)
}

// Shortened records a handshake that has made the timeout shorter. The leader may count the shorter
// timeout from the handshake on, and not from earlier proofs.
func (s *Stake) Shortened(by, sent time.Duration) {
	for _, t := range []*time.Duration{&s.served, &s.heard, &s.trusted, &s.proved} {
		*t = min(*t+by, sent)
	}
}

// Deadline returns when the session must be counted as lost. Strict, only what a quorum has
// committed extends it. If it is lenient, proofs may come too late, and what the leader has
// answered does as well.
func (s *Stake) Deadline(terms Terms, strict, lenient bool) time.Duration {
	deadline := s.trusted + terms.Timeout
	switch {
	case !s.high || s.unproven:
		deadline = max(deadline, s.served+terms.Timeout)
	case strict:
		deadline = s.proved + terms.Timeout
	case lenient:
		deadline = max(deadline, s.heard+terms.Idle())
	}
	return deadline
}

// Rely is called when the first recipe begins to rely on the session. What it relies on rests on a
// transaction that is sent from now on: if it is done, no leader can count from earlier than the
// reports that the present leader has received.
func (s *Stake) Rely() { s.proved = max(s.proved, s.trusted) }

// Raise is called when something begins to rest on the lease; open is the connection that takes
// calls, or nil. It reports whether a sync is to go out. After pings the newest proof may be so old
// that the next one would come too late. On a slow server proofs have gone on all the time.
func (s *Stake) Raise(m Moment, relies bool, open Proof) (proves bool) {
	least := m.Terms.whole / 4
	if s.pings {
		least = m.Terms.whole / 2
	}
	late := m.left(s.trusted) < least && !m.Slow || m.Terms.whole > 0 && m.left(s.trusted) <= 0
	s.high, s.pings = true, false
	if late || s.unproven {
		s.unproven, s.relies, s.begun, s.base = true, relies, open, 0
	}
	return late
}

// Lapse is called when the lease has ended. Nothing rests on it now, so it has no end, and a
// contender waits for the proof of another connection: no call of its goes out before.
func (s *Stake) Lapse() { s.lapsed, s.unproven, s.relies, s.begun, s.base = true, true, true, nil, 1 }

// Lower is called when nothing rests on the lease any more.
func (s *Stake) Lower() { s.high, s.unproven, s.lapsed = false, false, false }

// Rest is called when no recipe relies on the session any more.
func (s *Stake) Rest(now time.Duration) { s.rests, s.relies = now, false }

// Opened records a connection that takes calls. If no call has gone out that the lease is to bear,
// the proof begins on this connection.
func (s *Stake) Opened(open Proof) {
	if s.base == 0 {
		s.begun = open
	}
}

// Assures reports whether calls may go out. While the lease is not proven, a grant must not be the
// answer: they wait until the answer to the next one is the proof. A server that has become slow
// may have no better one. If calls have gone out already, those of a later connection wait for the
// proof itself.
func (s *Stake) Assures(m Moment, open Proof) bool {
	if !s.unproven || !s.relies {
		return true
	}
	if s.base == 0 && s.begun == open {
		if base := open.Claimed(); m.enough(base) || m.Slow {
			s.base = base
		}
	}
	return s.base != 0 && s.begun == open
}

// Prove counts the proofs of a connection, which was greeted at the given time. It reports whether
// they add anything. What is granted was committed later than the call that has gone out first, by
// the leader of that connection, which counts from the base. On another connection a transaction is
// the proof.
func (s *Stake) Prove(m Moment, on Proof, strict bool, greeted time.Duration) (more bool) {
	before := [...]time.Duration{s.served, s.heard, s.trusted, s.proved}
	s.served, s.heard = max(s.served, on.Served()), max(s.heard, on.Heard())
	s.trusted, s.proved = max(s.trusted, on.Since(true)), max(s.proved, on.Since(false))
	more = before != [...]time.Duration{s.served, s.heard, s.trusted, s.proved}
	if !more || !s.unproven {
		return more
	}
	if trusted := on.Since(true); s.base != 0 && s.begun == on && trusted >= s.base {
		s.proved = max(s.proved, trusted)
		s.unproven, s.lapsed = false, false
	}
	base := s.trusted
	if strict {
		base = s.proved
	}
	if m.enough(base) || m.Slow && base >= greeted {
		s.unproven, s.lapsed = false, false
	}
	return true
}
