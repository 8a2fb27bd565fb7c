package priority

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/linemodel"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

// This file has requests that a server refuses, and what other clients do between two requests.

// theirsPublished is a contender of the published layout, which is foreign here.
const theirsPublished = "_c_00000003-0000-4000-8000-000000000000-lock-0000000003"

// strike deletes a node, and its descendants, as an operator does.
func strike(w *zkmodel.World, path string) { w.Apply(zkmodel.Action{Kind: "strike", Node: path}) }

// create creates a node, as another client does.
func create(t *testing.T, w *zkmodel.World, path string, mode session.CreateMode) {
	t.Helper()
	w.Sessions[1].Async(0).Create(path, nil, mode, func(_ string, err error) { check.OK(t, err) })
	w.Apply(zkmodel.Action{Kind: "serve", I: 1})
}

// TestDowngradeRefused: a writer that holds becomes a reader, and an operation of the transaction
// is refused. What has come between is no reason to give up; any other reason is reported.
func TestDowngradeRefused(t *testing.T) {
	const reader = "_c_00000000-0000-4000-8000-000000000000-p1000-read-0000000000"
	node := func(names ...string) string {
		path := linemodel.Root
		for _, name := range names {
			path = znode.Join(path, name)
		}
		return path
	}
	deny := func(op int) func(*zkmodel.World) {
		return func(w *zkmodel.World) { w.Apply(zkmodel.Action{Kind: "deny", Variant: op}) }
	}
	write := func(w *zkmodel.World) { w.SetData(node(), marker+"\n"+theirsPriority) }
	for _, row := range []struct {
		danger  string
		between func(w *zkmodel.World)
		want    error
	}{
		{"the server has removed the empty container", func(w *zkmodel.World) { w.Apply(zkmodel.Action{Kind: "reap", Node: node(readersNode)}) }, nil},
		{"another client has written to the path", write, nil},
		{"and its claim is deleted", func(w *zkmodel.World) { write(w); strike(w, node(holderNode)) }, session.ErrNoNode},
		{"its node is deleted", func(w *zkmodel.World) { strike(w, node(oursPriority)) }, session.ErrNoNode},
		{"its claim is deleted", func(w *zkmodel.World) { strike(w, node(holderNode)) }, session.ErrNoNode},
		{"there is such a claim", func(w *zkmodel.World) { create(t, w, node(readersNode, reader), session.Persistent) }, session.ErrNodeExists},
		{"it may not create the reader", deny(0), session.ErrNoAuth},
		{"it may not delete the writer", deny(1), session.ErrNoAuth},
		{"it may not read the path", deny(2), session.ErrNoAuth},
		{"it may not create the claim", deny(4), session.ErrNoAuth},
	} {
		w, p := claimedBy(oursPriority)
		p.Take(w.Sessions[0].Async(0), oursPriority, true, func(_ int64, _ bool, err error) { check.OK(t, err) })
		serve(w, most)
		var answers []error
		p.Change(w.Sessions[0].Async(0), oursPriority, reader, func(err error) { answers = append(answers, err) })
		serve(w, 1) // the container; the transaction is next
		row.between(w)
		serve(w, most)
		if len(answers) != 1 {
			t.Errorf("%s: %d answers: %v", row.danger, len(answers), answers)
			continue
		}
		check.Is(t, answers[0], row.want, row.danger)
		check.Equal(t, w.Node(node(readersNode, reader)) != nil && w.Node(node(holderNode)) == nil, row.want == nil, row.danger, "downgraded")
	}
}

// TestContainerRefused: a reader claims if the container of the readers' claims may exist.
func TestContainerRefused(t *testing.T) {
	const reader = "_c_00000000-0000-4000-8000-000000000000-p1000-read-0000000000"
	for _, row := range []struct {
		created error
		claims  bool
	}{
		{nil, true},
		{session.ErrNodeExists, true},
		{session.ErrUnknownOutcome, true},
		{session.ErrNoAuth, false},
		{session.ErrExpired, false},
		{session.ErrNoNode, false},
	} {
		answers := 0
		New(nil, "/l", Options{}).Take(server{created: row.created, refuses: new(error)}, reader, false, func(_ int64, taken bool, err error) {
			answers++
			check.False(t, taken, "%v: taken by another", row.created)
			if row.claims {
				check.OK(t, err, row.created)
				return
			}
			check.Is(t, err, row.created)
		})
		check.Equal(t, answers, 1, row.created, "answers")
	}
}

// TestPathEmptied: an operator has emptied the path, of which the session knows that it was one
// with priorities. A list settles it anew, unless it has another use by now.
func TestPathEmptied(t *testing.T) {
	for _, row := range []struct {
		danger  string
		foreign string // another child
		between func(w *zkmodel.World)
		want    error
		warm    bool // the session still knows the path
	}{
		{"for no other use", "", func(*zkmodel.World) {}, nil, true},
		{"for a lock of another layout", theirsPublished, func(*zkmodel.World) {}, line.ErrLayout, false},
		{"and deletes it", "", func(w *zkmodel.World) { strike(w, linemodel.Root) }, session.ErrNoNode, false},
	} {
		w, p := claimedBy(theirsPriority)
		w.Sessions[0].SetWarm(p.hint(), true)
		w.SetData(p.path, "")
		if row.foreign != "" {
			create(t, w, p.node(row.foreign), session.Ephemeral)
		}
		var answers []error
		p.Read(w.Sessions[0].Async(0), func(data string, err error) {
			answers = append(answers, err)
			check.Equal(t, parseStanding(data).Holder == theirsPriority, err == nil, row.danger, data)
		})
		serve(w, 3) // the path, the holder and the readers
		row.between(w)
		serve(w, most)
		if len(answers) != 1 {
			t.Errorf("%s: %d answers: %v", row.danger, len(answers), answers)
			continue
		}
		check.Is(t, answers[0], row.want, row.danger)
		check.Equal(t, w.Sessions[0].Warm(p.hint()), row.warm, row.danger, "the session knows the path")
	}
}

