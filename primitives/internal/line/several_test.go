package line

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// TestTwoTransactions: a create of unknown outcome and its repetition are executed, and another
// client deletes one node of the first. Then the places that are found are of two transactions, by
// which two contenders could wait for each other. So all lines are joined again.
func TestTwoTransactions(t *testing.T) {
	const id = "00000000-0000-4000-8000-000000000001"
	rule := First{Grammar: &nodes.StandardLock, Kind: nodes.Exclusive, EventGrants: true, Brief: true}
	name := func(number int) string { return fmt.Sprintf("%s%010d", rule.Name(id), number) }
	s := NewSeveral(id, []string{"/a", "/b"}, []Rule{rule, rule}, []bool{true, true}, false)
	step := func(in SeveralInput) SeveralEffects {
		var out SeveralEffects
		s = s.Step(in, &out)
		return out
	}
	both := func(in func(i int) Input) (last SeveralEffects) {
		for i := range 2 {
			last = step(InputAt{i, in(i)})
		}
		return last
	}
	did := step(Heard{Event: session.Connected{ID: 7, Epoch: 1}})
	create, is := did.Do[0].(CreateTogether)
	check.Require(t, is, "%T", did.Do[0])
	at := create.Creates[0].Attempt
	both(func(i int) Input { return Failed{What: create.Creates[i], Err: session.ErrUnknownOutcome} })
	both(func(i int) Input {
		names := []string{name(0), name(1)}
		return Listed{Attempt: at, Snapshot: Snapshot{Names: names[1-i:]}}
	})
	did = both(func(i int) Input {
		return Watched{Attempt: at, Target: Target{Node: name(1 - i)}, Czxid: int64(20 - i), Owner: 7}
	})
	var withdrawn []NodeAt
	for _, e := range did.Do {
		if all, is := e.(WithdrawTogether); is {
			withdrawn = all.Nodes
		}
	}
	check.Equal(t, fmt.Sprint(withdrawn), fmt.Sprint([]NodeAt{
		{0, WithdrawNode{Attempt: at, Node: name(1)}}, {1, WithdrawNode{Attempt: at, Node: name(0)}},
	}))
	// The session is closed before they are gone: they will not join again.
	did = step(Heard{Event: session.Closed{}})
	check.True(t, s.Ended() && len(did.Emit) == 1, "%v emits %v", s, did.Emit)
	end, is := did.Emit[0].(NotGranted)
	check.True(t, is && errors.Is(end.Err, session.ErrClosed), "%v", did.Emit)
}

// TestUndone: a create that was undone goes out again with the others, without a second list: the
// answer to the first one is on its way.
func TestUndone(t *testing.T) {
	const id = "00000000-0000-4000-8000-000000000001"
	rule := First{Grammar: shared, Kind: nodes.Read}
	check.Require(t, rule.Traits().Lists, "the rule needs no list")
	s := NewSeveral(id, []string{"/a", "/b"}, []Rule{rule, rule}, []bool{true, true}, false)
	step := func(in SeveralInput) SeveralEffects {
		var out SeveralEffects
		s = s.Step(in, &out)
		return out
	}
	did := step(Heard{Event: session.Connected{ID: 7, Epoch: 1}})
	check.Require(t, len(did.Do) == 3, "a create and two lists: %v", did.Do)
	creates := did.Do[0].(CreateTogether).Creates
	step(Undone{Line: 0, Attempt: creates[0].Attempt})
	did = step(InputAt{1, Failed{What: creates[1], Err: session.ErrBadVersion}})
	check.Require(t, len(did.Do) == 1, "a create: %v", did.Do)
	_, is := did.Do[0].(CreateTogether)
	check.True(t, is, "%v", did.Do)
}

// TestEndInBackground: the end does not wait until the nodes are deleted, unless that is wanted.
func TestEndInBackground(t *testing.T) {
	const id = "00000000-0000-4000-8000-000000000001"
	rule := First{Grammar: shared, Kind: nodes.Write}
	for _, inBackground := range []bool{false, true} {
		s := NewSeveral(id, []string{"/a", "/b"}, []Rule{rule, rule}, []bool{true, true}, inBackground)
		var out SeveralEffects
		s = s.Step(Heard{Event: session.Connected{ID: 7, Epoch: 1}}, &out)
		at := out.Do[0].(CreateTogether).Creates[0].Attempt
		for i := range 2 {
			s = s.Step(InputAt{i, Joined{Attempt: at, Node: rule.Name(id) + "0000000001", Czxid: 5, Children: 1}}, &out)
		}
		out = SeveralEffects{}
		s = s.Step(Leave{}, &out)
		check.Equal(t, s.Ended(), inBackground, "it has ended, with the end in background", inBackground)
		check.Equal(t, len(out.Emit) == 1, inBackground, "it has emitted the end", inBackground)
		_, withdraws := out.Do[len(out.Do)-1].(WithdrawTogether)
		check.True(t, withdraws, "%v", out.Do)
	}
}
