package watch

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
)

// mostNodes are more than the model has.
const mostNodes = 100

// slot has one child at all times, whose name changes.
const slot = "/t/s"

// A serverNode is a znode on the servers of a model.
type serverNode struct {
	czxid, mzxid, pzxid int64
	ephemeral           bool
	mtime               int64 // the restore after which it was written
}

// A model is two servers, each the connection of one session of a tree, with a history of
// transactions of which they may know different parts.
type model struct {
	t        *testing.T
	r        *rand.Rand
	history  []map[string]serverNode // by zxid, from 1
	restores int64                   // how often the servers have come back with older data
	servers  [2]*modelServer
	m        *treeMachine
	syncs    []catchUpNode
	f        map[string]TreeNode // what the reader has been told
	undone   TreeState           // what the reader has not taken
	given    *check.Given
}

// A modelServer serves one session.
type modelServer struct {
	applied int
	subs    []*modelSub
	inbox   []treeRead // on their way to the client
}

// A modelSub is a subscription as the session has it.
type modelSub struct {
	node   *treeNode
	aspect session.Aspect
	number uint32
	armed  bool // else a read is under way
	gone   bool // as of the last read
}

func (w *model) server(n *treeNode) *modelServer {
	if n.own {
		return w.servers[1]
	}
	return w.servers[0]
}

// perform takes the effects of a step.
func (w *model) perform(do []treeEffect) {
	for _, e := range do {
		switch e := e.(type) {
		case followNode:
			s := w.server(e.node)
			s.subs = append(s.subs, &modelSub{node: e.node, aspect: e.aspect, number: e.number})
		case unfollowNode:
			s := w.server(e.node)
			s.subs = slices.DeleteFunc(s.subs, func(sub *modelSub) bool { return sub.node == e.node && sub.aspect == e.aspect })
		case catchUpNode:
			w.syncs = append(w.syncs, e)
		}
	}
}

func (w *model) step(in treeInput) {
	check.Note(w.given, in)
	_, out := w.m.after(in)
	w.perform(out.Do)
	for _, ev := range out.Emit {
		w.undone, _ = mergeTrees(w.undone, ev)
	}
	if w.restores == 0 && w.m.shared > mostNodes {
		w.explained(out.Emit)
	}
	size := 0
	for _, n := range w.m.nodes {
		if n.stat != nil {
			size++
		}
	}
	if size != w.m.size || w.m.waiting < 0 || w.m.waiting > treeWindow {
		w.t.Fatalf("%v has %d nodes", w.m, size)
	}
}

// explained fails the test if a node is removed that stood in every state of the servers since it
// was read, or the slot is empty, which it never was.
func (w *model) explained(events []TreeState) {
	for _, ev := range events {
		for _, n := range ev.Removed {
			missing := func(state map[string]serverNode) bool { _, there := state[n.Path]; return !there }
			if !slices.ContainsFunc(w.history[max(0, n.Stat.Czxid-1):], missing) {
				w.t.Fatalf("%s is removed, and stood since transaction %d", n.Path, n.Stat.Czxid)
			}
			if dir, _ := znode.Split(n.Path); dir == slot && len(w.m.below(slot)) == 0 {
				w.t.Fatalf("%s is removed, and nothing is in its place", n.Path)
			}
		}
	}
}

// below returns the children of a node that are in the tree.
func (m *treeMachine) below(path string) (all []*treeNode) {
	for n := range m.children(m.nodes[path]) {
		if n.stat != nil {
			all = append(all, n)
		}
	}
	return all
}

func (w *model) take() {
	for _, n := range w.undone.Removed {
		if _, ok := w.f[n.Path]; !ok {
			w.t.Fatalf("%s is removed, and was not there", n.Path)
		}
		delete(w.f, n.Path)
	}
	for _, n := range w.undone.Changed {
		if old, ok := w.f[n.Path]; !ok || old.Stat.Mzxid > n.Stat.Mzxid && w.restores == 0 {
			w.t.Fatalf("%s is changed from %v to %v", n.Path, old.Stat, n.Stat)
		}
		w.f[n.Path] = n
	}
	for _, n := range w.undone.Added {
		if _, ok := w.f[n.Path]; ok {
			w.t.Fatalf("%s is added, and was there", n.Path)
		}
		w.f[n.Path] = n
	}
	w.undone = TreeState{}
}

