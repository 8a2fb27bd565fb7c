package semaphore

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/claim"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

func TestLeaseNames(t *testing.T) {
	const guid = "01234567-89ab-4cde-8f01-23456789abcd"
	for name, want := range map[string]struct {
		weight int
		number int32
	}{
		admission{Weight: 1}.Name(guid) + "0000000005":  {1, 5},
		admission{Weight: 3}.Name(guid) + "0000000005":  {3, 5},
		admission{Weight: 12}.Name(guid) + "2147483647": {12, math.MaxInt32},
		admission{Weight: 3}.Name(guid) + "-2147483648": {3, math.MinInt32},
		admission{Weight: 1}.Name(guid) + "-000000001":  {1, -1},
		"lease-0000000001":                                {1, 1},
		"lease-1000000000-0000000001":                     {nodes.MaxLimit, 1},
		"x-lease-7-0000000001":                            {7, 1},
		"x-lease-0000000009-lease-2-0000000001":           {2, 1},
		admission{Weight: 1}.Prefix(guid) + "lease-x":     {},
		admission{Weight: 1}.Prefix(guid) + "lock-000001": {},
		"lease-0-0000000001":                              {},
		"lease-03-0000000001":                             {},
		"lease--3-0000000001":                             {},
		"lease-1000000001-0000000001":                     {},
		"lease-3-1":                                       {},
		"lease-3-":                                        {},
		"lease-3":                                         {},
		"lease-":                                          {},
		"release-0000000001":                              {},
		"leases":                                          {},
		"":                                                {},
	} {
		c, weight, ok := nodes.ParseLease(name)
		check.False(t, ok != (want.weight > 0) || ok && (weight != want.weight || c.Number != want.number || c.Name != name), "%q: %+v, %d, %v", name, c, weight, ok)
	}
	numbers := []string{"b-lease-2147483646", "a-lease-9-2147483647", "d-lease--2147483648", "c-lease-2--2147483647"}
	mixed := []string{numbers[2], "config", numbers[0], numbers[3], "lock-0000000001", numbers[1]}
	check.EqualSlices(t, recipe.Map(sortLeases(mixed), func(c nodes.Contender) string { return c.Name }), numbers, "the line is")
}

func TestRecords(t *testing.T) {
	for data, want := range map[string]recordedLimit{
		"10": {Limit: 10}, "10 unit": {Limit: 10, Unit: true}, "1\n": {Limit: 1}, " 7 unit \n": {Limit: 7, Unit: true}, "1000000000": {Limit: nodes.MaxLimit},
		"": {}, "0": {}, "-1": {}, "+1": {}, "01": {}, "1.5": {}, "ten": {}, "10 heavy": {}, "unit": {}, " unit": {}, "1000000001": {}, "99999999999999999999": {},
	} {
		r, err := parseRecord(data)
		check.False(t, r != want || (err == nil) != (want.Limit > 0) || err != nil && !errors.Is(err, ErrLimit), "%q: %v, %v", data, r, err)
		if again, err := parseRecord(r.String()); err == nil && again != r {
			t.Errorf("%q is written as %q", data, r)
		}
	}
	check.OK(t, validateLimit(nodes.MaxLimit))
	_, since, err := parseCondition(conditionOf(nil, &session.Stat{Mzxid: 7})) // a node without data
	_, want := parseRecord("")
	check.True(t, since == 7 && err.Error() == want.Error(), "since %d, %v", since, err)
}

