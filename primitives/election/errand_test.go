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
	resign, clear := withdraws("a", "", held), withdraws("", "pre-", claim{node: "pre-a"})
	check := errand{step: checking, node: "a"}
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
		{"who has claimed nothing has only a node", withdraws("a", "", claim{}), reply{}, removing, result{done: true}},
		{"who may have claimed looks", withdraws("a", "", claim{node: "a"}), reply{}, checking, result{}},
		{"the leader's node is another's", check, reply{record: record{node: "b"}, owner: 1, version: 5}, checking, result{done: true}},
		{"the leader's node is nobody's", check, reply{record: record{node: "a"}, version: 5}, checking, result{done: true}},
		{"there is none", check, reply{err: session.ErrNoNode}, checking, result{done: true}},
		{"the leader's node is ours", check, reply{record: record{node: "a"}, owner: 1, version: 5}, erasing, result{}},
		{"it is of one of our nodes", errand{step: checking, prefix: clear.prefix}, reply{record: record{node: "pre-a"}, owner: 1, version: 5}, erasing, result{}},
		{"it is ours, whatever it says", errand{step: checking, node: "a", zxid: 7}, reply{owner: 1, czxid: 7, version: 5}, erasing, result{}},
		{"it is another's, whatever it says", errand{step: checking, node: "a", zxid: 7}, reply{record: record{node: "a"}, owner: 1, czxid: 8}, checking, result{done: true}},
		{"it was deleted", errand{step: erasing, node: "a"}, reply{}, erasing, result{done: true}},
		{"it is never deleted again without a look", errand{step: erasing, node: "a"}, reply{err: errUnknown}, checking, result{}},
		{"it has changed", errand{step: erasing, node: "a"}, reply{err: session.ErrBadVersion}, checking, result{}},
		{"it may not be deleted", errand{step: erasing, node: "a"}, reply{err: session.ErrNoAuth}, resting, result{}},
		{"after a rest it is looked at", errand{step: resting, node: "a"}, reply{}, checking, result{}},
		{"the session is over", check, reply{err: session.ErrExpired}, checking, result{done: true}},
	} {
		next, res := row.errand.next(row.reply)
		if next.step != row.step || res.done != row.result.done || res.zxid != row.result.zxid || res.version != row.result.version || res.taken != row.result.taken || !errors.Is(res.err, row.result.err) {
			t.Errorf("%s: step %v, %+v", row.danger, next.step, res)
		}
	}
}
