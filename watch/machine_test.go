package watch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

func at(zxid int64, r session.Reading) read {
	r.Zxid = zxid
	return read{r}
}

// node is a reading of one that was made and last changed by these transactions.
func node(czxid, mzxid int64) session.Reading {
	return session.Reading{Stat: &session.Stat{Czxid: czxid, Mzxid: mzxid}}
}

func absent() session.Reading { return session.Reading{} }

func describe(out actors.Effects[effect, NodeState]) string {
	var all []string
	for _, do := range out.Do {
		all = append(all, strings.TrimPrefix(fmt.Sprintf("%T", do), "watch."))
	}
	for _, ev := range out.Emit {
		if ev.Exists {
			all = append(all, fmt.Sprintf("%d/%d", ev.Stat.Czxid, ev.Stat.Mzxid))
		} else {
			all = append(all, "none")
		}
	}
	return strings.Join(all, " ")
}

func TestRows(t *testing.T) {
	expired := &session.OpError{Op: "watch", Path: "/a", Err: session.ErrExpired}
	for name, row := range map[string]struct {
		sync bool
		in   []input
		want string // of the last input
		over bool
	}{
		"the first state is told":                   {in: []input{at(5, node(1, 2))}, want: "1/2"},
		"and so is that there is none":              {in: []input{at(5, absent())}, want: "none"},
		"the same again is not told":                {in: []input{at(5, node(1, 2)), at(7, node(1, 2))}},
		"nothing again is not told":                 {in: []input{at(5, absent()), at(7, absent())}},
		"what was made again is told":               {in: []input{at(5, node(1, 2)), at(7, node(6, 6))}, want: "6/6"},
		"a server that lags is not believed":        {in: []input{at(5, node(1, 4)), at(3, node(1, 2))}},
		"nor that the node is not there yet":        {in: []input{at(5, node(4, 4)), at(3, absent())}},
		"nor that it is still there":                {in: []input{at(5, absent()), at(3, node(1, 2))}},
		"it is believed when it has caught up":      {in: []input{at(5, node(1, 4)), at(3, node(1, 2)), at(5, node(1, 4)), at(6, node(1, 6))}, want: "1/6"},
		"an epoch ends: the next is watched":        {in: []input{at(5, node(1, 2)), failed{expired}}, want: "follow"},
		"what cannot be read ends it":               {in: []input{failed{session.ErrNoAuth}}, over: true},
		"so does the end of the session":            {in: []input{failed{session.ErrClosed}}, over: true},
		"nothing is told after that":                {in: []input{failed{session.ErrClosed}, at(5, node(1, 2))}, over: true},
		"leaving ends the watch":                    {in: []input{at(5, node(1, 2)), leave{}}, want: "unfollow", over: true},
		"first the server is to catch up":           {sync: true, in: []input{synced{}}, want: "follow"},
		"again, if that has failed":                 {sync: true, in: []input{synced{session.ErrDisconnected}}, want: "catchUp"},
		"in the next epoch, if this is over":        {sync: true, in: []input{synced{expired}}, want: "catchUp"},
		"but not in a closed session":               {sync: true, in: []input{synced{session.ErrClosed}}, over: true},
		"leaving before that leaves nothing behind": {sync: true, in: []input{leave{}}, over: true},
		"and the answer finds nobody":               {sync: true, in: []input{leave{}, synced{}}, over: true},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := newMachine(row.sync, nextNode)
			var out actors.Effects[effect, NodeState]
			for _, in := range row.in {
				m, out = m.after(in)
			}
			got := describe(out)
			check.True(t, got == row.want && m.Ended() == row.over, "%q, %v", got, m)
		})
	}
}

// TestEveryHistory goes through all histories of one node on a leader and a server that lags, with
// the reads and losses of epochs that a view can have, to a depth, and with servers that come back
// with older data: it never goes back but then, and when it is quiet it knows the newest state.
func TestEveryHistory(t *testing.T) {
	// The state of the node at each transaction.
	histories := [][]session.Reading{
		{absent(), node(1, 1), node(1, 2), node(1, 3)},
		{node(0, 0), absent(), node(2, 2), absent()},
		{node(0, 0), absent(), node(2, 2), node(2, 3)},
		{absent(), node(1, 1), absent(), absent()},
	}
	type world struct {
		m        machine[NodeState]
		history  []session.Reading
		restored bool // it is another one, from some transaction on
		applied  int  // by the server that the session is connected to
		watch    bool
		answer   bool // a read is under way
	}
	worlds := 0
	for _, history := range histories {
		var explore func(w world, told []int64, depth int)
		explore = func(w world, told []int64, depth int) {
			worlds++
			history, newest := w.history, len(w.history)-1
			differs := func(a, b int) bool { return history[a].Stat != history[b].Stat }
			step := func(w world, in input) (world, []int64) {
				m, out := w.m.after(in)
				w.m = m
				told := slices.Clone(told)
				for _, ev := range out.Emit {
					told = append(told, m.zxid)
					if want := history[m.zxid]; want.Stat != ev.Stat {
						t.Fatalf("%v is told for %d", ev, m.zxid)
					}
				}
				check.Require(t, slices.IsSorted(told), "it went back: %v", told)
				for _, do := range out.Do {
					w.answer = w.answer || do == effect(follow{})
				}
				return w, told
			}
			serve := func(w world) (world, []int64) {
				w.answer, w.watch = false, true
				return step(w, at(int64(w.applied), history[w.applied]))
			}
			if depth == 0 {
				for w.answer || w.applied < newest {
					for w.answer {
						w, told = serve(w)
					}
					if w.applied < newest {
						w.applied++
						w.answer = w.watch && differs(w.applied-1, w.applied)
					}
				}
				check.Require(t, w.m.state.Stat == history[newest].Stat, "at last it is %v, want %v", w.m, history[newest])
				return
			}
			if w.applied < newest { // the server applies a transaction, and tells
				next := w
				next.applied++
				next.answer = w.answer || w.watch && differs(w.applied, next.applied)
				explore(next, told, depth-1)
			}
			if w.answer {
				next, told := serve(w)
				explore(next, told, depth-1)
			}
			next, told := step(w, failed{session.ErrExpired})
			next.watch = false
			for applied := w.applied; applied <= newest; applied++ { // the next server has what the last one had
				next.applied = applied
				explore(next, told, depth-1)
			}
			for kept := range newest { // or the servers have come back with less, and go on in another way
				if w.restored {
					break
				}
				for _, other := range after(history[:kept+1], newest) {
					next.history, next.restored, next.applied = other, true, kept
					explore(next, nil, depth-1)
				}
			}
		}
		m, _ := newMachine(false, nextNode)
		explore(world{m: m, history: history, answer: true}, nil, 6)
	}
	t.Logf("%d states", worlds)
}

