package election

import (
	"errors"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/claim"
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
