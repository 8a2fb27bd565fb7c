package priority

import (
	"math"
	"strings"
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

// This file has locks with priorities meet in the model of ZooKeeper, with the callbacks that
// run in production.

// A rival is a contender of a line with priorities.
type rival struct {
	kind     nodes.Kind
	priority int
	preempt  bool
}

// A rivalry is a scenario of a line with priorities.
type rivalry struct {
	rivals []rival
	force  bool // holders who are asked to leave are made to, some time later
	linemodel.Scenario
}

func markOf(data string) string { return string(mark.Published([]byte(data), 0)) }

func isMarked(data string) bool {
	yes, _ := mark.Read([]byte(data))
	return yes
}

func rivalries() []rivalry {
	r := func(priority int) rival { return rival{nodes.Read, priority, false} }
	w := func(priority int) rival { return rival{nodes.Write, priority, false} }
	p := func(r rival) rival { return rival{r.kind, r.priority, true} }
	return []rivalry{
		{[]rival{w(0)}, false, linemodel.Scenario{Name: "alone", Sessions: []int{0}, Faults: zkmodel.Faults{Cuts: 2, Lates: 1, Strikes: 1}}},
		{[]rival{r(0)}, false, linemodel.Scenario{Name: "alone, reading", Sessions: []int{0}, Faults: zkmodel.Faults{Cuts: 2, Lates: 1, Strikes: 1}}},
		{[]rival{w(0)}, false, linemodel.Scenario{Name: "alone, lessened", Sessions: []int{0}, Downgrades: 1, Faults: zkmodel.Faults{Cuts: 1, Lates: 1, Strikes: 1}}},
		{[]rival{w(0), w(5)}, false, linemodel.Scenario{Name: "two writers", Sessions: []int{0, 1}, Faults: zkmodel.Faults{Strikes: 1}}},
		{[]rival{w(0), w(0)}, false, linemodel.Scenario{Name: "two equals", Sessions: []int{0, 1}, Faults: zkmodel.Faults{Strikes: 1, Crashes: 1}}},
		{[]rival{w(0), r(5)}, false, linemodel.Scenario{Name: "writer and reader", Sessions: []int{0, 1}, Faults: zkmodel.Faults{Cuts: 1, Lates: 1}}},
		{[]rival{r(0), w(5)}, false, linemodel.Scenario{Name: "reader and writer", Sessions: []int{0, 1}, Faults: zkmodel.Faults{Cuts: 1, Lates: 1}}},
		{[]rival{r(0), r(5)}, false, linemodel.Scenario{Name: "two readers", Sessions: []int{0, 1}, Faults: zkmodel.Faults{Strikes: 1}}},
		{[]rival{w(0), w(0)}, false, linemodel.Scenario{Name: "lessened before a writer", Sessions: []int{0, 1}, Downgrades: 1, Faults: zkmodel.Faults{Strikes: 1}}},
		{[]rival{w(0), r(-1)}, false, linemodel.Scenario{Name: "lessened before a reader", Sessions: []int{0, 1}, Downgrades: 1, Faults: zkmodel.Faults{Cuts: 1, Lates: 1}}},
		{[]rival{w(0), w(5), w(0)}, false, linemodel.Scenario{Name: "three writers", Sessions: []int{0, 1, 2}}},
		{[]rival{r(0), w(5), r(3)}, false, linemodel.Scenario{Name: "three of all kinds", Sessions: []int{0, 1, 2}}},
		{[]rival{w(0), r(5), w(3)}, false, linemodel.Scenario{Name: "three, one session for two", Sessions: []int{0, 0, 1}, Faults: zkmodel.Faults{Strikes: 1}}},
		{[]rival{w(0), p(w(5))}, false, linemodel.Scenario{Name: "preempted", Sessions: []int{0, 1}, Faults: zkmodel.Faults{Cuts: 1, Lates: 1}}},
		{[]rival{w(0), p(w(5))}, true, linemodel.Scenario{Name: "preempted by force", Sessions: []int{0, 1}, Faults: zkmodel.Faults{Cuts: 1}}},
		{[]rival{r(0), r(1), p(w(5))}, true, linemodel.Scenario{Name: "preempted readers by force", Sessions: []int{0, 1, 2}}},
		{[]rival{w(0), p(w(5))}, true, linemodel.Scenario{Name: "preempted by force, lessened", Sessions: []int{0, 1}, Downgrades: 1, Faults: zkmodel.Faults{Cuts: 1}}},
		{[]rival{w(0), w(5), r(3)}, false, linemodel.Scenario{Name: "expired", Sessions: []int{0, 1, 2}, Faults: zkmodel.Faults{Cuts: 1, Expires: 1}}},
		{[]rival{w(0), w(5)}, false, linemodel.Scenario{Name: "late", Sessions: []int{0, 1}, Faults: zkmodel.Faults{Cuts: 2, Lates: 2, Strikes: 1}}},
		{[]rival{w(0), r(5)}, false, linemodel.Scenario{Name: "restored", Sessions: []int{0, 1}, Faults: zkmodel.Faults{Restores: 1}}},
		{[]rival{w(0), r(5)}, false, linemodel.Scenario{Name: "in the background", Sessions: []int{0, 1}, Background: true, Faults: zkmodel.Faults{Cuts: 1, Lates: 1, Strikes: 1}}},
		{[]rival{w(0), p(w(5)), r(3)}, true, linemodel.Scenario{Name: "everything", Sessions: []int{0, 1, 2}, Downgrades: 1, Faults: zkmodel.Faults{Cuts: 3, Expires: 1, Strikes: 2, Crashes: 1, Lates: 2}}},
		{[]rival{w(0), r(0), p(r(5)), p(w(3))}, true, linemodel.Scenario{Name: "everything, four", Sessions: []int{0, 1, 2, 2}, Downgrades: 1, Faults: zkmodel.Faults{Cuts: 3, Expires: 2, Strikes: 2, Crashes: 1, Lates: 2}}},
		{[]rival{r(0), p(w(5)), r(3), w(0)}, false, linemodel.Scenario{Name: "everything, asked only", Sessions: []int{0, 1, 0, 2}, Downgrades: 1, Faults: zkmodel.Faults{Cuts: 3, Expires: 2, Strikes: 2, Crashes: 1, Lates: 2}}},
		{[]rival{w(0), r(5), w(3)}, false, linemodel.Scenario{Name: "lagging followers", Sessions: []int{0, 1, 2}, Faults: zkmodel.Faults{Lags: 2, Cuts: 1, Strikes: 1}}},
		{[]rival{r(0), w(5)}, false, linemodel.Scenario{
			Name: "a claim is deleted", Sessions: []int{0, 1}, Faults: zkmodel.Faults{Strikes: 1}, Effort: 2,
			Nodes: []zkmodel.Node{{Path: linemodel.Root, Czxid: 1, Data: marker}}, Warm: (&Lock{path: linemodel.Root}).hint(),
			Strikable: func(path string) bool {
				return strings.Contains(path, readersNode+"/") || strings.HasSuffix(path, holderNode)
			},
		}},
		{[]rival{w(0), p(w(5))}, true, linemodel.Scenario{Name: "a busy server", Sessions: []int{0, 1}, Downgrades: 1, Faults: zkmodel.Faults{Busy: 2, Cuts: 1}}},
	}
}

// sight returns the holders that the tree names.
func sight(w *linemodel.World) (s standing) {
	if holder := w.Node(znode.Join(linemodel.Root, holderNode)); holder != nil {
		s.Holder = holder.Data
	}
	s.Readers = w.Children(znode.Join(linemodel.Root, readersNode))
	return s
}

// checkGuards checks, when a contender has just been let in, that the guard of no other fails to
// refuse that it excludes: one that has yet to hear that an operator has deleted its claim.
func checkGuards(w *linemodel.World, c *linemodel.Contender) {
	for _, other := range w.All {
		if other == c || !other.M.Holding() || isReader(c.M.Node()) && isReader(other.M.Node()) {
			continue
		}
		if w.Node(Guard(znode.Join(linemodel.Root, other.M.Node()))) != nil && !w.Restored() {
			zkmodel.Violate("contender %d is let in while the guard of contender %d passes", c.N, other.N)
		}
	}
}

func (r *rivalry) kind() *linemodel.Kind {
	claim := func(_ *linemodel.World, node string) string {
		return (&Lock{path: linemodel.Root}).Claimed(node)
	}
	return &linemodel.Kind{
		Recipe: func(s client.Session, i int) (*contender.Recipe, any) {
			opts := Options{Kind: r.rivals[i].kind, Priority: r.rivals[i].priority, Preempt: r.rivals[i].preempt}
			if r.force {
				opts.PreemptAfter = time.Second
			}
			p := New(s, linemodel.Root, opts)
			return p.Recipe(), p
		},
		Snapshot: func(w *linemodel.World) line.Snapshot {
			return line.Snapshot{Names: w.Children(linemodel.Root), Data: sight(w).String()}
		},
		Preempts: func(i int) bool { return r.rivals[i].preempt },
		Mark:     markOf, Marked: isMarked, Claim: claim,
		Herd: func(*linemodel.World, string, []string) int { return math.MaxInt16 },
		Granted: func(w *linemodel.World, c *linemodel.Contender) {
			claimed := w.Node(claim(w, c.M.Node()))
			if claimed == nil {
				zkmodel.Violate("contender %d holds what it has not", c.N)
			}
			w.CheckToken(c, claimed.Czxid, !isReader(c.M.Node()))
			checkGuards(w, c)
		},
		Check: func(w *linemodel.World, holders []*linemodel.Contender) {
			w.CheckApart(holders)
			if w.Quiet() {
				r.asks(w)
			}
		},
	}
}

// asks checks that the first in line has asked the holder that it watches, and made it leave.
func (r *rivalry) asks(w *linemodel.World) {
	sight := line.Snapshot{Names: w.Children(linemodel.Root), Data: sight(w).String()}
	for _, c := range w.All {
		if c.Ended() || !c.M.Waiting() {
			continue
		}
		rivals := rule{r.rivals[c.N].kind, r.rivals[c.N].priority, r.rivals[c.N].preempt}
		p := rivals.Locate(sight, c.M.Node(), linemodel.GUID(c.M.Node()))
		for _, holder := range p.Ask {
			n := w.Node(znode.Join(linemodel.Root, holder))
			switch {
			case !strings.Contains(p.Watch.Node, holder) && p.Watch.Node != holderNode || n == nil:
			case !isMarked(n.Data):
				zkmodel.Violate("contender %d has not asked %s, for which it waits", c.N, holder)
			case r.force:
				zkmodel.Violate("contender %d is too patient with %s", c.N, holder)
			}
		}
	}
}

func TestRivalries(t *testing.T) {
	for _, r := range rivalries() {
		if r.Strikable == nil {
			r.Strikable = func(path string) bool { return path != znode.Join(linemodel.Root, readersNode) }
		}
		t.Run(r.Name, func(t *testing.T) { linemodel.Test(t, r.kind(), &r.Scenario) })
	}
}
