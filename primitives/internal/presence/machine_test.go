package presence

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// alphabet returns every input to m over a small number of sights and errors, possible
// or not.
func alphabet(m Machine) []Input {
	ins := []Input{
		Leave{},
		connected{m.turn.epoch + 1, 1, time.Second},
		suspended{},
		resumed{},
		expired{m.turn.epoch},
		closed{},
		blind{m.turn.epoch, session.ErrNoAuth},
		blind{m.turn.epoch, session.ErrExpired},
		patient{m.waits},
		patient{m.waits - 1},
	}
	if m.rev < 2 {
		ins = append(ins, Update{"b", actors.Reply[error]{}})
	}
	sights := []Sight{
		{},
		{Exists: true, Owner: 1, Data: "a"},
		{Exists: true, Owner: 1, Version: 1, Data: "x"},
		{Exists: true, Owner: 2, Data: "a"},
		{Exists: true, Owner: 3, Past: true, Data: "a"},
		{Exists: true, Data: "a"},
	}
	for _, s := range sights {
		ins = append(ins, saw{m.turn.epoch, s}, looked{m.turn, s})
	}
	ins = append(ins, saw{m.turn.epoch - 1, sights[3]}, looked{turn{m.turn.epoch, m.turn.n - 1}, sights[3]})
	ins = append(ins, done{m.turn}, done{turn{m.turn.epoch - 1, m.turn.n}}, stored{m.turn, 1})
	for _, err := range []error{
		session.ErrDisconnected, errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected), session.ErrNoNode, session.ErrNodeExists,
		session.ErrBadVersion, session.ErrNoAuth, session.ErrExpired, session.ErrSessionFull,
	} {
		ins = append(ins, failed{m.turn, err})
	}
	return ins
}

// answers reports whether in is one that the request under way can get.
func answers(m Machine, in Input) bool {
	switch in.(type) { //nolint:gochecksumtype // all others may come at any time
	case looked:
		return m.asked == looking || m.asked == confirming
	case stored:
		return m.asked == setting
	case done:
		return m.asked == creating || m.asked == making || m.asked == taking || m.asked == deleting || m.asked == withdrawing
	}
	return true
}

// A key is a state without what only grows.
type key struct {
	asked                                  asked
	seen                                   Sight
	stored, sending, rev, waiters          int
	data, sent, why                        string
	online, doubt, stalled, joined         bool
	suspended, waiting, impatient, leaving bool
}

func keyOf(m Machine) key {
	k := key{
		asked: m.asked, seen: m.seen, stored: m.stored, sending: m.sending, rev: m.rev, waiters: len(m.waiters), data: m.data, sent: m.sent,
		online: m.turn.epoch != 0, doubt: m.doubt, stalled: m.stalled, joined: m.joined,
		suspended: m.suspended, waiting: m.waiting != 0, impatient: m.impatient, leaving: m.leaving,
	}
	if m.asked == nothing {
		k.sending, k.sent = 0, ""
	}
	if m.why != nil {
		k.why = m.why.Error()
	}
	return k
}

// TestExhaustion goes through every state that a machine can reach, and checks every
// step against the documented grammar and what must always hold.
func TestExhaustion(t *testing.T) {
	for _, config := range []Machine{
		{data: "a", rev: 1},
		{data: "a", rev: 1, takeOver: true},
		{data: "a", rev: 1, takeOver: true, atOnce: true},
	} {
		type position struct {
			Machine
			joined, suspended bool
		}
		seen := map[key]bool{}
		queue := []position{{Machine: config}}
		for len(queue) > 0 {
			p := queue[0]
			queue = queue[1:]
			for _, in := range alphabet(p.Machine) {
				if !answers(p.Machine, in) {
					continue
				}
				m, out := p.Step(in)
				n := position{m, p.joined, p.suspended}
				over := false
				if p.joined != p.Machine.joined || p.suspended != p.Machine.suspended {
					t.Fatalf("%v was told otherwise", p.Machine)
				}
				for _, ev := range out.Emit {
					bad := over
					switch ev.(type) {
					case Joined:
						bad, n.joined, n.suspended = bad || n.joined, true, false
					case Suspended:
						bad, n.suspended = bad || !n.joined || n.suspended, true
					case Resumed:
						bad, n.suspended = bad || !n.suspended, false
					case Gone:
						bad, n.joined, n.suspended = bad || !n.joined, false, false
					case Left:
						over = true
					}
					if bad {
						t.Fatalf("%v, %#v: %v breaks the grammar", p.Machine, in, out.Emit)
					}
				}
				if over != m.ended {
					t.Fatalf("%v, %#v: ended=%v, events %v", p.Machine, in, m.ended, out.Emit)
				}
				if m.ended && len(m.waiters) > 0 {
					t.Fatalf("%v, %#v: commands without an answer", p.Machine, in)
				}
				requests := 0
				for _, e := range out.Do {
					switch e := e.(type) {
					case create, makeParent, look, store, withdraw:
						requests++
					case takeOver:
						requests++
						if s := m.seen; s.Owner == m.session || !s.Past && !m.takeOver {
							t.Fatalf("%v, %#v: takes over %+v", p.Machine, in, s)
						}
					case remove:
						requests++
						if m.seen.Owner != m.session {
							t.Fatalf("%v, %#v: removes %+v", p.Machine, in, m.seen)
						}
					case follow, wait, answer:
						_ = e
					}
				}
				if requests > 1 || requests == 1 && m.asked == nothing || p.asked != nothing && m.asked == p.asked && requests > 0 && p.turn == m.turn {
					t.Fatalf("%v, %#v: %v does %#v", p.Machine, in, m, out.Do)
				}
				// Whoever is connected waits for an answer, a ghost, or nothing at all.
				idle := m.asked == nothing && m.turn.epoch != 0 && !m.stalled && !m.ended
				stands := m.joined && m.seen.Owner == m.session && m.seen.Data == m.data
				if idle && !stands && m.waiting == 0 {
					t.Fatalf("%v, %#v: %v waits for nothing", p.Machine, in, m)
				}
				if k := keyOf(m); !m.ended && !seen[k] {
					seen[k] = true
					queue = append(queue, n)
				}
			}
		}
		if len(seen) < 100 || len(seen) > 200_000 {
			t.Errorf("%d states", len(seen))
		}
		t.Log(len(seen), "states")
	}
}

