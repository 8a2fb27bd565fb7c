package election

import (
	"errors"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/claim"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

var errUnknown = errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected)

// TestBids has rows for verdicts that are easy to get wrong.
func TestBids(t *testing.T) {
	first := bid{dir: "/e/candidates", leader: "/e/leader", successors: "/e/successors", record: record{Node: "a", Data: "data"}}
	heir, third, squatter, later, kept := first.succeeding(record{Node: "b"}, 3), first.succeeding(record{Node: "b", Succeeds: true}, 3), first, first, first
	squatter.stands, squatter.version = ownerless, 4
	later.directed, kept.record.Succeeds = true, true
	look, take, taken := claim.Verdict{Next: claim.Look}, claim.Verdict{Next: claim.Take}, claim.Verdict{Taken: true}
	fails := func(err error) claim.Verdict { return claim.Verdict{Err: err} }
	for _, row := range []struct {
		danger string
		bid    bid
		op     int
		err    error
		want   claim.Verdict
	}{
		{"a successor has left its directory", first, 2, session.ErrNodeExists, take},
		{"a successor stands", later, 2, session.ErrNotEmpty, fails(session.ErrNotEmpty)},
		{"the directory of successors may not be deleted", later, 2, session.ErrNoAuth, take},
		{"the directory of successors is gone", later, 2, session.ErrNoNode, take},
		{"there is no directory for the guard", heir, 4, session.ErrNoNode, fails(errUndirected)},
		{"a successor that hands over has gone", third, 1, session.ErrNoNode, taken},
		{"somebody else may be the leader, or we", first, 1, session.ErrNodeExists, look},
		{"our own node is gone", first, 0, session.ErrNoNode, fails(session.ErrNoNode)},
		{"the path is gone", first, 1, session.ErrNoNode, fails(session.ErrNoNode)},
		{"a claim may have been done", first, -1, errUnknown, fails(errUnknown)},
		{"the leader that hands over has gone", heir, 1, session.ErrNoNode, taken},
		{"the heir has gone", heir, 0, session.ErrNoNode, fails(session.ErrNoNode)},
		{"another heir was quicker", heir, 2, session.ErrBadVersion, taken},
		{"an ownerless node has changed", squatter, 1, session.ErrBadVersion, look},
		{"an ownerless node has gone", squatter, 1, session.ErrNoNode, look},
		{"an ownerless node has children", squatter, 1, session.ErrNotEmpty, fails(ErrNotElection)},
		{"an ownerless node must not be deleted", squatter, 1, session.ErrNoAuth, fails(session.ErrNoAuth)},
	} {
		if _, v := row.bid.Refused(row.op, row.err); v != row.want {
			t.Errorf("%s: %+v", row.danger, v)
		}
	}
	found := func(r record, stat session.Stat) claim.Found { return claim.Found{Data: r.Bytes(), Stat: &stat} }
	for _, row := range []struct {
		danger string
		found  claim.Found
		bid    bid
		want   claim.Verdict
	}{
		{"an earlier claim was done", found(record{Node: "a"}, session.Stat{EphemeralOwner: 1, Czxid: 7, Version: 2}), first, claim.Verdict{Zxid: 7, Version: 2}},
		{"an earlier claim was not done", claim.Found{Err: session.ErrNoNode}, first, take},
		{"a read is repeated", claim.Found{Err: session.ErrDisconnected}, first, look},
		{"a read that is refused", claim.Found{Err: session.ErrNoAuth}, first, fails(session.ErrNoAuth)},
		{"another leads", found(record{Node: "b"}, session.Stat{EphemeralOwner: 1}), first, taken},
		{"another leads whose record nobody understands", claim.Found{Data: []byte("x"), Stat: &session.Stat{EphemeralOwner: 1}}, first, taken},
		{"another hands over to us", found(record{Node: "b", Successor: "a"}, session.Stat{EphemeralOwner: 1, Version: 3}), heir, take},
		{"a successor hands over to us", found(record{Node: "b", Succeeds: true, Successor: "a"}, session.Stat{EphemeralOwner: 1, Version: 3}), third, take},
		{"an earlier claim as a successor was done", found(record{Node: "a", Succeeds: true}, session.Stat{EphemeralOwner: 1, Czxid: 7, Version: 2}), kept, claim.Verdict{Zxid: 7, Version: 2}},
		{"another hands over to another", found(record{Node: "b", Successor: "c"}, session.Stat{EphemeralOwner: 1}), first, taken},
		{"an ownerless node is in the way", claim.Found{Stat: &session.Stat{Version: 4}}, squatter, take},
	} {
		for _, before := range []bid{first, heir, third, squatter} { // what was seen earlier counts no more
			before.promoted = false
			if b, v := before.Judge([]claim.Found{row.found}); v != row.want || b != row.bid {
				t.Errorf("%s: %+v, %+v", row.danger, b, v)
			}
		}
	}
	for _, gone := range []claim.Found{{Err: session.ErrNoNode}, {Stat: &session.Stat{Version: 4}}} {
		_, v := heir.Judge([]claim.Found{gone})
		check.True(t, v == taken, "claimed out of turn, without a leader that hands over: %+v", v)
	}
	own := session.CheckOp("/e/candidates/a", session.AnyVersion)
	check.True(t, slices.ContainsFunc(squatter.Take(), func(o session.Op) bool { return o.Path() == own.Path() }), "a claim does not depend on the node of the candidate")
}

