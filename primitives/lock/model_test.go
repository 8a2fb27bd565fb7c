package lock

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/linemodel"
	"github.com/zkactors/zkactors/primitives/internal/mark"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
)

// This file has locks of the standard layout meet in the model of ZooKeeper: what runs in
// production, but for the actor's goroutine.

// What the lock may find at its path.
var (
	empty      = []zkmodel.Node{{Path: linemodel.Root, Czxid: 1}}
	container_ = []zkmodel.Node{{Path: linemodel.Root, Czxid: 1, Container: true}}
	withData   = []zkmodel.Node{{Path: linemodel.Root, Czxid: 1, Data: "not ours"}}
	locked     = []zkmodel.Node{{Path: linemodel.Root, Czxid: 1, Locked: true}}
	withOthers = []zkmodel.Node{
		{Path: linemodel.Root, Czxid: 1}, {Path: linemodel.Root + "/_c_x"}, {Path: linemodel.Root + "/config"}, {Path: linemodel.Root + "/lock-x"},
	}
)

// withUnknown has a contender of no known layout last.
var withUnknown = []zkmodel.Node{
	{Path: linemodel.Root, Czxid: 1, Made: 3},
	{Path: linemodel.Root + "/order-0000000001", Czxid: 2},
	{Path: linemodel.Root + "/ephemeral", Czxid: 3, Owner: 99},
	{Path: linemodel.Root + "/0000000002", Czxid: 4, Owner: 99},
}

// A meeting is a scenario with contenders of these kinds; all exclude each other if there are none.
type meeting struct {
	kinds []Kind
	linemodel.Scenario
}

