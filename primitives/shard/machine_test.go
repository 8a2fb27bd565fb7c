package shard

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/session"
)

// A transcript plays inputs, and has what each leads to.
type transcript struct {
	*testing.T
	m *member
}

func begin(t *testing.T) *transcript {
	t.Helper()
	return &transcript{t, newMember(4, 1, Peer{ID: "a", Weight: 1})}
}

func (tr *transcript) then(in input, want ...any) {
	tr.Helper()
	var out actors.Effects[effect, Event]
	tr.m.Step(in, &out)
	if i := slices.IndexFunc(out.Do, func(e effect) bool { _, is := e.(arrange); return is }); i >= 0 {
		placed := placedBy(out.Do[i].(arrange), tr.m.shards, Balanced)
		out.Do = slices.Delete(out.Do, i, i+1)
		tr.m.Step(placed, &out)
	}
	var got []string
	for _, ev := range out.Emit {
		got = append(got, fmt.Sprintf("%T%v", ev, ev))
	}
	for _, e := range out.Do {
		if _, is := e.(replace); is {
			e = replace{}
		}
		if _, is := e.(complain); is {
			e = complain{}
		}
		got = append(got, fmt.Sprintf("%T%v", e, e))
	}
	var wanted []string
	for _, w := range want {
		wanted = append(wanted, fmt.Sprintf("%T%v", w, w))
	}
	check.EqualSlices(tr, got, wanted)
}

// placedBy returns the answer to an arrange.
func placedBy(e arrange, shards int, place Placement) (in placed) {
	in.write, in.needed, in.err = e.replan(shards, e.self, place, nil)
	return in
}

func has(shards, neighbour string) recorded {
	return recorded{record: &record{Peer: Peer{ID: "a", Weight: 1}, Of: 4, Watch: neighbour, Shards: shards}}
}

// TestTranscript: the life of a member, from its first plan to its end.
func TestTranscript(t *testing.T) {
	tr := begin(t)
	tr.then(present{presence.Joined{Epoch: 3}}, Joined{}, follow{3})
	tr.then(recorded{}, watch{}, pause{1})
	tr.then(due{}, look{false, false})
	tr.then(looked{sight: sight{listed: []string{"a"}}}, replace{})
	tr.then(wrote{session.ErrNodeExists}, pause{2})
	tr.then(has("0-1", "b"), watch{"b"}, stand{0, 1}, stand{1, 1})
	tr.then(due{})
	tr.then(neighbour{id: "b"})
	tr.then(acquired{0, 1, 7}, Assigned{0, 7})
	tr.then(acquired{1, 1, 7}, Assigned{1, 7})
	tr.then(acquired{1, 9, 7})
	tr.then(give{shard: 0})
	by := time.Unix(1, 0)
	tr.then(present{presence.Suspended{Deadline: by}}, Suspended{by})
	tr.then(present{presence.Resumed{}}, Resumed{})
	tr.then(has("3", "b"), stand{3, 1}, ask{0, 1})
	tr.then(revoked{0, 1, by}, Revoke{0, 7, by})
	tr.then(give{0, 6})                                // another grant
	tr.then(give{0, 7}, leave{0, 1, false}, ask{1, 1}) // one at once
	tr.then(overdue{0, 1})
	tr.then(ended{shard: 0, serial: 1})
	tr.then(revoked{1, 1, by}, Revoke{1, 7, by})
	tr.then(overdue{1, 1}, Lost{1, fmt.Errorf("%w: %w", ErrLost, ErrOverdue)}, leave{1, 1, true})
	tr.then(has("1,3", "c"), watch{"c"}) // the place that is being left comes first
	tr.then(ended{shard: 1, serial: 1}, stand{1, 2})
	tr.then(neighbour{id: "b", gone: true})
	tr.then(neighbour{id: "c", gone: true, ownerless: true}, look{true, true})
	tr.then(looked{err: session.ErrExpired}, look{true, true})
	tr.then(looked{err: session.ErrNoAuth}, complain{}, pause{3})
	tr.then(present{presence.Gone{Err: session.ErrExpired}}, Gone{session.ErrExpired}, watch{}, leave{1, 2, false}, leave{3, 1, false})
	tr.then(due{})
	tr.then(recorded{err: session.ErrExpired})
	tr.then(ended{shard: 3, serial: 1})
	tr.then(present{presence.Joined{Epoch: 4}}, Joined{}, follow{4})
	tr.then(has("", ""), watch{})
	tr.then(ended{shard: 1, serial: 2})
	tr.then(drain{}, depart{})
	tr.then(weigh{weight: 3}, answer{err: ErrLeft})
	tr.then(present{presence.Left{}}, Left{})
	tr.then(give{shard: 0})
	check.True(t, tr.m.Ended(), "%+v", tr.m)
}

