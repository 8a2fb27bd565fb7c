package line

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

// elective is a rule where to come first is not enough.
type elective struct{ First }

func (elective) Traits() Traits { return Traits{Claims: true} }

var candidate = elective{exclusive}

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
		ask     = Claim{at, own, false}

		hello    = Heard{session.Connected{Epoch: 1, ID: 9}}
		sole     = []Input{hello, Joined{at, own, 7, 1, ""}, mine} // claims at once
		behind   = []Input{hello, Joined{at, own, 7, 2, ""}, mine, Listed{at, Snapshot{Names: []string{a, own}}}}
		occupied = append(slices.Clone(sole), Occupied{at})
		holder   = append(slices.Clone(sole), Claimed{at, 12})
		taker    = append(slices.Clone(behind), Promote{})
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
		{danger: "a claim may have been done", before: sole, in: Failed{ask, unknown}, state: claiming, do: []Effect{Claim{at, own, true}}},
		{danger: "a claim was not sent", before: sole, in: Failed{ask, session.ErrDisconnected}, state: claiming, do: []Effect{ask}},
		{danger: "what we thought to know is not so", before: sole, in: Failed{ask, session.ErrNoNode}, state: waiting, do: []Effect{ListParent{at}}},
		{danger: "a claim is refused", before: sole, in: Failed{ask, session.ErrNoAuth}, state: leaving, do: []Effect{WithdrawNode{at, own}}, emit: Lost{session.ErrNoAuth}},
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
			emitted := len(out.Emit) > 0
			check.False(t, emitted != (row.emit != nil) || emitted && out.Emit[0] != row.emit, "Emit %v, want %v", out.Emit, row.emit)
		})
	}
}

// TestClaimExhaustion goes through every state that a claiming machine can reach by any
// inputs.
func TestClaimExhaustion(t *testing.T) {
	if testing.Short() {
		t.Skip("an exploration")
	}
	type position struct {
		Machine
		phase
	}
	start := position{Machine: New(actorID(1), candidate, true, false)}
	seen, queue := map[position]bool{start: true}, []position{start}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		at, theirs := p.attempt, Target{p.node, Unclaimed}
		ins := append(alphabet(p.Machine), Promote{}, Reevaluate{}, Claimed{at, 12}, Occupied{at}, Watched{at, theirs, 12, 1, false, Obstacle{}}, Watched{at, theirs, 13, 1, false, Obstacle{}}, Happened{at, theirs})
		for _, err := range []error{session.ErrDisconnected, errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected), session.ErrNoNode, session.ErrNoAuth, session.ErrExpired} {
			ins = append(ins, Failed{Claim{at, p.node, false}, err}, Failed{WatchTarget{at, theirs}, err})
		}
		for _, in := range ins {
			m, out := p.after(in)
			next := position{m, p.phase}
			claims := 0
			for _, ev := range out.Emit {
				next.phase = next.next(ev)
			}
			for _, e := range out.Do {
				if _, ok := e.(Claim); ok {
					claims++
				}
			}
			granting, granted := in.(Claimed)
			complaint := inspectEnd(m)
			switch {
			case complaint != "":
			case next.phase == broken:
				complaint = "breaks the grammar"
			case m.Ended() && !m.finalEmitted:
				complaint = "ends in silence"
			case m.Holding() && !p.Holding() && (!granted || m.token != granting.Zxid):
				complaint = "holds without a claim"
			case m.Holding() && (m.node == "" || m.target != (Target{m.node, Unclaimed})):
				complaint = "does not watch its claim"
			case claims > 0 && m.state != claiming, m.state == claiming && p.state != claiming && claims != 1:
				complaint = "claims out of turn"
			case m.state == waiting && m.target == (Target{}) && !m.listing:
				complaint = "waits for nothing"
			}
			check.Require(t, complaint == "", "%v, %v\n%T%v\n-> %v, %v\nDo %v\nEmit %v\n%s", p.Machine, p.phase, in, in, m, next.phase, out.Do, out.Emit, complaint)
			next.attempt.N, next.attempt.Epoch = min(next.attempt.N, 2), min(next.attempt.Epoch, 1)
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	t.Logf("%d states", len(seen))
}