var meetings = []meeting{
	{nil, linemodel.Scenario{Name: "alone", Sessions: []int{0}, Faults: zkmodel.Faults{Cuts: 1, Strikes: 1}}},
	{nil, linemodel.Scenario{Name: "alone, warm", Sessions: []int{0}, Warm: linemodel.Root, Nodes: container_, Faults: zkmodel.Faults{Cuts: 1, Expires: 1, Reaps: 1}}},
	{nil, linemodel.Scenario{Name: "alone, late create", Sessions: []int{0}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 1, Lates: 1, Strikes: 1}}},
	{nil, linemodel.Scenario{Name: "alone, data in the parent", Sessions: []int{0}, Nodes: withData, Weak: true, Faults: zkmodel.Faults{Cuts: 1, Strikes: 1, Razes: 1}}},
	{nil, linemodel.Scenario{Name: "alone, closed", Sessions: []int{0}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 1, Closes: 1}}},
	{nil, linemodel.Scenario{Name: "asked for, the heir", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Strikes: 1}, Marks: 1, Effort: 4}},
	{nil, linemodel.Scenario{Name: "two", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty}},
	{nil, linemodel.Scenario{Name: "two, cold, one session", Sessions: []int{0, 0}}},
	{nil, linemodel.Scenario{Name: "two, one struck", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Strikes: 1}}},
	{nil, linemodel.Scenario{Name: "two, one crashed", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Crashes: 1}}},
	{nil, linemodel.Scenario{Name: "calm", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty}},
	{nil, linemodel.Scenario{Name: "calm, one session for two", Sessions: []int{0, 0, 1}, Warm: linemodel.Root, Nodes: empty}},
	{nil, linemodel.Scenario{Name: "cold", Sessions: []int{0, 1, 2}}},
	{nil, linemodel.Scenario{Name: "cold start, reaped and razed", Sessions: []int{0, 1}, Faults: zkmodel.Faults{Reaps: 2, Razes: 1}}},
	{nil, linemodel.Scenario{Name: "data in the parent", Sessions: []int{0, 1, 2}, Nodes: withData, Faults: zkmodel.Faults{Strikes: 1}}},
	{nil, linemodel.Scenario{Name: "data comes", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 1, Lates: 1}, Sets: 1}},
	{[]Kind{Read, Write}, linemodel.Scenario{Name: "data comes, shared", Sessions: []int{0, 0}, Nodes: empty, Faults: zkmodel.Faults{Strikes: 1, Cuts: 1}, Sets: 1}},
	{nil, linemodel.Scenario{Name: "parent not ours to write", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: locked, Faults: zkmodel.Faults{Razes: 1, Cuts: 1}}},
	{nil, linemodel.Scenario{Name: "foreign children", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: withOthers}},
	{nil, linemodel.Scenario{Name: "operator", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Strikes: 2}}},
	{nil, linemodel.Scenario{Name: "operator, one session", Sessions: []int{0, 0, 0}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Strikes: 2}}},
	{nil, linemodel.Scenario{Name: "razed", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Razes: 1, Strikes: 1}}},
	{nil, linemodel.Scenario{Name: "disconnected", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 2}}},
	{nil, linemodel.Scenario{Name: "disconnected, watches last", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty, Weak: true, Faults: zkmodel.Faults{Cuts: 1, Strikes: 1}}},
	{nil, linemodel.Scenario{Name: "disconnected alone", Sessions: []int{0}, Faults: zkmodel.Faults{Cuts: 3, Razes: 1}}},
	{nil, linemodel.Scenario{Name: "disconnected in the plain recipe", Sessions: []int{0, 1}, Nodes: withData, Weak: true, Faults: zkmodel.Faults{Cuts: 1, Razes: 1}}},
	{nil, linemodel.Scenario{Name: "late creates", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 2, Lates: 1}}},
	{nil, linemodel.Scenario{Name: "late creates, struck", Sessions: []int{0}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 2, Lates: 2, Strikes: 2, Razes: 1}}},
	{nil, linemodel.Scenario{Name: "expired", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 1, Expires: 1}}},
	{nil, linemodel.Scenario{Name: "expired, one session for two", Sessions: []int{0, 0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 1, Expires: 1}}},
	{nil, linemodel.Scenario{Name: "killed, one session for two", Sessions: []int{0, 0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Kills: 1}}},
	{nil, linemodel.Scenario{Name: "lagging followers", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Lags: 2, Cuts: 1, Strikes: 1}}},
	{[]Kind{Write, Read, Write}, linemodel.Scenario{Name: "a busy server", Sessions: []int{0, 1, 2}, Nodes: empty, Downgrades: 1, Faults: zkmodel.Faults{Busy: 2, Cuts: 1}}},
	{nil, linemodel.Scenario{Name: "expired alone", Sessions: []int{0}, Faults: zkmodel.Faults{Cuts: 3, Expires: 2, Strikes: 1}}},
	{nil, linemodel.Scenario{Name: "crashed", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Crashes: 2}}},
	{nil, linemodel.Scenario{Name: "closed", Sessions: []int{0, 0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Closes: 1, Cuts: 1}}},
	{nil, linemodel.Scenario{Name: "in the background", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty, Background: true, Faults: zkmodel.Faults{Cuts: 1, Strikes: 1}}},
	{[]Kind{Read, Write}, linemodel.Scenario{Name: "reader and writer", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 1}, Downgrades: 1}},
	{[]Kind{Write, Read, Write}, linemodel.Scenario{Name: "writer, reader, writer", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty, Downgrades: 2}},
	{[]Kind{Read, Exclusive, Read}, linemodel.Scenario{Name: "reader, exclusive, reader", Sessions: []int{0, 1, 2}, Faults: zkmodel.Faults{Strikes: 1}}},
	{[]Kind{Read, Read, Write, Write}, linemodel.Scenario{Name: "readers of one session, and writers", Sessions: []int{0, 0, 1, 1}, Warm: linemodel.Root, Nodes: empty, Downgrades: 2}},
	{[]Kind{Read, Write, Read}, linemodel.Scenario{Name: "readers and writers, data in the parent", Sessions: []int{0, 1, 2}, Nodes: withData, Weak: true, Faults: zkmodel.Faults{Cuts: 1, Strikes: 1}, Downgrades: 1}},
	{[]Kind{Read, Read}, linemodel.Scenario{Name: "readers, cold, reaped and razed", Sessions: []int{0, 1}, Faults: zkmodel.Faults{Reaps: 2, Razes: 1, Cuts: 1}}},
	{[]Kind{Read}, linemodel.Scenario{Name: "reader alone", Sessions: []int{0}, Faults: zkmodel.Faults{Cuts: 2, Lates: 1, Strikes: 1, Razes: 1}}},
	{[]Kind{Read, Write}, linemodel.Scenario{Name: "reader, parent not ours to write", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: locked, Faults: zkmodel.Faults{Cuts: 1, Razes: 1}, Downgrades: 1}},
	{[]Kind{Write, Read, Write}, linemodel.Scenario{Name: "readers and writers crash", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Crashes: 2}, Downgrades: 2}},
	{[]Kind{Read, Write, Read}, linemodel.Scenario{Name: "readers and writers expire", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 1, Expires: 1}, Downgrades: 1}},
	{[]Kind{Write}, linemodel.Scenario{Name: "downgrade alone", Sessions: []int{0}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 2, Lates: 2, Strikes: 1, Expires: 1}, Downgrades: 1}},
	{[]Kind{Write}, linemodel.Scenario{Name: "downgrade alone, asked for", Sessions: []int{0}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 2, Lates: 1}, Downgrades: 1, Marks: 1}},
	{[]Kind{Write}, linemodel.Scenario{Name: "downgrade refused", Sessions: []int{0}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 1, Lates: 1, Strikes: 1, Full: 1}, Downgrades: 1}},
	{[]Kind{Write}, linemodel.Scenario{Name: "downgrade alone, in the background", Sessions: []int{0}, Warm: linemodel.Root, Nodes: empty, Background: true, Faults: zkmodel.Faults{Cuts: 2, Lates: 1, Strikes: 1, Closes: 1}, Downgrades: 1}},
	{[]Kind{Write, Write, Read}, linemodel.Scenario{Name: "downgrade before a writer and a reader", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty, Downgrades: 2}},
	{[]Kind{Write, Write, Read, Read}, linemodel.Scenario{Name: "readers behind two writers", Sessions: []int{0, 1, 2, 3}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Strikes: 1, Cuts: 1}, Downgrades: 1}},
	{[]Kind{Write, Write, Write, Read}, linemodel.Scenario{Name: "a reader behind three writers", Sessions: []int{0, 1, 2, 3}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Strikes: 2}, Effort: 2}},
	{[]Kind{Write, Write}, linemodel.Scenario{Name: "downgrade, cut", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 1, Lates: 1}, Downgrades: 2}},
	{[]Kind{Write, Read}, linemodel.Scenario{Name: "downgrade, struck", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 1, Strikes: 2}, Downgrades: 1}},
	{[]Kind{Write, Exclusive}, linemodel.Scenario{Name: "downgrade, expired", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 1, Expires: 1, Lates: 1}, Downgrades: 1}},
	{[]Kind{Write, Read}, linemodel.Scenario{Name: "downgrade, razed", Sessions: []int{0, 1}, Nodes: withData, Weak: true, Faults: zkmodel.Faults{Cuts: 1, Razes: 1}, Downgrades: 1}},
	{[]Kind{Write, Exclusive, Exclusive}, linemodel.Scenario{Name: "downgrade before an exclusive line", Sessions: []int{0, 1, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Strikes: 1}, Downgrades: 1}},
	{nil, linemodel.Scenario{Name: "asked for alone", Sessions: []int{0}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 2, Strikes: 2}, Marks: 2}},
	{nil, linemodel.Scenario{Name: "asked for in line", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Strikes: 2}, Marks: 2}},
	{nil, linemodel.Scenario{Name: "asked for in one session", Sessions: []int{0, 0}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Strikes: 2, Cuts: 1}, Marks: 2}},
	{[]Kind{Write, Write}, linemodel.Scenario{Name: "asked for, and downgraded", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Strikes: 1, Cuts: 1}, Downgrades: 2, Marks: 2}},
	{nil, linemodel.Scenario{Name: "restored", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Restores: 1, Expires: 1}}},
	{[]Kind{Read, Write, Read}, linemodel.Scenario{Name: "readers and writers, restored, data in the parent", Sessions: []int{0, 1, 1}, Nodes: withData, Faults: zkmodel.Faults{Restores: 1}, Downgrades: 1}},
	{[]Kind{Write, Read, Write, Read}, linemodel.Scenario{Name: "everything shared", Sessions: []int{0, 1, 2, 3}, Weak: true, Faults: zkmodel.Faults{Cuts: 3, Expires: 1, Strikes: 2, Razes: 1, Reaps: 1, Crashes: 1, Lates: 2, Full: 1}, Downgrades: 2, Marks: 2}},
	{[]Kind{Write, Read, Exclusive, Write}, linemodel.Scenario{Name: "everything shared, two sessions", Sessions: []int{0, 0, 1, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 3, Expires: 2, Strikes: 2, Razes: 1, Lates: 2, Full: 1}, Downgrades: 2, Marks: 2}},
	{nil, linemodel.Scenario{Name: "everything", Sessions: []int{0, 1, 2}, Weak: true, Faults: zkmodel.Faults{Cuts: 3, Expires: 1, Strikes: 2, Razes: 1, Reaps: 1, Crashes: 1, Lates: 1}}},
	{nil, linemodel.Scenario{Name: "everything, one session for two", Sessions: []int{0, 0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 3, Expires: 2, Strikes: 2, Razes: 1, Lates: 1}}},
}

