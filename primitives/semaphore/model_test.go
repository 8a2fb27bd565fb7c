package semaphore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/linemodel"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

// This file has leases of one semaphore, whose limit changes, meet in the model of ZooKeeper:
// what runs in production, but for the actor's goroutine.

// A pool is a scenario of a semaphore.
type pool struct {
	record recordedLimit
	rules  []admission // of each contender, which has a session of its own
	limits []int       // to which the limit may be set
	cold   bool        // no session has seen the path
	linemodel.Scenario
}

func pools() []pool {
	unit := func(limit int) admission { return admission{Limit: limit, Weight: 1, Any: true} }
	unnumbered := func(path string) bool { return !strings.HasPrefix(path, numbersOf(linemodel.Root)) }
	numbered := admission{Limit: 2, Weight: 1, Any: true, Numbered: true}
	l := func(limit, weight int) admission { return admission{Limit: limit, Weight: weight} }
	five, four, three := []int{0, 1, 2, 3, 4}, []int{0, 1, 2, 3}, []int{0, 1, 2}
	units := slices.Repeat([]admission{unit(2)}, 4)
	faults := zkmodel.Faults{Cuts: 1, Expires: 1, Strikes: 1}
	stormy := zkmodel.Faults{Cuts: 3, Lates: 2, Expires: 1, Strikes: 1}
	return []pool{
		{recordedLimit{Limit: 2, Unit: true}, units, nil, false, linemodel.Scenario{Name: "units", Sessions: four, Faults: faults}},
		{recordedLimit{Limit: 2, Unit: true}, units, []int{1, 2, 3}, false, linemodel.Scenario{Name: "units, limits", Sessions: four, Sets: 3}},
		{recordedLimit{Limit: 2, Unit: true}, units, []int{1, 2, 3}, false, linemodel.Scenario{Name: "units, everything", Sessions: four, Sets: 3, Faults: stormy}},
		{recordedLimit{Limit: 3, Unit: true}, slices.Repeat([]admission{unit(3)}, 6), nil, false, linemodel.Scenario{Name: "units, a third waiter", Sessions: []int{0, 1, 2, 3, 4, 5}, Faults: zkmodel.Faults{Busy: 1}}},
		{recordedLimit{Limit: 2}, []admission{l(2, 2), l(2, 2), l(2, 1)}, nil, false, linemodel.Scenario{Name: "two of two", Sessions: three, Faults: faults}},
		{recordedLimit{Limit: 3}, []admission{l(3, 2), l(3, 1), l(3, 3), l(3, 1)}, nil, false, linemodel.Scenario{Name: "weights", Sessions: four, Faults: faults}},
		{recordedLimit{Limit: 3}, []admission{l(3, 2), l(3, 1), l(3, 2), l(3, 1)}, []int{1, 2, 3, 4}, false, linemodel.Scenario{Name: "weights, limits", Sessions: four, Sets: 4}},
		{recordedLimit{Limit: 3}, []admission{{Any: true, Limit: 1, Weight: 2}, l(3, 1), l(3, 2), l(3, 1)}, []int{1, 2, 3, 4}, false, linemodel.Scenario{Name: "weights, everything", Sessions: four, Sets: 4, Faults: stormy}},
		{recordedLimit{Limit: 3, Unit: true}, []admission{l(3, 1), l(3, 3), l(3, 2), l(3, 1)}, nil, true, linemodel.Scenario{Name: "the first weighted one", Sessions: four, Faults: zkmodel.Faults{Cuts: 1, Strikes: 1}}},
		{recordedLimit{Limit: 3, Unit: true}, []admission{l(3, 1), l(3, 3), l(3, 1)}, nil, false, linemodel.Scenario{Name: "a weighted one that is wrong about the record", Sessions: three, Faults: zkmodel.Faults{Cuts: 1, Strikes: 1}}},
		{recordedLimit{Limit: 2, Unit: true}, []admission{l(2, 1), l(3, 1), {Limit: 1, Any: true, Weight: 1}, l(2, 1)}, []int{2, 3}, false, linemodel.Scenario{Name: "disagreement", Sessions: four, Sets: 2, Faults: zkmodel.Faults{Cuts: 1}}},
		{recordedLimit{Limit: 4}, []admission{l(4, 4), l(4, 1), l(4, 2), l(4, 1), l(4, 1)}, nil, false, linemodel.Scenario{Name: "one before many", Sessions: five, Faults: faults}},
		{recordedLimit{Limit: 4}, []admission{l(4, 3), l(4, 1), l(4, 1), l(4, 1), l(4, 1)}, []int{3, 4, 5}, false, linemodel.Scenario{Name: "one before many, limits", Sessions: five, Sets: 3, Faults: zkmodel.Faults{Cuts: 2, Lates: 1, Expires: 1, Strikes: 1}}},
		{recordedLimit{Limit: 2, Unit: true}, []admission{l(2, 1), l(2, 1), l(2, 2)}, nil, false, linemodel.Scenario{Name: "restored", Sessions: three, Faults: zkmodel.Faults{Restores: 1}}},
		{recordedLimit{Limit: 3}, []admission{l(3, 1), l(3, 3), l(3, 2)}, nil, false, linemodel.Scenario{Name: "razed", Sessions: three, Faults: zkmodel.Faults{Razes: 2, Cuts: 1}, Effort: 4}},
		{recordedLimit{Limit: 2, Unit: true}, slices.Repeat([]admission{numbered}, 3), nil, false, linemodel.Scenario{Name: "numbers", Sessions: three, Faults: faults, Strikable: unnumbered}},
		{recordedLimit{Limit: 2, Unit: true}, []admission{numbered, unit(2), numbered, numbered}, []int{1, 2, 3}, false, linemodel.Scenario{Name: "numbers, everything", Sessions: four, Sets: 3, Faults: stormy, Strikable: unnumbered}},
		{recordedLimit{}, []admission{l(2, 1), l(2, 1), l(2, 2)}, nil, true, linemodel.Scenario{Name: "nothing is there", Sessions: three, Faults: zkmodel.Faults{Cuts: 1, Expires: 1}}},
	}
}

