package group

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

func member(id, data string, czxid int64) watch.TreeNode {
	return watch.TreeNode{Path: "/g/" + id, Data: []byte(data), Stat: &session.Stat{Czxid: czxid, EphemeralOwner: 1}}
}

// TestRows are what a watcher makes of the changes of a tree.
func TestRows(t *testing.T) {
	root := watch.TreeNode{Path: "/g", Stat: &session.Stat{}}
	other := watch.TreeNode{Path: "/g/config", Stat: &session.Stat{}}
	synced := func(s watch.TreeState) watch.TreeState { s.Synced = true; return s }
	add := func(n ...watch.TreeNode) watch.TreeState { return watch.TreeState{Added: n} }
	for name, c := range map[string]struct {
		states []watch.TreeState
		want   []string // the last event first to differ from nothing
	}{
		"an empty group":       {[]watch.TreeState{synced(add())}, []string{"members=[] added=[] changed=[] removed=[]"}},
		"not before all":       {[]watch.TreeState{add(root, member("b", "1", 1))}, []string{}},
		"all at once":          {[]watch.TreeState{add(root, member("b", "1", 1)), synced(add(member("a", "2", 2)))}, []string{`members=[a="2" b="1"] added=[a b] changed=[] removed=[]`}},
		"no member":            {[]watch.TreeState{synced(add(root, other))}, []string{"members=[] added=[] changed=[] removed=[]"}},
		"nothing of interest":  {[]watch.TreeState{synced(add()), synced(add(root, other))}, []string{"members=[] added=[] changed=[] removed=[]"}},
		"a payload":            {[]watch.TreeState{synced(add(member("a", "1", 1))), synced(watch.TreeState{Changed: []watch.TreeNode{member("a", "2", 1)}})}, []string{`members=[a="1"] added=[a] changed=[] removed=[]`, `members=[a="2"] added=[] changed=[a] removed=[]`}},
		"joined again":         {[]watch.TreeState{synced(add(member("a", "1", 1))), synced(watch.TreeState{Changed: []watch.TreeNode{member("a", "1", 7)}})}, []string{`members=[a="1"] added=[a] changed=[] removed=[]`, `members=[a="1"] added=[] changed=[a] removed=[]`}},
		"gone":                 {[]watch.TreeState{synced(add(member("a", "1", 1))), synced(watch.TreeState{Removed: []watch.TreeNode{member("a", "1", 1)}})}, []string{`members=[a="1"] added=[a] changed=[] removed=[]`, `members=[] added=[] changed=[] removed=[a]`}},
		"gone with everything": {[]watch.TreeState{synced(add(root, member("a", "1", 1))), synced(watch.TreeState{Removed: []watch.TreeNode{member("a", "1", 1), root}})}, []string{`members=[a="1"] added=[a] changed=[] removed=[]`, `members=[] added=[] changed=[] removed=[a]`}},
	} {
		t.Run(name, func(t *testing.T) {
			w, got := watcher{view: view{dir: "/g"}}, []string{}
			for _, s := range c.states {
				next, out := w.after(viewed{s})
				w = next
				for _, ev := range out.Emit {
					got = append(got, ev.String())
				}
			}
			check.EqualSlices(t, got, c.want, "told")
		})
	}
}

// TestMerge: however changes are merged and cancelled, what is left leads from what the
// reader knew to what is.
func TestMerge(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		var known, now []Member
		var pending []MembersChanged
		for step := range 12 {
			next := slices.Clone(now)
			for range random.IntN(3) {
				id := fmt.Sprint(random.IntN(4))
				i, ok := find(next, id)
				switch {
				case !ok:
					next = slices.Insert(next, i, Member{ID: id, Joined: int64(step)})
				case random.IntN(2) == 0:
					next = slices.Delete(next, i, i+1)
				default:
					next[i].Joined, next[i].Data = int64(random.IntN(2)), fmt.Append(nil, random.IntN(2))
				}
			}
			ev := newChange(now, next, step == 0)
			now = next
			if ev.empty() {
				continue
			}
			if n := len(pending); n == 0 {
				pending = append(pending, ev)
			} else if merged, ok := mergeChanges(pending[n-1], ev); ok {
				pending[n-1] = merged
			} else if cancelChanges(pending[n-1], ev) {
				pending = pending[:n-1]
			}
			if random.IntN(3) > 0 {
				continue
			}
			for _, ev := range pending {
				want := newChange(known, ev.Members, false)
				if got := fmt.Sprint(ev); got != fmt.Sprint(want) {
					t.Fatalf("to a reader who knows %v: %v, want %v", known, got, want)
				}
				known = ev.Members
			}
			pending = nil
			if fmt.Sprint(known) != fmt.Sprint(now) {
				t.Fatalf("the reader knows %v, there are %v", known, now)
			}
		}
	}
}

