package priority

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
)

func guidOf(i int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", i) }

// ranked returns the name of a contender in a line with priorities: of "ann 5 w7" that of
// the seventh, a writer with priority 5.
func ranked(short string) string {
	var who, kind string
	var priority, number int
	if n, _ := fmt.Sscanf(short, "%s %d %1s%d", &who, &priority, &kind, &number); n != 4 {
		return short
	}
	r := rule{Kind: map[string]nodes.Kind{"r": nodes.Read, "w": nodes.Write}[kind], Priority: priority}
	return fmt.Sprintf("%s%010d", r.Name(rankedGUID(who)), number)
}

func rankedGUID(who string) string { return (strings.Repeat("0", 8-len(who)) + who + guidOf(0)[8:]) }

func rankedAll(short ...string) []string {
	all := make([]string, len(short))
	for i, s := range short {
		all[i] = ranked(s)
	}
	return all
}

func TestRankNames(t *testing.T) {
	guid := guidOf(7)
	for _, priority := range []int{nodes.LowestPriority, -1, 0, 1, nodes.HighestPriority} {
		for _, kind := range []nodes.Kind{nodes.Read, nodes.Write, nodes.Exclusive} {
			for _, number := range []string{"0000000000", "2147483647", "-2147483648"} {
				r, ok := nodes.ParseRank(rule{Kind: kind, Priority: priority}.Name(guid) + number)
				want := kind
				if kind == nodes.Exclusive {
					want = nodes.Write
				}
				check.True(t, ok && r.Priority == priority && r.Kind == want && fmt.Sprintf("%010d", r.Number) == number, "%v %d %s: %+v, %v", kind, priority, number, r, ok)
			}
		}
	}
	prefix := znode.GUIDName(guid, "")
	for _, name := range []string{
		"", "holder", "readers", prefix, prefix + "p1000-", prefix + "p1000-write-", prefix + "p1000-write-1", prefix + "p2001-write-0000000001",
		prefix + "p-100-write-0000000001", prefix + "p+100-write-0000000001", prefix + "p1000-lock-0000000001", prefix + "write-0000000001", prefix + "p01000-write-0000000001",
		"x" + prefix + "p1000-write-0000000001", prefix + "p1000-writ-0000000001", prefix + "p1000-read-write-0000000001", strings.Replace(prefix, "-", "", 1) + "p1000-write-0000000001",
	} {
		if r, ok := nodes.ParseRank(name); ok {
			t.Errorf("%q is read as %+v", name, r)
		}
	}
	// The order of names is that of priorities, for those who look at the tree.
	low, high := ranked("a -7 w5"), ranked("a 20 w5")
	check.True(t, low < high, "%s is not before %s", low, high)
}

// order returns the contenders among the children, as they go.
func order(children []string) []string {
	return recipe.Map(Ranks(children), func(c nodes.Rank) string { return c.Name })
}

func TestRankedOrder(t *testing.T) {
	const last, first = "2147483647", "-2147483648"
	want := rankedAll("a 1000 w9", "b 3 r4", "c 3 w5", "d 3 r6", "e 0 w1", "f 0 w2", "g -1 r0", "h -1000 w3")
	got := order(append([]string{"holder", "readers", "config"}, []string{want[5], want[7], want[0], want[2], want[1], want[4], want[6], want[3]}...))
	check.EqualSlices(t, got, want)
	want = rankedAll("a 5 w0", "b 0 w"+last, "c 0 w"+first)
	check.EqualSlices(t, order([]string{want[2], want[1], want[0]}), want)
	// The one that has just been created is the reference of its own place, also there.
	r := rule{Kind: nodes.Write}
	p := r.Locate(line.Snapshot{Names: want[1:]}, want[2], rankedGUID("c"))
	check.True(t, p.Ahead == 1 && p.Watch.Node == want[1], "%+v", p)
	check.Equal(t, r.Locate(line.Snapshot{Names: want[1:]}, want[1], rankedGUID("b")).Ahead, 0)
}

func TestRankedLocate(t *testing.T) {
	for _, row := range []struct {
		danger  string
		own     string
		others  []string
		holder  string
		readers []string
		former  string
		claimed bool // since the names were listed
		preempt bool
		ahead   int
		watch   string
		ask     []string
	}{
		{danger: "alone", own: "me 0 w5"},
		{danger: "who came first is first", own: "me 0 w5", others: []string{"a 0 w3", "b 0 w4", "c 0 w6"}, ahead: 2, watch: "b 0 w4"},
		{danger: "who is worth more goes first", own: "me 0 w5", others: []string{"a 0 w3", "b 1 w7", "c -1 w1"}, ahead: 2, watch: "a 0 w3"},
		{danger: "who is worth less is no matter", own: "me 0 w5", others: []string{"c -1 w1", "d -2 r2"}},
		{danger: "readers wait for writers only", own: "me 0 r5", others: []string{"a 0 w3", "b 0 r4", "c 1 r6"}, ahead: 1, watch: "a 0 w3"},
		{danger: "writers wait for readers, too", own: "me 0 w5", others: []string{"a 0 w3", "b 0 r4"}, ahead: 2, watch: "b 0 r4"},
		{danger: "who is worth less holds already", own: "me 0 w5", others: []string{"c -1 w1"}, holder: "c -1 w1", ahead: 1, watch: "holder"},
		{danger: "a reader minds that, too", own: "me 0 r5", others: []string{"c -1 w1"}, holder: "c -1 w1", ahead: 1, watch: "holder"},
		{danger: "a reader does not mind readers", own: "me 0 r5", others: []string{"c -1 r1"}, readers: []string{"c -1 r1"}},
		{danger: "a writer minds readers, one at a time", own: "me 0 w5", others: []string{"c -1 r1", "d -2 r2"}, readers: []string{"d -2 r2", "c -1 r1"}, ahead: 2, watch: "readers/c -1 r1"},
		{danger: "who is before us and holds is one and not two", own: "me 0 w5", others: []string{"a 0 w3"}, holder: "a 0 w3", ahead: 1, watch: "a 0 w3"},
		{danger: "who holds without its node in line", own: "me 0 w5", holder: "a 0 w3", ahead: 1, watch: "holder"},
		{danger: "a reader who holds without its node in line", own: "me 0 w5", readers: []string{"a 0 r3"}, ahead: 1, watch: "readers/a 0 r3"},
		{danger: "who holds and is nobody", own: "me 0 w5", holder: "rubbish", preempt: true, ahead: 1, watch: "holder"},
		{danger: "our own claim does not stop us", own: "me 0 w5", holder: "me 0 w5"},
		{danger: "nor that of a reader", own: "me 0 r5", readers: []string{"me 0 r5"}},
		{danger: "what it has claimed was deleted, and it does not know yet", own: "me 0 w5", others: []string{"c -1 w1"}, former: "c -1 w1", ahead: 1, watch: "c -1 w1"},
		{danger: "a reader minds that, too", own: "me 0 r5", others: []string{"c -1 w1"}, former: "c -1 w1", ahead: 1, watch: "c -1 w1"},
		{danger: "who has held is gone", own: "me 0 w5", others: []string{"d -1 w2"}, former: "c -1 w1"},
		{danger: "who has held came after the list, and its claim was deleted", own: "me 0 w5", former: "c 1 w9", claimed: true, ahead: 1, watch: "c 1 w9"},
		{danger: "our own late claim", own: "me 0 w5", former: "me 0 w5", claimed: true},
		{danger: "another client has written to the path since", own: "me 0 w5", claimed: true},
		{danger: "another holds since", own: "me 0 w5", others: []string{"c -1 w1", "d -1 w2"}, holder: "d -1 w2", former: "c -1 w1", ahead: 1, watch: "holder"},
		{danger: "we have held", own: "me 0 w5", former: "me 0 w5"},
		{danger: "foreign children", own: "me 0 w5", others: []string{"holder", "readers", "config"}},

		{danger: "asked: who is worth less", own: "me 0 w5", others: []string{"c -1 w1"}, holder: "c -1 w1", preempt: true, ahead: 1, watch: "holder", ask: []string{"c -1 w1"}},
		{danger: "asked: by a reader", own: "me 0 r5", others: []string{"c -1 w1"}, holder: "c -1 w1", preempt: true, ahead: 1, watch: "holder", ask: []string{"c -1 w1"}},
		{danger: "asked: all readers who are worth less", own: "me 0 w5", others: []string{"c -1 r1", "d -1 r2", "e 0 r7"}, readers: []string{"c -1 r1", "d -1 r2", "e 0 r7"}, preempt: true, ahead: 3, watch: "readers/c -1 r1", ask: []string{"c -1 r1", "d -1 r2"}},
		{danger: "not asked: by who is not next, though all before it hold", own: "me 0 w5", others: []string{"a 0 r3", "c -1 r1"}, readers: []string{"a 0 r3", "c -1 r1"}, preempt: true, ahead: 2, watch: "a 0 r3"},
		{danger: "not asked: who is worth as much", own: "me 0 w5", others: []string{"a 0 w3"}, holder: "a 0 w3", preempt: true, ahead: 1, watch: "a 0 w3"},
		{danger: "not asked: by who is not next", own: "me 0 w5", others: []string{"a 0 w3", "c -1 w1"}, holder: "c -1 w1", preempt: true, ahead: 2, watch: "a 0 w3"},
		{danger: "not asked: by who does not preempt", own: "me 0 w5", others: []string{"c -1 w1"}, holder: "c -1 w1", ahead: 1, watch: "holder"},
	} {
		own := ranked(row.own)
		me, _ := nodes.ParseRank(own)
		r := rule{Kind: me.Kind, Priority: me.Priority, Preempt: row.preempt}
		watch := ranked(strings.TrimPrefix(row.watch, "readers/"))
		if watch != row.watch && strings.HasPrefix(row.watch, "readers/") {
			watch = "readers/" + watch
		}
		s := standing{Holder: ranked(row.holder), Former: ranked(row.former), Version: 7, Readers: rankedAll(row.readers...)}
		sight := line.Snapshot{Names: append(rankedAll(row.others...), own), Version: s.Version, Data: s.String()}
		if row.claimed {
			sight.Version--
		}
		p := r.Locate(sight, own, rankedGUID("me"))
		if !p.Present || p.Ahead != row.ahead || p.Watch != (line.Target{Node: watch}) || !slices.Equal(p.Ask, rankedAll(row.ask...)) && len(row.ask) > 0 || len(row.ask) != len(p.Ask) || p.Err != nil {
			t.Errorf("%s: %+v", row.danger, p)
		}
	}
}

// A contender in one layout refuses those of others, and takes back what a create of
// unknown outcome has left.
func TestRankedRefuses(t *testing.T) {
	own := ranked("me 0 w5")
	theirs := znode.GUIDName(guidOf(3), "") + "lock-0000000001"
	r := rule{Kind: nodes.Write}
	check.Is(t, r.Locate(line.Snapshot{Names: []string{own, theirs}}, own, rankedGUID("me")).Err, line.ErrLayout)
	exclusive := line.First{Kind: nodes.Exclusive, Grammar: &nodes.Grammar{
		Prefix: znode.GUIDName, Separated: true, Marks: []nodes.Mark{{Text: "lock-", Kind: nodes.Exclusive}, {Text: "write-", Kind: nodes.Write}},
	}}
	check.Is(t, exclusive.Locate(line.Snapshot{Names: []string{own, theirs}}, theirs, guidOf(3)).Err, line.ErrLayout)
	if p := r.Locate(line.Snapshot{Names: []string{own, ranked("me 0 w4")}}, own, rankedGUID("me")); p.Ahead != 0 || !slices.Equal(p.Zombies, rankedAll("me 0 w4")) {
		t.Errorf("%+v", p)
	}
	if p := r.Locate(line.Snapshot{Names: rankedAll("a 0 w1")}, own, rankedGUID("me")); p.Present {
		t.Errorf("%+v", p)
	}
	weaker, node, ok := r.Downgrade(own)
	reader, is := nodes.ParseRank(node)
	check.True(t, ok && is && node == ranked("me 0 r5") && reader.Kind == nodes.Read && weaker.(rule).Kind == nodes.Read, "%v %s", weaker, node)
	if _, _, ok := (rule{Kind: nodes.Exclusive}).Downgrade(own); ok {
		t.Error("an exclusive lock is downgraded")
	}
}