// after returns ways in which a history may go on until the newest transaction, other than it did:
// not at all, with writes, and with deletions and creations.
func after(kept []session.Reading, newest int) (all [][]session.Reading) {
	written, changed := slices.Clone(kept), slices.Clone(kept)
	for len(written) <= newest {
		zxid := int64(len(written))
		write := func(czxid int64) session.Reading {
			return session.Reading{Stat: &session.Stat{Czxid: czxid, Mzxid: zxid, Mtime: 1}}
		}
		last := written[len(written)-1].Stat
		if last == nil {
			last = &session.Stat{Czxid: zxid}
		}
		written = append(written, write(last.Czxid))
		if changed[len(changed)-1].Stat != nil {
			changed = append(changed, absent())
		} else {
			changed = append(changed, write(zxid))
		}
	}
	return [][]session.Reading{slices.Clip(kept), written, changed}
}

func TestNobodyActsAfterTheEnd(t *testing.T) {
	inputs := []input{synced{}, synced{errors.New("x")}, synced{session.ErrExpired}, at(9, node(1, 1)), failed{session.ErrExpired}, failed{session.ErrNoAuth}, leave{}}
	var given check.Given
	var explore func(m machine[NodeState], depth int)
	explore = func(m machine[NodeState], depth int) {
		for _, in := range inputs {
			check.Note(&given, in)
			next, out := m.after(in)
			if m.Ended() && (len(out.Do)+len(out.Emit) > 0 || !next.Ended()) {
				t.Fatalf("%v acts on %v", m, in)
			}
			check.Require(t, !next.Ended() || len(out.Emit) <= 0, "%v ends with a state that it did not read", m)
			if depth > 0 {
				explore(next, depth-1)
			}
		}
	}
	for _, sync := range []bool{false, true} {
		m, _ := newMachine(sync, nextNode)
		explore(m, 4)
	}
	check.Explored(t, "input", given)
}

// TestMergingChildren: what is merged is what one would have seen who looked only at
// the end, for all sequences of three sets.
func TestMergingChildren(t *testing.T) {
	names := []string{"a", "b", "c"}
	var sets [][]string
	for bits := range 1 << len(names) {
		var set []string
		for i, name := range names {
			if bits>>i&1 == 1 {
				set = append(set, name)
			}
		}
		sets = append(sets, set)
	}
	reading := func(zxid int64, names []string) session.Reading {
		return session.Reading{Names: names, Stat: &session.Stat{Pzxid: zxid}}
	}
	for _, first := range sets {
		for _, second := range sets {
			for _, third := range sets {
				for _, fourth := range sets {
					one, _ := nextChildren(ChildrenState{}, false, reading(1, first))
					two, _ := nextChildren(one, true, reading(2, second))
					three, _ := nextChildren(two, true, reading(3, third))
					four, _ := nextChildren(three, true, reading(4, fourth))
					direct, _ := nextChildren(one, true, reading(4, fourth))
					merged, _ := mergeChildren(two, three)
					merged, _ = mergeChildren(merged, four)
					check.Require(t, merged.String() == direct.String(), "%v %v %v %v: %v, want %v", first, second, third, fourth, merged, direct)
				}
			}
		}
	}
}

// after is Step with effects of its own.
func (m machine[S]) after(in input) (machine[S], actors.Effects[effect, S]) {
	var out actors.Effects[effect, S]
	m = m.Step(in, &out)
	return m, out
}

// after is Step with effects of its own.
func (m *treeMachine) after(in treeInput) (*treeMachine, actors.Effects[treeEffect, TreeState]) {
	var out actors.Effects[treeEffect, TreeState]
	m = m.Step(in, &out)
	return m, out
}
