package election

import (
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

var attempt = line.Attempt{Epoch: 1, N: 1}

// newHeir returns a candidate directly behind another, which it heeds.
func newHeir() machine {
	own := Standard.rule("").Name(id) + "0000000002"
	return script(
		newMachine(),
		placed{line.Heard{Event: session.Connected{Epoch: 1, ID: 9}}},
		placed{line.Joined{Attempt: attempt, Node: own, Czxid: 7, Children: 2}},
		placed{line.Listed{Attempt: attempt, Snapshot: line.Snapshot{Names: []string{other, own}}}},
		placed{line.Watched{Attempt: attempt, Target: line.Target{Node: own}, Czxid: 7, Owner: 9}},
		placed{line.Watched{Attempt: attempt, Target: line.Target{Node: other}, Czxid: 6, Owner: 8}},
		heeded{heed{1, other}, sighting{at: 8, term: 8, record: record{Node: other}}},
	)
}

// bereave gives an heir its term, and takes the leader from it.
func bereave(m machine, term int64) machine {
	return script(
		m, prepared{of: m.heir.asked, zxid: term}, disturbed{m.heir.heed, true},
		placed{line.Happened{Attempt: attempt, Target: line.Target{Node: other}}},
	)
}

// TestHeirClaims has rows for what becomes of an heir that leads before its claim is made.
func TestHeirClaims(t *testing.T) {
	leads := bereave(newHeir(), 10)
	check.Require(t, leads.term == 10, "%v", leads)
	claim := line.Claim{Attempt: attempt, Node: leads.place.Node(), Token: 10}
	for _, row := range []struct {
		danger       string
		in           input
		leads, stays bool
	}{
		{"its record is not there yet", sighted{1, sighting{at: 12}}, true, true},
		{"another leads", sighted{1, sighting{at: 13, term: 13, record: record{Node: other}}}, false, true},
		{"its claim is made", placed{line.Claimed{Attempt: attempt, Zxid: 12}}, true, true},
		{"its claim was lost", placed{line.Failed{What: claim, Err: session.ErrDisconnected}}, true, true},
		{"its claim contradicts", placed{line.Failed{What: claim, Err: session.ErrNotEmpty}}, false, true},
		{"another was faster", placed{line.Occupied{Attempt: attempt}}, false, true},
		{"it may not claim at all", placed{line.Failed{What: claim, Err: session.ErrNoAuth}}, false, false},
		{"it acknowledges before its record is there", acknowledge{}, true, true},
	} {
		m := script(leads, row.in)
		check.True(t, (m.term == 10) == row.leads && m.closing != row.stays, "%s: %v", row.danger, m)
	}
	m := script(leads, placed{line.Claimed{Attempt: attempt, Zxid: 12}}, sighted{1, sighting{at: 14}})
	check.True(t, m.term == 0, "leads without the record that it had")
}

// TestHeirOfLostData: a term that is not greater than the leader's, from servers that have lost
// data, is not inherited.
func TestHeirOfLostData(t *testing.T) {
	for term, inherits := range map[int64]bool{7: false, 8: false, 9: true} {
		m := bereave(newHeir(), term)
		check.Equal(t, m.term != 0, inherits, "leads in the term", term)
	}
}

// TestHeirPrepares: an heir has a term numbered while the candidate ahead leads, once.
func TestHeirPrepares(t *testing.T) {
	asked := newHeir()
	fresh := asked
	fresh.heir.led, fresh.heir.asked = 0, prepare{}
	for _, row := range []struct {
		danger string
		before machine
		record record
		do     string
	}{
		{"it leads", fresh, record{Node: other}, "election.prepare "},
		{"it hands over", fresh, record{Node: other, Successor: "s"}, ""},
		{"it leads as a successor", fresh, record{Node: other, Succeeds: true}, ""},
		{"another leads", fresh, record{Node: "s"}, ""},
		{"a term was asked for", asked, record{Node: other, Acknowledged: true}, ""},
	} {
		_, out := row.before.after(heeded{asked.heir.heed, sighting{at: 9, term: 8, record: row.record}})
		check.Equal(t, kinds(out.Do), row.do, row.danger)
	}
}

// TestHeirOfAnUnreadRecord: an heir that cannot read the record any more claims as others do.
func TestHeirOfAnUnreadRecord(t *testing.T) {
	m := newHeir()
	m = bereave(script(m, disturbed{m.heir.heed, false}), 10)
	check.Equal(t, m.term, 0, "leads in the term")
}

// TestHeirAcknowledges: what an heir acknowledges before its record is there is written when it is,
// and refused when it leads no more.
func TestHeirAcknowledges(t *testing.T) {
	m := bereave(newHeir(), 10)
	for range 2 {
		var out effects
		m, out = m.after(acknowledge{})
		check.Equal(t, kinds(out.Do), "election.postpone ", "what it does before")
	}
	for in, want := range map[input]string{
		placed{line.Claimed{Attempt: attempt, Zxid: 12}}: "election.note ",
		resign{}: "election.answer ",
	} {
		next, out := m.after(in)
		check.True(t, slices.Contains(out.Do, effect(proceed{})), "%T: does %v", in, out.Do)
		_, out = next.after(acknowledge{})
		check.Equal(t, kinds(out.Do), want, in)
	}
}
