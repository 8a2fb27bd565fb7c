package lease

import (
	"flag"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session/internal/leasemodel"
)

var maxSchedules = flag.Int("lease.schedules", hasten.Usually(20_000, 2_500), "random schedules of the model of leases; 100,000 are a campaign")

// modelLease is the lease of a session in the model, and its heartbeats.
type modelLease struct {
	lease Lease
	beats Beats
	terms Terms
	trip  time.Duration // as on a connection
	rare  time.Duration // so many heartbeats more come between transactions
}

func (m *modelLease) Answered(sent, now time.Duration, by leasemodel.Party) {
	m.trip = max(now-sent, m.trip-m.trip/8)
	m.lease.Answered(sent, now, [...]Vouch{ByServer, ByLeader, ByQuorum}[by])
}

func (m *modelLease) Sent(now time.Duration, commits bool) {
	m.beats.Sent(now, commits, m.terms, m.trip <= m.terms.Prompt, m.slow())
}

func (m *modelLease) Keeps(sent time.Duration) { m.beats.Served(sent) }
func (m *modelLease) Commits(now time.Duration) bool {
	return m.beats.Commits(&m.lease, now, m.terms) && now-m.lease.committed > m.rare*m.terms.Heartbeat
}

func (m *modelLease) Due(hastens bool) time.Duration {
	return m.beats.Due(&m.lease, m.terms, m.trip <= m.terms.Prompt, hastens || m.slow())
}
func (m *modelLease) slow() bool { return m.trip > leasemodel.Timeout/36 }

// modelStake is the stake of a session in the model.
type modelStake struct {
	Stake
	tick  time.Duration
	terms Terms
	pings bool // they count when something begins to rest on the lease
	hasty bool // calls do not wait for the proof

	unasked bool          // a lapse asks for no proof
	keeps   bool          // the calls of a connection count behind a lapse
	trusts  bool          // the leader's word is the proof behind a lapse
	ages    bool          // the deadline counts from the proofs of before a lapse
	aged    time.Duration // the newest of these
}

func newModelStake(tick time.Duration) leasemodel.Stake { return &modelStake{tick: tick} }

func (s *modelStake) moment(now time.Duration, on leasemodel.Rule) Moment {
	l, is := on.(interface{ slow() bool })
	return Moment{s.terms, now, is && l.slow()}
}
func (s *modelStake) Negotiated(timeout time.Duration) { s.terms = TermsOf(timeout, s.tick) }
func (s *modelStake) Opened(on leasemodel.Rule)        { s.Stake.Opened(on) }
func (s *modelStake) Prove(now time.Duration, on leasemodel.Rule, strict bool, greeted time.Duration) {
	if s.trusts && s.Lapsed() {
		s.proved = max(s.proved, on.Since(true))
	}
	s.Stake.Prove(s.moment(now, on), on, strict, greeted)
}

func (s *modelStake) Deadline(strict bool) time.Duration {
	if s.aged != 0 {
		return s.aged + s.terms.Timeout
	}
	return s.Stake.Deadline(s.terms, strict, !strict)
}

func (s *modelStake) Lapse() {
	begun, base := s.begun, s.base
	s.Stake.Lapse()
	if s.keeps {
		s.begun, s.base = begun, base
	}
	if s.ages {
		s.aged = s.proved
	}
	if s.unasked {
		s.unproven = false
	}
}

func (s *modelStake) Begin(now time.Duration, recipe bool, open leasemodel.Rule) (proves bool) {
	if s.pings && s.Pings() {
		s.trusted = max(s.trusted, s.served)
	}
	if recipe {
		s.Rely()
	}
	return s.Raise(s.moment(now, open), recipe, open)
}

func (s *modelStake) Rest(now time.Duration, low bool) {
	s.Stake.Rest(now)
	if low {
		s.Lower()
	}
}

func (s *modelStake) Assures(now time.Duration, open leasemodel.Rule) bool {
	return s.Stake.Assures(s.moment(now, open), open) || s.hasty
}

func (s *modelStake) Frugal(now time.Duration) bool     { return s.Stake.Frugal(s.moment(now, nil)) }
func (m *modelLease) Served() time.Duration             { return m.lease.Served() }
func (m *modelLease) Heard() time.Duration              { return m.lease.Heard() }
func (m *modelLease) Since(trusting bool) time.Duration { return m.lease.Since(trusting) }
func (m *modelLease) Claimed() time.Duration            { return m.lease.Claimed() }

// trustingLease takes any leader for the newest.
type trustingLease struct{ *modelLease }

