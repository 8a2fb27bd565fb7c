package lease

import (
	"math"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
)

// A proofOf is a Proof with given times.
type proofOf struct{ trusted, proved, claimed time.Duration }

func (p *proofOf) Served() time.Duration  { return 0 }
func (p *proofOf) Heard() time.Duration   { return 0 }
func (p *proofOf) Claimed() time.Duration { return p.claimed }

func (p *proofOf) Since(trusting bool) time.Duration {
	if trusting {
		return p.trusted
	}
	return p.proved
}

// TestStake has what the model of leases does not ask: mutants of it survived.
func TestStake(t *testing.T) {
	terms := TermsOf(40*time.Second, 2*time.Second)

	s := Stake{served: 10, heard: 20, trusted: 30, proved: 40}
	s.Shortened(3, 25)
	check.Equal(t, s, Stake{served: 13, heard: 23, trusted: 25, proved: 25}, "after a shorter timeout")

	for over, late := range map[time.Duration]bool{0: false, 1: true} {
		s := Stake{}
		at := Moment{Terms: terms, Now: terms.Timeout - terms.whole/4 + over}
		check.Equal(t, s.Raise(at, true, nil), late, "the proof is late at a quarter, and ", over)
		check.Equal(t, s.Unproven(), late)
	}

	s = Stake{unproven: true}
	check.True(t, s.Assures(Moment{Terms: terms}, nil), "calls wait though no recipe relies on the session")

	open, other := &proofOf{claimed: 7}, &proofOf{claimed: 9}
	s = Stake{unproven: true, relies: true, begun: open}
	slow := Moment{Terms: terms, Now: terms.Timeout, Slow: true}
	check.False(t, s.Assures(slow, other), "calls go out on a later connection")
	check.True(t, s.Assures(slow, open), "calls wait on the connection of the proof")
	check.Equal(t, s.base, 7, "the base")

	s = Stake{unproven: true, relies: true, begun: open, base: 5}
	open.trusted = 6
	check.True(t, s.Prove(Moment{Terms: terms, Now: terms.Timeout}, open, true, 0), "the proof adds nothing")
	check.False(t, s.Unproven(), "it is proven")
	check.Equal(t, s.proved, 6, "from when")
}

// TestDueIsAhead: a report that is on its way at the moment of a request helps no proof of that.
func TestDueIsAhead(t *testing.T) {
	l := Lease{claims: []claim{{left: 5, begins: true}}}
	check.Equal(t, l.Due(5), math.MaxInt64, "at that moment")
	check.Equal(t, l.Due(4), 5, "before")
}

// TestHastens: a session that hastens, and one whose first transaction was delayed, count
// heartbeats from the newest, though it came a little early.
func TestHastens(t *testing.T) {
	terms := TermsOf(40*time.Second, 2*time.Second)
	for name, test := range map[string]struct {
		hastens bool
		delayed time.Duration
		counts  bool
	}{
		"it hastens":         {true, 0, true},
		"it was delayed":     {false, 1, true},
		"it does not hasten": {false, 0, false},
	} {
		b := NewBeats(0, 0, 0)
		b.Delay(test.delayed)
		now := b.regular(terms, true) - terms.Heartbeat/32
		b.Sent(now, false, terms, true, test.hastens)
		check.Equal(t, b.pulse == now, test.counts, name)
	}
}