// Every event of a node is one of the member, and the grammar that is documented is that
// of package presence, whose tests check it.
func TestTranslation(t *testing.T) {
	why := errors.New("why")
	for _, c := range []struct {
		from presence.Event
		want Event
	}{
		{presence.Joined{}, Joined{}},
		{presence.Suspended{}, Suspended{}},
		{presence.Resumed{}, Resumed{}},
		{presence.Gone{Err: why}, Gone{why}},
		{presence.Left{Err: why}, Left{why}},
		{presence.Left{}, Left{}},
	} {
		check.Equal(t, translate(c.from), c.want, c.from, "is")
	}
	const grammar = "(Joined (Suspended | Resumed)* Gone)* (Joined (Suspended | Resumed)*)? Left"
	for _, file := range []string{"doc.go", "../internal/presence/doc.go"} {
		text, err := os.ReadFile(file)
		check.True(t, err == nil && strings.Contains(string(text), grammar), "%s does not state the grammar: %v", file, err)
	}
}

// TestBlinded: a member whose group cannot be read is one all the same, and is told. A
// watcher ends.
func TestBlinded(t *testing.T) {
	m := machine{view: view{dir: "/g"}}
	m, out := m.after(blinded{session.ErrNoAuth})
	check.True(t, !m.Ended() && len(out.Emit) == 1 && out.Emit[0] == (Blinded{session.ErrNoAuth}), "%v: %v", m, out.Emit)
	if _, out := m.after(blinded{session.ErrClosed}); len(out.Emit) > 0 {
		t.Errorf("at the end of the session: %v", out.Emit)
	}
	m, out = m.after(leave{})
	check.True(t, m.Ended() && len(out.Emit) == 1 && out.Emit[0] == (Left{}), "%v: %v", m, out.Emit)
	for _, in := range []input{viewed{watch.TreeState{Synced: true}}, blinded{session.ErrNoAuth}} {
		if _, out := m.after(in); len(out.Emit) > 0 {
			t.Errorf("after the end: %v", out.Emit)
		}
	}
	w := watcher{}
	w, _ = w.after(blinded{session.ErrNoAuth})
	check.True(t, w.Ended() && errors.Is(w.err, session.ErrNoAuth), "%+v", w)
	w, _ = w.after(leave{})
	check.Is(t, w.err, session.ErrNoAuth, w)
	w, _ = (watcher{}).after(leave{})
	check.True(t, w.Ended() && w.err == nil, "%+v", w)
}

// inputs are commands, changes of the tree, and its end.
func inputs() []input {
	a, again, b := member("a", "1", 1), member("a", "2", 5), member("b", "1", 2)
	synced := func(s watch.TreeState) viewed { s.Synced = true; return viewed{s} }
	return []input{
		viewed{watch.TreeState{Added: []watch.TreeNode{a}}},
		synced(watch.TreeState{}), synced(watch.TreeState{Added: []watch.TreeNode{a, b}}),
		synced(watch.TreeState{Changed: []watch.TreeNode{again}}), synced(watch.TreeState{Removed: []watch.TreeNode{a}}), synced(watch.TreeState{Removed: []watch.TreeNode{b}, Added: []watch.TreeNode{again}}),
		blinded{session.ErrNoAuth},
		blinded{session.ErrClosed},
		leave{},
		kept{presence.Insist{}},
		kept{presence.Update{Data: "2"}},
		kept{presence.Leave{}},
	}
}

// A position is a member or a watcher in the course of a search, and what its reader has received.
type position struct {
	machine
	watcher
	members string
	synced  bool
}

// received returns what is wrong with a change of the members.
func (p *position) received(ev MembersChanged, v view) error {
	now := fmt.Sprint(ev.Members)
	if now != fmt.Sprint(v.members) || p.synced && now == p.members || !v.synced {
		return fmt.Errorf("%w: %v, to a reader who has %s; the view is %v", errWrong, ev, p.members, v.members)
	}
	p.members, p.synced = now, true
	return nil
}

var errWrong = errors.New("a change is not one")