// serve answers one read that is under way, if there is any.
func (w *model) serve(s *modelServer) bool {
	var waiting []*modelSub
	for _, sub := range s.subs {
		if !sub.armed {
			waiting = append(waiting, sub)
		}
	}
	if len(waiting) == 0 {
		return false
	}
	sub := waiting[0] // they are answered in order
	state := w.history[s.applied]
	z, there := state[sub.node.path]
	in := treeRead{node: sub.node, aspect: sub.aspect, number: sub.number}
	in.Zxid = int64(s.applied) + 1
	switch {
	case !there && sub.node.parent != nil:
		in.err = session.ErrNoNode
		w.forget(s, sub)
	case there:
		in.Stat = &session.Stat{Czxid: z.czxid, Mzxid: z.mzxid, Pzxid: z.pzxid, Mtime: z.mtime}
		if z.ephemeral {
			in.Stat.EphemeralOwner = 1
		}
		if sub.aspect == session.AspectChildren {
			in.Names = namesBelow(state, sub.node.path)
		}
	}
	sub.armed, sub.gone = true, !there
	s.inbox = append(s.inbox, in)
	return true
}

func namesBelow(state map[string]serverNode, dir string) []string {
	var names []string
	for path := range state {
		if path != "/" {
			if parent, name := znode.Split(path); parent == dir {
				names = append(names, name)
			}
		}
	}
	return names
}

func (w *model) forget(s *modelServer, sub *modelSub) {
	s.subs = slices.DeleteFunc(s.subs, func(other *modelSub) bool { return other == sub })
}

// apply lets a server learn one more transaction, and tell who watches.
func (w *model) apply(s *modelServer) bool {
	if s.applied == len(w.history)-1 {
		return false
	}
	before, after := w.history[s.applied], w.history[s.applied+1]
	s.applied++
	for _, sub := range slices.Clone(s.subs) {
		if !sub.armed {
			continue
		}
		old, was := before[sub.node.path]
		now, is := after[sub.node.path]
		switch {
		case was && (!is || old.czxid != now.czxid) && sub.node.parent != nil:
			in := treeRead{node: sub.node, aspect: sub.aspect, number: sub.number, err: session.ErrNoNode}
			w.forget(s, sub)
			s.inbox = append(s.inbox, in)
		case was != is, sub.aspect == session.AspectData && old.mzxid != now.mzxid, sub.aspect == session.AspectChildren && old.pzxid != now.pzxid:
			sub.armed = false
		}
	}
	return true
}

// deliver hands the machine what is next on its way from a server.
func (w *model) deliver(s *modelServer) bool {
	if len(s.inbox) == 0 {
		return false
	}
	in := s.inbox[0]
	s.inbox = s.inbox[1:]
	w.step(in)
	return true
}

// restore brings older data back, and ends both sessions. Transactions have the numbers again that
// others had.
func (w *model) restore() {
	w.restores++
	w.history = slices.Clip(w.history[:1+w.r.IntN(len(w.history))])
	for _, s := range w.servers {
		w.expire(s)
	}
}

// expire ends a session. The next one is with a server that its handshake, or its first sync,
// brings up to date.
func (w *model) expire(s *modelServer) {
	subs := s.subs
	s.subs = nil
	s.applied = len(w.history) - 1
	for _, sub := range subs {
		s.inbox = append(s.inbox, treeRead{node: sub.node, aspect: sub.aspect, number: sub.number, err: session.ErrExpired})
	}
}

// synchronize answers a sync: it is in the order of its connection.
func (w *model) synchronize() bool {
	if len(w.syncs) == 0 {
		return false
	}
	e := w.syncs[0]
	w.syncs = w.syncs[1:]
	s := w.server(e.node)
	for w.apply(s) {
	}
	for w.deliver(s) {
	}
	w.step(treeSynced{node: e.node, number: e.number})
	return true
}

