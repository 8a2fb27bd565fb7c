package lock

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/linemodel"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

// This file has contenders for several locks meet in the model of ZooKeeper, with the performers of
// production. A want is written as a path and the letter of its kind: "a" is exclusive, "a r" and
// "a w" read and write.

const lines = linemodel.Root // the parent of the locks

// A gathering is a scenario: what each contender wants, and its session.
type gathering struct {
	name       string
	wants      []string // of each contender, with commas between
	sessions   []int    // one for each if nil
	nodes      []zkmodel.Node
	cold       bool // the sessions have not seen the paths
	background bool
	marks      int8
	effort     int
	faults     zkmodel.Faults
}

var (
	three   = []zkmodel.Node{{Path: lines, Czxid: 1}, {Path: lines + "/a", Czxid: 1}, {Path: lines + "/b", Czxid: 1}, {Path: lines + "/c", Czxid: 1}}
	oneUsed = []zkmodel.Node{{Path: lines, Czxid: 1}, {Path: lines + "/a", Czxid: 1}, {Path: lines + "/b", Czxid: 1, Data: "not ours"}}
	locked1 = []zkmodel.Node{{Path: lines, Czxid: 1}, {Path: lines + "/a", Czxid: 1, Locked: true}, {Path: lines + "/b", Czxid: 1}}
)

var crossed = []string{"a,b", "b,a"}

var gatherings = []gathering{
	{name: "alone", wants: crossed[:1], nodes: three, faults: zkmodel.Faults{Cuts: 2, Lates: 1}},
	{name: "alone, cold", wants: crossed[:1], cold: true, faults: zkmodel.Faults{Cuts: 1, Razes: 1, Reaps: 1}},
	{name: "alone, struck", wants: crossed[:1], nodes: three, faults: zkmodel.Faults{Strikes: 2, Cuts: 1, Lates: 1}},
	{name: "alone, data in one parent", wants: crossed[:1], nodes: oneUsed, cold: true, faults: zkmodel.Faults{Strikes: 1, Cuts: 1}},
	{name: "alone, one parent not ours to write", wants: crossed[:1], nodes: locked1, faults: zkmodel.Faults{Strikes: 1, Cuts: 1}},
	{name: "alone, closed", wants: crossed[:1], nodes: three, faults: zkmodel.Faults{Closes: 1, Cuts: 1, Strikes: 1}},
	{name: "alone, expired", wants: crossed[:1], nodes: three, faults: zkmodel.Faults{Cuts: 2, Expires: 2, Strikes: 1}},
	{name: "alone, in the background", wants: crossed[:1], nodes: three, background: true, faults: zkmodel.Faults{Cuts: 1, Strikes: 1, Closes: 1}},
	{name: "crossed", wants: crossed, nodes: three},
	{name: "crossed, one session", wants: crossed, nodes: three, sessions: []int{0, 0}, faults: zkmodel.Faults{Strikes: 1}},
	{name: "crossed, cold", wants: crossed, cold: true},
	{name: "crossed, struck", wants: crossed, nodes: three, faults: zkmodel.Faults{Strikes: 2}},
	{name: "crossed, cut", wants: crossed, nodes: three, faults: zkmodel.Faults{Cuts: 2, Lates: 1}, effort: 2},
	{name: "crossed, expired", wants: crossed, nodes: three, faults: zkmodel.Faults{Cuts: 1, Expires: 1, Kills: 1}},
	{name: "crossed, crashed", wants: crossed, nodes: three, faults: zkmodel.Faults{Crashes: 1}},
	{name: "crossed, busy and full", wants: crossed, nodes: three, faults: zkmodel.Faults{Busy: 1, Full: 1, Cuts: 1}},
	{name: "crossed, razed", wants: crossed, nodes: three, faults: zkmodel.Faults{Razes: 1, Cuts: 1}},
	{name: "crossed, restored", wants: crossed, nodes: three, faults: zkmodel.Faults{Restores: 1, Expires: 1}},
	{name: "crossed, lagging", wants: crossed, nodes: three, faults: zkmodel.Faults{Lags: 2, Cuts: 1, Strikes: 1}},
	{name: "crossed, late creates, struck", wants: crossed, nodes: three, effort: 3, faults: zkmodel.Faults{Cuts: 2, Lates: 2, Strikes: 2}},
	{name: "crossed, closed", wants: crossed, nodes: three, faults: zkmodel.Faults{Closes: 1, Strikes: 1}},
	{name: "asked for", wants: crossed, nodes: three, marks: 2, faults: zkmodel.Faults{Strikes: 2, Cuts: 1}},
	{name: "beside one lock each", wants: []string{"a,b", "a", "b"}, nodes: three, faults: zkmodel.Faults{Strikes: 1, Cuts: 1}},
	{name: "a ring", wants: []string{"a,b", "b,c", "c,a"}, nodes: three, faults: zkmodel.Faults{Strikes: 1, Cuts: 1}},
	{name: "readers and writers", wants: []string{"a r,b w", "b r,a w", "a r,b r"}, nodes: three, faults: zkmodel.Faults{Strikes: 1, Cuts: 1}},
	{name: "readers", wants: []string{"a r,b r", "b r,a r"}, cold: true, faults: zkmodel.Faults{Cuts: 2, Lates: 1, Strikes: 1}},
	{name: "everything", wants: []string{"a,b,c", "c r,b", "b r,a r", "c w"}, sessions: []int{0, 1, 2, 0}, cold: true, marks: 1, effort: 4, faults: zkmodel.Faults{Cuts: 3, Lates: 2, Expires: 1, Kills: 1, Strikes: 2, Razes: 1, Reaps: 1, Crashes: 1, Busy: 1, Full: 1}},
}

