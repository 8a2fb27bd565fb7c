package line

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// This file has the machine follow rules that depend on what stands beside the names, and rules
// whose first has to claim. The rules of semaphores and of priorities are in their recipes.

// A scripted rule knows the positions that it returns.
type scripted struct {
	First
	announces, claims, lists bool
	positions                *map[string]Position // by what is seen
}

func (s scripted) Announces() bool { return s.announces }
func (s scripted) Claims() bool    { return s.claims }
func (s scripted) Lists() bool     { return s.lists }

func (s scripted) Room(contenders int, _ string) bool { return !s.lists && contenders == 1 }

func (s scripted) Locate(seen Sight, _, _ string) Position {
	p, ok := (*s.positions)[seen.Data+fmt.Sprint(seen.Names)]
	if !ok {
		panic("seen without a position: " + seen.Data + fmt.Sprint(seen.Names))
	}
	return p
}

func (s scripted) Downgrade(own string) (Rule, string, bool) {
	weaker, node, ok := s.First.Downgrade(own)
	s.First, _ = weaker.(First)
	return s, node, ok
}

// The rule depends on what stands beside the names.
func TestDependentMachine(t *testing.T) {
	id := actorID(1)
	grammar := &nodes.Grammar{Prefix: znode.GUIDName, Separated: true, Marks: []nodes.Mark{{Text: "lease-"}}}
	own, at := Published(attemptGUID(id, 1))+"lease-0000000005", attempt{1, 1}
	const a = "a-lease-0000000001"
	hello := heard{session.Connected{Epoch: 1, ID: 9}}
	waits := []Input{hello, joined{at, own, 7, 2, "1 unit"}, listed{at, Sight{Names: []string{a, own}, Data: "1"}}}
	holds := []Input{hello, joined{at, own, 7, 1, "1 unit"}}
	const b, c = "b-lease-0000000002", "c-lease-0000000003"
	two := listed{at, Sight{Names: []string{a, b, own}, Data: "1"}}
	const h = "h-lease-3-0000000001"
	behindHeavy := []Input{hello, joined{at, own, 7, 3, "1 unit"}, listed{at, Sight{Names: []string{h, b, own}, Data: "1"}}}
	const d = "d-lease-0000000004"
	three := listed{at, Sight{Names: []string{a, d, b, own}, Data: "1"}}
	besides := []Input{hello, joined{at, own, 7, 4, "1 unit"}, three}
	second := []Input{hello, joined{at, own, 7, 3, "1 unit"}, two}
	behind, alone := listed{at, Sight{Names: []string{own, d}, Data: "1"}}, listed{at, Sight{Names: []string{own}, Data: "1"}}
	silent := append(slices.Clone(waits), reevaluate{}, behind)
	seen := func(names ...string) string { return "1" + fmt.Sprint(names) }
	rule := scripted{First: First{Grammar: grammar}, announces: true, positions: &map[string]Position{
		seen(own):          {Present: true},
		seen(own, d):       {Present: true, Announce: true},
		seen(a, own):       {Present: true, Ahead: 1, Watch: Target{Until: Members}},
		seen(a, b, own):    {Present: true, Ahead: 2, Watch: Target{b, Changed}},
		seen(a, c, own):    {Present: true, Ahead: 2, Watch: Target{c, Changed}},
		seen(a, d, b, own): {Present: true, Ahead: 3, Watch: Target{b, Changed}, Beside: []Target{{d, Changed}}},
		seen(h, b, own):    {Present: true, Ahead: 2, Watch: Target{b, Changed}, Beside: []Target{{Node: h}}},
	}}
	for _, row := range []struct {
		danger string
		before []Input
		in     Input
		state  state
		do     []Effect
	}{
		{"a list under way is made of two reads", append(slices.Clone(waits), reevaluate{}, reevaluate{}), listed{at, Sight{Names: []string{a, own}, Data: "1"}}, waiting, []Effect{listParent{at}}},
		{"once more, not for ever", append(slices.Clone(waits), reevaluate{}, reevaluate{}, listed{at, Sight{Names: []string{a, own}, Data: "1"}}), listed{at, Sight{Names: []string{a, own}, Data: "1"}}, waiting, nil},
		{"all are watched: what has changed before is not told", waits, watched{attempt: at, target: Target{Until: Members}}, waiting, []Effect{listParent{at}}},
		{"the one ahead has announced itself: all are watched", second, watched{attempt: at, target: Target{b, Changed}, announced: true}, waiting, []Effect{unwatchTarget{at, Target{b, Changed}}, watchTarget{at, Target{Until: Members}}}},
		{"and it is not watched again", append(slices.Clone(second), watched{attempt: at, target: Target{b, Changed}, announced: true}, reevaluate{}), two, waiting, nil},
		{"but another is", append(slices.Clone(second), watched{attempt: at, target: Target{b, Changed}, announced: true}, reevaluate{}), listed{at, Sight{Names: []string{a, c, own}, Data: "1"}}, waiting, []Effect{unwatchTarget{at, Target{Until: Members}}, watchTarget{at, Target{c, Changed}}}},
		{"one that makes room cannot be read: who is next ahead tells enough", behindHeavy, failed{watchTarget{at, Target{Node: h}}, session.ErrNoAuth}, waiting, nil},
		{"one that makes room leaves", behindHeavy, gone{at, Target{Node: h}}, waiting, []Effect{listParent{at}}},
		{"and does not, any more", append(slices.Clone(behindHeavy), reevaluate{}), two, waiting, []Effect{unwatchTarget{at, Target{Node: h}}}},
		{"one beside is announced before it is watched", besides, watched{attempt: at, target: Target{d, Changed}, announced: true}, waiting, []Effect{listParent{at}}},
		{"and is not watched again", append(slices.Clone(besides), watched{attempt: at, target: Target{d, Changed}, announced: true}), three, waiting, nil},
		{"one beside announces itself", besides, gone{at, Target{d, Changed}}, waiting, []Effect{listParent{at}}},
		{"and is watched again if it seems to wait", append(slices.Clone(besides), gone{at, Target{d, Changed}}), three, waiting, []Effect{watchTarget{at, Target{d, Changed}}}},
		{"another of its aspects was not awaited", besides, gone{at, Target{Node: d}}, waiting, nil},
		{"nothing happened meanwhile", append(slices.Clone(waits), reevaluate{}), listed{at, Sight{Names: []string{a, own}, Data: "1"}}, waiting, nil},
		{"granted meanwhile", append(slices.Clone(waits), reevaluate{}, reevaluate{}), listed{at, Sight{Names: []string{own}, Data: "1"}}, held, []Effect{unwatchTarget{at, Target{Until: Members}}}},
		{"a holder tells who is behind", holds, reevaluate{}, held, []Effect{announce{at, own}}},
		{"and again if the server was busy", append(slices.Clone(holds), reevaluate{}), failed{announce{at, own}, session.ErrBusy}, held, []Effect{announce{at, own}}},
		{"and again if that is lost", append(slices.Clone(holds), reevaluate{}), failed{announce{at, own}, errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected)}, held, []Effect{announce{at, own}}},
		{"granted before another, which may wait for the news: is it still there?", append(slices.Clone(waits), reevaluate{}), behind, held, []Effect{unwatchTarget{at, Target{Until: Members}}, listParent{at}}},
		{"it is, and is told", silent, behind, held, []Effect{announce{at, own}}},
		{"it has gone", silent, alone, held, nil},
		{"it is told once", append(slices.Clone(silent), reevaluate{}), behind, held, nil},
		{"it is told when nobody can say whether it is there", silent, failed{listParent{at}, session.ErrTooLarge}, held, []Effect{announce{at, own}}},
		{"a busy server is asked again", silent, failed{listParent{at}, session.ErrBusy}, held, []Effect{listParent{at}}},
		{"before there is anything to look at", []Input{hello}, reevaluate{}, joining, nil},
	} {
		m, _ := script(New(id, rule, true, false), row.before...)
		next, out := m.after(row.in)
		check.True(t, next.state == row.state && slices.Equal(out.Do, row.do), "%s:\n%v\n-> %v\ndo   %v\nwant %v", row.danger, m, next, out.Do, row.do)
	}

	rule.lists = true
	(*rule.positions)[seen(own)] = Position{Present: true, Invalid: true}
	m, out := script(New(id, rule, true, false), hello, joined{at, own, 7, 1, ""}, listed{at, Sight{Names: []string{own}, Data: "1"}})
	if want := []Effect{withdrawAll{at, attemptGUID(id, 1)}}; m.state != clearing || !slices.Equal(out.Do, want) {
		t.Errorf("where others have counted it for one: %v, %v", m, out.Do)
	}
	m, out = m.after(withdrawn{attempt: at})
	if want := []Effect{inspectParent{attempt{1, 2}, true}}; m.state != preparing || !slices.Equal(out.Do, want) {
		t.Errorf("then: %v, %v", m, out.Do)
	}
}