// mutate commits a transaction.
func (w *model) mutate() {
	last := w.history[len(w.history)-1]
	next, zxid := maps.Clone(last), int64(len(w.history)+1)
	path := "/t"
	for range w.r.IntN(4) {
		path += fmt.Sprintf("/%d", w.r.IntN(2))
	}
	if w.r.IntN(4) == 0 { // the node with one of two names is replaced by one with the other
		for from, to := range map[string]string{slot + "/a": slot + "/b", slot + "/b": slot + "/a"} {
			if _, there := last[from]; there {
				delete(next, from)
				next[to] = serverNode{zxid, zxid, zxid, true, w.restores}
			}
		}
		next[slot] = serverNode{next[slot].czxid, next[slot].mzxid, zxid, false, next[slot].mtime}
		w.history = append(w.history, next)
		return
	}
	parent, _ := znode.Split(path)
	touch := func() {
		if p, ok := next[parent]; ok {
			p.pzxid = zxid
			next[parent] = p
		}
	}
	z, there := last[path]
	above, able := last[parent]
	switch {
	case there && len(namesBelow(last, path)) == 0 && w.r.IntN(2) == 0:
		if delete(next, path); w.r.IntN(2) == 0 { // it is replaced in one transaction
			next[path] = serverNode{zxid, zxid, zxid, w.r.IntN(6) == 0, w.restores}
		}
		touch()
	case there:
		z.mzxid, z.mtime = zxid, w.restores
		next[path] = z
	case able && !above.ephemeral:
		next[path] = serverNode{zxid, zxid, zxid, w.r.IntN(6) == 0, w.restores}
		touch()
	default:
		return
	}
	w.history = append(w.history, next)
}

// TestTreeConverges: whatever is committed or restored from a backup, and whichever servers the two
// sessions of a tree meet, the tree is that of the servers when it is quiet.
func TestTreeConverges(t *testing.T) {
	rounds := hasten.Sized(hasten.Usually(20_000, 5_000), 500)
	var given check.Given
	for seed := range hasten.Seeds(t, uint64(rounds)) {
		r := rand.New(rand.NewPCG(seed, 7))
		w := &model{t: t, r: r, history: []map[string]serverNode{{"/": {}, "/t": {}, slot: {}, slot + "/a": {ephemeral: true}}}, f: map[string]TreeNode{}, given: &given}
		for range r.IntN(10) {
			w.mutate()
		}
		w.servers = [2]*modelServer{{applied: r.IntN(len(w.history))}, {applied: r.IntN(len(w.history))}}
		m, first := newTreeMachine("/t", 0, r.IntN(4) == 0, nil)
		m.shared = r.IntN(6)
		if r.IntN(2) == 0 {
			m.shared = mostNodes + 1 // one session reads all
		}
		w.m = m
		w.perform(first)
		w.step(want{})
		for range 80 {
			s := w.servers[r.IntN(2)]
			switch r.IntN(12) {
			case 0, 1, 2:
				w.mutate()
			case 3, 4:
				w.apply(s)
			case 5, 6, 7:
				w.serve(s)
			case 8, 9:
				w.deliver(s)
			case 10:
				w.synchronize()
			case 11:
				switch r.IntN(8) {
				case 0, 1:
					w.expire(s)
				case 2:
					w.restore()
				}
				w.take()
			}
		}
		for busy := true; busy; {
			busy = w.synchronize()
			for _, s := range w.servers {
				busy = w.apply(s) || busy
				busy = w.serve(s) || busy
				busy = w.deliver(s) || busy
			}
		}
		w.take()
		var want, got, told []string
		for path, z := range w.history[len(w.history)-1] {
			if path != "/" {
				want = append(want, fmt.Sprint(path, " ", z.czxid, " ", z.mzxid, " ", z.mtime))
			}
		}
		for _, n := range m.nodes {
			if n.stat != nil {
				got = append(got, fmt.Sprint(n.path, " ", n.stat.Czxid, " ", n.stat.Mzxid, " ", n.stat.Mtime))
			}
		}
		for _, n := range w.f {
			told = append(told, fmt.Sprint(n.Path, " ", n.Stat.Czxid, " ", n.Stat.Mzxid, " ", n.Stat.Mtime))
		}
		slices.Sort(want)
		slices.Sort(got)
		slices.Sort(told)
		check.Require(t, slices.Equal(got, want) && slices.Equal(told, want) && m.synced && m.waiting == 0, "seed %d: %v\nthe servers have %s\nthe tree %s\nthe reader %s", seed, m, strings.Join(want, ", "), strings.Join(got, ", "), strings.Join(told, ", "))
		w.mutate()
		w.serve(w.servers[0])
		if w.step(leave{}); !m.Ended() || len(w.servers[0].subs) > 0 { // its own session ends with it
			t.Fatalf("seed %d: %v has left, and follows %v in the user's session", seed, m, w.servers[0].subs)
		}
		w.undone = TreeState{}
		w.deliver(w.servers[0]) // too late
		if u := w.undone; len(u.Added)+len(u.Changed)+len(u.Removed) > 0 {
			t.Fatalf("seed %d: %v has left, and changes: %v", seed, m, u)
		}
	}
	check.Explored(t, "treeInput", given)
	t.Logf("%d schedules", rounds)
}

