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
	traits    Traits
	positions *map[string]Position // by what is seen
}

func (s scripted) Traits() Traits { return s.traits }

func (s scripted) Room(contenders int, _ string) bool { return !s.traits.Lists && contenders == 1 }

func (s scripted) Locate(seen Snapshot, _, _ string) Position {
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

// TestPredecessorGoesBeforeItIsWatched: a far waiter watches its predecessor when the one before
// that has gone. The predecessor goes at that very time, before it is watched or after. One list
// tells, which is asked for behind the watches.
func TestPredecessorGoesBeforeItIsWatched(t *testing.T) {
	id, at := actorID(1), Attempt{1, 1}
	rule := exclusive
	rule.Far = 1
	own := Published(attemptGUID(id, 1)) + "lock-0000000003"
	a, b := Published(attemptGUID(actorID(2), 1))+"lock-0000000001", Published(attemptGUID(actorID(3), 1))+"lock-0000000002"
	alone := Listed{at, Snapshot{Names: []string{own}}}
	for name, goes := range map[string]Input{
		"before it is watched": Failed{WatchTarget{at, deletion(b)}, session.ErrNoNode},
		"before the list":      Happened{at, deletion(b)},
	} {
		m, _ := script(New(id, rule, true, false), Heard{session.Connected{Epoch: 1, ID: 9}}, Joined{at, own, 7, 3, ""}, Listed{at, Snapshot{Names: []string{a, b, own}}})
		m, out := m.after(Happened{at, deletion(a)})
		check.EqualSlices(t, out.Do, []Effect{WatchTarget{at, deletion(own)}, WatchTarget{at, deletion(b)}, ListParent{at}}, name)
		m, _ = m.after(Watched{at, deletion(own), 7, 9, false, Obstacle{}})
		m, out = m.after(goes)
		check.Len(t, out.Do, 0, name)
		m, _ = m.after(alone)
		check.True(t, m.Holding(), "%s: %v", name, m)
	}
}

// The rule depends on what stands beside the names.
func TestDependentMachine(t *testing.T) {
	id := actorID(1)
	grammar := &nodes.Grammar{Prefix: znode.GUIDName, Separated: true, Marks: []nodes.Mark{{Text: "lease-"}}}
	own, at := Published(attemptGUID(id, 1))+"lease-0000000005", Attempt{1, 1}
	const a = "a-lease-0000000001"
	hello := Heard{session.Connected{Epoch: 1, ID: 9}}
	waits := []Input{hello, Joined{at, own, 7, 2, "1 unit"}, Listed{at, Snapshot{Names: []string{a, own}, Data: "1"}}}
	holds := []Input{hello, Joined{at, own, 7, 1, "1 unit"}}
	const b, c = "b-lease-0000000002", "c-lease-0000000003"
	two := Listed{at, Snapshot{Names: []string{a, b, own}, Data: "1"}}
	const h = "h-lease-3-0000000001"
	behindHeavy := []Input{hello, Joined{at, own, 7, 3, "1 unit"}, Listed{at, Snapshot{Names: []string{h, b, own}, Data: "1"}}}
	const d = "d-lease-0000000004"
	three := Listed{at, Snapshot{Names: []string{a, d, b, own}, Data: "1"}}
	besides := []Input{hello, Joined{at, own, 7, 4, "1 unit"}, three}
	second := []Input{hello, Joined{at, own, 7, 3, "1 unit"}, two}
	behind, alone := Listed{at, Snapshot{Names: []string{own, d}, Data: "1"}}, Listed{at, Snapshot{Names: []string{own}, Data: "1"}}
	silent := append(slices.Clone(waits), Reevaluate{}, behind)
	seen := func(names ...string) string { return "1" + fmt.Sprint(names) }
	rule := scripted{First: First{Grammar: grammar}, traits: Traits{AnnouncesGrants: true}, positions: &map[string]Position{
		seen(own):          {Present: true},
		seen(own, d):       {Present: true, AnnounceGrant: true},
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
		{"a list under way is made of two reads", append(slices.Clone(waits), Reevaluate{}, Reevaluate{}), Listed{at, Snapshot{Names: []string{a, own}, Data: "1"}}, waiting, []Effect{ListParent{at}}},
		{"once more, not for ever", append(slices.Clone(waits), Reevaluate{}, Reevaluate{}, Listed{at, Snapshot{Names: []string{a, own}, Data: "1"}}), Listed{at, Snapshot{Names: []string{a, own}, Data: "1"}}, waiting, nil},
		{"all are watched: what has changed before is not told", waits, Watched{Attempt: at, Target: Target{Until: Members}}, waiting, []Effect{ListParent{at}}},
		{"the one ahead has announced itself: all are watched", second, Watched{Attempt: at, Target: Target{b, Changed}, GrantAnnounced: true}, waiting, []Effect{UnwatchTarget{at, Target{b, Changed}}, WatchTarget{at, Target{Until: Members}}}},
		{"and it is not watched again", append(slices.Clone(second), Watched{Attempt: at, Target: Target{b, Changed}, GrantAnnounced: true}, Reevaluate{}), two, waiting, nil},
		{"but another is", append(slices.Clone(second), Watched{Attempt: at, Target: Target{b, Changed}, GrantAnnounced: true}, Reevaluate{}), Listed{at, Snapshot{Names: []string{a, c, own}, Data: "1"}}, waiting, []Effect{UnwatchTarget{at, Target{Until: Members}}, WatchTarget{at, Target{c, Changed}}}},
		{"one that makes room cannot be read: who is next ahead tells enough", behindHeavy, Failed{WatchTarget{at, Target{Node: h}}, session.ErrNoAuth}, waiting, nil},
		{"one that makes room leaves", behindHeavy, Happened{at, Target{Node: h}}, waiting, []Effect{ListParent{at}}},
		{"and does not, any more", append(slices.Clone(behindHeavy), Reevaluate{}), two, waiting, []Effect{UnwatchTarget{at, Target{Node: h}}}},
		{"one beside is announced before it is watched", besides, Watched{Attempt: at, Target: Target{d, Changed}, GrantAnnounced: true}, waiting, []Effect{ListParent{at}}},
		{"and is not watched again", append(slices.Clone(besides), Watched{Attempt: at, Target: Target{d, Changed}, GrantAnnounced: true}), three, waiting, nil},
		{"one beside announces itself", besides, Happened{at, Target{d, Changed}}, waiting, []Effect{ListParent{at}}},
		{"and is watched again if it seems to wait", append(slices.Clone(besides), Happened{at, Target{d, Changed}}), three, waiting, []Effect{WatchTarget{at, Target{d, Changed}}}},
		{"another of its aspects was not awaited", besides, Happened{at, Target{Node: d}}, waiting, nil},
		{"nothing happened meanwhile", append(slices.Clone(waits), Reevaluate{}), Listed{at, Snapshot{Names: []string{a, own}, Data: "1"}}, waiting, nil},
		{"granted meanwhile", append(slices.Clone(waits), Reevaluate{}, Reevaluate{}), Listed{at, Snapshot{Names: []string{own}, Data: "1"}}, held, []Effect{UnwatchTarget{at, Target{Until: Members}}}},
		{"a holder tells who is behind", holds, Reevaluate{}, held, []Effect{AnnounceGrant{at, own}}},
		{"and again if the server was busy", append(slices.Clone(holds), Reevaluate{}), Failed{AnnounceGrant{at, own}, session.ErrBusy}, held, []Effect{AnnounceGrant{at, own}}},
		{"and again if that is lost", append(slices.Clone(holds), Reevaluate{}), Failed{AnnounceGrant{at, own}, errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected)}, held, []Effect{AnnounceGrant{at, own}}},
		{"granted before another, which may wait for the news: is it still there?", append(slices.Clone(waits), Reevaluate{}), behind, held, []Effect{UnwatchTarget{at, Target{Until: Members}}, ListParent{at}}},
		{"it is, and is told", silent, behind, held, []Effect{AnnounceGrant{at, own}}},
		{"it has gone", silent, alone, held, nil},
		{"it is told once", append(slices.Clone(silent), Reevaluate{}), behind, held, nil},
		{"it is told when nobody can say whether it is there", silent, Failed{ListParent{at}, session.ErrTooLarge}, held, []Effect{AnnounceGrant{at, own}}},
		{"a busy server is asked again", silent, Failed{ListParent{at}, session.ErrBusy}, held, []Effect{ListParent{at}}},
		{"before there is anything to look at", []Input{hello}, Reevaluate{}, joining, nil},
	} {
		m, _ := script(New(id, rule, true, false), row.before...)
		next, out := m.after(row.in)
		check.True(t, next.state == row.state && slices.Equal(out.Do, row.do), "%s:\n%v\n-> %v\ndo   %v\nwant %v", row.danger, m, next, out.Do, row.do)
	}

	rule.traits.Lists = true
	(*rule.positions)[seen(own)] = Position{Present: true, Invalid: true}
	m, out := script(New(id, rule, true, false), hello, Joined{at, own, 7, 1, ""}, Listed{at, Snapshot{Names: []string{own}, Data: "1"}})
	if want := []Effect{WithdrawAll{at, attemptGUID(id, 1)}}; m.state != clearing || !slices.Equal(out.Do, want) {
		t.Errorf("where others have counted it for one: %v, %v", m, out.Do)
	}
	m, out = m.after(Withdrawn{Attempt: at})
	if want := []Effect{InspectParent{Attempt{1, 2}, true}}; m.state != preparing || !slices.Equal(out.Do, want) {
		t.Errorf("then: %v, %v", m, out.Do)
	}
}

// A machine that claims, and what can happen to it.
func TestClaimingMachine(t *testing.T) {
	var (
		id      = actorID(1)
		guid    = attemptGUID(id, 1)
		at      = Attempt{1, 1}
		own     = shared.Name(guid, nodes.Write) + "0000000005"
		less    = shared.Name(guid, nodes.Read) + "0000000005"
		rival   = shared.Name(actorID(2), nodes.Write) + "0000000003"
		unknown = fmt.Errorf("multi: %w, %w", session.ErrUnknownOutcome, session.ErrDisconnected)
		mine    = Watched{at, deletion(own), 7, 9, false, Obstacle{}}
		free    = Listed{at, Snapshot{Names: []string{own}}}
		taken   = Listed{at, Snapshot{Names: []string{own, rival}, Data: "taken"}}

		enters    = []Input{Heard{session.Connected{Epoch: 1, ID: 9}}, Inspected{at, true, false}}
		stands    = append(slices.Clone(enters), Joined{Attempt: at, Node: own})
		behind    = append(slices.Clone(stands), taken, mine)
		first     = append(slices.Clone(stands), free, mine)
		holder    = append(slices.Clone(first), Claimed{at, 8}, Watched{at, Target{own, Unclaimed}, 8, 9, false, Obstacle{}})
		lessening = append(slices.Clone(holder), Downgrade{actors.Reply[error]{}})
		sharing   = append(slices.Clone(lessening), NodeChanged{at}, Watched{at, Target{less, Unclaimed}, 12, 9, false, Obstacle{}})

		createIt, listIt, claimIt, changeIt = CreateNode{at, guid, true}, ListParent{at}, Claim{at, own, false, 0}, ChangeNode{at, own, less}
		watchClaim                          = WatchTarget{at, Target{own, Unclaimed}}
	)
	const theClaim = "holder"
	rule := scripted{First: First{Grammar: shared, Kind: nodes.Write}, traits: Traits{Claims: true, Lists: true}, positions: &map[string]Position{
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
		{danger: "who is behind watches", before: stands, in: taken, state: waiting, do: []Effect{WatchTarget{at, deletion(theClaim)}, Ask{at, rival}}, emit: "waiting"},
		{danger: "the deletion of what was watched is no grant", before: behind, in: Happened{at, deletion(theClaim)}, state: waiting, do: []Effect{listIt}},
		{danger: "who was asked has had its time", before: behind, in: Asked{at, rival, true}, state: waiting, do: []Effect{listIt}},
		{danger: "who was asked has all the time", before: behind, in: Asked{at, rival, false}, state: waiting},
		{danger: "nobody waits any more for who was asked", before: holder, in: Asked{at, rival, true}, state: held},
		{danger: "the claim is the grant", before: first, in: Claimed{at, 8}, state: held, do: []Effect{watchClaim}, emit: "acquired"},
		{danger: "a claim that somebody else was faster with", before: first, in: Failed{claimIt, session.ErrNodeExists}, state: waiting, do: []Effect{listIt}},
		{danger: "a claim while readers hold", before: first, in: Failed{claimIt, session.ErrNotEmpty}, state: waiting, do: []Effect{listIt}},
		{danger: "a claim after somebody wrote to the path", before: first, in: Failed{claimIt, session.ErrBadVersion}, state: waiting, do: []Effect{listIt}},
		{danger: "a claim done or not", before: first, in: Failed{claimIt, unknown}, state: claiming, do: []Effect{Claim{at, own, true, 0}}},
		{danger: "a claim that was never sent", before: first, in: Failed{claimIt, session.ErrDisconnected}, state: claiming, do: []Effect{claimIt}},
		{danger: "our node is gone, and what it has claimed may not be", before: first, in: Happened{at, deletion(own)}, state: clearing, do: []Effect{WithdrawAll{at, guid}}},
		{danger: "a late claim of a waiter, too", before: behind, in: Happened{at, deletion(own)}, state: clearing, do: []Effect{UnwatchTarget{at, deletion(theClaim)}, WithdrawAll{at, guid}}},
		{danger: "leaving while claiming", before: first, in: Leave{}, state: leaving, do: []Effect{WithdrawNode{at, own}}},
		{danger: "somebody deletes the claim", before: holder, in: Happened{at, Target{own, Unclaimed}}, state: leaving, do: []Effect{UnwatchTarget{at, Target{own, Unclaimed}}, WithdrawNode{at, own}}, emit: "lost"},
		{danger: "the claim was deleted before it was watched, and is another's", before: holder[:len(holder)-1], in: Watched{at, Target{own, Unclaimed}, 9, 9, false, Obstacle{}}, state: leaving, do: []Effect{UnwatchTarget{at, Target{own, Unclaimed}}, WithdrawNode{at, own}}, emit: "lost"},
		{danger: "somebody deletes the node", before: holder, in: Happened{at, deletion(own)}, state: leaving, do: []Effect{UnwatchTarget{at, Target{own, Unclaimed}}, WithdrawAll{at, guid}}, emit: "lost"},
		{danger: "a downgrade exchanges node and claim", before: holder, in: Downgrade{actors.Reply[error]{}}, state: held, do: []Effect{changeIt}},
		{danger: "the old claim goes in a downgrade", before: lessening, in: Happened{at, Target{own, Unclaimed}}, state: held},
		{danger: "the new claim is another node", before: lessening, in: NodeChanged{at}, state: held, do: []Effect{
			UnwatchTarget{at, deletion(own)},
			WatchTarget{at, deletion(less)},
			Answer{at, actors.Reply[error]{}, nil},
			UnwatchTarget{at, Target{own, Unclaimed}},
			WatchTarget{at, Target{less, Unclaimed}},
		}},
		{danger: "a downgrade done or not: the second finds out", before: lessening, in: Failed{changeIt, unknown}, state: held, do: []Effect{changeIt}},
		{danger: "a downgrade that was not done", before: append(slices.Clone(lessening), Failed{changeIt, unknown}), in: Failed{changeIt, session.ErrDisconnected}, state: held, do: []Effect{changeIt}},
		{danger: "a downgrade that cannot be done: somebody has deleted the claim", before: append(slices.Clone(lessening), Happened{at, Target{own, Unclaimed}}), in: Failed{changeIt, session.ErrNoNode}, state: leaving, do: []Effect{UnwatchTarget{at, Target{own, Unclaimed}}, WithdrawAll{at, guid}, Answer{at, actors.Reply[error]{}, ErrNotHeld}}, emit: "lost"},
		{danger: "the claim of a reader goes", before: sharing, in: Happened{at, Target{less, Unclaimed}}, state: leaving, do: []Effect{UnwatchTarget{at, Target{less, Unclaimed}}, WithdrawNode{at, less}}, emit: "lost"},
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

// TestConditionChanges: a change of the condition is emitted from the second reading on, and before
// the last event only.
func TestConditionChanges(t *testing.T) {
	id, at := actorID(1), Attempt{1, 1}
	own := Published(attemptGUID(id, 1)) + "lock-0000000005"
	rule := announcer{exclusive}
	hello, first, second := Heard{session.Connected{Epoch: 1, ID: 9}}, ConditionRead{"1"}, ConditionRead{"2"}
	behind := Listed{at, Snapshot{Names: []string{"a-lock-0000000001", own}, Data: "1"}}
	waits := []Input{hello, first, Joined{at, own, 7, 2, "1"}, behind, behind}
	holds := []Input{hello, first, Joined{at, own, 7, 1, "1"}, Listed{at, Snapshot{Names: []string{own}, Data: "1"}}}
	then := func(before []Input, more ...Input) []Input { return append(slices.Clone(before), more...) }
	change := []Event{ConditionChanged{"1", "2"}}
	for _, row := range []struct {
		what   string
		before []Input
		in     Input
		do     []Effect
		emit   []Event
	}{
		{"the first reading", []Input{hello}, first, nil, nil},
		{"before the node is created", []Input{hello, first}, second, nil, change},
		{"while it waits", waits, second, []Effect{ListParent{at}}, change},
		{"the same again", waits, first, []Effect{ListParent{at}}, nil},
		{"while it holds", holds, second, []Effect{AnnounceGrant{at, own}}, change},
		{"once for each change", then(holds, second), second, []Effect{AnnounceGrant{at, own}}, nil},
		{"a condition that cannot be read is no other", then(holds, Reevaluate{}), first, []Effect{AnnounceGrant{at, own}}, nil},
		{"while it leaves", then(holds, Leave{}), second, nil, nil},
		{"after the end", then(holds, Heard{session.Closed{}}), second, nil, nil},
	} {
		m, _ := script(New(id, rule, true, false), row.before...)
		_, out := m.after(row.in)
		check.True(t, slices.Equal(out.Do, row.do) && slices.Equal(out.Emit, row.emit), "%s: do %v, emit %v, want %v and %v", row.what, out.Do, out.Emit, row.do, row.emit)
	}
}

// TestNoTarget: a contender that waits for none in particular watches the members.
func TestNoTarget(t *testing.T) {
	id, at := actorID(1), Attempt{1, 1}
	own := Published(attemptGUID(id, 1)) + "lock-0000000005"
	rule := scripted{First: exclusive, positions: &map[string]Position{fmt.Sprint([]string{"a", own}): {Present: true, Ahead: 1}}}
	m, out := script(New(id, rule, true, false), Heard{session.Connected{Epoch: 1, ID: 9}}, Joined{at, own, 7, 2, ""}, Listed{at, Snapshot{Names: []string{"a", own}}})
	check.True(t, m.Waiting(), "%v", m)
	check.EqualSlices(t, out.Do, []Effect{WatchTarget{at, deletion(own)}, WatchTarget{at, Target{Until: Members}}})
}

// A contender for a lock with priorities is refused, although the grammar reads its name.
func TestRankedIsAnotherLayout(t *testing.T) {
	const own = "_c_01234567-89ab-4cde-8f01-23456789abcd-write-0000000002"
	rule := First{Grammar: shared, Kind: nodes.Write}
	for name, want := range map[string]bool{
		"_c_11234567-89ab-4cde-8f01-23456789abcd-p1000-write-0000000001":  true,
		"_c_11234567-89ab-4cde-8f01-23456789abcd-p2000-read--2147483648":  true,
		"_c_11234567-89ab-4cde-8f01-23456789abcd-p1000-write-1":           false,
		"_c_11234567-89ab-4cde-8f01-23456789abcd-p10x0-write-0000000001":  false,
		"_c_11234567-89ab-4cde-8f01-23456789abcd-p1000-write-read-000000": false,
		"_c_11234567-89ab-4cde-8f01-23456789abcd-p1":                      false,
		"_c_11234567-89ab-4cde-8f01-23456789abcd-write-0000000001":        false,
		"": false,
	} {
		p := rule.Locate(Snapshot{Names: []string{name, own}}, own, "01234567-89ab-4cde-8f01-23456789abcd")
		check.Equal(t, errors.Is(p.Err, ErrLayout), want, name, "refused:", p.Err)
	}
}

// TestOtherLayout: the error distinguishes contenders of another recipe from those of another
// layout.
func TestOtherLayout(t *testing.T) {
	const lease = "_c_11234567-89ab-4cde-8f01-23456789abcd-lease-0000000001"
	const lock = "_c_11234567-89ab-4cde-8f01-23456789abcd-lock-0000000001"
	for _, row := range []struct {
		own     nodes.Recipe
		name    string
		foreign bool
	}{{nodes.OfLock, lock, false}, {nodes.OfLock, lease, true}, {"", lease, false}} {
		err := OtherLayout(row.own, row.name)
		check.Is(t, err, ErrLayout)
		check.Equal(t, errors.Is(err, nodes.ErrForeign), row.foreign, "to", row.own, "foreign is", row.name)
	}
}
