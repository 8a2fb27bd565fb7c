package election

import (
	"errors"
	"testing"

	"github.com/zkactors/zkactors/session"
)

var errUnknown = errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected)

// TestErrands has rows for steps that are easy to get wrong.
func TestErrands(t *testing.T) {
	claim1 := claims("a", "data", handover{}, false)
	look := claims("a", "data", handover{}, true)
	take := claims("a", "data", handover{to: "a", from: "b", version: 3}, false)
	held := claim{node: "a", held: true, version: 2}
	resign := withdraws("a", "", held)
	for _, row := range []struct {
		danger string
		errand errand
		reply  reply
		step   step
		result result
	}{
		{"a claim is a claim", claim1, reply{zxid: 7, version: 1}, trying, result{done: true, zxid: 7, version: 1}},
		{"somebody else may be the leader, or we", claim1, reply{err: session.ErrNodeExists, failed: 1}, looking, result{}},
		{"our own node is gone", claim1, reply{err: session.ErrNoNode}, trying, result{done: true, err: session.ErrNoNode}},
		{"a claim may have been done", claim1, reply{err: errUnknown}, trying, result{done: true, err: errUnknown}},
		{"an earlier claim was done", look, reply{record: record{node: "a"}, owner: 1, czxid: 7, version: 2}, looking, result{done: true, zxid: 7, version: 2}},
		{"an earlier claim was not done", look, reply{err: session.ErrNoNode}, trying, result{}},
		{"a read is repeated", look, reply{err: session.ErrDisconnected}, looking, result{}},
		{"another leads", look, reply{record: record{node: "b"}, owner: 1}, looking, result{done: true, taken: true}},
		{"another leads whose record nobody understands", look, reply{owner: 1}, looking, result{done: true, taken: true}},
		{"another hands over to us", look, reply{record: record{node: "b", successor: "a"}, owner: 1, version: 3}, taking, result{}},
		{"another hands over to another", look, reply{record: record{node: "b", successor: "c"}, owner: 1}, looking, result{done: true, taken: true}},
		{"nobody's node is in the way", look, reply{version: 4}, replacing, result{}},
		{"who hands over has gone", take, reply{err: session.ErrNoNode, failed: 1}, taking, result{done: true, taken: true}},
		{"who was to take over has gone", take, reply{err: session.ErrNoNode, failed: 0}, taking, result{done: true, err: session.ErrNoNode}},
		{"somebody else was quicker", take, reply{err: session.ErrBadVersion, failed: 2}, taking, result{done: true, taken: true}},
		{"nobody's node has changed", errand{step: replacing, node: "a"}, reply{err: session.ErrBadVersion, failed: 1}, looking, result{}},
		{"nobody's node has gone", errand{step: replacing, node: "a"}, reply{err: session.ErrNoNode, failed: 1}, looking, result{}},
		{"nobody's node has children", errand{step: replacing, node: "a"}, reply{err: session.ErrNotEmpty, failed: 1}, replacing, result{done: true, err: ErrNotElection}},
		{"nobody's node must not be deleted", errand{step: replacing, node: "a"}, reply{err: session.ErrNoAuth, failed: 1}, replacing, result{done: true, err: session.ErrNoAuth}},

		{"all is given up at once", resign, reply{}, resigning, result{done: true}},
		{"it may have been given up", resign, reply{err: errUnknown}, removing, result{}},
		{"somebody has deleted our node, and not the leader's", resign, reply{err: session.ErrNoNode}, removing, result{}},
		{"what could not be given up at once is, one after the other", errand{step: removing, node: "a"}, reply{}, removing, result{done: true}},
		{"the session is over", resign, reply{err: session.ErrExpired}, resigning, result{done: true}},
	} {
		next, res := row.errand.next(row.reply)
		if next.step != row.step || res.done != row.result.done || res.zxid != row.result.zxid || res.version != row.result.version || res.taken != row.result.taken || !errors.Is(res.err, row.result.err) {
			t.Errorf("%s: step %v, %+v", row.danger, next.step, res)
		}
	}
}

// TestOurs has rows for which node of a leader is given up.
func TestOurs(t *testing.T) {
	says := func(node string) []byte { return record{node: node}.bytes() }
	for _, row := range []struct {
		danger string
		errand errand
		data   []byte
		stat   session.Stat
		ours   bool
	}{
		{"another's", errand{node: "a"}, says("b"), session.Stat{EphemeralOwner: 1}, false},
		{"nobody's", errand{node: "a"}, says("a"), session.Stat{}, false},
		{"ours", errand{node: "a"}, says("a"), session.Stat{EphemeralOwner: 1}, true},
		{"of one of our nodes", errand{prefix: "pre-"}, says("pre-a"), session.Stat{EphemeralOwner: 1}, true},
		{"of none of our nodes", errand{prefix: "pre-"}, nil, session.Stat{EphemeralOwner: 1}, false},
		{"ours, whatever it says", errand{node: "a", zxid: 7}, nil, session.Stat{EphemeralOwner: 1, Czxid: 7}, true},
		{"another's, whatever it says", errand{node: "a", zxid: 7}, says("a"), session.Stat{EphemeralOwner: 1, Czxid: 8}, false},
	} {
		if ours := row.errand.is(&row.stat) && row.errand.says(row.data); ours != row.ours {
			t.Errorf("%s: %v", row.danger, ours)
		}
	}
}