func markOf(data string) string { return string(Standard.mark([]byte(data), 0)) }

func isMarked(data string) bool {
	yes, _ := mark.Read([]byte(data))
	return yes
}

// afar are meetings in which a contender behind more than one other watches one alone.
var afar = []meeting{
	{nil, linemodel.Scenario{Name: "calm", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty}},
	{nil, linemodel.Scenario{Name: "four", Sessions: []int{0, 1, 2, 3}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Strikes: 1}}},
	{nil, linemodel.Scenario{Name: "data in the parent", Sessions: []int{0, 1, 2}, Nodes: withData, Faults: zkmodel.Faults{Strikes: 1}}},
	{nil, linemodel.Scenario{Name: "one session", Sessions: []int{0, 0, 0}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Strikes: 2}}},
	{nil, linemodel.Scenario{Name: "operator", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Strikes: 2}, Marks: 1, Effort: 2}},
	{nil, linemodel.Scenario{Name: "razed", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Razes: 1, Strikes: 1}}},
	{nil, linemodel.Scenario{Name: "disconnected", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty, Weak: true, Faults: zkmodel.Faults{Cuts: 2, Strikes: 1}, Effort: 2}},
	{nil, linemodel.Scenario{Name: "expired and killed", Sessions: []int{0, 1, 1, 2}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 1, Expires: 1, Kills: 1}}},
	{nil, linemodel.Scenario{Name: "lagging followers", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Lags: 2, Cuts: 1, Strikes: 1}}},
	{nil, linemodel.Scenario{Name: "restored", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Restores: 1, Expires: 1}}},
	{[]Kind{Write, Exclusive, Exclusive, Exclusive}, linemodel.Scenario{Name: "behind a writer", Sessions: []int{0, 1, 2, 3}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Strikes: 1}, Downgrades: 1}},
	{nil, linemodel.Scenario{Name: "everything", Sessions: []int{0, 1, 2, 2}, Weak: true, Faults: zkmodel.Faults{Cuts: 3, Expires: 1, Strikes: 2, Razes: 1, Reaps: 1, Crashes: 1, Lates: 1}, Marks: 1, Effort: 2}},
}

