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
