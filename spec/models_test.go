package spec_test

import (
	"flag"
	"maps"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/tlc"
	"github.com/zkactors/zkactors/spec"
)

var full = flag.Bool("spec.full", false, "check the larger sizes of the specifications, too")

// A set has values that replace those of a configuration.
type set = map[string]string

// A model is a specification in one size.
type model struct {
	module, name string
	set          set
	slow         bool // not with -short
	large        bool // only with -spec.full
}

// A mutant breaks one rule. TLC must find that the property does not hold.
type mutant struct {
	module, rule, property string
	set                    set
}

// models are checked as they are. What stands in the files is a size that takes minutes, or less.
var models = []model{
	{module: "Line", name: "calm", set: set{"Contenders": "{a, b}", "Leavers": "{a, b}"}},
	{module: "Line", name: "three, calm", large: true},
	{module: "Line", name: "lapsed", set: set{"Contenders": "{a, b}", "Leavers": "{a, b}", "Lapses": "1"}},
	{module: "Line", name: "cut off and lapsed", slow: true, set: set{
		"Contenders": "{a, b}", "Cuts": "1", "Lapses": "1",
	}},
	{module: "Line", name: "two in one session, lapsed", slow: true, set: set{
		"Contenders": "{a, b}", "Together": "{a, b}", "SYMMETRY": "", "Leavers": "{a}", "Lapses": "1",
	}},
	{module: "Line", name: "a late creation", slow: true, set: set{
		"Contenders": "{a, b}", "Leavers": "{a, b}", "Cuts": "1", "Lates": "1",
	}},
	{module: "Line", name: "one session, an operator, no lease", slow: true, set: set{
		"Contenders": "{a, b}", "Together": "{a, b}", "SYMMETRY": "", "Strikes": "1", "Kills": "1", "LeaseHolds": "FALSE",
	}},
	{module: "Line", name: "crashed and struck", set: set{
		"Contenders": "{a, b}", "Leavers": "{a, b}", "Crashes": "1", "Strikes": "1",
	}},
	{module: "Line", name: "nobody waits for ever", slow: true, set: set{
		"Contenders": "{a, b}", "Cuts": "1", "SPECIFICATION": "FairSpec", "SYMMETRY": "", "PROPERTIES": "NobodyWaitsForEver",
	}},
	{module: "Line", name: "nobody waits for ever, lapsed", slow: true, set: set{
		"Contenders": "{a, b}", "Lapses": "1", "SPECIFICATION": "FairSpec", "SYMMETRY": "", "PROPERTIES": "NobodyWaitsForEver",
	}},
	{module: "DoubleBarrier", name: "two rounds"},
	{module: "DoubleBarrier", name: "lost replies", set: set{"Losses": "1"}},
	{module: "DoubleBarrier", name: "expired", set: set{"Expiries": "1"}},
	{module: "DoubleBarrier", name: "cancelled", set: set{"Cancels": "1", "Losses": "1", "Enters": "1"}},
	{module: "DoubleBarrier", name: "a spare party crashes", slow: true, set: set{"Parties": "{a, b, c}", "Enters": "1", "Crashes": "1"}},
	{module: "DoubleBarrier", name: "one has to wait", set: set{"Size": "1", "Enters": "1"}},
	{module: "DoubleBarrier", name: "nobody waits for ever", slow: true, set: set{
		"SPECIFICATION": "FairSpec", "SYMMETRY": "", "Losses": "1", "PROPERTIES": "NobodyGathersForEver NobodyLeavesForEver",
	}},
	{module: "DoubleBarrier", name: "three of two, expired", large: true, set: set{"Parties": "{a, b, c}", "Expiries": "1", "Losses": "1"}},
	{module: "DoubleBarrier", name: "three of three, all faults", large: true, set: set{
		"Parties": "{a, b, c}", "Size": "3", "Enters": "1", "Losses": "1", "Expiries": "1", "Crashes": "1", "Cancels": "1",
	}},
	{module: "Lease", name: "transactions, drift and a deposed leader", set: set{"Sends": "2", "Horizon": "7"}},
	{module: "Lease", name: "lapsed, and a deposed leader", set: set{"Lapses": "1", "Sends": "1", "Horizon": "7", "Drift": "0"}},
	{module: "Lease", name: "lapsed, and a lease again", large: true, set: set{"Lapses": "2", "Sends": "2", "Horizon": "12", "Drift": "0"}},
	{module: "Lease", name: "renewed", large: true},
	{module: "Lease", name: "syncs, and a deposed leader", large: true, set: set{"Kinds": `{"sync", "commit"}`}},
	{module: "Lease", name: "cut off, and a deposed leader", slow: true, set: set{"Cuts": "1", "Sends": "1", "Horizon": "8"}},
	{module: "Lease", name: "a freeze", slow: true, set: set{"Freezes": "1", "Sends": "1", "Horizon": "7"}},
	{module: "Role", name: "two servers of one address"},
	{module: "Lease", name: "slow reports", large: true, set: set{"Report": "2", "Horizon": "10", "Sends": "4"}},
	{module: "Line", name: "one watches the farther", large: true, set: set{"Brief": "FALSE", "Leavers": "{a, b, c}"}},
	{module: "Line", name: "three, cut off", large: true, set: set{"Cuts": "1"}},
	{module: "Line", name: "three, struck", large: true, set: set{"Strikes": "1"}},
	{module: "Line", name: "three, two in one session, no lease", large: true, set: set{
		"Together": "{a, b}", "SYMMETRY": "", "Kills": "1", "LeaseHolds": "FALSE",
	}},
	{module: "Line", name: "two, all faults", large: true, set: set{
		"Contenders": "{a, b}", "Leavers": "{a, b}", "Cuts": "1", "Lates": "1", "Lapses": "1", "Strikes": "1", "Crashes": "1",
	}},
	{module: "Line", name: "three, lapsed", large: true, set: set{"Lapses": "1"}},
}