// A machine that claims, and what can happen to it.
func TestClaimingMachine(t *testing.T) {
	var (
		id      = actorID(1)
		guid    = attemptGUID(id, 1)
		at      = attempt{1, 1}
		own     = shared.Name(guid, nodes.Write) + "0000000005"
		less    = shared.Name(guid, nodes.Read) + "0000000005"
		rival   = shared.Name(actorID(2), nodes.Write) + "0000000003"
		unknown = fmt.Errorf("multi: %w, %w", session.ErrUnknownOutcome, session.ErrDisconnected)
		mine    = watched{at, deletion(own), 7, 9, false, obstacle{}}
		free    = listed{at, Sight{Names: []string{own}}}
		taken   = listed{at, Sight{Names: []string{own, rival}, Data: "taken"}}

		enters    = []Input{heard{session.Connected{Epoch: 1, ID: 9}}, inspected{at, true, false}}
		stands    = append(slices.Clone(enters), joined{attempt: at, node: own})
		behind    = append(slices.Clone(stands), taken, mine)
		first     = append(slices.Clone(stands), free, mine)
		holder    = append(slices.Clone(first), claimed{at, 8}, watched{at, Target{own, unclaimed}, 8, 9, false, obstacle{}})
		lessening = append(slices.Clone(holder), Downgrade{actors.Reply[error]{}})
		sharing   = append(slices.Clone(lessening), changed{at}, watched{at, Target{less, unclaimed}, 12, 9, false, obstacle{}})

		createIt, listIt, claimIt, changeIt = createNode{at, guid, true}, listParent{at}, claim{at, own, false}, changeNode{at, own, less}
		watchClaim                          = watchTarget{at, Target{own, unclaimed}}
	)
	const theClaim = "holder"
	rule := scripted{First: First{Grammar: shared, Kind: nodes.Write}, claims: true, lists: true, positions: &map[string]Position{
		fmt.Sprint([]string{own}):                  {Present: true},
		"taken" + fmt.Sprint([]string{own, rival}): {Present: true, Ahead: 1, Watch: deletion(theClaim), Ask: []string{rival}},
	}}
	for _, row := range []struct {
		danger string
		before []Input
		in     Input
		state  state
		do     []Effect
		emit   string
	}{
		{danger: "the list goes out with the create", before: enters[:1], in: enters[1], state: joining, do: []Effect{createIt, listIt}},
		{danger: "who is first claims, and does not hold yet", before: stands, in: free, state: claiming, do: []Effect{claimIt}},
		{danger: "who is behind watches", before: stands, in: taken, state: waiting, do: []Effect{watchTarget{at, deletion(theClaim)}, ask{at, rival}}, emit: "waiting"},
		{danger: "the deletion of what was watched is no grant", before: behind, in: gone{at, deletion(theClaim)}, state: waiting, do: []Effect{listIt}},
		{danger: "who was asked has had its time", before: behind, in: asked{at, rival, true}, state: waiting, do: []Effect{listIt}},
		{danger: "who was asked has all the time", before: behind, in: asked{at, rival, false}, state: waiting},
		{danger: "nobody waits any more for who was asked", before: holder, in: asked{at, rival, true}, state: held},
		{danger: "the claim is the grant", before: first, in: claimed{at, 8}, state: held, do: []Effect{watchClaim}, emit: "acquired"},
		{danger: "a claim that somebody else was faster with", before: first, in: failed{claimIt, session.ErrNodeExists}, state: waiting, do: []Effect{listIt}},
		{danger: "a claim while readers hold", before: first, in: failed{claimIt, session.ErrNotEmpty}, state: waiting, do: []Effect{listIt}},
		{danger: "a claim after somebody wrote to the path", before: first, in: failed{claimIt, session.ErrBadVersion}, state: waiting, do: []Effect{listIt}},
		{danger: "a claim done or not", before: first, in: failed{claimIt, unknown}, state: claiming, do: []Effect{claim{at, own, true}}},
		{danger: "a claim that was never sent", before: first, in: failed{claimIt, session.ErrDisconnected}, state: claiming, do: []Effect{claimIt}},
		{danger: "our node is gone, and what it has claimed may not be", before: first, in: gone{at, deletion(own)}, state: clearing, do: []Effect{withdrawAll{at, guid}}},
		{danger: "a late claim of a waiter, too", before: behind, in: gone{at, deletion(own)}, state: clearing, do: []Effect{unwatchTarget{at, deletion(theClaim)}, withdrawAll{at, guid}}},
		{danger: "leaving while claiming", before: first, in: Leave{}, state: leaving, do: []Effect{withdrawNode{at, own}}},
		{danger: "somebody deletes the claim", before: holder, in: gone{at, Target{own, unclaimed}}, state: leaving, do: []Effect{unwatchTarget{at, Target{own, unclaimed}}, withdrawNode{at, own}}, emit: "lost"},
		{danger: "the claim was deleted before it was watched, and is another's", before: holder[:len(holder)-1], in: watched{at, Target{own, unclaimed}, 9, 9, false, obstacle{}}, state: leaving, do: []Effect{unwatchTarget{at, Target{own, unclaimed}}, withdrawNode{at, own}}, emit: "lost"},
		{danger: "somebody deletes the node", before: holder, in: gone{at, deletion(own)}, state: leaving, do: []Effect{unwatchTarget{at, Target{own, unclaimed}}, withdrawAll{at, guid}}, emit: "lost"},
		{danger: "a downgrade exchanges node and claim", before: holder, in: Downgrade{actors.Reply[error]{}}, state: held, do: []Effect{changeIt}},
		{danger: "the old claim goes in a downgrade", before: lessening, in: gone{at, Target{own, unclaimed}}, state: held},
		{danger: "the new claim is another node", before: lessening, in: changed{at}, state: held, do: []Effect{
			unwatchTarget{at, deletion(own)},
			watchTarget{at, deletion(less)},
			answer{at, actors.Reply[error]{}, nil},
			unwatchTarget{at, Target{own, unclaimed}},
			watchTarget{at, Target{less, unclaimed}},
		}},
		{danger: "a downgrade done or not: the second finds out", before: lessening, in: failed{changeIt, unknown}, state: held, do: []Effect{changeIt}},
		{danger: "a downgrade that was not done", before: append(slices.Clone(lessening), failed{changeIt, unknown}), in: failed{changeIt, session.ErrDisconnected}, state: held, do: []Effect{changeIt}},
		{danger: "a downgrade that cannot be done: somebody has deleted the claim", before: append(slices.Clone(lessening), gone{at, Target{own, unclaimed}}), in: failed{changeIt, session.ErrNoNode}, state: leaving, do: []Effect{unwatchTarget{at, Target{own, unclaimed}}, withdrawAll{at, guid}, answer{at, actors.Reply[error]{}, ErrNotHeld}}, emit: "lost"},
		{danger: "the claim of a reader goes", before: sharing, in: gone{at, Target{less, unclaimed}}, state: leaving, do: []Effect{unwatchTarget{at, Target{less, unclaimed}}, withdrawNode{at, less}}, emit: "lost"},
	} {
		m, _ := script(New(id, rule, false, false), row.before...)
		next, out := m.after(row.in)
		var emit string
		for _, ev := range out.Emit {
			emit += strings.ToLower(typeName(ev))
		}
		if next.state != row.state || !slices.Equal(out.Do, row.do) || emit != row.emit {
			t.Errorf("%s:\n%v\n%T%v\n-> %v\ndo   %v\nwant %v\nemit %v, want %q", row.danger, m, row.in, row.in, next, out.Do, row.do, out.Emit, row.emit)
		}
	}
}
