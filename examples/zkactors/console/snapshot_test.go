package console

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/session"
)

// A mirror is the state of a page: it applies messages like the page.
type mirror struct {
	heads map[string]string
	lines map[string][]contender
}

func (p *mirror) receive(t *testing.T, m message) {
	t.Helper()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	m = message{}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if m.Full {
		p.heads, p.lines = make(map[string]string), make(map[string][]contender)
	}
	for _, key := range m.Drop {
		delete(p.heads, key)
		delete(p.lines, key)
	}
	for _, c := range m.Things {
		if c.Head != nil {
			p.heads[c.Key] = string(c.Head)
		}
		line := slices.DeleteFunc(p.lines[c.Key], func(x contender) bool { return slices.Contains(c.Delete, x.Node) })
		for _, put := range c.Insert {
			line = slices.Insert(line, put.At, put.Contender)
		}
		for _, put := range c.Set {
			line[put.At] = put.Contender
		}
		p.lines[c.Key] = line
	}
}

func (p *mirror) compare(t *testing.T, s *snapshot) {
	t.Helper()
	if len(p.heads) != len(s.things) {
		t.Fatalf("the page has %d things, want %d", len(p.heads), len(s.things))
	}
	for _, thing := range s.things {
		var want []contender
		for _, c := range thing.line {
			want = append(want, short(c))
		}
		if got := p.lines[thing.key]; !slices.Equal(got, want) || p.heads[thing.key] != string(thing.head) {
			t.Fatalf("%s: the page has %v, want %v", thing.key, got, want)
		}
	}
}

// TestDifferences: a page that misses some snapshots ends with the same state as the newest
// snapshot.
func TestDifferences(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var page mirror
		var sent *snapshot
		now := &snapshot{}
		survey := &inspect.Survey{}
		for range 20 {
			survey = mutate(random, survey)
			next := *now
			next.take(survey)
			now = &next
			if random.IntN(2) == 0 {
				page.receive(t, difference(sent, now))
				page.compare(t, now)
				sent = now
			}
		}
	}
}

var nodes int // the number of nodes that mutate has made

// mutate returns a changed copy of a survey.
func mutate(random *rand.Rand, s *inspect.Survey) *inspect.Survey {
	next := &inspect.Survey{Exists: true, Taken: time.Now()}
	for _, thing := range s.Things {
		if random.IntN(10) == 0 {
			continue
		}
		line := slices.Clone(thing.Contenders)
		for range random.IntN(3) {
			switch n := len(line); {
			case n == 0, random.IntN(2) == 0:
				nodes++
				line = slices.Insert(line, random.IntN(n+1), inspect.Contender{Node: fmt.Sprint("/n-", nodes)})
			case random.IntN(2) == 0:
				line = slices.Delete(line, 0, 1)
			case random.IntN(2) == 0:
				line[random.IntN(n)].Revoked = true
			default:
				i, j := random.IntN(n), random.IntN(n)
				line[i], line[j] = line[j], line[i]
			}
		}
		for i := range line {
			line[i].Holds = i == random.IntN(3)
		}
		thing.Contenders, thing.Line = line, len(line)
		next.Things = append(next.Things, thing)
	}
	if random.IntN(3) == 0 {
		nodes++
		next.Things = append(next.Things, inspect.Thing{Path: fmt.Sprint("/l-", nodes), Kind: inspect.Lock})
	}
	return next
}

// TestHandOver: the message about a hand-over in a long line is short, and a message without a
// change is empty.
func TestHandOver(t *testing.T) {
	line := make([]inspect.Contender, 10_000)
	for i := range line {
		line[i] = inspect.Contender{Node: fmt.Sprint("/l/n-", i), Wants: "exclusive", Identity: "host:1", Since: time.Now(), Holds: i == 0}
	}
	survey := func(line []inspect.Contender) *inspect.Survey {
		return &inspect.Survey{Things: []inspect.Thing{{Path: "/l", Kind: inspect.Lock, Contenders: line, Line: len(line)}, {Path: "/m", Kind: inspect.Lock}}}
	}
	var a, b snapshot
	a.take(survey(line))
	next := slices.Clone(line[1:])
	next[0].Holds = true
	b = a
	b.take(survey(next))
	text, err := json.Marshal(difference(&a, &b))
	if err != nil || len(text) > 1000 {
		t.Errorf("%d bytes, %v: %.200s", len(text), err, text)
	}
	c := b
	c.take(survey(slices.Clone(next)))
	if m := difference(&b, &c); len(m.Things) > 0 || len(m.Drop) > 0 {
		t.Errorf("%+v", m)
	}
}

// TestLongLists: lists other than a line are sent in part, with their lengths.
func TestLongLists(t *testing.T) {
	entries := make([]inspect.Entry, 1000)
	for name, thing := range map[string]inspect.Thing{
		"members": {Members: entries},
		"values":  {Values: entries},
		"tx":      {Transactions: make([]inspect.Transaction, 1000)},
		"inside":  {Double: &inspect.Rounds{Inside: entries}},
		"waiting": {Double: &inspect.Rounds{Waiting: entries}},
	} {
		head := string(newThing(thing).head)
		if n := strings.Count(head, `"since"`); n != most || !strings.Contains(head, fmt.Sprintf(`"counts":{%q:1000}`, name)) {
			t.Errorf("%s: %d entries in %.300s", name, n, head)
		}
	}
	if claims := string(newThing(inspect.Thing{Queue: &inspect.QueueState{Claimed: 1000, Claims: make([]inspect.Claim, 1000)}}).head); strings.Count(claims, `"since"`) != most {
		t.Error("claims are not bounded")
	}
}

func TestStates(t *testing.T) {
	s := connecting()
	for _, step := range []struct {
		ev   session.Event
		want string
	}{
		{session.Connected{Server: "a:1"}, "connected a:1"},
		{session.Suspended{Deadline: time.Now()}, "suspended a:1"},
		{session.Lapsed{}, "suspended a:1"},
		{session.Resumed{Server: "b:1"}, "connected b:1"},
		{session.Expired{}, "expired b:1"},
		{session.Closed{}, "closed b:1"},
	} {
		s = stateOf(step.ev, s)
		_, until := step.ev.(session.Suspended)
		if got := s.Name + " " + s.Server; got != step.want || (s.Deadline != 0) != until || s.Since == 0 {
			t.Errorf("%v: %+v", step.ev, s)
		}
	}
}

// TestOrphan: the page learns that no session owns the node of a contender.
func TestOrphan(t *testing.T) {
	for _, none := range []bool{false, true} {
		text, err := json.Marshal(short(stander{Contender: inspect.Contender{NoSession: none}}))
		if err != nil || strings.Contains(string(text), `"o":true`) != none {
			t.Errorf("of no session: %v: %s, %v", none, text, err)
		}
	}
}
