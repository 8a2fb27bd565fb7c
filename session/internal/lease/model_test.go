package lease

import (
	"flag"
	"reflect"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session/internal/leasemodel"
)

var maxSchedules = flag.Int("lease.schedules", 20_000, "random schedules of the model of leases; 100,000 are a campaign")

// modelLease is the lease of a session in the model.
type modelLease struct{ lease Lease }

func (m *modelLease) Answered(sent, now time.Duration, by leasemodel.Party) {
	m.lease.Answered(sent, now, [...]Vouch{ByServer, ByLeader, ByQuorum}[by])
}
func (m *modelLease) Since(trusting bool) time.Duration { return m.lease.Since(trusting) }

// trustingLease takes any leader for the newest.
type trustingLease struct{ *modelLease }

func (t trustingLease) Since(bool) time.Duration { return t.lease.Since(true) }

// formerLease is the rule of ADR 0007. An answer of the leader, half a tick later, is
// proof that a report has arrived.
type formerLease struct {
	report time.Duration
	signs  []sign
	known  time.Duration
}

func (f *formerLease) Answered(sent, now time.Duration, by leasemodel.Party) {
	if by != leasemodel.ByServer {
		for len(f.signs) > 0 && f.signs[0].answered <= sent-f.report {
			f.known, f.signs = f.signs[0].sent, f.signs[1:]
		}
	}
	f.signs = append(f.signs, sign{sent, now})
}
func (f *formerLease) Since(bool) time.Duration { return f.known }

func presentLease(tick, sent time.Duration, created bool) leasemodel.Rule {
	return &modelLease{New(tick*5/8, leasemodel.Timeout/9/16, sent, created)}
}

// TestLeaseModel plays random schedules. The rule holds in all of them. The others fail:
// that shows that the schedules find what there is to find.
func TestLeaseModel(t *testing.T) {
	chosen := hasten.OneIn(2)
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
		{Name: "newest timeout", Rule: presentLease, LastTerm: true, Fails: []leasemodel.Failure{leasemodel.Report}},
		{
			Name: "reports too often", Fails: []leasemodel.Failure{leasemodel.Report},
			Rule: func(tick, sent time.Duration, created bool) leasemodel.Rule {
				return presentLease(tick/4, sent, created)
			},
		},
	} {
		if !chosen() {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			r := v.Explore(hasten.Sized(*maxSchedules, 1000))
			t.Logf("%+v", r.Tally)
			for _, way := range v.Fails {
				if r.Failures[way] == nil {
					t.Errorf("no schedule in which it fails: %v", way)
				}
			}
			for way, e := range r.Failures {
				report := t.Logf
				if len(v.Fails) == 0 {
					report = t.Errorf
				}
				report("%v: the deadline was too late in %d schedules, in %d of them after the expiry was committed\n%s",
					way, e.Schedules, e.Committed, e.Trace())
			}
			if len(v.Fails) == 0 && !testing.Short() {
				checkTally(t, r.Tally)
			}
		})
	}
}

// checkTally makes sure that the schedules were hard.
func checkTally(t *testing.T, tally leasemodel.Tally) {
	counts := reflect.ValueOf(tally)
	for i := range counts.NumField() {
		if n := counts.Field(i).Int(); n == 0 {
			t.Errorf("it never happened: %s", counts.Type().Field(i).Name)
		}
	}
	if tally.Tightest > leasemodel.Timeout/50 {
		t.Errorf("no deadline was closer than %v to the leader's", tally.Tightest)
	}
}