func TestMeetingsFromAfar(t *testing.T) {
	for _, m := range afar {
		kind := standard(m.kinds)
		near := kind.Recipe
		kind.Recipe = func(s client.Session, i int) (*contender.Recipe, any) {
			r, keeps := near(s, i)
			rule := r.Rule.(line.First)
			rule.Far = 1
			r.Rule = rule
			return r, keeps
		}
		t.Run(m.Name, func(t *testing.T) { linemodel.Test(t, kind, &m.Scenario) })
	}
}

// standard is the kind of line of these contenders.
func standard(kinds []Kind) *linemodel.Kind {
	grammar := grammars[Standard]
	return &linemodel.Kind{
		Recipe: func(_ client.Session, i int) (r *contender.Recipe, keeps any) {
			kind := Exclusive
			if kinds != nil {
				kind = kinds[i]
			}
			return &contender.Recipe{Name: "lock", Path: linemodel.Root, Dir: linemodel.Root, Rule: Standard.rule(kind), Revocable: true}, nil
		},
		Snapshot: func(w *linemodel.World) line.Snapshot { return line.Snapshot{Names: w.Children(linemodel.Root)} },
		Mark:     markOf, Marked: isMarked,
		Sets: func(string) []string { return []string{"theirs"} },
		Herd: func(_ *linemodel.World, name string, names []string) int {
			me, ok := grammar.Parse(name)
			switch {
			case !ok:
				return 0
			case me.Kind == nodes.Read:
				return 2
			}
			all := grammar.Line(names)
			behind := 0
			for _, c := range all[slices.Index(all, me)+1:] {
				if c.Kind != nodes.Read {
					break
				}
				behind++
			}
			return 1 + max(2, behind+1)
		},
		Granted: func(w *linemodel.World, c *linemodel.Contender) {
			me, _ := grammar.Parse(c.M.Node())
			for _, o := range grammar.Line(w.Children(linemodel.Root)) {
				if o == me {
					break
				}
				if (me.Kind != nodes.Read || o.Kind != nodes.Read) && linemodel.GUID(o.Name) != linemodel.GUID(me.Name) {
					zkmodel.Violate("contender %d holds before its turn", c.N)
				}
			}
			w.CheckToken(c, w.Node(znode.Join(linemodel.Root, me.Name)).Czxid, me.Kind != nodes.Read)
		},
		Check: func(w *linemodel.World, holders []*linemodel.Contender) {
			w.CheckApart(holders)
			if n := w.Node(linemodel.Root); n != nil && n.Czxid == 1 && n.Data != cmp.Or(w.Written, w.Found) {
				zkmodel.Violate("a transaction overwrites the data of the parent")
			}
		},
	}
}