// TestPathMade: a path that was created may be another client's by now. So it is inspected before
// there is a contender.
func TestPathMade(t *testing.T) {
	for _, overtaken := range []bool{false, true} {
		w := zkmodel.New(zkmodel.Faults{}, 2)
		p := New(w.Sessions[0], linemodel.Root, Options{})
		p.Make(w.Sessions[0].Async(0), func(made bool, err error) {
			check.OK(t, err)
			check.False(t, made, "the path need not be inspected")
		})
		if overtaken {
			create(t, w, linemodel.Root, session.Container)
			create(t, w, p.node(theirsPublished), session.Ephemeral)
		}
		serve(w, most)
		inspected := 0
		p.Inspect(w.Sessions[0].Async(0), false, func(_ *session.Stat, err error) {
			inspected++
			if overtaken {
				check.Is(t, err, line.ErrLayout)
			} else {
				check.OK(t, err)
			}
		})
		serve(w, most)
		check.Equal(t, inspected, 1, "answers")
	}
}

// TestForeignNotJoined: the session knows the path as one of the published layout, and a contender
// of that layout waits there. It would leave at the sight of ours.
func TestForeignNotJoined(t *testing.T) {
	r := rivalry{rivals: []rival{{nodes.Write, 0, false}}}
	kind := r.kind()
	kind.Refusal = line.ErrLayout
	w := linemodel.New(kind, &linemodel.Scenario{
		Sessions: []int{0}, Warm: linemodel.Root,
		Nodes: []zkmodel.Node{{Path: linemodel.Root, Czxid: 1}, {Path: znode.Join(linemodel.Root, theirsPublished), Czxid: 2}},
	}, false)
	for range most {
		actions, _, _ := w.Actions()
		if len(actions) == 0 {
			break
		}
		w.Apply(actions[0])
		check.EqualSlices(t, w.Children(linemodel.Root), []string{theirsPublished})
	}
	check.True(t, w.All[0].Ended(), "it waits: %v", w.All[0].M)
}

// TestListGoesOutWithCreation: a contender lists in any case, so it need not wait for its node.
func TestListGoesOutWithCreation(t *testing.T) {
	var out line.Effects
	m := line.New(guidOf(1), rule{Kind: nodes.Write}, false, false).Step(line.Heard{Event: session.Connected{Epoch: 1, ID: 1}}, &out)
	inspects := out.Do[0].(line.InspectParent)
	out = line.Effects{}
	m.Step(line.Inspected{Attempt: inspects.Attempt, Exists: true}, &out)
	check.EqualSlices(t, out.Do, []line.Effect{
		line.CreateNode{Attempt: inspects.Attempt, GUID: guidOf(1), Plain: true}, line.ListParent{Attempt: inspects.Attempt},
	})
}

// TestAsk: a holder is asked once, and is removed when its time to leave is over, and not before.
// Each call is answered.
func TestAsk(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second} {
		w, p := claimedBy(theirsPriority)
		p.opts.PreemptAfter = after
		us := w.Sessions[0]
		timers := &owned.Set{Clock: us}
		var answers []bool
		ask := func() {
			p.Ask(timers, us.Async(0), 1, theirsPriority, func(overdue bool) { answers = append(answers, overdue) })
		}
		expect := func(when string, requests int, want ...bool) {
			t.Helper()
			check.Equal(t, serve(w, most), requests, after, when, "requests")
			check.EqualSlices(t, answers, want, after, when)
			answers = nil
		}
		pass := func(d time.Duration) {
			if us.After(d, func() {}); d < after {
				w.Apply(zkmodel.Action{Kind: "timer", I: 1})
				return
			}
			w.Apply(zkmodel.Action{Kind: "timer", I: 0})
		}

		ask()
		w.Apply(zkmodel.Action{Kind: "deny"})
		expect("when it may not be asked", 0, false)

		ask()
		ask()
		if after == 0 {
			expect("at first", 2, false, false)
			pass(time.Hour)
			ask()
			expect("after long", 0, false)
			check.True(t, w.Node(p.node(theirsPriority)) != nil, "removed without a limit")
			continue
		}
		expect("at first", 2, false)
		check.True(t, isMarked(w.Node(p.node(theirsPriority)).Data), "not asked")
		pass(after - 1)
		ask()
		expect("before its time is over", 0, false)
		pass(after)
		expect("when its time is over", 0, true)
		check.True(t, w.Node(p.node(theirsPriority)) != nil, "removed before the list")
		ask()
		check.True(t, serve(w, most) > 0 && w.Node(p.node(theirsPriority)) == nil, "it stays")
		expect("after its time", 0, false)
	}
}

// TestManyAsked: however many holders there are, each is asked once in an attempt.
func TestManyAsked(t *testing.T) {
	const many = 100
	w, p := claimedBy(theirsPriority)
	holder := func(i int) string { return ranked(fmt.Sprintf("r %d r%d", -1-i, i)) }
	for i := range many {
		p.request(1, holder(i))
		w.Sessions[0].After(time.Millisecond, func() {})
		w.Apply(zkmodel.Action{Kind: "timer"})
		p.recordAsked(1, holder(i), true)
	}
	again := 0
	for i := range many {
		if _, before := p.request(1, holder(i)); !before {
			again++
		}
	}
	check.Equal(t, again, 0, "holders that are asked again")
}