func (p *pool) kind() *linemodel.Kind {
	return &linemodel.Kind{
		Recipe: func(s client.Session, i int) (*contender.Recipe, any) {
			r := recipeOf(linemodel.Root, nil, p.rules[i], p.rules[i])
			if !p.cold {
				s.SetWarm(r.Parent.Warmth(), true)
			}
			return r, r.Claim
		},
		Claim: func(w *linemodel.World, node string) string {
			for _, name := range w.Children(numbersOf(linemodel.Root)) {
				if at := znode.Join(numbersOf(linemodel.Root), name); w.Node(at).Data == node {
					return at
				}
			}
			return ""
		},
		Refusal:   ErrLimit,
		Disagrees: func(i int) bool { return p.rules[i].Weight > 1 },
		Snapshot: func(w *linemodel.World) line.Snapshot {
			s := line.Snapshot{Names: w.Children(w.Dir)}
			if root := w.Node(linemodel.Root); root != nil {
				s.Data = root.Data
			}
			return s
		},
		Mark:   func(data string) string { return data },
		Marked: func(string) bool { return false },
		Sets: func(data string) (all []string) {
			for _, limit := range p.limits {
				r, _ := parseRecord(data)
				r.Limit = limit
				all = append(all, r.String())
			}
			return all
		},
		Herd: func(w *linemodel.World, _ string, _ []string) int {
			if w.Node(w.Dir) == nil { // an operator has deleted the line: all follow what stands at the path
				return len(w.All)
			}
			return 1 + max(3, p.fitting(w)+2) // and the one as far behind as the limit
		},
		Hold:    p.hold,
		Granted: func(*linemodel.World, *linemodel.Contender) {},
		Check:   p.check,
	}
}

// hold returns the weight of a contender, and the limit.
func (p *pool) hold(w *linemodel.World, c *linemodel.Contender) (weight, limit int) {
	limit = p.rules[0].Limit // which the first to come records
	if n := w.Node(linemodel.Root); n != nil {
		if r, err := parseRecord(n.Data); err == nil {
			limit = r.Limit
		}
	}
	if c != nil {
		weight = p.rules[c.N].Weight
	}
	return weight, limit
}