func TestLeasesLocate(t *testing.T) {
	guid := "00000009-0000-4000-8000-000000000000"
	unit, two, five := admission{Limit: 3, Weight: 1}, admission{Limit: 3, Weight: 2}, admission{Limit: 9, Weight: 5, Any: true}
	own := func(l admission, number string) string { return l.Name(guid) + number }
	const a, b, c, heavy = "a-lease-0000000001", "b-lease-0000000002", "c-lease-0000000003", "h-lease-2-0000000004"
	ownUnit, ownTwo := own(unit, "0000000005"), own(two, "0000000005")
	const behind = "z-lease-0000000006"
	members := line.Target{Until: line.Members}
	gone := func(nodes ...string) (all []line.Target) {
		for _, node := range nodes {
			all = append(all, line.Target{Node: node})
		}
		return all
	}
	changed := func(node string) line.Target { return line.Target{Node: node, Until: line.Changed} }
	for _, row := range []struct {
		what  string
		rule  admission
		own   string
		names []string
		data  string
		isNew bool
		want  line.Position
		limit bool // want.Err is ErrLimit
	}{
		{what: "alone", rule: unit, own: ownUnit, names: []string{ownUnit}, data: "3 unit", isNew: true, want: line.Position{Present: true}},
		{what: "not in line", rule: unit, own: ownUnit, names: []string{a}, data: "3 unit", want: line.Position{Ahead: 1}},
		{what: "not in line, and of another mind", rule: unit, own: ownUnit, names: nil, data: "4 unit", isNew: true},
		{what: "the last that fits", rule: unit, own: ownUnit, names: []string{b, ownUnit, a}, data: "3 unit", want: line.Position{Present: true}},
		{what: "somebody behind is told", rule: unit, own: ownUnit, names: []string{behind, b, ownUnit, a}, data: "3 unit", want: line.Position{Present: true, AnnounceGrant: true}},
		{what: "the first that waits", rule: unit, own: ownUnit, names: []string{c, b, ownUnit, a}, data: "3 unit", want: line.Position{Present: true, Ahead: 3, Watch: line.Target{Node: c}, Beside: gone(a, b)}},
		{what: "the second that waits", rule: unit, own: ownUnit, names: []string{heavy, b, ownUnit, a}, data: "3 unit", want: line.Position{Present: true, Ahead: 3, Watch: changed(heavy), Beside: gone(a, b)}},
		{what: "the second behind units", rule: unit, own: ownUnit, names: []string{c, "0-lease-0000000000", b, ownUnit, a}, data: "3 unit", want: line.Position{Present: true, Ahead: 4, Watch: line.Target{Node: c}, Beside: gone(a, b)}},
		{what: "the third behind units", rule: unit, own: ownUnit, names: []string{c, b, ownUnit, a, "0-lease-0000000000"}, data: "2 unit", want: line.Position{Present: true, Ahead: 4, Watch: changed(c), Beside: []line.Target{changed(b)}}},
		{what: "the third behind one unit", rule: unit, own: ownUnit, names: []string{c, b, ownUnit, a}, data: "1 unit", want: line.Position{Present: true, Ahead: 3, Watch: changed(c), Beside: []line.Target{changed(b)}}},
		{what: "behind three units", rule: unit, own: ownUnit, names: []string{c, b, ownUnit, a, "0-lease-0000000000", "0-lease-0000000001"}, data: "3 unit", want: line.Position{Present: true, Ahead: 5, Watch: changed(c), Beside: []line.Target{changed(b), {Node: a}}}},
		{what: "the second behind one unit", rule: unit, own: ownUnit, names: []string{c, b, ownUnit}, data: "1 unit", want: line.Position{Present: true, Ahead: 2, Watch: line.Target{Node: c}}},
		{what: "the second behind as many units as may be watched", rule: unit, own: ownUnit, names: append(units(manyBeside+1), ownUnit), data: fmt.Sprint(manyBeside), want: line.Position{Present: true, Ahead: manyBeside + 1, Watch: line.Target{Node: units(manyBeside + 1)[manyBeside]}, Beside: gone(units(manyBeside + 1)[1:manyBeside]...)}},
		{what: "the second behind more units", rule: unit, own: ownUnit, names: append(units(manyBeside+2), ownUnit), data: fmt.Sprint(manyBeside + 1), want: line.Position{Present: true, Ahead: manyBeside + 2, Watch: members}},
		{what: "the third that waits", rule: unit, own: ownUnit, names: []string{"0-lease-0000000000", heavy, c, b, ownUnit, a}, data: "4 unit", want: line.Position{Present: true, Ahead: 5, Watch: changed(heavy)}},
		{what: "weights count", rule: unit, own: ownUnit, names: []string{heavy, a, ownUnit}, data: "3 unit", want: line.Position{Present: true, Ahead: 2, Watch: members}},
		{what: "nobody overtakes", rule: unit, own: ownUnit, names: []string{"x-lease-3-0000000000", heavy, ownUnit}, data: "4 unit", want: line.Position{Present: true, Ahead: 2, Watch: changed(heavy), Beside: gone("x-lease-3-0000000000")}},
		{what: "who makes room for all ahead", rule: unit, own: ownUnit, names: []string{"x-lease-3-0000000000", "y-lease-2-0000000001", b, c, ownUnit}, data: "4", want: line.Position{Present: true, Ahead: 4, Watch: changed(c), Beside: gone("x-lease-3-0000000000")}},
		{what: "who makes room for some", rule: unit, own: ownUnit, names: []string{"x-lease-2-0000000000", "y-lease-2-0000000001", b, c, ownUnit}, data: "3", want: line.Position{Present: true, Ahead: 4, Watch: changed(c)}},
		{what: "many who make room", rule: unit, own: ownUnit, names: append(heavies(manyBeside+1), c, ownUnit), data: "18", want: line.Position{Present: true, Ahead: manyBeside + 2, Watch: members}},
		{what: "not so many who make room", rule: unit, own: ownUnit, names: append(heavies(manyBeside), c, ownUnit), data: "16", want: line.Position{Present: true, Ahead: manyBeside + 1, Watch: changed(c), Beside: gone(heavies(manyBeside)...)}},
		{what: "all or nothing", rule: two, own: ownTwo, names: []string{a, b, ownTwo}, data: "3", want: line.Position{Present: true, Ahead: 2, Watch: members}},
		{what: "two fit", rule: two, own: ownTwo, names: []string{a, ownTwo}, data: "3", want: line.Position{Present: true}},
		{what: "others have counted it for one", rule: two, own: ownTwo, names: []string{a, ownTwo}, data: "3 unit", want: line.Position{Present: true, Ahead: 1, Invalid: true}},
		{what: "foreign children", rule: unit, own: ownUnit, names: []string{"config", "log-0000000001", "lease-x", c, b, ownUnit}, data: "3 unit", want: line.Position{Present: true}},
		{what: "zombies", rule: unit, own: ownUnit, names: []string{own(unit, "0000000002"), ownUnit, own(unit, "0000000007"), a, b}, data: "3 unit", want: line.Position{Present: true, Zombies: []string{own(unit, "0000000002"), own(unit, "0000000007")}}},
		{what: "numbers that wrap", rule: unit, own: own(unit, "-2147483647"), names: []string{"a-lease-2147483647", own(unit, "-2147483647"), "b-lease--2147483648", "z-lease--2147483646"}, data: "2 unit", want: line.Position{Present: true, Ahead: 2, AnnounceGrant: true, Watch: line.Target{Node: "b-lease--2147483648"}, Beside: gone("a-lease-2147483647")}},
		{what: "numbers that wrap, further back", rule: unit, own: own(unit, "-2147483647"), names: []string{"a-lease-2147483647", own(unit, "-2147483647"), "b-lease--2147483648"}, data: "1 unit", want: line.Position{Present: true, Ahead: 2, Watch: line.Target{Node: "b-lease--2147483648"}}},
		{what: "weights that overflow", rule: unit, own: ownUnit, names: []string{"a-lease-1000000000-0000000001", "b-lease-1000000000-0000000002", "c-lease-1000000000-0000000003", ownUnit}, data: "1000000000", want: line.Position{
			Present: true, Ahead: 3, Watch: changed("c-lease-1000000000-0000000003"),
			Beside: gone("a-lease-1000000000-0000000001", "b-lease-1000000000-0000000002"), // there may be more than are counted
		}},

		{what: "another limit is recorded", rule: unit, own: ownUnit, names: []string{ownUnit}, data: "4 unit", isNew: true, want: line.Position{Present: true}, limit: true},
		{what: "another limit since", rule: unit, own: ownUnit, names: []string{ownUnit, a, b, c}, data: "4 unit", want: line.Position{Present: true}},
		{what: "a smaller limit since", rule: unit, own: ownUnit, names: []string{ownUnit, a}, data: "1 unit", want: line.Position{Present: true, Ahead: 1, Watch: line.Target{Node: a}}},
		{what: "any limit", rule: five, own: own(five, "0000000005"), names: []string{own(five, "0000000005")}, data: "5", isNew: true, want: line.Position{Present: true}},
		{what: "any limit, but less than the weight", rule: five, own: own(five, "0000000005"), names: []string{own(five, "0000000005")}, data: "4", isNew: true, want: line.Position{Present: true}, limit: true},
		{what: "less than the weight since", rule: two, own: ownTwo, names: []string{ownTwo, a}, data: "1", want: line.Position{Present: true, Ahead: 1}, limit: true},
		{what: "no limit", rule: unit, own: ownUnit, names: []string{ownUnit}, data: "many", want: line.Position{Present: true}, limit: true},
	} {
		got := row.rule.Locate(line.Snapshot{Names: row.names, Data: row.data, New: row.isNew}, row.own, guid)
		check.Equal(t, errors.Is(got.Err, ErrLimit), row.limit, row.what, "refused:", got.Err)
		got.Err = nil
		check.True(t, slices.Equal(got.Zombies, row.want.Zombies) && fmt.Sprint(got) == fmt.Sprint(row.want), "%s:\n%+v, want\n%+v", row.what, got, row.want)
	}
	for _, row := range []struct {
		rule       admission
		contenders int
		data       string
		want       bool
	}{
		{unit, 3, "3 unit", true},
		{unit, 4, "3 unit", false},
		{unit, 1, "3", false},
		{unit, 1, "4 unit", false},
		{unit, 1, "", false},
		{two, 1, "3 unit", false},
		{two, 1, "3", false},
		{admission{Limit: 1, Weight: 1, Any: true}, 3, "4 unit", true},
	} {
		check.Equal(t, row.rule.Room(row.contenders, row.data), row.want, "room for", row.rule, "among", row.contenders, "of", row.data)
	}
}

