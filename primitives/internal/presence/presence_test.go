package presence

import (
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

// run executes what the session has asked for, at most so many requests.
func run(w *zkmodel.World, s int, most int) {
	for serve := (zkmodel.Action{Kind: "serve", I: s}); most > 0; most-- {
		if normal, _ := w.Actions(); !slices.Contains(normal, serve) {
			return
		}
		w.Apply(serve)
	}
}

// TestWithdrawal: what is of the session is removed. It is told whether another node was found in
// its place before the deletion was sent.
func TestWithdrawal(t *testing.T) {
	const all = 100
	other := func(w *zkmodel.World) {
		w.Apply(zkmodel.Action{Kind: "strike", Node: namePath})
		w.Sessions[1].Async(0).Create(namePath, nil, session.Ephemeral, func(string, error) {})
		run(w, 1, all)
	}
	for _, row := range []struct {
		what   string
		before func(w *zkmodel.World, n *Node)
		at     int // after so many requests
		then   func(w *zkmodel.World)
		other  bool
		stands bool
	}{
		{what: "ours"},
		{what: "nothing", before: func(w *zkmodel.World, _ *Node) { w.Apply(zkmodel.Action{Kind: "strike", Node: namePath}) }},
		{what: "another's", before: func(w *zkmodel.World, _ *Node) { other(w) }, other: true, stands: true},
		{what: "kept by a later handle", before: func(_ *zkmodel.World, n *Node) { _ = newNode(n.session, namePath).claim(nil) }, other: true, stands: true},
		{what: "replaced when it has been read", at: 1, then: other, other: true, stands: true},
		{what: "replaced when it has been written to", at: 3, then: other, stands: true},
		{what: "replaced when the reply to the deletion was lost", at: 3, then: func(w *zkmodel.World) {
			w.Apply(zkmodel.Action{Kind: "cut"})
			run(w, 0, 1)
			w.Sessions[1].Async(0).Create(namePath, nil, session.Ephemeral, func(string, error) {})
			run(w, 1, all)
			w.Apply(zkmodel.Action{Kind: "notice"})
			w.Apply(zkmodel.Action{Kind: "reconnect"})
		}, stands: true},
	} {
		w := zkmodel.New(zkmodel.Faults{Cuts: 1, Strikes: 1}, 2, zkmodel.Node{Path: nameRoot})
		s := w.Sessions[0]
		s.Async(0).Create(namePath, nil, session.Ephemeral, func(string, error) {})
		run(w, 0, all)
		n := newNode(s, namePath)
		if row.before != nil {
			row.before(w, n)
		}
		answers := 0
		n.withdraw(withdraw{session: s.ID()}, func(other bool, err error) {
			answers++
			check.True(t, err == nil && other == row.other, "%s: other=%v, %v", row.what, other, err)
		})
		if row.then != nil {
			run(w, 0, row.at)
			row.then(w)
		}
		run(w, 0, all)
		node := w.Node(namePath)
		check.True(t, answers == 1 && (node != nil) == row.stands, "%s: %d answers, %+v", row.what, answers, node)
	}
}

// TestLookBehindALaggingReplica: a look that is to be certain sees what the leader knows.
func TestLookBehindALaggingReplica(t *testing.T) {
	for _, sync := range []bool{true, false} {
		w := zkmodel.New(zkmodel.Faults{Lags: 1}, 1, zkmodel.Node{Path: nameRoot}, zkmodel.Node{Path: namePath, Data: "old", Czxid: 1})
		n := newNode(w.Sessions[0], namePath)
		w.Apply(zkmodel.Action{Kind: "lag"})
		w.SetData(namePath, "new")
		var seen Sight
		n.look(look{turn{1, 1}, sync}, func(s Sight, _ error) { seen = s })
		run(w, 0, 2)
		check.True(t, (seen.Data == "new") == sync && seen.Exists, "sync=%v: %+v", sync, seen)
	}
}
