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

func (elective) Claims() bool { return true }

var candidate = elective{exclusive}

// TestClaims has rows for what is claimed beside the place in line.
func TestClaims(t *testing.T) {
	const a = "a-lock-0000000001"
	var (
		id      = actorID(1)
		at      = attempt{1, 1}
		guid    = attemptGUID(id, 1)
		own     = Published(guid) + "lock-0000000005"
		mine    = watched{at, deletion(own), 7, 9, false, obstacle{}}
		theirs  = Target{own, unclaimed}
		unknown = fmt.Errorf("multi: %w, %w", session.ErrUnknownOutcome, session.ErrDisconnected)
		ask     = claim{at, own, false}

		hello    = heard{session.Connected{Epoch: 1, ID: 9}}
		sole     = []Input{hello, joined{at, own, 7, 1, ""}, mine} // claims at once
		behind   = []Input{hello, joined{at, own, 7, 2, ""}, mine, listed{at, Sight{Names: []string{a, own}}}}
		occupied = append(slices.Clone(sole), occupied{at})
		holder   = append(slices.Clone(sole), claimed{at, 12})
		taker    = append(slices.Clone(behind), Take{})
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
		{danger: "who is alone claims", before: []Input{hello}, in: joined{at, own, 7, 1, ""}, state: claiming, do: []Effect{ask, watchTarget{at, deletion(own)}}},
		{danger: "the event is not the grant yet", before: behind, in: gone{at, deletion(a)}, state: claiming, do: []Effect{ask}},
		{danger: "the token is the zxid of the claim", before: sole, in: claimed{at, 12}, state: held, do: []Effect{watchTarget{at, theirs}}, emit: Acquired{12, own}},
		{danger: "a claim of an earlier attempt", before: sole, in: claimed{attempt{1, 0}, 12}, state: claiming},
		{danger: "what is another's is waited for", before: sole, in: occupied[len(occupied)-1], state: waiting, do: []Effect{watchTarget{at, theirs}}, emit: Waiting{1}},
		{danger: "when it is free there may be others ahead", before: occupied, in: gone{at, theirs}, state: waiting, do: []Effect{listParent{at}}},
		{danger: "it was free before it was watched", before: occupied, in: failed{watchTarget{at, theirs}, session.ErrNoNode}, state: waiting, do: []Effect{listParent{at}}},
		{danger: "a claim may have been done", before: sole, in: failed{ask, unknown}, state: claiming, do: []Effect{claim{at, own, true}}},
		{danger: "a claim was not sent", before: sole, in: failed{ask, session.ErrDisconnected}, state: claiming, do: []Effect{ask}},
		{danger: "what we thought to know is not so", before: sole, in: failed{ask, session.ErrNoNode}, state: waiting, do: []Effect{listParent{at}}},
		{danger: "a claim is refused", before: sole, in: failed{ask, session.ErrNoAuth}, state: leaving, do: []Effect{withdrawNode{at, own}}, emit: Lost{session.ErrNoAuth}},
		{danger: "a claim may have been done for a node that is gone", before: sole, in: gone{at, deletion(own)}, state: clearing, do: []Effect{withdrawAll{at, guid}}},
		{danger: "leaving gives up what may be claimed", before: sole, in: Leave{}, state: leaving, do: []Effect{withdrawNode{at, own}}},
		{danger: "the claim of a holder is gone", before: holder, in: gone{at, theirs}, state: leaving, do: []Effect{unwatchTarget{at, theirs}, withdrawNode{at, own}}, emit: Lost{ErrNodeDeleted}},
		{danger: "the claim is another's by now", before: holder, in: watched{at, theirs, 13, 9, false, obstacle{}}, state: leaving, do: []Effect{unwatchTarget{at, theirs}, withdrawNode{at, own}}, emit: Lost{ErrNodeDeleted}},
		{danger: "the claim is ours", before: holder, in: watched{at, theirs, 12, 9, false, obstacle{}}, state: held},
		{danger: "the node of a holder is gone, and its claim is not", before: holder, in: gone{at, deletion(own)}, state: leaving, do: []Effect{unwatchTarget{at, theirs}, withdrawAll{at, guid}}, emit: Lost{ErrNodeDeleted}},

		{danger: "what is handed to us is claimed out of turn", before: behind, in: Take{}, state: claiming, do: []Effect{unwatchTarget{at, deletion(a)}, ask}},
		{danger: "it is taken once", before: taker, in: Take{}, state: claiming},
		{danger: "a holder takes nothing", before: holder, in: Take{}, state: held},
		{danger: "who is not in line yet takes nothing", before: []Input{hello}, in: Take{}, state: joining},
		{danger: "where nothing is claimed there is nothing to take", rule: exclusive, before: behind, in: Take{}, state: waiting},
		{danger: "who was to take it comes too late", before: taker, in: occupied[len(occupied)-1], state: waiting, do: []Effect{watchTarget{at, theirs}}},
		{danger: "the one ahead matters no more to who takes", before: taker, in: gone{at, deletion(a)}, state: claiming},
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
		at, theirs := p.attempt, Target{p.node, unclaimed}
		ins := append(alphabet(p.Machine), Take{}, reevaluate{}, claimed{at, 12}, occupied{at}, watched{at, theirs, 12, 1, false, obstacle{}}, watched{at, theirs, 13, 1, false, obstacle{}}, gone{at, theirs})
		for _, err := range []error{session.ErrDisconnected, errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected), session.ErrNoNode, session.ErrNoAuth, session.ErrExpired} {
			ins = append(ins, failed{claim{at, p.node, false}, err}, failed{watchTarget{at, theirs}, err})
		}
		for _, in := range ins {
			m, out := p.after(in)
			next := position{m, p.phase}
			claims := 0
			for _, ev := range out.Emit {
				next.phase = next.next(ev)
			}
			for _, e := range out.Do {
				if _, ok := e.(claim); ok {
					claims++
				}
			}
			granting, granted := in.(claimed)
			complaint := inspectEnd(m)
			switch {
			case complaint != "":
			case next.phase == broken:
				complaint = "breaks the grammar"
			case m.Ended() && !m.finalEmitted:
				complaint = "ends in silence"
			case m.Holding() && !p.Holding() && (!granted || m.token != granting.zxid):
				complaint = "holds without a claim"
			case m.Holding() && (m.node == "" || m.target != (Target{m.node, unclaimed})):
				complaint = "does not watch its claim"
			case claims > 0 && m.state != claiming, m.state == claiming && p.state != claiming && claims != 1:
				complaint = "claims out of turn"
			case m.state == waiting && m.target == (Target{}) && !m.listing:
				complaint = "waits for nothing"
			}
			check.Require(t, complaint == "", "%v, %v\n%T%v\n-> %v, %v\nDo %v\nEmit %v\n%s", p.Machine, p.phase, in, in, m, next.phase, out.Do, out.Emit, complaint)
			next.attempt.n, next.attempt.epoch = min(next.attempt.n, 2), min(next.attempt.epoch, 1)
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	t.Logf("%d states", len(seen))
}