// TestBidOfASuccessor: the first claim of a successor replaces the record that names it. A later
// one remembers that it is not first in line.
func TestBidOfASuccessor(t *testing.T) {
	s := newStore(Standard, "/e", "data")
	s.sighted(record{Node: "b", Successor: "a"}, 3)
	b := bid{dir: "/e/candidates", leader: "/e/leader", successors: "/e/successors", record: record{Node: "a", Data: "data"}}
	check.Equal(t, s.bid("a"), b.succeeding(record{Node: "b"}, 3), "the claim of the successor")
	s.sighted(record{}, 0)
	b.promoted = true
	check.Equal(t, s.bid("a"), b, "its claim when the record is gone")
	b.promoted, b.record.Node = false, "c"
	check.Equal(t, s.bid("c"), b, "the claim of another")
}

// TestOurs has rows for which node of a leader is given up.
func TestOurs(t *testing.T) {
	says := func(node string) []byte { return record{Node: node}.Bytes() }
	for _, row := range []struct {
		danger       string
		node, prefix string
		zxid         int64
		data         []byte
		stat         session.Stat
		ours         bool
	}{
		{"another's", "a", "", 0, says("b"), session.Stat{EphemeralOwner: 1}, false},
		{"nobody's", "a", "", 0, says("a"), session.Stat{}, false},
		{"ours", "a", "", 0, says("a"), session.Stat{EphemeralOwner: 1}, true},
		{"of one of our nodes", "", "pre-", 0, says("pre-a"), session.Stat{EphemeralOwner: 1}, true},
		{"of none of our nodes", "", "pre-", 0, nil, session.Stat{EphemeralOwner: 1}, false},
		{"ours, whatever it says", "a", "", 7, nil, session.Stat{EphemeralOwner: 1, Czxid: 7}, true},
		{"another's, whatever it says", "a", "", 7, says("a"), session.Stat{EphemeralOwner: 1, Czxid: 8}, false},
	} {
		then := bid{}.Remove(row.node, row.prefix, claim.Claim{Node: row.node, Zxid: row.zxid}, true).Then.Then // behind the guard
		if ours := then.Is(&row.stat) && then.Says(row.data); ours != row.ours {
			t.Errorf("%s: %v", row.danger, ours)
		}
	}
}

var attempt = line.Attempt{Epoch: 1, N: 1}

// newHeir returns a candidate directly behind another, which it heeds.
func newHeir() machine { return script(newMachine(), behind()...) }

// behind returns the inputs of a candidate that comes to stand directly behind another.
func behind() []input {
	own := Standard.rule("").Name(id) + "0000000002"
	return []input{
		placed{line.Heard{Event: session.Connected{Epoch: 1, ID: 9}}},
		placed{line.Joined{Attempt: attempt, Node: own, Czxid: 7, Children: 2}},
		placed{line.Listed{Attempt: attempt, Snapshot: line.Snapshot{Names: []string{other, own}}}},
		placed{line.Watched{Attempt: attempt, Target: line.Target{Node: own}, Czxid: 7, Owner: 9}},
		placed{line.Watched{Attempt: attempt, Target: line.Target{Node: other}, Czxid: 6, Owner: 8}},
		heeded{heed{1, other}, sighting{at: 8, term: 8, record: record{Node: other}}},
	}
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