var mutants = []mutant{
	// A waiter whose node was deleted is granted by the end of the contender ahead.
	{"Line", "no own watch", "GrantsAreTrue", set{"Contenders": "{a, b}", "Strikes": "1", "INVARIANTS": "GrantsAreTrue"}},
	// Of two deletions that a reconnect reports, the wrong one comes first.
	{"Line", "events after a cut", "GrantsAreTrue", set{"Contenders": "{a, b}", "Cuts": "1", "Strikes": "1"}},
	// The end of a session deletes the node ahead, and our own.
	{"Line", "own session", "GrantsAreTrue", set{"Contenders": "{a, b}", "Together": "{a, b}", "SYMMETRY": "", "Kills": "1", "LeaseHolds": "FALSE"}},
	{"Line", "any deletion grants", "HolderIsFirst", set{"Brief": "FALSE"}},
	// The watch of an earlier attempt reports the end of a node that is of our own session.
	{"Line", "unconfirmed events", "GrantsAreTrue", set{
		"Contenders": "{a, b}", "Together": "{a, b}", "SYMMETRY": "", "Strikes": "1", "Kills": "1", "LeaseHolds": "FALSE",
	}},
	{"Line", "no cleaning", "NoGhosts", set{"Contenders": "{a}", "SYMMETRY": "", "Leavers": "{a}", "Cuts": "1", "Lates": "1"}},
	{"Line", "no node is ignored", "NobodyIsSkipped", set{"Contenders": "{a, b}"}},
	// The servers expire a session before its lease has ended for its client.
	{"Line", "expires early", "Exclusion", set{"Contenders": "{a, b}", "Kills": "1"}},
	{"Line", "a lapse holds", "Exclusion", set{"Contenders": "{a, b}", "Lapses": "1"}},
	{"Line", "a lapse leaves the node", "NoGhosts", set{"Contenders": "{a}", "SYMMETRY": "", "Lapses": "1"}},
	{"Line", "waiters lapse", "PlacesStay", set{"Contenders": "{a, b}", "Lapses": "1"}},
	// A list of before the lapse shows that a contender is first, and then its session expires.
	{"Line", "answers of before count", "Exclusion", set{"Contenders": "{a, b}", "Lapses": "2", "INVARIANTS": "Exclusion"}},

	// An entrant's session expires between the list and the beginning.
	{"DoubleBarrier", "absent members", "AllAreIn", set{"Expiries": "1"}},
	{"DoubleBarrier", "one handle twice", "AllAreIn", set{"Expiries": "1"}},
	{"DoubleBarrier", "rounds overlap", "RoundsDoNotOverlap", set{"Size": "1"}},
	{"DoubleBarrier", "leaves alone", "AllAreOut", nil},
	{"DoubleBarrier", "unchecked retirement", "WithdrawnIsOut", set{"Cancels": "1"}},

	{"Lease", "the server's answers count", "ToldInTime", set{"Sends": "1", "Kinds": `{"read"}`}},
	{"Lease", "deposed leaders count", "ToldInTime", set{"Kinds": `{"sync"}`}},
	{"Lease", "two requests are enough", "ToldInTime", nil},
	{"Lease", "no margin", "ToldInTime", set{"Sends": "0"}},
	{"Lease", "thaws without a look", "ToldInTime", set{"Freezes": "1", "Sends": "0"}},
	{"Lease", "handshakes are committed", "ToldInTime", set{"Cuts": "1", "Sends": "0"}},
	{"Lease", "no lapse", "ToldInTime", set{"Sends": "0"}},
	// A deposed leader takes the session back.
	{"Lease", "a lapse needs no proof", "ToldInTime", set{"Lapses": "1", "Sends": "0", "Drift": "0"}},
	{"Lease", "proofs of before count", "LapseEnds", set{"Lapses": "1", "Sends": "1", "Drift": "0"}},
	// No rule: a lapse can end.
	{"Lease", "", "NeverRegained", set{"INVARIANTS": "NeverRegained", "Lapses": "1", "Sends": "1", "Drift": "0"}},
	{"Role", "it counts at once", "NotDeceived", nil},
	{"Role", "any answer confirms it", "NotDeceived", nil},
	{"Role", "it counts for later connections", "NotDeceived", nil},
	{"Role", "any server is asked", "NotDeceived", nil},
	{"Role", "connections are kept", "NotDeceived", nil},
	// No rule: it is found out.
	{"Role", "", "NeverKnown", set{"INVARIANTS": "NeverKnown"}},
	// No rule: a lease is renewed, so that what holds does not hold for want of renewals.
	{"Lease", "", "NeverRenewed", set{"INVARIANTS": "NeverRenewed", "Drift": "0"}},
}

