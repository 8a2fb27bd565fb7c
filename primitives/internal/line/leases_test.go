package line

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/session"
)

func TestLeaseNames(t *testing.T) {
	const guid = "01234567-89ab-4cde-8f01-23456789abcd"
	for name, want := range map[string]struct {
		weight int
		number int32
	}{
		Leases{Weight: 1}.Name(guid) + "0000000005":    {1, 5},
		Leases{Weight: 3}.Name(guid) + "0000000005":    {3, 5},
		Leases{Weight: 12}.Name(guid) + "2147483647":   {12, math.MaxInt32},
		Leases{Weight: 3}.Name(guid) + "-2147483648":   {3, math.MinInt32},
		Leases{Weight: 1}.Name(guid) + "-000000001":    {1, -1},
		"lease-0000000001":                             {1, 1},
		"lease-1000000000-0000000001":                  {MaxLimit, 1},
		"x-lease-7-0000000001":                         {7, 1},
		"x-lease-0000000009-lease-2-0000000001":        {2, 1},
		Leases{Weight: 1}.Prefix(guid) + "lease-x":     {},
		Leases{Weight: 1}.Prefix(guid) + "lock-000001": {},
		"lease-0-0000000001":                           {},
		"lease-03-0000000001":                          {},
		"lease--3-0000000001":                          {},
		"lease-1000000001-0000000001":                  {},
		"lease-3-1":                                    {},
		"lease-3-":                                     {},
		"lease-3":                                      {},
		"lease-":                                       {},
		"release-0000000001":                           {},
		"leases":                                       {},
		"":                                             {},
	} {
		c, weight, ok := ParseLease(name)
		if ok != (want.weight > 0) || ok && (weight != want.weight || c.Number != want.number || c.Name != name) {
			t.Errorf("%q: %+v, %d, %v", name, c, weight, ok)
		}
	}
	numbers := []string{"b-lease-2147483646", "a-lease-9-2147483647", "d-lease--2147483648", "c-lease-2--2147483647"}
	mixed := []string{numbers[2], "config", numbers[0], numbers[3], "lock-0000000001", numbers[1]}
	if line := (Leases{}).Line(mixed); !slices.Equal(line, numbers) {
		t.Errorf("the line is %q", line)
	}
}

func TestRecords(t *testing.T) {
	for data, want := range map[string]Record{
		"10": {10, false}, "10 unit": {10, true}, "1\n": {1, false}, " 7 unit \n": {7, true}, "1000000000": {MaxLimit, false},
		"": {}, "0": {}, "-1": {}, "+1": {}, "01": {}, "1.5": {}, "ten": {}, "10 heavy": {}, "unit": {}, " unit": {}, "1000000001": {}, "99999999999999999999": {},
	} {
		r, err := ParseRecord(data)
		if r != want || (err == nil) != (want.Limit > 0) || err != nil && !errors.Is(err, ErrLimit) {
			t.Errorf("%q: %v, %v", data, r, err)
		}
		if again, err := ParseRecord(r.String()); err == nil && again != r {
			t.Errorf("%q is written as %q", data, r)
		}
	}
}

