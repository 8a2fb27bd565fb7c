package contender

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// A family has nodes below a path, and answers at once.
type family struct {
	client.Async
	lists  [][]string // the last one lasts
	owners map[string]int64
	gone   []string
	fails  error // of every Exists
	looked []string
}

// A host is a session of a family.
type host struct {
	client.Session
	warmth *client.Warmth
	family *family
}

func hostOf(f *family) host { return host{warmth: new(client.Warmth), family: f} }

func (h host) Sharing(int) client.Async                   { return h.family }
func (h host) Warm(path string) bool                      { return h.warmth.Warm(path) }
func (h host) SetWarm(path string, is bool)               { h.warmth.SetWarm(path, is) }
func (h host) Saw(path string, version int32, first bool) { h.warmth.Saw(path, version, first) }

func (f *family) Children(_ string, answer func([]string, *session.Stat, error)) {
	names := f.lists[0]
	if len(f.lists) > 1 {
		f.lists = f.lists[1:]
	}
	answer(names, &session.Stat{Czxid: 1}, nil)
}

func (f *family) Exists(path string, answer func(*session.Stat, error)) {
	name := strings.TrimPrefix(path, "/l/")
	f.looked = append(f.looked, name)
	if f.fails != nil || slices.Contains(f.gone, name) {
		answer(nil, f.fails)
		return
	}
	answer(&session.Stat{EphemeralOwner: f.owners[name]}, nil)
}

// TestUnknown: a list is answered when the names that may be those of contenders have been looked
// up, by a list that is as new as that.
func TestUnknown(t *testing.T) {
	const own, a, b = "_c_01234567-89ab-4def-8123-456789abcdef-lock-0000000003", "x-0000000001", "0000000002"
	at := line.Attempt{Epoch: 1, N: 1}
	listed := func(unknown []string, names ...string) line.Input {
		return line.Listed{Attempt: at, Snapshot: line.Snapshot{Names: names, Unknown: unknown}}
	}
	for _, row := range []struct {
		danger string
		family
		want   line.Input
		looked string
		again  string // that are looked up by another list
	}{
		{"none", family{lists: [][]string{{own, "config"}}}, listed(nil, own, "config"), "", ""},
		{"a user's", family{lists: [][]string{{own, a}}}, listed(nil, own, a), a, ""},
		{"users' nodes, and a newer list", family{lists: [][]string{{own, a, b}, {a}}}, listed(nil, a), a + " " + b, ""},
		{"one that has come meanwhile is left to the next list", family{lists: [][]string{{own, a}, {own, a, b}}}, listed(nil, own, a, b), a, b},
		{"a contender", family{lists: [][]string{{a, own, b}, nil}, owners: map[string]int64{b: 7}}, listed([]string{b}, a, own, b), a + " " + b, ""},
		{"one that has gone", family{lists: [][]string{{a, own}, {own}}, gone: []string{a}}, listed(nil, own), a, ""},
		{"a lost reply", family{lists: [][]string{{a, own}}, fails: session.ErrDisconnected}, line.Failed{What: line.ListParent{Attempt: at}, Err: session.ErrDisconnected}, a, a},
	} {
		f := row.family
		p := NewPerformer(hostOf(&f), &Recipe{Path: "/l", Dir: "/l"})
		var answers []line.Input
		p.Perform(line.ListParent{Attempt: at}, func(in line.Input) { answers = append(answers, in) })
		check.True(t, len(answers) == 1 && reflect.DeepEqual(answers[0], row.want), "%s: %v", row.danger, answers)
		check.Equal(t, strings.Join(f.looked, " "), row.looked, row.danger)
		f.looked = nil
		p.Perform(line.ListParent{Attempt: at}, func(line.Input) {})
		check.Equal(t, strings.Join(f.looked, " "), row.again, row.danger, "again")
		p.End()
	}
}

// TestUnknownMember: a reading of the members with a name that is yet to be looked up leads to a
// list.
func TestUnknownMember(t *testing.T) {
	const a = "x-0000000001"
	f := &family{lists: [][]string{{a}}}
	p := NewPerformer(hostOf(f), &Recipe{Path: "/l", Dir: "/l", Condition: known{}})
	defer p.End()
	read := session.Reading{Data: []byte("5"), Stat: new(session.Stat)}
	p.owned.Keep(aspectData{}, &following{Subscription: subscription{}, newest: read})
	p.owned.Keep(aspectChildren{}, &following{Subscription: subscription{}, newest: read})
	e := line.WatchTarget{Target: line.Target{Until: line.Members}}
	var last line.Input
	hear := p.watches.members(e, func(in line.Input) { last = in })
	for _, row := range []struct {
		names []string
		want  line.Input
	}{
		{[]string{a}, line.Watched{Target: e.Target}},
		{[]string{"y-0000000002"}, line.Reevaluate{}},
		{nil, line.Seen{Snapshot: line.Snapshot{Data: "5"}}},
	} {
		hear(session.Reading{Names: row.names, Stat: new(session.Stat)}, nil)
		check.True(t, reflect.DeepEqual(last, row.want), "%v: %#v", row.names, last)
	}
	p.watches.session.SetWarm(p.watches.known(0, a, 0), true)
	hear(session.Reading{Names: []string{a}, Stat: new(session.Stat)}, nil)
	check.True(t, reflect.DeepEqual(last, line.Seen{Snapshot: line.Snapshot{Names: []string{a}, Data: "5"}}), "known: %#v", last)
}

// TestRefuse: the error names the contender. What cannot be looked up is no contender.
func TestRefuse(t *testing.T) {
	f := &family{owners: map[string]int64{"0000000002": 7, "config": 7}}
	refuse := func(names ...string) (err error) {
		answers := 0
		Refuse(f, "/l", names, func(e error) { answers, err = answers+1, e })
		check.Equal(t, answers, 1, names)
		return err
	}
	check.OK(t, refuse())
	check.OK(t, refuse("config", "x-0000000001"))
	err := refuse("config", "x-0000000001", "0000000002")
	check.True(t, errors.Is(err, line.ErrLayout) && strings.Contains(err.Error(), "there is 0000000002,"), "%v", err)
	f.fails = session.ErrDisconnected
	check.Is(t, refuse("0000000002"), session.ErrDisconnected)
}