// TestRefusals: what ends a member of which no other knows, and what a place that is refused does.
func TestRefusals(t *testing.T) {
	tr := begin(t)
	tr.then(present{presence.Joined{Epoch: 1}}, Joined{}, follow{1})
	tr.then(recorded{}, watch{}, pause{1})
	tr.then(due{}, look{false, false})
	tr.then(looked{err: session.ErrNoAuth}, depart{})
	tr.then(present{presence.Left{}}, Left{session.ErrNoAuth})

	for _, err := range []error{session.ErrNoAuth, errPlan} {
		tr = begin(t)
		tr.then(present{presence.Joined{Epoch: 1}}, Joined{}, follow{1})
		tr.then(recorded{err: err}, depart{})
	}
	tr = begin(t)
	tr.then(present{presence.Joined{Epoch: 1}}, Joined{}, follow{1})
	tr.then(has("4", ""), depart{}) // there is no such shard

	tr = begin(t)
	tr.then(present{presence.Joined{Epoch: 1}}, Joined{}, follow{1})
	tr.then(has("0", ""), watch{}, stand{0, 1})
	why := errors.New("refused")
	tr.then(ended{shard: 0, serial: 1, err: why}, complain{}, rest{})
	tr.then(has("0-1", ""), stand{0, 2}, stand{1, 1}) // it tries again by the next record
	tr.then(ended{shard: 0, serial: 2, err: why})
	tr.then(rested{}, stand{0, 3}) // or after a rest
	tr.then(ended{shard: 1, serial: 1, err: why}, complain{}, rest{})
	tr.then(rested{}, stand{1, 2})
	tr.then(acquired{0, 3, 7}, Assigned{0, 7})
	tr.then(stop{}, leave{0, 3, false}, leave{1, 2, false}, depart{})
	tr.then(drain{})
	tr.then(acquired{1, 2, 8})
	tr.then(present{presence.Left{}})
	tr.then(ended{shard: 0, serial: 3})
	tr.then(ended{shard: 1, serial: 2}, Left{})
}

// TestGivenInVain: a member whose shard is not free, although it was given, says so when it leaves,
// unless its session has ended since.
func TestGivenInVain(t *testing.T) {
	why, by := errors.New("refused"), time.Unix(1, 0)
	for _, gone := range []error{nil, session.ErrNoNode, session.ErrExpired} {
		tr := begin(t)
		tr.then(present{presence.Joined{Epoch: 1}}, Joined{}, follow{1})
		tr.then(has("0", ""), watch{}, stand{0, 1})
		tr.then(acquired{0, 1, 7}, Assigned{0, 7})
		tr.then(has("", ""), ask{0, 1})
		tr.then(revoked{0, 1, by}, Revoke{0, 7, by})
		tr.then(give{0, 7}, leave{0, 1, false})
		tr.then(ended{shard: 0, serial: 1, stands: why}, complain{})
		if gone != nil {
			tr.then(present{presence.Gone{Err: gone}}, Gone{gone}, watch{})
		}
		tr.then(stop{}, depart{})
		last := fmt.Errorf("shard 0: %w", why)
		if errors.Is(gone, session.ErrExpired) {
			last = nil
		}
		tr.then(present{presence.Left{}}, Left{last})
	}
}

// TestDrainedEarly: a member that is to leave before it has joined leaves at once, and one that has
// joined when its record shows that it has no shards.
func TestDrainedEarly(t *testing.T) {
	tr := begin(t)
	tr.then(drain{}, depart{})

	tr = begin(t)
	tr.then(present{presence.Joined{Epoch: 1}}, Joined{}, follow{1})
	tr.then(drain{})
	tr.then(recorded{}, watch{}, depart{})
}

