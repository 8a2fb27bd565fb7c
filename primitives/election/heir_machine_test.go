package election

import (
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// TestHeirClaims has rows for what becomes of an heir that leads before its claim is made.
func TestHeirClaims(t *testing.T) {
	m, at := newMachine(), line.Attempt{Epoch: 1, N: 1}
	do := func(ins ...input) (emitted []Event) {
		for _, in := range ins {
			next, out := m.after(in)
			m, emitted = next, append(emitted, out.Emit...)
		}
		return emitted
	}
	own := Standard.rule("").Name(id) + "0000000002"
	do(
		placed{line.Heard{Event: session.Connected{Epoch: 1, ID: 9}}},
		placed{line.Joined{Attempt: at, Node: own, Czxid: 7, Children: 2}},
		placed{line.Listed{Attempt: at, Snapshot: line.Snapshot{Names: []string{other, own}}}},
		placed{line.Watched{Attempt: at, Target: line.Target{Node: own}, Czxid: 7, Owner: 9}},
		placed{line.Watched{Attempt: at, Target: line.Target{Node: other}, Czxid: 6, Owner: 8}},
	)
	next := heed{1, other}
	do(
		heeded{next, sighting{at: 8, term: 8, record: record{Node: other}}},
		prepared{of: prepare{next, own}, zxid: 10},
		disturbed{next, true},
	)
	emitted := do(placed{line.Happened{Attempt: at, Target: line.Target{Node: other}}})
	check.Require(t, slices.Contains(emitted, Event(Elected{10})), "%v", emitted)
	leads, claim := m, line.Claim{Attempt: at, Node: own, Token: 10}
	for _, row := range []struct {
		danger       string
		in           input
		leads, stays bool
	}{
		{"its record is not there yet", sighted{1, sighting{at: 12}}, true, true},
		{"another leads", sighted{1, sighting{at: 13, term: 13, record: record{Node: other}}}, false, true},
		{"its claim is made", placed{line.Claimed{Attempt: at, Zxid: 12}}, true, true},
		{"its claim was lost", placed{line.Failed{What: claim, Err: session.ErrDisconnected}}, true, true},
		{"its claim contradicts", placed{line.Failed{What: claim, Err: session.ErrNotEmpty}}, false, true},
		{"another was faster", placed{line.Occupied{Attempt: at}}, false, true},
		{"it may not claim at all", placed{line.Failed{What: claim, Err: session.ErrNoAuth}}, false, false},
		{"it acknowledges before its record is there", noted{of: note{tenure: leads.tenure}, err: session.ErrNoNode}, true, true},
	} {
		m = leads
		do(row.in)
		check.True(t, (m.term == 10) == row.leads && m.closing != row.stays, "%s: %v", row.danger, m)
	}
	m = leads
	do(placed{line.Claimed{Attempt: at, Zxid: 12}}, sighted{1, sighting{at: 14}})
	check.True(t, m.term == 0, "leads without the record that it had")
}