// beside are meetings of contenders beside nodes with numbers, whose names no layout has. One is a
// contender, until an operator deletes it.
var beside = []meeting{
	{nil, linemodel.Scenario{Name: "alone", Sessions: []int{0}, Warm: linemodel.Root, Nodes: withUnknown, Faults: zkmodel.Faults{Strikes: 1, Cuts: 1, Busy: 1}}},
	{nil, linemodel.Scenario{Name: "cold", Sessions: []int{0, 1}, Nodes: withUnknown, Faults: zkmodel.Faults{Strikes: 2}}},
	{nil, linemodel.Scenario{Name: "one session", Sessions: []int{0, 0}, Warm: linemodel.Root, Nodes: withUnknown, Faults: zkmodel.Faults{Strikes: 2, Cuts: 1}}},
	{nil, linemodel.Scenario{Name: "late create", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: withUnknown, Faults: zkmodel.Faults{Strikes: 1, Cuts: 1, Lates: 1}, Effort: 2}},
	{nil, linemodel.Scenario{Name: "expired", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: withUnknown, Faults: zkmodel.Faults{Strikes: 1, Cuts: 1, Expires: 1}}},
	{nil, linemodel.Scenario{Name: "users' only", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: withUnknown[:3], Faults: zkmodel.Faults{Strikes: 2, Cuts: 1}}},
	{[]Kind{Read, Write, Read}, linemodel.Scenario{Name: "readers and writers", Sessions: []int{0, 1, 2}, Warm: linemodel.Root, Nodes: withUnknown, Faults: zkmodel.Faults{Strikes: 2, Cuts: 1}, Downgrades: 1}},
}

// TestMeetingsBesideUnknown: no contender holds while one of no known layout stands that has come
// before it. Beside users' nodes alone no contender is refused.
func TestMeetingsBesideUnknown(t *testing.T) {
	for _, m := range beside {
		for _, delayed := range []bool{false, true} {
			kind := standard(m.kinds)
			granted := kind.Granted
			if len(m.Nodes) == len(withUnknown) {
				kind.Refusal, kind.Disagrees = line.ErrLayout, func(int) bool { return false }
			}
			kind.Granted = func(w *linemodel.World, c *linemodel.Contender) {
				granted(w, c)
				if w.Node(linemodel.Root+"/0000000002") != nil {
					zkmodel.Violate("contender %d holds beside another", c.N)
				}
			}
			name := m.Name
			if delayed {
				if m.kinds != nil {
					continue
				}
				name += ", with a delay"
				kind.Claim = func(_ *linemodel.World, node string) string { return znode.Join(linemodel.Root, node) }
				kind.Recipe = func(client.Session, int) (*contender.Recipe, any) {
					r := recipeOf(linemodel.Root, Exclusive, Options{Delay: time.Second})
					return r, r.Claim
				}
			}
			t.Run(name, func(t *testing.T) { linemodel.Test(t, kind, &m.Scenario) })
		}
	}
}

func TestMeetings(t *testing.T) {
	for _, m := range meetings {
		t.Run(m.Name, func(t *testing.T) { linemodel.Test(t, standard(m.kinds), &m.Scenario) })
	}
}

// later are meetings of contenders with a delay.
var later = []meeting{
	{nil, linemodel.Scenario{Name: "calm", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty}},
	{nil, linemodel.Scenario{Name: "operator", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Strikes: 1}}},
	{nil, linemodel.Scenario{Name: "disconnected", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty, Weak: true, Faults: zkmodel.Faults{Cuts: 2}, Effort: 2}},
	{nil, linemodel.Scenario{Name: "expired and killed", Sessions: []int{0, 1}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Cuts: 1, Expires: 1, Kills: 1}}},
	{nil, linemodel.Scenario{Name: "one session", Sessions: []int{0, 0}, Warm: linemodel.Root, Nodes: empty, Faults: zkmodel.Faults{Strikes: 1, Cuts: 1}}},
}

func TestMeetingsWithDelay(t *testing.T) {
	for _, m := range later {
		kind := standard(nil)
		kind.Claim = func(_ *linemodel.World, node string) string { return znode.Join(linemodel.Root, node) }
		kind.Recipe = func(client.Session, int) (*contender.Recipe, any) {
			r := recipeOf(linemodel.Root, Exclusive, Options{Delay: time.Second})
			return r, r.Claim
		}
		t.Run(m.Name, func(t *testing.T) { linemodel.Test(t, kind, &m.Scenario) })
	}
}