// A crowd is the world of a gathering.
type crowd struct {
	*zkmodel.World
	gathering *gathering
	all       []*together
	marks     int8
	asked     []string // the nodes that carry a revoke request
	tokens    map[string]int64
}

// A together is a contender for several locks.
type together struct {
	*zkmodel.Runner[*line.Several, line.SeveralInput, line.SeveralEffect, line.Event]
	linemodel.Phases
	n     int
	wants []Want
	asked bool // to leave
}

func newCrowd(g *gathering, keyed bool) *crowd {
	sessions := g.sessions
	if sessions == nil {
		for i := range g.wants {
			sessions = append(sessions, i)
		}
	}
	w := &crowd{World: zkmodel.New(g.faults, slices.Max(sessions)+1, g.nodes...), gathering: g, marks: g.marks, tokens: map[string]int64{}}
	if w.Root = lines; keyed {
		w.Keyed()
	}
	for i, wants := range g.wants {
		at := w.Sessions[sessions[i]]
		c := &together{n: i}
		var recipes []*contender.Recipe
		for want := range strings.SplitSeq(wants, ",") {
			path, kind, _ := strings.Cut(want, " ")
			c.wants = append(c.wants, Want{lines + "/" + path, map[string]Kind{"": Exclusive, "r": Read, "w": Write}[kind]})
		}
		for _, want := range c.wants {
			if n := w.Node(want.Path); n != nil && !g.cold {
				at.SetWarm(want.Path, true)
				at.Saw(want.Path, n.Version, false)
				at.Saw(want.Path, n.Version, false)
			}
			recipes = append(recipes, recipeOf(want.Path, want.Kind, Options{}))
		}
		p := contender.NewPerformers(at, recipes)
		c.Runner = zkmodel.Run(w.World, at, p.Machine(fmt.Sprintf("%08d-0000-4000-8000-000000000000", i), g.background), actors.Role[*line.Several, line.SeveralInput, line.SeveralEffect, line.Event]{
			Perform: p.Perform,
			Observe: func(m *line.Several, _ []line.Event) {
				if m.Ended() {
					p.End()
				}
			},
		}, func(_ line.SeveralInput, before *line.Several, did line.SeveralEffects) { w.told(c, before, did.Emit) })
		w.all = append(w.all, c)
		w.Share(p)
		c.Begin(func() { p.Begin(c.Tell, nil) })
	}
	return w
}

// owns reports whether a node was made by the contender.
func (c *together) owns(path string) bool {
	return strings.Contains(path, fmt.Sprintf("/_c_%08d-", c.n))
}

