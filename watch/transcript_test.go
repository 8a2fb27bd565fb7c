package watch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// The stories in testdata: the inputs are written by hand, the rest by go test -rewrite.

var errorsByName = map[string]error{
	"no-node": session.ErrNoNode, "no-auth": session.ErrNoAuth, "expired": session.ErrExpired, "closed": session.ErrClosed, "disconnected": session.ErrDisconnected,
}

// arguments are those of a line of a story.
type arguments struct {
	err   error
	words []string
	val   map[string]int64
}

func argumentsOf(t *testing.T, d *datadriven.TestData) arguments {
	t.Helper()
	a := arguments{val: map[string]int64{}}
	for _, arg := range d.CmdArgs {
		switch known := errorsByName[arg.Key]; {
		case known != nil:
			a.err = known
		case len(arg.Vals) == 0:
			a.words = append(a.words, arg.Key)
		default:
			var n int64
			if _, err := fmt.Sscan(arg.Vals[0], &n); err != nil {
				d.Fatalf(t, "%v", err)
			}
			a.val[arg.Key] = n
		}
	}
	return a
}

func (a arguments) has(word string) bool { return slices.Contains(a.words, word) }

// reading is what the arguments say, with the words that are left as names.
func (a arguments) reading(names []string) session.Reading {
	r := session.Reading{Zxid: a.val["zxid"]}
	if a.err == nil && !a.has("absent") {
		r.Stat = &session.Stat{Czxid: a.val["czxid"], Mzxid: a.val["mzxid"], Pzxid: a.val["pzxid"], EphemeralOwner: a.val["owner"], Version: int32(a.val["version"])}
		r.Names = names
	}
	return r
}

// A story tells of one machine.
type story[M actors.Machine[M, In, Do, Ev], In, Do, Ev any] struct {
	m     M
	parse func(*testing.T, M, *datadriven.TestData) In
	do    func(Do) string
	emit  func(Ev) string
	state func(M) string
}

func (s *story[M, In, Do, Ev]) step(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var out actors.Effects[Do, Ev]
	s.m = s.m.Step(s.parse(t, s.m, d), &out)
	return s.state(s.m) + "\n" + s.effects(out)
}

func (s *story[M, In, Do, Ev]) effects(out actors.Effects[Do, Ev]) string {
	var text string
	asked := make([]string, len(out.Do))
	for i, e := range out.Do {
		asked[i] = "  " + s.do(e) + "\n"
	}
	if s.m.Ended() {
		slices.Sort(asked) // what ends at the end is in no order
	}
	text += strings.Join(asked, "")
	for _, ev := range out.Emit {
		text += "* " + s.emit(ev) + "\n"
	}
	return text
}

func TestTranscriptsOfNodes(t *testing.T) {
	transcripts(t, "testdata/node", nextNode)
}

func TestTranscriptsOfChildren(t *testing.T) {
	transcripts(t, "testdata/children", nextChildren)
}

// transcripts plays stories of views of one aspect.
func transcripts[S fmt.Stringer](t *testing.T, dir string, next func(S, bool, session.Reading) (S, bool)) {
	t.Helper()
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
		s := story[machine[S], input, effect, S]{
			parse: parseView[S],
			do:    func(e effect) string { return strings.TrimPrefix(fmt.Sprintf("%T", e), "watch.") },
			emit:  S.String,
			state: func(m machine[S]) string {
				text := fmt.Sprintf("%v zxid=%d", m.phase, m.zxid)
				if m.err != nil {
					text += " err=" + m.err.Error()
				}
				return text
			},
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				m, first := newMachine(d.HasArg("sync"), next)
				s.m = m
				return s.state(m) + "\n" + s.effects(actors.Effects[effect, S]{Do: first})
			}
			return s.step(t, d)
		})
	})
}

func parseView[S any](t *testing.T, _ machine[S], d *datadriven.TestData) input {
	t.Helper()
	a := argumentsOf(t, d)
	switch d.Cmd {
	case "synced":
		return synced{a.err}
	case "read":
		return read{a.reading(a.words)}
	case "failed":
		return failed{a.err}
	case "leave":
		return leave{}
	}
	d.Fatalf(t, "an unknown input")
	return nil
}

func TestTranscriptsOfTrees(t *testing.T) {
	datadriven.Walk(t, "testdata/tree", func(t *testing.T, path string) {
		s := story[*treeMachine, treeInput, treeEffect, TreeState]{
			parse: parseTree, do: describeTreeEffect, emit: describeTreeState, state: (*treeMachine).String,
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "new" {
				return s.step(t, d)
			}
			a := argumentsOf(t, d)
			m, first := newTreeMachine("/t", int(a.val["depth"]), a.has("sync"), func(path string) bool { return !strings.HasSuffix(path, "/hidden") })
			if n, has := a.val["shared"]; has {
				m.shared = int(n)
			}
			s.m = m
			return m.String() + "\n" + s.effects(actors.Effects[treeEffect, TreeState]{Do: first})
		})
	})
}

// parseTree reads an input about the present request of a node, which is the first word.
func parseTree(t *testing.T, m *treeMachine, d *datadriven.TestData) treeInput {
	t.Helper()
	a := argumentsOf(t, d)
	switch d.Cmd {
	case "want":
		return want{}
	case "leave":
		return leave{}
	}
	n := m.nodes[a.words[0]]
	if n == nil {
		d.Fatalf(t, "there is no %s", a.words[0])
	}
	answer := func(aspect session.Aspect) treeInput {
		return treeRead{n, aspect, n.aspects[aspect].number, a.reading(a.words[1:]), a.err}
	}
	switch d.Cmd {
	case "data":
		return answer(session.AspectData)
	case "children":
		return answer(session.AspectChildren)
	case "synced":
		return treeSynced{n, n.aspects[session.AspectData].number, a.err}
	}
	d.Fatalf(t, "an unknown input")
	return nil
}

func describeTreeEffect(e treeEffect) string {
	through := func(n *treeNode) string {
		if n.own {
			return n.path + " through its own session"
		}
		return n.path
	}
	aspect := [...]string{"data of ", "children of "}
	switch e := e.(type) {
	case followNode:
		return "follow " + aspect[e.aspect] + through(e.node)
	case unfollowNode:
		return "unfollow " + aspect[e.aspect] + through(e.node)
	case catchUpNode:
		return "catch up for " + through(e.node)
	}
	return ""
}

func describeTreeState(ev TreeState) string {
	var all []string
	for c, name := range []string{"added", "changed", "removed"} {
		for _, n := range *listOf(&ev, change(c)) {
			all = append(all, fmt.Sprintf("%s %s %d/%d", name, n.Path, n.Stat.Czxid, n.Stat.Mzxid))
		}
	}
	slices.Sort(all) // they are in no order
	if ev.Synced {
		all = append(all, "synced")
	}
	return strings.Join(all, ", ")
}