// TestModels: what the specifications promise holds in every state.
func TestModels(t *testing.T) {
	t.Parallel()
	c := tlc.Require(t)
	for _, m := range models {
		t.Run(m.module+", "+m.name, func(t *testing.T) {
			t.Parallel()
			if m.large && !*full {
				t.Skip("only with -spec.full")
			}
			if m.slow && testing.Short() {
				t.Skip("not with -short")
			}
			r := runModel(t, c, tlc.Model{Module: m.module, Set: m.set})
			t.Log(r)
			check.True(t, r.Violated == "", "%v\n%s", r, r.Output)
			check.True(t, r.Distinct > 100, "only %v", r)
		})
	}
}

// TestMutants: TLC finds each broken rule. So a property that no longer says anything is noticed.
func TestMutants(t *testing.T) {
	t.Parallel()
	c := tlc.Require(t)
	for _, m := range mutants {
		t.Run(m.module+", "+m.rule, func(t *testing.T) {
			t.Parallel()
			values := set{"Broken": `{"` + m.rule + `"}`}
			maps.Copy(values, m.set)
			r := runModel(t, c, tlc.Model{Module: m.module, Set: values})
			t.Logf("mutant %q is found in %d states: %v", m.module+", "+m.rule, r.Distinct, r)
			check.True(t, r.Violated == m.property, "%v, want %s\n%s", r, m.property, r.Output)
		})
	}
}

// runModel checks a module with the configuration of the same name.
func runModel(t *testing.T, c tlc.Checker, m tlc.Model) tlc.Result {
	t.Helper()
	m.Modules = spec.Files
	if m.Config == "" {
		m.Config = m.Module + ".cfg"
	}
	return check.Have(c.Check(t.Context(), t.TempDir(), m))(t)
}