// TestTreeAnswers: answers that are easy to mistake, and that no server of the model gives.
func TestTreeAnswers(t *testing.T) {
	_, first := newTreeMachine("/t", 0, true, nil)
	caught := func(err error) (*treeMachine, actors.Effects[treeEffect, TreeState]) {
		m, _ := newTreeMachine("/t", 0, true, nil)
		return m.after(treeSynced{m.root, 1, err})
	}
	t.Run("the sync is refused for good", func(t *testing.T) {
		m, out := caught(session.ErrNoAuth)
		check.True(t, m.ended && errors.Is(m.err, session.ErrNoAuth) && len(out.Do)+len(out.Emit) == 0, "%v does %v", m, out)
	})
	t.Run("the sync is repeated", func(t *testing.T) {
		m, out := caught(session.ErrDisconnected)
		check.True(t, len(first) == 1 && len(out.Do) == 1 && out.Do[0] == catchUpNode{m.root, 2}, "%v does %v", m, out)
	})

	m, _ := newTreeMachine("/t", 0, false, nil)
	take := func(n *treeNode, aspect session.Aspect, r session.Reading, err error) actors.Effects[treeEffect, TreeState] {
		_, out := m.after(treeRead{n, aspect, n.aspects[aspect].number, r, err})
		return out
	}
	root := &session.Stat{Czxid: 1, Mzxid: 4, Pzxid: 4}
	m.after(want{})
	take(m.root, session.AspectData, session.Reading{Zxid: 5, Stat: root}, nil)
	take(m.root, session.AspectChildren, session.Reading{Zxid: 6, Stat: root, Names: []string{"a"}}, nil)
	child := m.nodes["/t/a"]
	take(child, session.AspectData, session.Reading{Zxid: 7, Stat: &session.Stat{Czxid: 3, Mzxid: 3}}, nil)
	check.Require(t, m.size == 2, "%v", m)
	t.Run("a server lags behind", func(t *testing.T) {
		for _, r := range []session.Reading{{Zxid: 4, Stat: &session.Stat{Czxid: 1, Mzxid: 3}}, {Zxid: 5}} {
			out := take(m.root, session.AspectData, r, nil) // the root is missing before its children were listed
			check.True(t, m.size == 2 && m.root.stat == root && len(out.Do)+len(out.Emit) == 0, "%v: %v does %v", r, m, out)
		}
	})
	t.Run("a child that leaves cannot be read any more", func(t *testing.T) {
		m, _ := newTreeMachine("/t", 0, false, nil)
		take := func(n *treeNode, aspect session.Aspect, r session.Reading, err error) {
			m.after(treeRead{n, aspect, n.aspects[aspect].number, r, err})
		}
		take(m.root, session.AspectData, session.Reading{Zxid: 5, Stat: root}, nil)
		take(m.root, session.AspectChildren, session.Reading{Zxid: 6, Stat: root, Names: []string{"a"}}, nil)
		a := m.nodes["/t/a"]
		take(a, session.AspectData, session.Reading{Zxid: 7, Stat: &session.Stat{Czxid: 3, Mzxid: 3}}, nil)
		take(m.root, session.AspectChildren, session.Reading{Zxid: 8, Stat: root, Names: []string{"b"}}, nil)
		take(a, session.AspectData, session.Reading{}, session.ErrNoAuth)
		take(m.nodes["/t/b"], session.AspectData, session.Reading{Zxid: 9, Stat: &session.Stat{Czxid: 8, Mzxid: 8}}, nil)
		check.True(t, m.size == 2 && m.nodes["/t/a"] == nil && m.nodes["/t/b"].stat != nil, "%v", m)
	})
	t.Run("another node is in its place", func(t *testing.T) {
		out := take(child, session.AspectData, session.Reading{Zxid: 8, Stat: &session.Stat{Czxid: 8, Mzxid: 8}}, session.ErrNoNode)
		check.True(t, m.size == 2 && len(out.Emit) == 0, "%v emits %v", m, out.Emit)
		check.True(t, out.Do[len(out.Do)-1] == followNode{child, session.AspectData, child.aspects[session.AspectData].number}, "%v", out.Do)
		out = take(child, session.AspectData, session.Reading{Zxid: 9, Stat: &session.Stat{Czxid: 8, Mzxid: 8}}, nil)
		check.True(t, m.size == 2 && len(out.Emit) == 1 && len(out.Emit[0].Changed) == 1, "%v emits %v", m, out.Emit)
	})
}