// TestExhaustion gives every input in every state of a member and of a watcher: each change leads
// to the members that there are, and after the last event there is none.
func TestExhaustion(t *testing.T) {
	var given check.Given
	search := exploration.Search[position, input, string]{
		Inputs: func(position) []input { return inputs() },
		Key: func(p position) string {
			return fmt.Sprintf("%v %+v %v %+v %s %v", p.machine.Ended(), p.machine.view, p.held, p.watcher, p.members, p.synced)
		},
		Given: &given,
	}
	search.Step = func(p position, in input) (position, error) {
		m, out := p.machine.after(in)
		next := p
		next.machine = m
		for i, ev := range out.Emit {
			_, left := ev.(Left)
			if p.machine.Ended() || left != (m.Ended() && i == len(out.Emit)-1) {
				return next, fmt.Errorf("%w: %v, after Left or without it", errWrong, out.Emit)
			}
			if change, is := ev.(MembersChanged); is {
				if err := next.received(change, m.view); err != nil {
					return next, err
				}
			}
		}
		return next, nil
	}
	states, steps := search.Run(t, position{machine: machine{view: view{dir: "/g"}}})
	t.Logf("a member: %d states, %d steps", states, steps)
	search.Step = func(p position, in input) (position, error) {
		w, out := p.watcher.after(in)
		next := p
		next.watcher = w
		if p.watcher.Ended() && len(out.Emit) > 0 {
			return next, fmt.Errorf("%w: %v, after the end", errWrong, out.Emit)
		}
		for _, ev := range out.Emit {
			if err := next.received(ev, w.view); err != nil {
				return next, err
			}
		}
		return next, nil
	}
	states, steps = search.Run(t, position{watcher: watcher{view: view{dir: "/g"}}})
	t.Logf("a watcher: %d states, %d steps", states, steps)
	check.Explored(t, "input", given)
}

// after is Step with effects of its own.
func (m machine) after(in input) (machine, effects) {
	var out effects
	m = m.Step(in, &out)
	return m, out
}

// after is Step with effects of its own.
func (m watcher) after(in input) (watcher, actors.Effects[presence.Effect, MembersChanged]) {
	var out actors.Effects[presence.Effect, MembersChanged]
	m = m.Step(in, &out)
	return m, out
}

func find(members []Member, id string) (int, bool) {
	return slices.BinarySearchFunc(members, id, func(m Member, id string) int { return strings.Compare(m.ID, id) })
}

// TestMemberOfAnotherSession: the servers have come back with older data, and another session has
// joined with the same number.
func TestMemberOfAnotherSession(t *testing.T) {
	before, now := []Member{{ID: "a", Session: 1, Joined: 5}}, []Member{{ID: "a", Session: 2, Joined: 5}}
	change := newChange(before, now, false)
	check.True(t, len(change.Changed) == 1 && change.Changed[0].Session == 2, "%+v", change)
}

// String is for transcripts.
func (m machine) String() string {
	s := fmt.Sprintf("%v %v", m.node, m.view.members)
	if m.held != nil {
		s += " held"
	}
	return s
}

// TestTranscripts replays the stories in testdata, of what a member makes of what it is
// told of the others; those of its node are in package presence. Run it with -rewrite to
// let it write down what happens.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var m machine
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				m = machine{view: view{dir: "/g"}}
				return fmt.Sprintf("%v\n", m.view.members)
			}
			in, err := parseInput(d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			next, out := m.after(in)
			m = next
			s := fmt.Sprintf("%v\n", m.view.members)
			for _, ev := range out.Emit {
				s += fmt.Sprintf("* %v\n", ev)
			}
			return s
		})
	})
}

// parseInput reads a change of a tree, of nodes written id=(data,czxid), and with a third
// value if no session owns them; and what else there is.
func parseInput(d *datadriven.TestData) (input, error) {
	switch d.Cmd {
	case "leave":
		return leave{}, nil
	case "blinded":
		return blinded{session.ErrNoAuth}, nil
	case "closed":
		return blinded{session.ErrClosed}, nil
	case "viewed":
	default:
		return nil, fmt.Errorf("unknown input %s", d.Cmd)
	}
	var state watch.TreeState
	for _, arg := range d.CmdArgs {
		if arg.Key == "synced" {
			state.Synced = true
			continue
		}
		sign, id := arg.Key[:1], strings.TrimLeft(arg.Key, "+-~")
		n := watch.TreeNode{Path: znode.Join("/g", id), Stat: &session.Stat{EphemeralOwner: 1}}
		if id == "." {
			n = watch.TreeNode{Path: "/g", Stat: &session.Stat{}}
		}
		for i, val := range arg.Vals {
			switch i {
			case 0:
				n.Data = []byte(val)
			case 1:
				czxid, err := strconv.ParseInt(val, 10, 64)
				if err != nil {
					return nil, err
				}
				n.Stat.Czxid = czxid
			default:
				n.Stat.EphemeralOwner = 0
			}
		}
		switch sign {
		case "+":
			state.Added = append(state.Added, n)
		case "~":
			state.Changed = append(state.Changed, n)
		case "-":
			state.Removed = append(state.Removed, n)
		}
	}
	return viewed{state}, nil
}
