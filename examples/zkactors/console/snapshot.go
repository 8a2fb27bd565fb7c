package console

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkactors/zkactors/examples/zkactors/internal/grants"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/session"
)

// This file has the content of the messages to the page, as pure functions.

// A state is the state of the console's session.
type state struct {
	Name     string `json:"name"`               // "connecting", "connected", "suspended", "expired" or "closed"
	Since    int64  `json:"since"`              // in milliseconds
	Server   string `json:"server,omitempty"`   // of the newest connection
	Deadline int64  `json:"deadline,omitempty"` // of a suspended session
}

func connecting() state { return state{Name: "connecting", Since: time.Now().UnixMilli()} }

func stateOf(ev session.Event, before state) state {
	next := state{Since: time.Now().UnixMilli(), Server: before.Server}
	switch ev := ev.(type) {
	case session.Connected:
		next.Name, next.Server = "connected", ev.Server
	case session.Resumed:
		next.Name, next.Server = "connected", ev.Server
	case session.Suspended:
		if next.Name = "suspended"; !ev.Deadline.IsZero() {
			next.Deadline = ev.Deadline.UnixMilli()
		}
	case session.Lapsed:
		next.Name = "suspended"
	case session.Expired:
		next.Name = "expired"
	case session.Closed:
		next.Name = "closed"
	}
	return next
}

// A snapshot is the content of the page at one moment. It is not modified after it is published.
type snapshot struct {
	state     state
	gap       bool // set when the session is not connected, cleared by a survey: meanwhile changes are seen late, or not at all
	path      string
	taken     int64 // when the survey was complete; 0 before the first survey
	exists    bool
	truncated bool
	things    []*thing // ordered by path
	grants    *grants.Known
}

// A thing is one recipe at one path. If a thing has not changed, two snapshots share it: they have
// the same pointer.
type thing struct {
	key    string
	kind   inspect.Kind
	layout string
	head   []byte // JSON of everything except the line
	of     inspect.Thing
	line   []stander
}

// A stander is a contender in line.
type stander struct {
	inspect.Contender

	granted grants.Grant // zero unless it holds
}

// most bounds the lists of a thing other than its line. The page shows the full lengths.
const most = 200

// counts are the full lengths of the lists that are sent in part.
type counts struct {
	Members int `json:"members,omitempty"`
	Values  int `json:"values,omitempty"`
	Inside  int `json:"inside,omitempty"`
	Waiting int `json:"waiting,omitempty"`
	Tx      int `json:"tx,omitempty"`
}

func newThing(t inspect.Thing) *thing {
	made := &thing{key: keyOf(&t), kind: t.Kind, layout: t.Layout, line: make([]stander, 0, len(t.Contenders))}
	for _, c := range t.Contenders {
		made.line = append(made.line, stander{Contender: c})
	}
	slices.SortStableFunc(made.line, func(a, b stander) int { return rank(a.Contender) - rank(b.Contender) })
	made.of = t
	t.Contenders = nil
	var n counts
	if t.Double != nil {
		d := *t.Double
		n.Inside, n.Waiting = len(d.Inside), len(d.Waiting)
		d.Inside, d.Waiting = first(d.Inside), first(d.Waiting)
		t.Double = &d
	}
	if t.Queue != nil {
		q := *t.Queue
		q.Claims = first(q.Claims)
		t.Queue = &q
	}
	n.Members, n.Values, n.Tx = len(t.Members), len(t.Values), len(t.Transactions)
	t.Members, t.Values, t.Transactions = first(t.Members), first(t.Values), first(t.Transactions)
	head, err := json.Marshal(struct {
		inspect.Thing

		Counts counts `json:"counts"`
	}{t, n})
	if err != nil {
		panic(err) // it has no value that JSON cannot represent
	}
	made.head = head
	return made
}

// rank sorts holders to the front.
func rank(c inspect.Contender) int {
	if c.Holds {
		return 0
	}
	return 1
}

func first[T any](all []T) []T { return all[:min(len(all), most)] }

// take puts a survey into the snapshot.
func (s *snapshot) take(survey *inspect.Survey) {
	before := make(map[string]*thing, len(s.things))
	for _, t := range s.things {
		before[t.key] = t
	}
	s.grants = s.grants.Follow(survey, s.gap)
	s.path, s.taken, s.exists, s.truncated = survey.Path, survey.Taken.UnixMilli(), survey.Exists, survey.Truncated
	s.gap = s.state.Name != "connected"
	s.things = make([]*thing, 0, len(survey.Things))
	for _, t := range survey.Things {
		was := before[keyOf(&t)]
		if was != nil && reflect.DeepEqual(was.of, t) { // soon known: what has not changed has the same lists
			s.things = append(s.things, was)
			continue
		}
		next := newThing(t)
		for i := range next.line {
			if c := &next.line[i]; c.Holds {
				c.granted, _ = s.grants.Of(&t, &c.Contender) // it is a holder of the survey
			}
		}
		s.things = append(s.things, next)
	}
}