func TestLeasesLocate(t *testing.T) {
	guid := actorID(9)
	unit, two, five := Leases{Limit: 3, Weight: 1}, Leases{Limit: 3, Weight: 2}, Leases{Limit: 9, Weight: 5, Any: true}
	own := func(l Leases, number string) string { return l.Name(guid) + number }
	const a, b, c, heavy = "a-lease-0000000001", "b-lease-0000000002", "c-lease-0000000003", "h-lease-2-0000000004"
	ownUnit, ownTwo := own(unit, "0000000005"), own(two, "0000000005")
	const behind = "z-lease-0000000006"
	members := Target{Until: Members}
	changed := func(node string) Target { return Target{Node: node, Until: Changed} }
	for _, row := range []struct {
		what  string
		rule  Leases
		own   string
		names []string
		data  string
		isNew bool
		want  Position
		limit bool // want.Err is ErrLimit
	}{
		{what: "alone", rule: unit, own: ownUnit, names: []string{ownUnit}, data: "3 unit", isNew: true, want: Position{Present: true}},
		{what: "not in line", rule: unit, own: ownUnit, names: []string{a}, data: "3 unit", want: Position{Ahead: 1}},
		{what: "not in line, and of another mind", rule: unit, own: ownUnit, names: nil, data: "4 unit", isNew: true},
		{what: "the last that fits", rule: unit, own: ownUnit, names: []string{b, ownUnit, a}, data: "3 unit", want: Position{Present: true}},
		{what: "somebody behind is told", rule: unit, own: ownUnit, names: []string{behind, b, ownUnit, a}, data: "3 unit", want: Position{Present: true, Announce: true}},
		{what: "the first that waits", rule: unit, own: ownUnit, names: []string{c, b, ownUnit, a}, data: "3 unit", want: Position{Present: true, Ahead: 3, Watch: members}},
		{what: "the second that waits", rule: unit, own: ownUnit, names: []string{heavy, b, ownUnit, a}, data: "3 unit", want: Position{Present: true, Ahead: 3, Watch: changed(heavy), Beside: []string{a, b}}},
		{what: "the third that waits", rule: unit, own: ownUnit, names: []string{"0-lease-0000000000", heavy, c, b, ownUnit, a}, data: "4 unit", want: Position{Present: true, Ahead: 5, Watch: changed(heavy)}},
		{what: "weights count", rule: unit, own: ownUnit, names: []string{heavy, a, ownUnit}, data: "3 unit", want: Position{Present: true, Ahead: 2, Watch: members}},
		{what: "nobody overtakes", rule: unit, own: ownUnit, names: []string{"x-lease-3-0000000000", heavy, ownUnit}, data: "4 unit", want: Position{Present: true, Ahead: 2, Watch: changed(heavy), Beside: []string{"x-lease-3-0000000000"}}},
		{what: "who makes room for all ahead", rule: unit, own: ownUnit, names: []string{"x-lease-3-0000000000", "y-lease-2-0000000001", b, c, ownUnit}, data: "4", want: Position{Present: true, Ahead: 4, Watch: changed(c), Beside: []string{"x-lease-3-0000000000"}}},
		{what: "who makes room for some", rule: unit, own: ownUnit, names: []string{"x-lease-2-0000000000", "y-lease-2-0000000001", b, c, ownUnit}, data: "3", want: Position{Present: true, Ahead: 4, Watch: changed(c)}},
		{what: "many who make room", rule: unit, own: ownUnit, names: append(heavies(manyBeside+1), c, ownUnit), data: "18", want: Position{Present: true, Ahead: manyBeside + 2, Watch: members}},
		{what: "not so many who make room", rule: unit, own: ownUnit, names: append(heavies(manyBeside), c, ownUnit), data: "16", want: Position{Present: true, Ahead: manyBeside + 1, Watch: changed(c), Beside: heavies(manyBeside)}},
		{what: "all or nothing", rule: two, own: ownTwo, names: []string{a, b, ownTwo}, data: "3", want: Position{Present: true, Ahead: 2, Watch: members}},
		{what: "two fit", rule: two, own: ownTwo, names: []string{a, ownTwo}, data: "3", want: Position{Present: true}},
		{what: "others have counted it for one", rule: two, own: ownTwo, names: []string{a, ownTwo}, data: "3 unit", want: Position{Present: true, Ahead: 1, Invalid: true}},
		{what: "foreign children", rule: unit, own: ownUnit, names: []string{"config", "log-0000000001", "lease-x", c, b, ownUnit}, data: "3 unit", want: Position{Present: true}},
		{what: "zombies", rule: unit, own: ownUnit, names: []string{own(unit, "0000000002"), ownUnit, own(unit, "0000000007"), a, b}, data: "3 unit", want: Position{Present: true, Zombies: []string{own(unit, "0000000002"), own(unit, "0000000007")}}},
		{what: "numbers that wrap", rule: unit, own: own(unit, "-2147483647"), names: []string{"a-lease-2147483647", own(unit, "-2147483647"), "b-lease--2147483648", "z-lease--2147483646"}, data: "2 unit", want: Position{Present: true, Ahead: 2, Announce: true, Watch: members}},
		{what: "numbers that wrap, further back", rule: unit, own: own(unit, "-2147483647"), names: []string{"a-lease-2147483647", own(unit, "-2147483647"), "b-lease--2147483648"}, data: "1 unit", want: Position{Present: true, Ahead: 2, Watch: changed("b-lease--2147483648"), Beside: []string{"a-lease-2147483647"}}},
		{what: "weights that overflow", rule: unit, own: ownUnit, names: []string{"a-lease-1000000000-0000000001", "b-lease-1000000000-0000000002", "c-lease-1000000000-0000000003", ownUnit}, data: "1000000000", want: Position{
			Present: true, Ahead: 3, Watch: changed("c-lease-1000000000-0000000003"),
			Beside: []string{"a-lease-1000000000-0000000001", "b-lease-1000000000-0000000002"}, // there may be more than are counted
		}},

		{what: "another limit is recorded", rule: unit, own: ownUnit, names: []string{ownUnit}, data: "4 unit", isNew: true, want: Position{Present: true}, limit: true},
		{what: "another limit since", rule: unit, own: ownUnit, names: []string{ownUnit, a, b, c}, data: "4 unit", want: Position{Present: true}},
		{what: "a smaller limit since", rule: unit, own: ownUnit, names: []string{ownUnit, a}, data: "1 unit", want: Position{Present: true, Ahead: 1, Watch: members}},
		{what: "any limit", rule: five, own: own(five, "0000000005"), names: []string{own(five, "0000000005")}, data: "5", isNew: true, want: Position{Present: true}},
		{what: "any limit, but less than the weight", rule: five, own: own(five, "0000000005"), names: []string{own(five, "0000000005")}, data: "4", isNew: true, want: Position{Present: true}, limit: true},
		{what: "less than the weight since", rule: two, own: ownTwo, names: []string{ownTwo, a}, data: "1", want: Position{Present: true, Ahead: 1}, limit: true},
		{what: "no limit", rule: unit, own: ownUnit, names: []string{ownUnit}, data: "many", want: Position{Present: true}, limit: true},
	} {
		got := row.rule.Locate(Sight{row.names, row.data, row.isNew}, row.own, guid)
		if errors.Is(got.Err, ErrLimit) != row.limit {
			t.Errorf("%s: %v", row.what, got.Err)
		}
		got.Err = nil
		if !slices.Equal(got.Zombies, row.want.Zombies) || fmt.Sprint(got) != fmt.Sprint(row.want) {
			t.Errorf("%s:\n%+v, want\n%+v", row.what, got, row.want)
		}
	}
	for _, row := range []struct {
		rule       Leases
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
		{Leases{Limit: 1, Weight: 1, Any: true}, 3, "4 unit", true},
	} {
		if got := row.rule.Room(row.contenders, row.data); got != row.want {
			t.Errorf("room for %+v among %d of %q: %v", row.rule, row.contenders, row.data, got)
		}
	}
}