// node returns the path of its node in the i-th of its lines; "" if there is none.
func (c *together) node(m *line.Several, i int) string {
	if node := m.Place(i).Node(); node != "" {
		return znode.Join(c.wants[i].Path, node)
	}
	return ""
}

// doomed reports whether the contender has lost a place, or will, which it has yet to learn.
func (w *crowd) doomed(c *together) bool {
	epoch := c.M.Place(0).Epoch()
	return c.Dead || c.Session().Killed() || c.Session().Epoch() != epoch || slices.ContainsFunc(c.wants, func(want Want) bool {
		i := slices.Index(c.wants, want)
		return w.Node(c.node(c.M, i)) == nil
	})
}

// struck reports whether another client has deleted a node of the contender.
func (w *crowd) struck(c *together) bool {
	return slices.ContainsFunc(w.Struck, func(n zkmodel.Node) bool { return c.owns(n.Path) })
}

// told checks a step.
func (w *crowd) told(c *together, before *line.Several, events []line.Event) {
	for _, ev := range events {
		c.Follow(c.n, ev)
		switch ev := ev.(type) {
		case line.Acquired:
			if !w.doomed(c) {
				w.granted(c, ev.Token)
			} else if c.Session().Epoch() == c.M.Place(0).Epoch() && !c.Session().Killed() && !w.struck(c) {
				zkmodel.Violate("contender %d holds without a node", c.n)
			}
		case line.Lost:
			w.lost(c, before, ev.Err)
		case line.Revoked:
			if !w.doomed(c) && !w.marked(c) {
				zkmodel.Violate("contender %d is asked for by nobody", c.n)
			}
		case line.Waiting, line.Suspended, line.Resumed, line.ConditionChanged, line.Released:
		}
	}
}

// marked reports whether a node that stands for the contender carries a revoke request.
func (w *crowd) marked(c *together) bool {
	return slices.ContainsFunc(c.wants, func(want Want) bool {
		n := w.Node(c.node(c.M, slices.Index(c.wants, want)))
		return n != nil && isMarked(n.Data)
	})
}

// granted checks a grant: it is the contender's turn in each line, and the token grows.
func (w *crowd) granted(c *together, token int64) {
	for i, want := range c.wants {
		me, _ := grammars[Standard].Parse(c.M.Place(i).Node())
		if czxid := w.Node(c.node(c.M, i)).Czxid; czxid != token {
			zkmodel.Violate("contender %d has the token %d, and a node of %d", c.n, token, czxid)
		}
		for _, o := range grammars[Standard].Line(w.Children(want.Path)) {
			if o == me {
				break
			}
			if o.Kind.Excludes(me.Kind) && !c.owns("/"+o.Name) {
				zkmodel.Violate("contender %d holds %s before its turn", c.n, want.Path)
			}
		}
		if !c.Session().Fresh() && token <= w.tokens[want.Path] {
			zkmodel.Violate("contender %d: token %d of %s after %d", c.n, token, want.Path, w.tokens[want.Path])
		}
		if want.Kind != Read {
			w.tokens[want.Path] = token
		}
	}
}

// lost checks the reason of a loss.
func (w *crowd) lost(c *together, before *line.Several, err error) {
	f := w.gathering.faults
	held, asked := before.Holding(), slices.ContainsFunc(w.asked, c.owns)
	gone := w.struck(c) || c.Session().Killed() || c.Session().Epoch() != before.Place(0).Epoch()
	switch {
	case errors.Is(err, session.ErrClosed):
	case held && errors.Is(err, session.ErrExpired) && c.Session().Epoch() != before.Place(0).Epoch():
	case held && f.Lapses+f.Expires > 0 && errors.Is(err, session.ErrLapsed):
	case held && gone && asked && errors.Is(err, line.ErrRevoked), held && gone && errors.Is(err, line.ErrNodeDeleted):
	case f.Full > 0 && errors.Is(err, session.ErrSessionFull), f.Busy > 0 && errors.Is(err, zkmodel.ErrBusy):
	case w.Restored() && errors.Is(err, session.ErrHistoryLost):
	default:
		zkmodel.Violate("contender %d has lost for nothing: %v", c.n, err)
	}
}