// TestProven: the lease is proven when a proof leaves more than a quarter of the timeout, or is
// younger than the connection of a slow server. Strict, only what a quorum has committed counts.
func TestProven(t *testing.T) {
	const greeted = 100
	terms := TermsOf(40*time.Second, 2*time.Second)
	enough, least := greeted-terms.Timeout+terms.whole/4+1, greeted-terms.Timeout+terms.whole/4
	for _, row := range []struct {
		danger                 string
		proof                  proofOf
		slow, strict, unproven bool
	}{
		{"enough is left", proofOf{trusted: enough, proved: enough}, false, true, false},
		{"too little is left", proofOf{trusted: least, proved: least}, false, true, true},
		{"enough, but it is not committed", proofOf{trusted: enough, proved: least}, false, true, true},
		{"the leader is trusted", proofOf{trusted: enough, proved: least}, false, false, false},
		{"the best that a slow server has", proofOf{trusted: least, proved: least}, true, true, false},
		{"and an older connection had", proofOf{trusted: least - 1, proved: least - 1}, true, true, true},
	} {
		s := Stake{high: true, unproven: true, trusted: least - 2, proved: least - 2}
		now := Moment{Terms: terms, Now: greeted, Slow: row.slow}
		check.True(t, s.Prove(now, &row.proof, row.strict, least), "%s: the proof adds nothing", row.danger)
		check.Equal(t, s.Unproven(), row.unproven, row.danger)

		s = Stake{unproven: true, relies: true}
		s.Opened(&row.proof)
		row.proof.claimed = row.proof.trusted
		check.Equal(t, s.Assures(now, &row.proof), row.slow || row.proof.trusted == enough, "calls go out: "+row.danger)
	}
}

// TestOpened: the proof begins on the newest connection, until a call has gone out.
func TestOpened(t *testing.T) {
	now := Moment{Terms: TermsOf(40*time.Second, 2*time.Second), Now: 10}
	first, second, third := &proofOf{claimed: 7}, &proofOf{claimed: 8}, &proofOf{claimed: 9}
	s := Stake{unproven: true, relies: true}
	s.Opened(first)
	s.Opened(second)
	check.False(t, s.Assures(now, first), "calls go out on the former connection")
	check.True(t, s.Assures(now, second), "calls wait on the present one")
	s.Opened(third)
	check.False(t, s.Assures(now, third), "calls go out on a later one")
}

// TestLapse: when the lease has ended, no call for a recipe goes out, on any connection, until a
// quorum has proved it anew. Whoever comes behind the last one proves it with a call of its own.
func TestLapse(t *testing.T) {
	terms := TermsOf(40*time.Second, 2*time.Second)
	const before = 10
	lapsed := func() (*Stake, Moment) {
		s := &Stake{high: true, served: before, trusted: before, proved: before, begun: &proofOf{}, base: before}
		at := Moment{Terms: terms, Now: s.Deadline(terms, true, false)}
		s.Lapse()
		check.True(t, s.Lapsed() && s.Unproven() && s.High(), "behind the end of the lease: %+v", s)
		return s, at
	}

	s, at := lapsed()
	old := s.begun
	check.True(t, old == nil, "a connection of before bears the proof")
	later := &proofOf{trusted: at.Now, claimed: at.Now}
	for range 2 {
		s.Opened(later)
		check.False(t, s.Assures(at, later), "calls go out without a proof")
		check.False(t, s.Assures(Moment{Terms: terms, Now: at.Now, Slow: true}, later), "calls go out to a slow server")
		s.Prove(at, later, true, at.Now)
		check.True(t, s.Lapsed() && s.Unproven(), "a leader's word is the proof")
		later = &proofOf{trusted: at.Now + 1, claimed: at.Now + 1}
	}
	later.proved = at.Now + 1
	check.True(t, s.Prove(at, later, true, at.Now), "the proof adds nothing")
	check.False(t, s.Lapsed() || s.Unproven(), "a quorum has proved it")
	check.True(t, s.Assures(at, later), "calls wait")
	check.Equal(t, s.Deadline(terms, true, false), at.Now+1+terms.Timeout, "the next deadline")

	// The last recipe has gone, and another comes.
	s, at = lapsed()
	s.Rest(at.Now)
	check.True(t, s.Lapsed() && s.Assures(at, later), "calls of no recipe wait")
	s.Rely()
	s.Raise(at, true, later)
	check.True(t, s.Lapsed() && s.Assures(at, later), "its first call waits")
	check.False(t, s.Assures(at, &proofOf{claimed: at.Now}), "a call goes out on a later connection")
	s.Prove(at, later, true, at.Now)
	check.False(t, s.Lapsed(), "the answer is no proof")

	s, _ = lapsed()
	s.Lower()
	check.False(t, s.Lapsed() || s.Unproven(), "nothing rests on the lease")
}