func keyOf(t *inspect.Thing) string { return string(t.Kind) + " " + t.Path }

// contender finds the contender with a node, and the thing in whose line it stands. It reports
// whether they exist.
func (s *snapshot) contender(node string, czxid int64) (*thing, inspect.Contender, bool) {
	for _, t := range s.things {
		for _, c := range t.line {
			if c.Node == node && c.Czxid == czxid {
				return t, c.Contender, true
			}
		}
	}
	return nil, inspect.Contender{}, false
}

// A message changes the state of the page.
type message struct {
	Full      bool     `json:"full,omitempty"` // the page forgets its state first
	Now       int64    `json:"now"`
	State     state    `json:"state"`
	Writes    bool     `json:"writes"`
	User      string   `json:"user,omitempty"` // who has logged in
	Slow      int64    `json:"slow"`           // milliseconds of a wait
	Stuck     int64    `json:"stuck"`
	Path      string   `json:"path"`
	Taken     int64    `json:"taken,omitempty"`
	Exists    bool     `json:"exists"`
	Truncated bool     `json:"truncated,omitempty"`
	Drop      []string `json:"drop,omitempty"` // keys of things that are gone
	Things    []change `json:"things,omitempty"`
}

// A change creates a thing, or changes it. To change the line, the page first deletes, then inserts
// in the given order, and then sets.
type change struct {
	Key    string          `json:"key"`
	Head   json.RawMessage `json:"head,omitempty"`
	Delete []string        `json:"del,omitempty"` // nodes
	Insert []placed        `json:"ins,omitempty"`
	Set    []placed        `json:"set,omitempty"`
}

// A placed is a contender with its index in the line.
type placed struct {
	At        int       `json:"at"`
	Contender contender `json:"c"`
}

// A contender has short names in JSON, because a message may have thousands.
type contender struct {
	Node     string `json:"n"`
	Wants    string `json:"w"`
	Identity string `json:"i,omitempty"`
	Session  string `json:"s,omitempty"`
	Since    int64  `json:"t"`
	Holds    bool   `json:"h,omitempty"`
	Earliest int64  `json:"e,omitempty"` // when it was granted, unless that is known
	Latest   int64  `json:"l,omitempty"` // when it was granted, at the latest
	Revoked  bool   `json:"r,omitempty"`
	Priority int    `json:"p,omitempty"`
	Weight   int    `json:"g,omitempty"`
	Orphan   bool   `json:"o,omitempty"` // its node has no session, and is to be deleted
	Czxid    string `json:"z"`           // as text: a number of JavaScript has 53 bits
}

func short(c stander) contender {
	made := contender{
		Node: c.Node, Wants: c.Wants, Identity: strings.ToValidUTF8(c.Identity, "�"), Session: c.Session, Since: c.Since.UnixMilli(),
		Holds: c.Holds, Revoked: c.Revoked, Priority: c.Priority, Weight: c.Weight, Orphan: c.NoSession, Czxid: strconv.FormatInt(c.Czxid, 10),
	}
	if !c.Holds {
		return made
	}
	made.Latest = c.granted.Latest.UnixMilli()
	if earliest := c.granted.Earliest.UnixMilli(); earliest != made.Latest {
		made.Earliest = earliest
	}
	return made
}

// difference returns the message that turns the snapshot from into the snapshot to. A page without
// a snapshot has from nil.
func difference(from, to *snapshot) message {
	m := message{
		Full: from == nil, Now: time.Now().UnixMilli(), State: to.state,
		Path: to.path, Taken: to.taken, Exists: to.exists, Truncated: to.truncated,
	}
	before := make(map[string]*thing)
	if from != nil {
		for _, t := range from.things {
			before[t.key] = t
		}
	}
	for _, t := range to.things {
		was := before[t.key]
		delete(before, t.key)
		if was != t {
			m.Things = append(m.Things, t.since(was))
		}
	}
	for key := range before {
		m.Drop = append(m.Drop, key)
	}
	slices.Sort(m.Drop)
	return m
}

// since returns the change that turns was into t. If the thing is new, was is nil.
func (t *thing) since(was *thing) change {
	c := change{Key: t.key}
	if was == nil {
		was = &thing{}
	}
	if string(was.head) != string(t.head) {
		c.Head = t.head
	}
	index := make(map[string]int, len(was.line))
	for i, old := range was.line {
		index[old.Node] = i
	}
	last := -1
	for at, now := range t.line {
		i, stood := index[now.Node]
		switch {
		case stood && i > last: // the order of the contenders that stay is the same
			last = i
			if was.line[i] != now {
				c.Set = append(c.Set, placed{at, short(now)})
			}
			delete(index, now.Node)
		default: // new, or moved: then its node stays in index, and is also deleted
			c.Insert = append(c.Insert, placed{at, short(now)})
		}
	}
	for node := range index {
		c.Delete = append(c.Delete, node)
	}
	slices.Sort(c.Delete)
	return c
}