func (t trustingLease) Since(bool) time.Duration { return t.lease.Since(true) }

// formerLease is the rule of ADR 0007. An answer of the leader, half a tick later, is
// proof that a report has arrived.
type formerLease struct {
	report time.Duration
	signs  []sign
	known  time.Duration
	heard  time.Duration
	served time.Duration
}

func (f *formerLease) Answered(sent, now time.Duration, by leasemodel.Party) {
	f.served = max(f.served, sent)
	if by != leasemodel.ByServer {
		f.heard = max(f.heard, sent)
		for len(f.signs) > 0 && f.signs[0].answered <= sent-f.report {
			f.known, f.signs = f.signs[0].sent, f.signs[1:]
		}
	}
	f.signs = append(f.signs, sign{sent: sent, answered: now})
}
func (f *formerLease) Served() time.Duration    { return f.served }
func (f *formerLease) Heard() time.Duration     { return f.heard }
func (f *formerLease) Since(bool) time.Duration { return f.known }
func (f *formerLease) Claimed() time.Duration   { return f.known }

func presentLease(tick, sent time.Duration, created bool) leasemodel.Rule {
	return newModelLease(savingTerms(tick), sent, created)
}

// evenLease has a heartbeat every ninth of the timeout.
func evenLease(tick, sent time.Duration, created bool) leasemodel.Rule {
	return struct{ leasemodel.Rule }{presentLease(tick, sent, created)}
}

// savingTerms are those of a session that saves heartbeats, as with a timeout of 30 s.
func savingTerms(tick time.Duration) Terms { return termsOf(leasemodel.Timeout, tick, 0) }

func newModelLease(terms Terms, sent time.Duration, created bool) *modelLease {
	phase := float64(sent%1009) / 1009
	return &modelLease{lease: New(terms, sent, created), terms: terms, beats: NewBeats(sent, phase, 1-phase)}
}

// TestElectionsInModel: a session that holds outlives an election that takes as long as the lease
// has left, less the time to come back. With longer intervals between heartbeats, or fewer
// transactions, some do not.
func TestElectionsInModel(t *testing.T) {
	const back = leasemodel.Timeout / 18
	runs := hasten.Sized(hasten.Usually(400, 150), 100)
	for _, tick := range []time.Duration{leasemodel.Timeout / 60, leasemodel.Timeout / 12, leasemodel.Timeout / 5, leasemodel.Timeout / 4, leasemodel.Timeout / 2} {
		for _, terms := range []Terms{savingTerms(tick), TermsOf(leasemodel.Timeout, tick)} {
			for _, row := range []struct {
				name     string
				interval time.Duration // in hundredths of Terms.Heartbeat
				rare     time.Duration
				lost     bool
			}{
				{"the formula", 100, 0, false},
				{"longer intervals", 125, 0, true},
				{"fewer transactions", 100, terms.steps() + 3, true},
			} {
				t.Run(fmt.Sprintf("tick %v every %v %s", tick, terms.Heartbeat, row.name), func(t *testing.T) {
					lasts, paced := terms.Rest()-back, terms
					paced.Heartbeat = terms.Heartbeat * row.interval / 100
					v := leasemodel.Variant{Stake: newModelStake, Rule: func(_, sent time.Duration, created bool) leasemodel.Rule {
						l := newModelLease(paced, sent, created)
						l.rare = row.rare
						return l
					}}
					if row.lost {
						runs := 400 // it ends with the first
						check.False(t, v.Outlives(tick, lasts, runs), "no session is lost in an election of %v", lasts)
						return
					}
					check.True(t, v.Outlives(tick, lasts, runs), "a session is lost in an election of %v", lasts)
				})
			}
		}
	}
}

// relayedLease is a rule for observers that are connected to followers: what has reached the
// follower has to be reported once more.
type relayedLease struct{ follower, leader Lease }

func (r *relayedLease) Answered(sent, now time.Duration, by leasemodel.Party) {
	vouch := [...]Vouch{ByServer, ByLeader, ByQuorum}[by]
	reached := r.follower.touched
	r.follower.Answered(sent, now, vouch)
	r.leader.Answered(sent, now, vouch)
	r.leader.signs = slices.DeleteFunc(r.leader.signs, func(s sign) bool { return s.sent == sent && s.answered == now })
	if r.follower.touched > reached {
		r.leader.signs = append(r.leader.signs, sign{sent: r.follower.touched, answered: now})
	}
}
func (r *relayedLease) Served() time.Duration             { return r.leader.Served() }
func (r *relayedLease) Heard() time.Duration              { return r.leader.Heard() }
func (r *relayedLease) Since(trusting bool) time.Duration { return r.leader.Since(trusting) }
func (r *relayedLease) Claimed() time.Duration            { return r.leader.Claimed() }