// TestRows are the transitions that are easy to get wrong.
func TestRows(t *testing.T) {
	start := func(config Machine) Machine {
		config.data, config.rev = "a", 1
		m, _ := config.Step(connected{1, 1, time.Second})
		return m
	}
	step := func(m Machine, ins ...func(Machine) Input) (Machine, Effects) {
		var out Effects
		for _, in := range ins {
			m, out = m.Step(in(m))
		}
		return m, out
	}
	fails := func(err error) func(Machine) Input { return func(m Machine) Input { return failed{m.turn, err} } }
	looks := func(s Sight) func(Machine) Input { return func(m Machine) Input { return looked{m.turn, s} } }
	ok := func(m Machine) Input { return done{m.turn} }
	foreign, past, own := Sight{Exists: true, Owner: 2, Version: 4}, Sight{Exists: true, Owner: 3, Past: true, Version: 5}, Sight{Exists: true, Owner: 1, Data: "a"}
	leave := func(Machine) Input { return Leave{} }
	late := func(m Machine) Input { return patient{m.waits} }
	lost := fails(session.ErrUnknownOutcome)
	for name, c := range map[string]struct {
		config Machine
		ins    []func(Machine) Input
		want   string
	}{
		"a warm group":              {Machine{}, []func(Machine) Input{ok}, "[] [{}]"},
		"no group yet":              {Machine{}, []func(Machine) Input{fails(session.ErrNoNode)}, "[makeParent] []"},
		"it is made":                {Machine{}, []func(Machine) Input{fails(session.ErrNoNode), ok}, "[create follow] []"},
		"a lost create":             {Machine{}, []func(Machine) Input{lost}, "[look] []"},
		"which was done":            {Machine{}, []func(Machine) Input{lost, looks(own)}, "[] [{}]"},
		"a ghost of ours":           {Machine{}, []func(Machine) Input{fails(session.ErrNodeExists), looks(past)}, "[takeOver] []"},
		"which went":                {Machine{}, []func(Machine) Input{fails(session.ErrNodeExists), looks(past), fails(session.ErrNoNode)}, "[look] []"},
		"another one":               {Machine{}, []func(Machine) Input{fails(session.ErrNodeExists), looks(foreign)}, "[wait] []"},
		"which stays":               {Machine{}, []func(Machine) Input{fails(session.ErrNodeExists), looks(foreign), late}, "[look] []"},
		"waits anew":                {Machine{}, []func(Machine) Input{fails(session.ErrNodeExists), looks(foreign), late, fails(session.ErrDisconnected), looks(foreign), func(Machine) Input { return resumed{} }}, "[wait] []"},
		"for as long":               {Machine{}, []func(Machine) Input{fails(session.ErrNodeExists), looks(foreign), func(Machine) Input { return resumed{} }, func(m Machine) Input { return patient{m.waits - 1} }}, "[] []"},
		"is a duplicate":            {Machine{}, []func(Machine) Input{fails(session.ErrNodeExists), looks(foreign), late, looks(foreign)}, "[] [{name held by another: held by session 0x2}]"},
		"or had gone":               {Machine{}, []func(Machine) Input{fails(session.ErrNodeExists), looks(foreign), late, looks(Sight{})}, "[create follow] []"},
		"or is replaced":            {Machine{takeOver: true}, []func(Machine) Input{fails(session.ErrNodeExists), looks(foreign), late, looks(foreign)}, "[takeOver] []"},
		"we are replaced":           {Machine{}, []func(Machine) Input{ok, func(Machine) Input { return saw{1, foreign} }}, "[] [{name held by another: taken over by session 0x2}]"},
		"left before it is created": {Machine{}, []func(Machine) Input{leave, ok}, "[remove] []"},
		"left, and not created":     {Machine{}, []func(Machine) Input{leave, fails(session.ErrNodeExists), looks(foreign)}, "[] [{<nil>}]"},
		"a lost delete":             {Machine{}, []func(Machine) Input{ok, leave, lost, looks(own)}, "[remove] []"},
		"of what another made":      {Machine{}, []func(Machine) Input{ok, leave, lost, looks(foreign)}, "[] [{<nil>}]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, out := step(start(c.config), c.ins...)
			var does []string
			for _, e := range out.Do {
				if _, reply := e.(answer); !reply {
					does = append(does, strings.TrimPrefix(fmt.Sprintf("%T", e), "presence."))
				}
			}
			if got := fmt.Sprintf("%v %v", does, out.Emit); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