// heavies returns the names of n contenders of weight 2, which stand first.
func heavies(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("h%d-lease-2-%010d", i, i-n))
	}
	return names
}

// What is told by a machine with this rule; see the model for the rest.
func TestLeasesMachine(t *testing.T) {
	id := actorID(1)
	own, at := Published(attemptGUID(id, 1))+"lease-0000000005", attempt{1, 1}
	const a = "a-lease-0000000001"
	hello := heard{session.Connected{Epoch: 1, ID: 9}}
	waits := []Input{hello, joined{at, own, 7, 2, "1 unit"}, listed{at, Sight{Names: []string{a, own}, Data: "1"}}}
	holds := []Input{hello, joined{at, own, 7, 1, "1 unit"}}
	const b, c = "b-lease-0000000002", "c-lease-0000000003"
	two := listed{at, Sight{Names: []string{a, b, own}, Data: "1"}}
	const h = "h-lease-3-0000000001"
	behindHeavy := []Input{hello, joined{at, own, 7, 3, "1 unit"}, listed{at, Sight{Names: []string{h, b, own}, Data: "1"}}}
	second := []Input{hello, joined{at, own, 7, 3, "1 unit"}, two}
	for _, row := range []struct {
		danger string
		before []Input
		in     Input
		state  state
		do     []Effect
	}{
		{"a list under way is made of two reads", append(slices.Clone(waits), Look{}, Look{}), listed{at, Sight{Names: []string{a, own}, Data: "1"}}, waiting, []Effect{listParent{at}}},
		{"once more, not for ever", append(slices.Clone(waits), Look{}, Look{}, listed{at, Sight{Names: []string{a, own}, Data: "1"}}), listed{at, Sight{Names: []string{a, own}, Data: "1"}}, waiting, nil},
		{"all are watched: what has changed before is not told", waits, watched{attempt: at, target: Target{Until: Members}}, waiting, []Effect{listParent{at}}},
		{"the one ahead has announced itself: all are watched", second, watched{attempt: at, target: Target{b, Changed}, announced: true}, waiting, []Effect{unwatchTarget{at, Target{b, Changed}}, watchTarget{at, Target{Until: Members}}}},
		{"and it is not watched again", append(slices.Clone(second), watched{attempt: at, target: Target{b, Changed}, announced: true}, Look{}), two, waiting, nil},
		{"but another is", append(slices.Clone(second), watched{attempt: at, target: Target{b, Changed}, announced: true}, Look{}), listed{at, Sight{Names: []string{a, c, own}, Data: "1"}}, waiting, []Effect{unwatchTarget{at, Target{Until: Members}}, watchTarget{at, Target{c, Changed}}}},
		{"one that makes room cannot be read: who is next ahead tells enough", behindHeavy, failed{watchTarget{at, Target{Node: h}}, session.ErrNoAuth}, waiting, nil},
		{"one that makes room leaves", behindHeavy, gone{at, Target{Node: h}}, waiting, []Effect{listParent{at}}},
		{"and does not, any more", append(slices.Clone(behindHeavy), Look{}), two, waiting, []Effect{unwatchTarget{at, Target{Node: h}}, watchTarget{at, Target{Node: a}}}},
		{"nothing happened meanwhile", append(slices.Clone(waits), Look{}), listed{at, Sight{Names: []string{a, own}, Data: "1"}}, waiting, nil},
		{"granted meanwhile", append(slices.Clone(waits), Look{}, Look{}), listed{at, Sight{Names: []string{own}, Data: "1"}}, held, []Effect{unwatchTarget{at, Target{Until: Members}}}},
		{"a holder tells who is behind", holds, Look{}, held, []Effect{announce{at, own}}},
		{"and again if the server was busy", append(slices.Clone(holds), Look{}), failed{announce{at, own}, session.ErrBusy}, held, []Effect{announce{at, own}}},
		{"and again if that is lost", append(slices.Clone(holds), Look{}), failed{announce{at, own}, errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected)}, held, []Effect{announce{at, own}}},
		{"before there is anything to look at", []Input{hello}, Look{}, joining, nil},
	} {
		m, _ := script(New(id, Leases{Limit: 1, Weight: 1}, true, false), row.before...)
		next, out := m.Step(row.in)
		if next.state != row.state || !slices.Equal(out.Do, row.do) {
			t.Errorf("%s:\n%v\n-> %v\ndo   %v\nwant %v", row.danger, m, next, out.Do, row.do)
		}
	}

	heavy := Leases{Limit: 2, Weight: 2}
	own = heavy.Name(attemptGUID(id, 1)) + "0000000005"
	m, out := script(New(id, heavy, true, false), hello, joined{at, own, 7, 1, ""}, listed{at, Sight{Names: []string{own}, Data: "2 unit"}})
	if want := []Effect{withdrawAll{at, attemptGUID(id, 1)}}; m.state != clearing || !slices.Equal(out.Do, want) {
		t.Errorf("where others have counted it for one: %v, %v", m, out.Do)
	}
	m, out = m.Step(withdrawn{attempt: at})
	if want := []Effect{inspectParent{attempt{1, 2}, true}}; m.state != preparing || !slices.Equal(out.Do, want) {
		t.Errorf("then: %v, %v", m, out.Do)
	}
}