// sharedLease takes a greater zxid than that of a sync's answer for a proof.
type sharedLease struct{ *modelLease }

func (s sharedLease) Saw(zxid int64, sync bool, sent time.Duration) (grew, stale bool) {
	return s.lease.Saw(zxid, sync, sent)
}

func (s sharedLease) Learns(follows bool) {
	s.lease.Learn(map[bool]Role{true: Follows, false: Alone}[follows])
}

// newSharedLease is a rule that takes each server for one that follows.
func newSharedLease(tick, sent time.Duration, created bool) leasemodel.Rule {
	l := newAskingLease(tick, sent, created)
	l.(sharedLease).Learns(true)
	return l
}

// newAskingLease is the rule of a session that asks its server what it does.
func newAskingLease(tick, sent time.Duration, created bool) leasemodel.Rule {
	return sharedLease{presentLease(tick, sent, created).(*modelLease)}
}

// newLoneLease is a rule that takes each server for one that is alone.
func newLoneLease(tick, sent time.Duration, created bool) leasemodel.Rule {
	l := newAskingLease(tick, sent, created)
	l.(sharedLease).Learns(false)
	return l
}

// TestLeaseModel plays random schedules. The rule holds in all of them. The others fail:
// that shows that the schedules find what there is to find.
func TestLeaseModel(t *testing.T) {
	chosen := hasten.OneIn(2, 2)
	for _, v := range []leasemodel.Variant{
		{Name: "present", Rule: presentLease},
		{
			Name: "ADR 0007", Fails: []leasemodel.Failure{leasemodel.Report, leasemodel.Deposed},
			Rule: func(tick, sent time.Duration, _ bool) leasemodel.Rule {
				return &formerLease{report: tick / 2, known: sent}
			},
		},
		{
			Name: "answers trusted", Fails: []leasemodel.Failure{leasemodel.Deposed},
			Rule: func(tick, sent time.Duration, created bool) leasemodel.Rule {
				return trustingLease{presentLease(tick, sent, created).(*modelLease)}
			},
		},
		{
			Name: "handshakes count as committed", Fails: []leasemodel.Failure{leasemodel.Deposed},
			Rule: func(tick, sent time.Duration, _ bool) leasemodel.Rule { return presentLease(tick, sent, true) },
		},
		{Name: "later connections relied on", Rule: presentLease, Relies: true, Fails: []leasemodel.Failure{leasemodel.Deposed}},
		{Name: "newest timeout", Rule: evenLease, LastTerm: true, Fails: []leasemodel.Failure{leasemodel.Report}},
		{
			Name: "reports too often", Fails: []leasemodel.Failure{leasemodel.Report},
			Rule: func(tick, sent time.Duration, created bool) leasemodel.Rule {
				return presentLease(tick/4, sent, created)
			},
		},
		{Name: "observers of followers", Rule: presentLease, Observed: true, Fails: []leasemodel.Failure{leasemodel.Report}},
		{
			Name: "observers of followers, reported twice", Observed: true,
			Rule: func(tick, sent time.Duration, created bool) leasemodel.Rule {
				l := New(savingTerms(tick), sent, created)
				return &relayedLease{l, l}
			},
		},
		{
			Name: "pings count", Rule: presentLease, Fails: []leasemodel.Failure{leasemodel.Report},
			Stake: func(tick time.Duration) leasemodel.Stake { return &modelStake{tick: tick, pings: true} },
		},
		{
			Name: "grants do not wait", Rule: presentLease, Fails: []leasemodel.Failure{leasemodel.Report},
			Stake: func(tick time.Duration) leasemodel.Stake { return &modelStake{tick: tick, hasty: true} },
		},
		{Name: "leases do not end", Rule: presentLease, Lasting: true, Fails: []leasemodel.Failure{leasemodel.Report, leasemodel.Deposed}},
		{Name: "what was held outlasts the lease", Rule: presentLease, Grasping: true, Fails: []leasemodel.Failure{leasemodel.Report, leasemodel.Deposed}},
		{Name: "answers of before a lapse count", Rule: presentLease, Clinging: true, Fails: []leasemodel.Failure{leasemodel.Stale}},
		{
			Name: "a lapse asks for no proof", Rule: presentLease, Fails: []leasemodel.Failure{leasemodel.Unproved},
			Stake: func(tick time.Duration) leasemodel.Stake { return &modelStake{tick: tick, unasked: true} },
		},
		{
			Name: "calls of before a lapse count", Rule: presentLease, Fails: []leasemodel.Failure{leasemodel.Unproved},
			Stake: func(tick time.Duration) leasemodel.Stake { return &modelStake{tick: tick, keeps: true} },
		},
		{
			Name: "a leader's word ends a lapse", Rule: presentLease, Fails: []leasemodel.Failure{leasemodel.Unproved},
			Stake: func(tick time.Duration) leasemodel.Stake { return &modelStake{tick: tick, trusts: true} },
		},
		{
			Name: "proofs of before a lapse count", Rule: presentLease, Fails: []leasemodel.Failure{leasemodel.Expended},
			Stake: func(tick time.Duration) leasemodel.Stake { return &modelStake{tick: tick, ages: true} },
		},
		{Name: "shared, on followers", Rule: newSharedLease, Shares: true, Spared: true},
		{Name: "shared, on leaders", Rule: newSharedLease, Shares: true, Fails: []leasemodel.Failure{leasemodel.Deposed}},
		{Name: "shared, on servers that have said that they follow", Rule: newAskingLease, Asks: true},
		{Name: "what was said counts at once", Rule: newAskingLease, Asks: true, Rash: true, Fails: []leasemodel.Failure{leasemodel.Mistaken}},
		{Name: "what was said counts for later connections", Rule: newAskingLease, Asks: true, Recalls: true, Fails: []leasemodel.Failure{leasemodel.Mistaken}},
		{Name: "asked of any server", Rule: newAskingLease, Asks: true, Balanced: true, Fails: []leasemodel.Failure{leasemodel.Mistaken}},
		{Name: "alone", Rule: newLoneLease, Shares: true, Alone: true},
		{Name: "a member is taken for one that is alone", Rule: newLoneLease, Shares: true, Fails: []leasemodel.Failure{leasemodel.Report, leasemodel.Deposed}},
		{
			Name: "shared, and syncs overtake proposals", Rule: newSharedLease, Shares: true, Spared: true, Hasty: true,
			Fails: []leasemodel.Failure{leasemodel.Deposed},
		},
	} {
		if !chosen() {
			continue
		}
		if v.Stake == nil {
			v.Stake = newModelStake
		}
		t.Run(v.Name, func(t *testing.T) {
			schedules := hasten.Sized(*maxSchedules, 1000)
			if (v.Observed || v.Spared || v.Alone) && len(v.Fails) == 0 {
				schedules /= 4 // no session uses it, or few do
			}
			if len(v.Fails) > 0 {
				schedules = 3 * max(*maxSchedules, 4_000) // it ends with the last failure
			}
			if v.Recalls { // which shows seldom
				schedules *= 3
			}
			v.First = hasten.Seed()
			r := v.Explore(schedules)
			if len(v.Fails) > 0 {
				t.Logf("mutant %q is found in %d schedules", v.Name, r.Played)
			} else {
				t.Logf("%d schedules: %+v", r.Played, r.Tally)
			}
			for _, way := range v.Fails {
				check.True(t, r.Failures[way] != nil, "no schedule in which it fails: %v", way)
			}
			for way, e := range r.Failures {
				report := t.Logf
				if len(v.Fails) == 0 {
					report = t.Errorf
				}
				report("%v: so it failed in %d schedules, in %d of them after the expiry was committed\n%s",
					way, e.Schedules, e.Committed, e.Trace())
			}
			if len(v.Fails) == 0 && !testing.Short() {
				checkTally(t, v, r.Tally)
			}
		})
	}
}

// checkTally makes sure that the schedules were hard.
func checkTally(t *testing.T, v leasemodel.Variant, tally leasemodel.Tally) {
	_, watches := v.Rule(time.Second, 0, true).(leasemodel.Watcher)
	ensemble := []string{"DeposedSync", "DeposedGreeting", "ReportHeld", "SyncWaited", "LateAck", "Shortened", "Excluded", "LapsedAgain"}
	counts := reflect.ValueOf(tally)
	for i := range counts.NumField() {
		name, n := counts.Type().Field(i).Name, counts.Field(i).Int()
		never := name == "FalseProof" || name == "Grew" && (!watches || v.Alone)
		switch name {
		case "Asked", "Follows", "Late", "Moved":
			never = !v.Asks
		}
		if seldom := v.Alone && slices.Contains(ensemble, name); !seldom && never != (n == 0) {
			t.Errorf("%s: %d times", name, n)
		}
	}
	check.AtMost(t, tally.Tightest, leasemodel.Timeout/50, "the deadline that was closest to the leader's")
}