// fitting returns how many wait and are within the greatest limit that they may have heard of.
func (p *pool) fitting(w *linemodel.World) (n int) {
	limit := slices.Max(append(slices.Clone(p.limits), p.record.Limit))
	sum := 0
	for _, c := range sortLeases(w.Children(w.Dir)) {
		_, weight, _ := nodes.ParseLease(c.Name)
		if sum += weight; sum <= limit && slices.ContainsFunc(w.All, func(o *linemodel.Contender) bool { return o.M.Waiting() && o.M.Node() == c.Name }) {
			n++
		}
	}
	return n
}

// check holds in every state: what is held is within the limit that was in force when the last
// in line was let in.
func (p *pool) check(w *linemodel.World, holders []*linemodel.Contender) {
	sum, last, limit := 0, -1, 0
	for _, c := range holders {
		sum += p.rules[c.N].Weight
		name := c.M.Node()
		if number, _ := strconv.Atoi(name[strings.LastIndex(name, "-")+1:]); number > last {
			r, _, err := parseCondition(c.Data)
			if err != nil {
				zkmodel.Violate("contender %d was let in without a limit", c.N)
			}
			last, limit = number, r.Limit
		}
	}
	if sum > limit {
		zkmodel.Violate("%d are held of %d", sum, limit)
	}
	if w.Quiet() {
		p.checkMembers(w)
		p.checkNumbers(w, holders)
	}
}

// checkNumbers holds in quiet: each holder that wants one has a number, and there are no others.
func (p *pool) checkNumbers(w *linemodel.World, holders []*linemodel.Contender) {
	of := map[string]int{}
	for _, name := range w.Children(numbersOf(linemodel.Root)) {
		n, _ := strconv.Atoi(name)
		owner := w.Node(znode.Join(numbersOf(linemodel.Root), name)).Data
		if _, two := of[owner]; two || n >= slices.Max(append(slices.Clone(p.limits), p.record.Limit)) {
			zkmodel.Violate("%s has the number %d", owner, n)
		}
		of[owner] = n
	}
	for _, c := range holders {
		if !p.rules[c.N].Numbered {
			continue
		}
		if _, has := of[c.M.Node()]; !has {
			zkmodel.Violate("contender %d holds, and has no number", c.N)
		}
		delete(of, c.M.Node())
	}
	for _, c := range w.All { // also one that learns of its loss late
		if !c.Ended() {
			delete(of, c.M.Node())
		}
	}
	for owner, n := range of {
		zkmodel.Violate("%s holds nothing, and has the number %d", owner, n)
	}
}

// checkMembers holds in quiet: only the next in line watches all, and the departure of one that
// makes room for another wakes that, whatever others do. Behind leases of any weights, one that has
// moved up since it looked is woken by its predecessor.
func (p *pool) checkMembers(w *linemodel.World) {
	waits := map[string]bool{}
	for _, c := range w.All {
		if !c.Ended() && c.M.Waiting() {
			waits[c.M.Node()] = true
		}
	}
	all := sortLeases(w.Children(w.Dir))
	for _, c := range w.All {
		i := slices.IndexFunc(all, func(o nodes.Contender) bool { return o.Name == c.M.Node() })
		if c.Ended() || i <= 0 || !c.M.Waiting() {
			continue
		}
		if weighted := slices.ContainsFunc(p.rules, func(r admission) bool { return r.Weight > 1 }); !weighted || i == c.Ahead {
			p.checkWoken(w, c, all[:i])
		} else if !watchesNode(c, znode.Join(w.Dir, all[i-1].Name)) && !c.Session().Watches(c.N, w.Dir, session.AspectChildren) {
			zkmodel.Violate("nothing would wake %v when its predecessor leaves", c.M)
		}
		if c.Session().Watches(c.N, w.Dir, session.AspectChildren) && waits[all[i-1].Name] {
			zkmodel.Violate("contender %d watches all, and is not next: %v", c.N, c.M)
		}
	}
}