// TestFrugal: heartbeats are pings before the first recipe, and from a timeout after the last one
// on; not on a slow server, and not while something rests on the lease.
func TestFrugal(t *testing.T) {
	const end = 5
	terms := TermsOf(40*time.Second, 2*time.Second)
	frugal := func(s Stake, now time.Duration, slow, want bool, danger string) {
		t.Helper()
		check.Equal(t, s.Frugal(Moment{Terms: terms, Now: now, Slow: slow}), want, danger)
	}
	var s Stake
	frugal(s, 1, false, true, "before the first recipe")
	frugal(s, 1, true, false, "on a slow server")
	s.Beats(true)
	check.True(t, s.Pings(), "pings")

	// A ping proves nothing: half of the timeout must be left.
	at := Moment{Terms: terms, Now: terms.Timeout - terms.whole/2 + 1}
	check.True(t, s.Raise(at, true, nil), "the proof is late at a half")
	check.False(t, s.Pings(), "pings of a session that is relied on")
	check.True(t, s.High() && s.Unproven(), "what is relied on is not proven")
	frugal(s, 1, false, false, "while a recipe relies on the session")

	s.Rest(end)
	s.Lower()
	check.False(t, s.High() || s.Unproven(), "nothing rests on the lease")
	frugal(s, end+terms.whole, false, false, "a timeout after the last recipe")
	frugal(s, end+terms.whole+1, false, true, "later")
}

// TestFirstHeartbeats: the first transaction is delayed once. The second ping behind another
// request comes at random, the third at the interval.
func TestFirstHeartbeats(t *testing.T) {
	terms := TermsOf(40*time.Second, 2*time.Second)
	b := NewBeats(0, 0, 0)
	check.False(t, b.Delayed(), "a transaction that was not delayed")
	b.Delay(1)
	check.True(t, b.Delayed(), "one that was")
	b.Committed()
	check.False(t, b.Delayed(), "one that is not needed any more")

	b.Pinged(10)
	check.Equal(t, b.DuePing(terms), 10+terms.Ping/2, "the second ping")
	b.Pinged(20)
	check.Equal(t, b.DuePing(terms), 20+terms.Ping, "the third")
}

// TestRefused: a transaction that was refused does not count as done.
func TestRefused(t *testing.T) {
	terms := TermsOf(40*time.Second, 2*time.Second)
	l, b := New(terms, 10, false), NewBeats(10, 0, 0)
	check.True(t, b.Commits(&l, 20, terms), "the handshake is not committed")
	b.Sent(20, true, terms, true, false)
	check.False(t, b.Commits(&l, 30, terms), "a transaction is on its way")
	b.Refused()
	check.True(t, b.Commits(&l, 30, terms), "it was refused")
}

// TestDueForAProof: a session that hastens goes on with a proof as soon as a report has left, or
// will have. Only the answers of a leader are heard.
func TestDueForAProof(t *testing.T) {
	terms := TermsOf(40*time.Second, 2*time.Second)
	l, b := New(terms, 0, true), NewBeats(0, 0, 0)
	l.Answered(1, 3, ByServer)
	check.Equal(t, l.Heard(), 0, "when the newest request that the leader has answered was sent")
	b.Served(1)
	check.Equal(t, b.Due(&l, terms, true, true), 3+terms.Report, "a report will have left")
	check.AtLeast(t, b.Due(&l, terms, true, false), 4+terms.Report, "without haste")

	l.Answered(3+terms.Report, 7+terms.Report, ByLeader)
	check.Equal(t, l.Heard(), 3+terms.Report, "when the newest request that the leader has answered was sent")
	check.Equal(t, l.Due(3+terms.Report), 7+terms.Report, "a report has left")
}