// units returns the names of n contenders of weight 1, which stand first.
func units(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("u%d-lease-%010d", i, i-n))
	}
	return names
}

// heavies returns the names of n contenders of weight 2, which stand first.
func heavies(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("h%d-lease-2-%010d", i, i-n))
	}
	return names
}

// TestRecordNewerThanNode: what a contender of weight 2 finds when it looks may have been another
// record when its node was created.
func TestRecordNewerThanNode(t *testing.T) {
	for _, row := range []struct {
		weight   int
		unproven bool
		czxid    int64
		record   string
		invalid  bool
	}{
		{2, true, 7, "3@8", true},
		{2, true, 7, "3@6", false},
		{2, true, 7, "3@7", false},
		{2, true, 7, "3 unit@6", true},
		{2, false, 7, "3@8", false},
		{2, false, 7, "3 unit@6", true},
		{2, true, 0, "3@8", false}, // it is looked at again when that is known
		{1, true, 7, "3@8", false},
	} {
		own := "_c_g-lease-2-0000000000"
		if row.weight == 1 {
			own = "_c_g-lease-0000000000"
		}
		p := admission{Limit: 3, Weight: row.weight}.Locate(line.Snapshot{Names: []string{own}, Data: row.record, Unproven: row.unproven, Czxid: row.czxid}, own, "g")
		check.True(t, p.Present && p.Err == nil && p.Invalid == row.invalid, "%+v: %+v", row, p)
	}
}