// TestYield: a member that comes with others looks on only if they have not planned meanwhile.
func TestYield(t *testing.T) {
	for _, planned := range []bool{true, false} {
		tr := begin(t)
		tr.then(present{presence.Joined{Epoch: 1}}, Joined{}, follow{1})
		tr.then(recorded{}, watch{}, pause{1})
		tr.then(due{}, look{false, false})
		tr.then(looked{sight: sight{listed: []string{"0", "a"}, ahead: 1}}, yield{1})
		if planned {
			tr.then(has("0-1", "b"), watch{"b"}, stand{0, 1}, stand{1, 1})
			tr.then(due{})
			continue
		}
		tr.then(due{}, look{true, false})
		tr.then(looked{sight: sight{listed: []string{"0", "a"}}}, replace{})
		tr.then(wrote{}, pause{1})
		tr.then(recorded{}, watch{})
		tr.then(due{}, look{false, false})
	}
}

// TestErasedBeforeRead: a record that somebody deletes before its member has read it is made again,
// although nothing tells the member that it was there.
func TestErasedBeforeRead(t *testing.T) {
	for _, erased := range []bool{true, false} {
		tr := begin(t)
		tr.then(present{presence.Joined{Epoch: 1}}, Joined{}, follow{1})
		tr.then(recorded{}, watch{}, pause{1})
		tr.then(due{}, look{false, false})
		tr.then(looked{sight: sight{listed: []string{"a"}}}, replace{})
		tr.then(wrote{}, pause{1})
		if erased {
			tr.then(due{}, look{false, false})
			tr.then(looked{sight: sight{listed: []string{"a"}}}, replace{})
			continue
		}
		tr.then(has("0-3", ""), watch{}, stand{0, 1}, stand{1, 1}, stand{2, 1}, stand{3, 1})
		tr.then(due{})
	}
}

// TestNeighbourBack: a neighbour that is back when the member plans for other reasons is watched
// again.
func TestNeighbourBack(t *testing.T) {
	old, err := newPlan(4).with([]Peer{{ID: "a", Weight: 1}, {ID: "b", Weight: 1}}, Balanced)
	check.Must(t, err)
	for _, came := range []string{"", "c"} {
		tr := begin(t)
		tr.then(present{presence.Joined{Epoch: 1}}, Joined{}, follow{1})
		tr.then(has("", "b"), watch{"b"})
		tr.then(neighbour{id: "b", gone: true}, look{true, false})
		s := sight{plan: &old, listed: []string{"a", "b"}, records: []string{"a", "b"}, known: map[string]Peer{}}
		if came == "" {
			s.records = append(s.records, "gone")
			tr.then(looked{sight: s}, replace{})
			tr.then(wrote{}, watch{"b"})
			continue
		}
		s.listed, s.known[came] = append(s.listed, came), Peer{ID: came, Weight: 1}
		tr.then(looked{sight: s}, replace{})
		tr.then(wrote{})
		tr.then(has("", came), watch{came})
	}
}

// TestStopped: a member that ends by itself loses each shard before another can own it.
func TestStopped(t *testing.T) {
	why := errors.New("taken over")
	tr := begin(t)
	tr.then(present{presence.Joined{Epoch: 1}}, Joined{}, follow{1})
	tr.then(has("0-2", ""), watch{}, stand{0, 1}, stand{1, 1}, stand{2, 1})
	tr.then(acquired{0, 1, 7}, Assigned{0, 7})
	tr.then(acquired{1, 1, 8}, Assigned{1, 8})
	tr.then(has("0,2", ""), ask{1, 1})
	lost := fmt.Errorf("%w: %w", ErrLost, why)
	tr.then(present{presence.Left{Err: why}}, Lost{0, lost}, Lost{1, lost}, leave{0, 1, true}, leave{1, 1, true}, leave{2, 1, false})
}

