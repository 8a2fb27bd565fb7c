package line

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

// TestClaims has rows for what is claimed beside the place in line.
func TestClaims(t *testing.T) {
	const a = "a-lock-0000000001"
	var (
		id      = actorID(1)
		at      = Attempt{1, 1}
		guid    = attemptGUID(id, 1)
		own     = Published(guid) + "lock-0000000005"
		mine    = Watched{at, deletion(own), 7, 9, false, Obstacle{}}
		theirs  = Target{own, Unclaimed}
		unknown = fmt.Errorf("multi: %w, %w", session.ErrUnknownOutcome, session.ErrDisconnected)
		ask     = Claim{at, own, false, 0}

		hello    = Heard{session.Connected{Epoch: 1, ID: 9}}
		sole     = []Input{hello, Joined{at, own, 7, 1, ""}, mine} // claims at once
		behind   = []Input{hello, Joined{at, own, 7, 2, ""}, mine, Listed{at, Snapshot{Names: []string{a, own}}}}
		occupied = append(slices.Clone(sole), Occupied{at})
		holder   = append(slices.Clone(sole), Claimed{at, 12})
		taker    = append(slices.Clone(behind), Promote{})
		known    = append(slices.Clone(behind), Watched{at, deletion(a), 6, 8, false, Obstacle{}})
		heir     = append(slices.Clone(known), Inherit{11})
		inherits = Claim{at, own, false, 11}
		again    = Claim{at, own, true, 11}
		early    = append(slices.Clone(heir), Happened{at, deletion(a)})
		settled  = append(slices.Clone(early), Claimed{at, 12})
	)
	for _, row := range []struct {
		danger string
		rule   Rule
		before []Input
		in     Input
		state  state
		do     []Effect
		emit   Event
	}{
		{danger: "who is alone claims", before: []Input{hello}, in: Joined{at, own, 7, 1, ""}, state: claiming, do: []Effect{ask, WatchTarget{at, deletion(own)}}},
		{danger: "the event is not the grant yet", before: behind, in: Happened{at, deletion(a)}, state: claiming, do: []Effect{ask}},
		{danger: "the token is the zxid of the claim", before: sole, in: Claimed{at, 12}, state: held, do: []Effect{WatchTarget{at, theirs}}, emit: Acquired{12, own}},
		{danger: "a claim of an earlier attempt", before: sole, in: Claimed{Attempt{1, 0}, 12}, state: claiming},
		{danger: "what is another's is waited for", before: sole, in: occupied[len(occupied)-1], state: waiting, do: []Effect{WatchTarget{at, theirs}}, emit: Waiting{1}},
		{danger: "when it is free there may be others ahead", before: occupied, in: Happened{at, theirs}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "it was free before it was watched", before: occupied, in: Failed{WatchTarget{at, theirs}, session.ErrNoNode}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "a claim may have been done", before: sole, in: Failed{ask, unknown}, state: claiming, do: []Effect{Claim{at, own, true, 0}}},
		{danger: "a claim was not sent", before: sole, in: Failed{ask, session.ErrDisconnected}, state: claiming, do: []Effect{ask}},
		{danger: "what we thought to know is not so", before: sole, in: Failed{ask, session.ErrNoNode}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "a claim is refused", before: sole, in: Failed{ask, session.ErrNoAuth}, state: leaving, do: []Effect{WithdrawNode{at, own}}, emit: NotGranted{errors.New("cannot join: not authorized")}},
		{danger: "a claim may have been done for a node that is gone", before: sole, in: Happened{at, deletion(own)}, state: clearing, do: []Effect{WithdrawAll{at, guid}}},
		{danger: "leaving gives up what may be claimed", before: sole, in: Leave{}, state: leaving, do: []Effect{WithdrawNode{at, own}}},
		{danger: "the claim of a holder is gone", before: holder, in: Happened{at, theirs}, state: leaving, do: []Effect{UnwatchTarget{at, theirs}, WithdrawNode{at, own}}, emit: Lost{ErrNodeDeleted}},
		{danger: "the claim is another's by now", before: holder, in: Watched{at, theirs, 13, 9, false, Obstacle{}}, state: leaving, do: []Effect{UnwatchTarget{at, theirs}, WithdrawNode{at, own}}, emit: Lost{ErrNodeDeleted}},
		{danger: "the claim is ours", before: holder, in: Watched{at, theirs, 12, 9, false, Obstacle{}}, state: held},
		{danger: "the node of a holder is gone, and its claim is not", before: holder, in: Happened{at, deletion(own)}, state: leaving, do: []Effect{UnwatchTarget{at, theirs}, WithdrawAll{at, guid}}, emit: Lost{ErrNodeDeleted}},

		{danger: "what is handed to us is claimed out of turn", before: behind, in: Promote{}, state: claiming, do: []Effect{UnwatchTarget{at, deletion(a)}, ask}},
		{danger: "it is taken once", before: taker, in: Promote{}, state: claiming},
		{danger: "a holder takes nothing", before: holder, in: Promote{}, state: held},
		{danger: "who is not in line yet takes nothing", before: []Input{hello}, in: Promote{}, state: joining},
		{danger: "where nothing is claimed there is nothing to take", rule: exclusive, before: behind, in: Promote{}, state: waiting},
		{danger: "who was to take it comes too late", before: taker, in: occupied[len(occupied)-1], state: waiting, do: []Effect{WatchTarget{at, theirs}}},
		{danger: "an heir has nothing yet", before: known, in: Inherit{11}, state: waiting},
		{danger: "an heir holds by the event, and claims after that", before: heir, in: Happened{at, deletion(a)}, state: held, do: []Effect{inherits}, emit: Acquired{11, own}},
		{danger: "an heir is one no more", before: append(slices.Clone(heir), Inherit{}), in: Happened{at, deletion(a)}, state: claiming, do: []Effect{ask}},
		{danger: "an heir may have missed something", before: append(slices.Clone(heir), Heard{session.Suspended{}}), in: Happened{at, deletion(a)}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "the one ahead is of our session, which may have ended", before: append(slices.Clone(behind), Watched{at, deletion(a), 6, 9, false, Obstacle{}}, Inherit{11}), in: Happened{at, deletion(a)}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "who is not next inherits nothing", before: sole, in: Inherit{11}, state: claiming},
		{danger: "an heir has its claim", before: early, in: Claimed{at, 12}, state: held, do: []Effect{WatchTarget{at, theirs}}},
		{danger: "an heir's claim may have been done", before: early, in: Failed{inherits, unknown}, state: held, do: []Effect{again}},
		{danger: "an heir's claim was not sent", before: early, in: Failed{inherits, session.ErrDisconnected}, state: held, do: []Effect{inherits}},
		{danger: "an heir's claim is refused", before: early, in: Failed{inherits, session.ErrNodeExists}, state: leaving, do: []Effect{WithdrawNode{at, own}}, emit: Lost{ErrNodeDeleted}},
		{danger: "an heir may not claim", before: early, in: Failed{inherits, session.ErrNoAuth}, state: leaving, do: []Effect{WithdrawNode{at, own}}, emit: Lost{session.ErrNoAuth}},
		{danger: "an heir's claim is another's", before: early, in: Occupied{at}, state: leaving, do: []Effect{WithdrawNode{at, own}}, emit: Lost{ErrNodeDeleted}},
		{danger: "an heir's node is gone before it has claimed", before: early, in: Happened{at, deletion(own)}, state: leaving, do: []Effect{WithdrawAll{at, guid}}, emit: Lost{ErrNodeDeleted}},
		{danger: "an heir leaves before it has claimed", before: early, in: Leave{}, state: leaving, do: []Effect{WithdrawNode{at, own}}},
		{danger: "the czxid of an heir's claim is not its token", before: settled, in: Watched{at, theirs, 12, 9, false, Obstacle{}}, state: held},
		{danger: "an heir's claim is another's by now", before: settled, in: Watched{at, theirs, 13, 9, false, Obstacle{}}, state: leaving, do: []Effect{UnwatchTarget{at, theirs}, WithdrawNode{at, own}}, emit: Lost{ErrNodeDeleted}},
		{danger: "the one ahead matters no more to who takes", before: taker, in: Happened{at, deletion(a)}, state: claiming},
	} {
		t.Run(row.danger, func(t *testing.T) {
			rule := Rule(candidate)
			if row.rule != nil {
				rule = row.rule
			}
			m, _ := script(New(id, rule, true, false), row.before...)
			m, out := m.after(row.in)
			check.True(t, m.state == row.state && slices.Equal(out.Do, row.do), "%v\nDo %v, want %v", m, out.Do, row.do)
			var emit, want string
			for _, ev := range out.Emit {
				emit += fmt.Sprintf("%T%[1]v", ev)
			}
			if row.emit != nil {
				want = fmt.Sprintf("%T%[1]v", row.emit)
			}
			check.Equal(t, emit, want)
		})
	}
}

// refuses reports whether an answer of the attempt refuses the claim of the node for good.
func refuses(in Input, at Attempt, node string) bool {
	if in == Input(Occupied{at}) {
		return true
	}
	f, _ := in.(Failed)
	claim, ok := f.What.(Claim)
	return ok && claim.Attempt == at && claim.Node == node && denied(in) && !errors.Is(f.Err, session.ErrExpired)
}