// checkWoken holds for a contender that waits in quiet.
func (p *pool) checkWoken(w *linemodel.World, c *linemodel.Contender, ahead []nodes.Contender) {
	r, _ := parseRecord(w.Node(linemodel.Root).Data)
	sum := p.rules[c.N].Weight
	for _, o := range ahead {
		_, weight, _ := nodes.ParseLease(o.Name)
		sum += weight
	}
	for _, o := range ahead {
		_, weight, _ := nodes.ParseLease(o.Name)
		if sum-weight <= r.Limit && !c.Session().Watches(c.N, w.Dir, session.AspectChildren) && !watchesNode(c, znode.Join(w.Dir, o.Name)) {
			zkmodel.Violate("nothing would wake %v when %s leaves", c.M, o.Name)
		}
	}
}

// watchesNode reports whether the contender would be told of the deletion of a node.
func watchesNode(c *linemodel.Contender, path string) bool {
	return c.Session().Watches(c.N, path, session.AspectData) || c.Session().Watches(c.N, path, session.AspectChildren)
}

func TestPools(t *testing.T) {
	for _, p := range pools() {
		if p.record.Limit > 0 {
			p.Nodes = []zkmodel.Node{
				{Path: linemodel.Root, Data: p.record.String(), Czxid: 1}, {Path: leasesOf(linemodel.Root), Czxid: 1, Container: true},
			}
		}
		t.Run(p.Name, func(t *testing.T) { linemodel.Test(t, p.kind(), &p.Scenario) })
	}
}

// A frozenWaiter is a world at rest in which the contenders up to one hold leases, and others wait
// behind it. From then on that one takes no step, and two holders leave.
type frozenWaiter struct {
	*linemodel.World
	frozen int
	stays  int // a holder
}

// Actions implements [exploration.World].
func (w frozenWaiter) Actions() (normal, wishes, faulty []zkmodel.Action) {
	normal, wishes, _ = w.World.Actions()
	normal = slices.DeleteFunc(normal, func(a zkmodel.Action) bool { return a.I == w.frozen })
	return normal, slices.DeleteFunc(wishes, func(a zkmodel.Action) bool { return a.I >= w.frozen || a.I == w.stays }), nil
}

// TestPoolWithAFrozenWaiter: the second waiter holds a lease when two have been released,
// whatever the first one does; also where it became the second by releases.
func TestPoolWithAFrozenWaiter(t *testing.T) {
	for _, row := range []struct {
		limit, stays int
		leave        []int
	}{
		{2, -1, nil},
		{2, -1, []int{0}},
		{2, -1, []int{1}},
		{2, -1, []int{0, 2}},
		{3, 2, nil},
		{3, 3, []int{0}}, // 3 was let in last
		{3, 3, []int{1}},
		{3, 1, []int{0}},
	}[:hasten.Sized(8, 4)] {
		t.Run(fmt.Sprint(row), func(t *testing.T) {
			p, leave := pools()[0], row.leave
			p.record.Limit = row.limit
			p.rules = slices.Repeat([]admission{{Limit: row.limit, Weight: 1}}, row.limit+2+len(leave))
			p.Sessions = nil
			for i := range p.rules {
				p.Sessions = append(p.Sessions, i)
			}
			p.Faults = zkmodel.Faults{}
			p.Nodes = []zkmodel.Node{{Path: linemodel.Root, Data: p.record.String(), Czxid: 1}, {Path: leasesOf(linemodel.Root), Czxid: 1, Container: true}}
			start := func(keyed bool) exploration.World[zkmodel.Action] {
				w := linemodel.New(p.kind(), &p.Scenario, keyed)
				rest := func() {
					for normal, _, _ := w.Actions(); len(normal) > 0; normal, _, _ = w.Actions() {
						w.Apply(normal[0])
					}
				}
				rest()
				for _, i := range leave {
					w.Apply(zkmodel.Action{Kind: "leave", I: i})
					rest()
				}
				return frozenWaiter{w, row.limit + len(leave), row.stays}
			}
			exploration.Test(t, start, 1, func(w exploration.World[zkmodel.Action]) error {
				at := w.(frozenWaiter)
				if second := at.All[at.frozen+1]; !second.M.Holding() {
					return fmt.Errorf("the second waiter: %v", second.M)
				}
				return nil
			})
		})
	}
}