// TestOtherNumber: a record of a plan with another number of shards counts for nothing.
func TestOtherNumber(t *testing.T) {
	tr := begin(t)
	other := has("0-1", "b")
	other.record.Of = 9
	tr.then(present{presence.Joined{Epoch: 1}}, Joined{}, follow{1})
	tr.then(other, watch{}, pause{1})
	tr.then(due{}, look{false, false})
	there := plan{shards: 9, peers: []Peer{{ID: "a", Weight: 1}, {ID: "b", Weight: 1}}, owners: make([]int, 9), former: make([][]int, 9)}
	s := sight{plan: &there, listed: []string{"a", "b"}, records: []string{"a", "b"}, known: map[string]Peer{}}
	s.meet("b", []byte(`{"id":"b","weight":1,"of":4}`), 4)
	tr.then(looked{sight: s}, replace{})
	for weight, known := range map[int]bool{-1: false, 0: true, mostWeight: true, mostWeight + 1: false} {
		delete(s.known, "c")
		s.meet("c", fmt.Appendf(nil, `{"id":"c","weight":%d,"of":4}`, weight), 4)
		_, is := s.known["c"]
		check.Equal(t, is, known, "a stranger with the weight", weight)
	}
	delete(s.known, "c")
	s.meet("b", []byte(`{"id":"b","weight":1,"of":9}`), 4)
	tr.then(wrote{session.ErrBadVersion}, pause{2})
	tr.then(due{}, look{false, false})
	tr.then(looked{sight: s}, depart{})
	tr.then(present{presence.Left{}}, Left{fmt.Errorf("%w: 9 by the plan, 4 here", ErrShards)})
}

// TestNoPlan: a member that is to leave does not wait for a plan that cannot be made.
func TestNoPlan(t *testing.T) {
	tr := begin(t)
	tr.then(present{presence.Joined{Epoch: 1}}, Joined{}, follow{1})
	tr.then(has("0-1", ""), watch{}, stand{0, 1}, stand{1, 1})
	tr.then(acquired{0, 1, 7}, Assigned{0, 7})
	tr.then(drain{}, look{true, false})
	tr.then(looked{err: errPlan}, complain{}, pause{1}, leave{1, 1, false}, ask{0, 1})
	by := time.Unix(1, 0)
	tr.then(revoked{0, 1, by}, Revoke{0, 7, by})
	tr.then(ended{shard: 1, serial: 1})
	tr.then(give{shard: 0}, leave{0, 1, false})
	tr.then(ended{shard: 0, serial: 1}, depart{})
	tr.then(present{presence.Left{}}, Left{})
}

// TestDoubt: a write that is always in doubt is tried again more and more slowly, and told of once.
func TestDoubt(t *testing.T) {
	tr := begin(t)
	tr.then(present{presence.Joined{Epoch: 1}}, Joined{}, follow{1})
	tr.then(recorded{}, watch{}, pause{1})
	for i := range 10 {
		tr.then(due{}, look{false, false})
		tr.then(looked{sight: sight{listed: []string{"a"}}}, replace{})
		if i+2 == oftenInDoubt {
			tr.then(wrote{session.ErrUnknownOutcome}, pause{i + 2}, complain{})
		} else {
			tr.then(wrote{session.ErrUnknownOutcome}, pause{i + 2})
		}
	}
}

// failing are the errors with which reads fail, by path. The other nodes have members.
type failing struct {
	client.Async
	errs map[string]error
}

func (f failing) Get(path string, answer func([]byte, *session.Stat, error)) {
	if err := f.errs[path]; err != nil {
		answer(nil, nil, err)
		return
	}
	answer([]byte("{}"), &session.Stat{EphemeralOwner: 1}, nil)
}

// TestUnreadStranger: a look that cannot read the node of a stranger fails. A stranger that has
// left is no failure.
func TestUnreadStranger(t *testing.T) {
	p := &performer{path: "/s", shards: 4, id: "a"}
	for _, want := range []error{session.ErrDisconnected, nil} {
		requests := failing{errs: map[string]error{p.node(membersNode, "b"): want, p.node(membersNode, "c"): session.ErrNoNode}}
		var got []error
		all := []string{"a", "b", "c", "d"}
		p.meet(requests, new(sight), all, all, func(err error) { got = append(got, err) })
		check.EqualSlices(t, got, []error{want}, "answers")
	}
}

// TestEndOfMember: what a member follows ends with it.
func TestEndOfMember(t *testing.T) {
	m, ends := &Member{performer: new(performer)}, 0
	m.performer.owned.Keep(t, owned.Func(func() { ends++ }))
	m.observe(&member{}, nil)
	check.Equal(t, ends, 0, "ends before the end")
	m.observe(&member{over: true}, nil)
	check.Equal(t, ends, 1, "ends after it")
}