func TestUndeliveredEvents(t *testing.T) {
	if ev, ok := presentation.Merge(Waiting{3}, Waiting{2}); !ok || ev != (Waiting{2}) {
		t.Errorf("merged to %v, %v", ev, ok)
	}
	edges := []Event{Acquired{}, Suspended{}, Resumed{}, Released{}, Lost{}}
	for _, a := range append(edges, Waiting{}) {
		for _, b := range edges {
			if _, ok := presentation.Merge(a, b); ok {
				t.Errorf("%v is merged into %v", b, a)
			}
			if _, ok := presentation.Merge(b, a); ok {
				t.Errorf("%v is merged into %v", a, b)
			}
			_, s := a.(Suspended)
			_, r := b.(Resumed)
			check.Equal(t, presentation.Cancel(a, b), s && r, b, "cancels", a)
			_, acquired := a.(Acquired)
			_, lost := b.(Lost)
			_, again := b.(Acquired)
			check.Equal(t, presentation.Keep(a, b), acquired && !lost && !again, b, "keeps", a)
		}
	}
}

// TestNumberVerdicts: what a lease concludes from the answers about its number, and what it
// removes.
func TestNumberVerdicts(t *testing.T) {
	const own, other = "_c_g-lease-0000000002", "_c_h-lease-0000000001"
	n := number{path: "/p", node: own, n: 3}
	for _, row := range []struct {
		op   int
		err  error
		want claim.Verdict
	}{
		{0, session.ErrNoNode, claim.Verdict{Err: session.ErrNoNode}}, // its own node
		{1, session.ErrBadVersion, claim.Verdict{Err: session.ErrBadVersion}},
		{2, session.ErrNodeExists, claim.Verdict{Taken: true}},
		{2, session.ErrNoNode, claim.Verdict{Err: errNoNumbers}},
		{2, session.ErrNoAuth, claim.Verdict{Err: session.ErrNoAuth}},
	} {
		_, got := n.Refused(row.op, row.err)
		check.Equal(t, got, row.want, row.op, row.err)
	}
	for _, row := range []struct {
		found claim.Found
		want  claim.Verdict
	}{
		{claim.Found{Data: []byte(own), Stat: &session.Stat{Czxid: 7, Version: 1}}, claim.Verdict{Zxid: 7, Version: 1}},
		{claim.Found{Data: []byte(other), Stat: &session.Stat{Czxid: 7, Version: 1}}, claim.Verdict{Taken: true}},
		{claim.Found{Err: session.ErrNoNode}, claim.Verdict{Next: claim.Take}},
		{claim.Found{Err: session.ErrDisconnected}, claim.Verdict{Next: claim.Look}},
		{claim.Found{Err: session.ErrNoAuth}, claim.Verdict{Err: session.ErrNoAuth}},
	} {
		_, got := n.Judge([]claim.Found{row.found})
		check.Equal(t, got, row.want, string(row.found.Data), row.found.Err)
	}
	one := n.Remove(own, "_c_g-", claim.Claim{}, true)
	check.True(t, one.Path == "/p/leases/"+own && one.Prefix == "", "%+v", one)
	check.True(t, one.Then.Path == "/p/numbers/3" && one.Then.Says([]byte(own)), "%+v", one.Then)
	check.False(t, one.Then.Says([]byte(other)) || one.Then.Says([]byte("_c_g-lease-0000000009")), "the number of another node goes")
	all := n.Remove("", "_c_g-", claim.Claim{}, true)
	check.True(t, all.Path == "/p/leases" && all.Prefix == "_c_g-", "%+v", all)
	check.True(t, all.Then.Says([]byte(own)) && !all.Then.Says([]byte(other)), "%+v", all.Then)
	n.n = noNumber
	check.True(t, n.Remove(own, "_c_g-", claim.Claim{}, true).Then == nil, "it has chosen no number")
}

// TestReadCondition: the children of the path are listed where there is more than the line.
func TestReadCondition(t *testing.T) {
	for _, row := range []struct {
		child    string
		requests int
		want     error
	}{
		{"", 1, nil},
		{"numbers", 2, nil},
		{"locks", 2, ErrLayout}, // Curator's
	} {
		all := []zkmodel.Node{{Path: "/p", Data: "3 unit", Mzxid: 4}, {Path: "/p/leases"}}
		if row.child != "" {
			all = append(all, zkmodel.Node{Path: "/p/" + row.child})
		}
		w := zkmodel.New(zkmodel.Faults{}, 1, all...)
		s := &store{path: "/p", rule: admission{Limit: 3, Weight: 1}}
		answers := 0
		s.Read(w.Sessions[0].Async(0), func(data string, err error) {
			answers++
			check.Equal(t, data, "3 unit@4", row.child)
			check.Is(t, err, row.want, row.child)
		})
		for n := range row.requests {
			check.Equal(t, answers, 0, row.child, "after", n)
			w.Apply(zkmodel.Action{Kind: "serve"})
		}
		check.Equal(t, answers, 1, row.child)
	}
}