// Actions implements [exploration.World].
func (w *crowd) Actions() (normal, wishes, faulty []zkmodel.Action) {
	normal, faulty = w.World.Actions()
	for i, c := range w.all {
		if !c.Ended() && !c.asked {
			wishes = append(wishes, zkmodel.Action{Kind: "leave", I: i})
		}
	}
	for _, n := range w.Nodes() {
		if w.marks > 0 && n.Owner != 0 && !isMarked(n.Data) {
			faulty = append(faulty, zkmodel.Action{Kind: "mark", Node: n.Path})
		}
	}
	return normal, wishes, faulty
}

// Apply implements [exploration.World].
func (w *crowd) Apply(a zkmodel.Action) {
	switch a.Kind {
	case "leave":
		w.all[a.I].asked = true
		w.all[a.I].Tell(line.Leave{})
	case "mark":
		w.marks--
		w.asked = append(w.asked, a.Node)
		w.SetData(a.Node, markOf(w.Node(a.Node).Data))
	case "close":
		for _, c := range w.all {
			c.asked = c.asked || c.Session() == w.Sessions[a.I]
		}
		w.World.Apply(a)
	default:
		w.World.Apply(a)
	}
}

// Check implements [exploration.World].
func (w *crowd) Check() {
	holders := map[string][]Kind{}
	for _, c := range w.all {
		if c.Dead || !c.M.Holding() || w.doomed(c) {
			continue
		}
		for _, want := range c.wants {
			for _, other := range holders[want.Path] {
				if nodes.Kind(other).Excludes(nodes.Kind(want.Kind)) {
					zkmodel.Violate("contender %d and another hold %s", c.n, want.Path)
				}
			}
			holders[want.Path] = append(holders[want.Path], want.Kind)
		}
	}
	if w.Quiet() {
		w.checkQuiet()
	}
}

// checkQuiet checks a world in which nothing happens by itself: nobody waits in vain, places were
// joined together, and nothing is left behind.
func (w *crowd) checkQuiet() {
	waits, holds := 0, 0
	for _, c := range w.all {
		switch {
		case c.Ended():
			if left := c.Session().Watched(c.n); len(left) > 0 {
				zkmodel.Violate("contender %d has ended, and watches %v", c.n, left)
			}
			continue
		case c.M.Holding():
			if holds++; w.marked(c) && !c.Asked() {
				zkmodel.Violate("contender %d does not know that it is asked to leave", c.n)
			}
		default:
			waits++
		}
		var czxids []int64
		for i := range c.wants {
			n := w.Node(c.node(c.M, i))
			if n == nil {
				zkmodel.Violate("contender %d does not stand in %s: %v", c.n, c.wants[i].Path, c.M)
			}
			czxids = append(czxids, n.Czxid)
		}
		if len(slices.Compact(czxids)) > 1 {
			zkmodel.Violate("contender %d has joined its lines by several transactions: %d", c.n, czxids)
		}
	}
	if waits > 0 && holds == 0 {
		zkmodel.Violate("%d wait, and none holds", waits)
	}
	for _, n := range w.Nodes() {
		if n.Owner != 0 && !slices.ContainsFunc(w.all, func(c *together) bool { return !c.Ended() && c.owns(n.Path) }) {
			zkmodel.Violate("%s is a ghost", n.Path)
		}
	}
}

// Key implements [exploration.World].
func (w *crowd) Key() uint64 {
	w.Woken = nil
	return zkmodel.Hash(w)
}

// TestGatherings explores contenders for several locks. None of them waits for another in a circle.
func TestGatherings(t *testing.T) {
	for _, g := range gatherings {
		t.Run(g.name, func(t *testing.T) {
			exploration.Test(t,
				func(keyed bool) exploration.World[zkmodel.Action] { return newCrowd(&g, keyed) },
				max(1, g.effort),
				func(w exploration.World[zkmodel.Action]) error {
					var errs []error
					for _, c := range w.(*crowd).all {
						if !c.Ended() {
							errs = append(errs, fmt.Errorf("contender %d never ends: %v", c.n, c.M))
						}
					}
					return cmp.Or(errs...)
				})
		})
	}
}
