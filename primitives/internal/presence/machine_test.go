package presence

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/session"
)

// alphabet returns every input to m over a small number of sights and errors, possible
// or not.
func alphabet(m Machine) []Input {
	ins := []Input{
		Leave{},
		heard{session.Connected{Epoch: m.request.epoch + 1, ID: 1, Timeout: time.Second}},
		heard{session.Suspended{}},
		heard{session.Resumed{}},
		heard{session.Expired{Epoch: m.request.epoch}},
		heard{session.Closed{}},
		blind{m.request.epoch, session.ErrNoAuth},
		blind{m.request.epoch, session.ErrExpired},
		patient{m.waits},
		patient{m.waits - 1},
	}
	if m.rev < 2 {
		ins = append(ins, Insist{}, Update{"b", actors.Reply[error]{}})
	}
	sights := []Sight{
		{},
		{Exists: true, Owner: 1, Czxid: 7, Data: "a"},
		{Exists: true, Owner: 1, Czxid: 7, Version: 1, Data: "x"},
		{Exists: true, Owner: 2, Czxid: 5, Data: "a"},
		{Exists: true, Owner: 2, Czxid: 6, Data: "a"},
		{Exists: true, Owner: 3, Czxid: 4, Past: true, Data: "a"},
		{Exists: true, Czxid: 3, Data: "a"},
	}
	if m.rev <= 2 { // with updates; the others are without other data
		sights = sights[:4]
	} else {
		sights = append(sights[:2:2], sights[3:]...)
	}
	for _, s := range sights {
		ins = append(ins, saw{m.request.epoch, s}, looked{m.request, s})
	}
	ins = append(ins, saw{m.request.epoch - 1, sights[3]}, looked{requestID{m.request.epoch, m.request.n - 1}, sights[2]})
	ins = append(ins, done{m.request, false}, done{m.request, true}, created{m.request, 7, 1}, done{requestID{m.request.epoch - 1, m.request.n}, false})
	for _, g := range []ghost{m.aim.ghost(), {2, 6}} {
		ins = append(ins, stored{m.request, g, 1}, stored{m.request, g, 2})
	}
	for _, err := range []error{
		session.ErrDisconnected, errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected), session.ErrNoNode, session.ErrNodeExists,
		session.ErrBadVersion, session.ErrNoAuth, session.ErrExpired, session.ErrSessionFull,
	} {
		ins = append(ins, failed{m.request, err})
	}
	return ins
}

// answers reports whether in is one that the request under way can get.
func answers(m Machine, in Input) bool {
	switch in.(type) { // all others may come at any time
	case looked:
		return m.asked == looking || m.asked == confirming
	case stored:
		return m.asked == setting || m.asked == marking
	case created:
		return m.asked == creating || m.asked == taking
	case done:
		return m.asked == making || m.asked == withdrawing
	}
	return true
}

// A key is a state without what only grows.
type key struct {
	asked                                  asked
	seen                                   Sight
	stored, sending, rev, waiters          int
	data, sent                             string
	online, doubt, stalled, joined         bool
	suspended, waiting, impatient, leaving bool
	offline, takeOver, atOnce, barred      bool
	orphan                                 bool
	aim                                    Sight
	ghost                                  ghost
}

func keyOf(m Machine) key {
	k := key{
		asked: m.asked, seen: m.seen, stored: m.stored, sending: m.sending, rev: m.rev, waiters: len(m.waiters), data: m.data, sent: m.sent,
		online: m.request.epoch != 0, doubt: m.doubt, stalled: m.stalled, joined: m.joined,
		suspended: m.suspended, waiting: m.waiting != 0, impatient: m.impatient, leaving: m.leaving,
		orphan: m.orphan, aim: m.aim, offline: m.offline, takeOver: m.takeOver, atOnce: m.atOnce, barred: m.barred != nil, ghost: m.ghost,
	}
	if m.asked != creating && m.asked != taking && m.asked != marking && m.asked != setting {
		k.sending, k.sent = 0, ""
	}
	if m.asked != marking && m.asked != setting {
		k.aim = Sight{}
	}
	return k
}

// mayTake reports whether what was seen may be replaced: ghosts of our own always, and what
// others have if that was asked for, before Joined was told, and the wait is over.
func mayTake(m Machine) bool {
	s := m.seen
	return s.Owner != m.session && (s.Past || m.takeOver && !m.joined && (m.atOnce || m.impatient && s.ghost() == m.ghost && s.Owner != 0))
}

// TestExhaustion goes through every state that a machine can reach, or a sample of them, and checks
// every step against the documented grammar and what must always hold.
func TestExhaustion(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("an exploration")
	}
	var given check.Given
	for _, config := range []Machine{
		{data: "a", rev: 1},
		{data: "a", rev: 3, takeOver: true}, // updated for the last time; once it has joined it is meek
		{data: "a", rev: 3, takeOver: true, atOnce: true},
	} {
		states, steps := exploration.Search[position, Input, key]{
			Inputs: func(p position) (ins []Input) {
				if p.Ended() {
					return nil
				}
				for _, in := range alphabet(p.Machine) {
					if answers(p.Machine, in) {
						ins = append(ins, in)
					}
				}
				return ins
			},
			Step: step, Key: func(p position) key { return keyOf(p.Machine) }, Given: &given, Sample: 4,
		}.Run(t, position{Machine: config})
		check.Within(t, states, 100, 2_000_000, "states")
		t.Logf("%d states, %d steps", states, steps)
	}
	check.Explored(t, "input", given)
}

// A position is a machine, and what its reader has received.
type position struct {
	Machine
	joined, suspended bool
}

// step returns the position after an input, and what is wrong with the step.
func step(p position, in Input) (position, error) {
	m, out := p.after(in)
	n := position{m, p.joined, p.suspended}
	wrong := func(format string, args ...any) (position, error) {
		return n, fmt.Errorf(format+": does %#v, emits %v", append(args, out.Do, out.Emit)...)
	}
	over := false
	if p.joined != p.Machine.joined || p.suspended != p.Machine.suspended {
		return wrong("its reader has received something else")
	}
	for _, ev := range out.Emit {
		bad := over
		switch ev.(type) {
		case Joined:
			bad, n.joined, n.suspended = bad || n.joined, true, false
		case Suspended:
			bad, n.suspended = bad || !n.joined || n.suspended, true
		case Resumed:
			bad, n.suspended = bad || !n.suspended || m.offline || m.doubt || m.seen.Owner != m.session, false
		case Gone:
			bad, n.joined, n.suspended = bad || !n.joined, false, false
		case Left:
			over = true
		}
		if bad {
			return wrong("%v breaks the grammar", ev)
		}
	}
	if over != m.ended {
		return wrong("Left is the last event")
	}
	if m.ended && len(m.waiters) > 0 {
		return wrong("commands without an answer")
	}
	requests, harmless := 0, true
	for _, e := range out.Do {
		switch e := e.(type) {
		case withdraw:
			requests++
		case create, makeParent, look:
			requests, harmless = requests+1, false
		case store:
			requests, harmless = requests+1, false
			if s := m.seen; s.Owner != m.session && (m.asked != marking || e.data != s.Data || !mayTake(m)) {
				return wrong("it writes to %+v", s)
			}
		case takeOver:
			requests, harmless = requests+1, false
			if in, ok := in.(stored); !ok || !mayTake(m) || e.version != in.version || in.ghost != p.aim.ghost() {
				return wrong("it takes over %+v", m.seen)
			}
		case follow, wait, answer:
		}
	}
	if !harmless && (m.offline || m.request.epoch == 0) {
		return wrong("a request without a connection")
	}
	if requests > 1 || requests == 1 && m.asked == nothing || p.asked != nothing && m.asked == p.asked && requests > 0 && p.request == m.request {
		return wrong("%d requests", requests)
	}
	// A connected machine waits for an answer, a ghost, or nothing at all.
	idle := m.asked == nothing && m.request.epoch != 0 && !m.stalled && !m.offline && !m.ended
	stands := m.joined && m.seen.Owner == m.session && m.seen.Data == m.data
	if idle && !stands && m.waiting == 0 {
		return wrong("it waits for nothing")
	}
	return n, nil
}

// TestRows are the transitions that are easy to get wrong.
func TestRows(t *testing.T) {
	var (
		leave   = func(Machine) Input { return Leave{} }
		late    = func(m Machine) Input { return patient{m.waits} }
		blinds  = func(m Machine) Input { return blind{m.request.epoch, session.ErrExpired} }
		hides   = func(m Machine) Input { return blind{m.request.epoch, session.ErrNoAuth} }
		hid     = func(m Machine) Input { return blind{m.request.epoch - 1, session.ErrNoAuth} }
		early   = func(m Machine) Input { return patient{m.waits - 1} }
		cut     = func(Machine) Input { return heard{session.Suspended{}} }
		back    = func(Machine) Input { return heard{session.Resumed{}} }
		expires = func(m Machine) Input { return heard{session.Expired{Epoch: m.request.epoch}} }
		anew    = func(m Machine) Input {
			return heard{session.Connected{Epoch: m.request.n + 1, ID: 1, Timeout: time.Second}}
		}
		ok     = func(m Machine) Input { return created{m.request, 50, birth} }
		plain  = func(m Machine) Input { return created{requestID: m.request} }
		did    = func(m Machine) Input { return done{m.request, false} }
		other  = func(m Machine) Input { return done{m.request, true} }
		update = func(Machine) Input { return Update{"b", actors.Reply[error]{}} }
		insist = func(Machine) Input { return Insist{} }
		same   = func(Machine) Input { return Update{"a", actors.Reply[error]{}} }
	)
	fails := func(err error) func(Machine) Input { return func(m Machine) Input { return failed{m.request, err} } }
	looks := func(s Sight) func(Machine) Input { return func(m Machine) Input { return looked{m.request, s} } }
	sees := func(s Sight) func(Machine) Input { return func(m Machine) Input { return saw{m.request.epoch, s} } }
	stores := func(s Sight) func(Machine) Input {
		return func(m Machine) Input { return stored{m.request, s.ghost(), s.Version + 1} }
	}
	var (
		foreign    = Sight{Exists: true, Owner: 2, Czxid: 40, Version: 4}
		newer      = Sight{Exists: true, Owner: 2, Czxid: 41, Version: 4}
		another    = Sight{Exists: true, Owner: 4, Czxid: 42}
		past       = Sight{Exists: true, Owner: 3, Czxid: 30, Past: true, Version: 5}
		highest    = Sight{Exists: true, Owner: -1, Czxid: 44}
		persistent = Sight{Exists: true, Czxid: 20}
		own        = Sight{Exists: true, Owner: 1, Czxid: 50, Version: birth, Data: "a"}
		curators   = Sight{Exists: true, Owner: 2, Czxid: 43}
		marked     = Sight{Exists: true, Owner: 2, Czxid: 43, Version: 1}
		busy       = fails(&session.ServerError{Code: -127})
		lost       = fails(session.ErrUnknownOutcome)
		exists     = fails(session.ErrNodeExists)
	)
	type inputs []func(Machine) Input
	takes, atOnce := Machine{takeOver: true}, Machine{takeOver: true, atOnce: true}
	for name, c := range map[string]struct {
		config Machine
		ins    inputs
		want   string
	}{
		"a warm group":              {Machine{}, inputs{ok}, "[] [{1}]"},
		"no group yet":              {Machine{}, inputs{fails(session.ErrNoNode)}, "[makeParent] []"},
		"it is made":                {Machine{}, inputs{fails(session.ErrNoNode), did}, "[create follow] []"},
		"a lost create":             {Machine{}, inputs{lost}, "[look] []"},
		"a busy server":             {Machine{}, inputs{busy}, "[look] []"},
		"is asked again":            {Machine{}, inputs{ok, cut, back, busy}, "[look] []"},
		"but not for ever":          {Machine{}, inputs{ok, leave, busy}, "[] [{<nil> not given up, as the server refuses that: server error -127}]"},
		"nor is a create forgotten": {Machine{}, inputs{leave, busy}, "[withdraw] []"},
		"which was done":            {Machine{}, inputs{lost, looks(own)}, "[] [{1}]"},
		"a ghost of ours":           {Machine{}, inputs{exists, looks(past)}, "[store] []"},
		"is ours still":             {Machine{}, inputs{exists, looks(past), stores(past)}, "[takeOver] []"},
		"or a rival's by now":       {Machine{}, inputs{exists, looks(past), stores(foreign)}, "[look] []"},
		"which went":                {Machine{}, inputs{exists, looks(past), fails(session.ErrNoNode)}, "[look] []"},
		"which went later":          {Machine{}, inputs{exists, looks(past), stores(past), fails(session.ErrNoNode)}, "[look] []"},
		"not ours to write":         {Machine{}, inputs{exists, looks(past), fails(session.ErrNoAuth)}, "[wait] []"},
		"is tried again":            {Machine{}, inputs{exists, looks(past), fails(session.ErrNoAuth), late, looks(past)}, "[store] []"},
		"and reported":              {Machine{}, inputs{exists, looks(past), fails(session.ErrNoAuth), late, looks(past), fails(session.ErrNoAuth), looks(past)}, "[] [{name held by another: held by session 0x3, and it could not be taken over: not authorized <nil>}]"},
		"not ours to delete":        {Machine{}, inputs{exists, looks(past), stores(past), fails(session.ErrNoAuth)}, "[wait] []"},
		"nor to take over":          {takes, inputs{exists, looks(foreign), late, looks(foreign), fails(session.ErrNoAuth)}, "[look] []"},
		"is reported at once":       {takes, inputs{exists, looks(foreign), late, looks(foreign), fails(session.ErrNoAuth), looks(foreign)}, "[] [{name held by another: held by session 0x2, and it could not be taken over: not authorized <nil>}]"},
		"in place of our node":      {Machine{}, inputs{ok, sees(past)}, "[store] [{node deleted by another client, or with the session}]"},
		"the session's end":         {Machine{}, inputs{fails(session.ErrExpired)}, "[] []"},
		"is told":                   {Machine{}, inputs{fails(session.ErrExpired), expires, anew}, "[create follow] []"},
		"another one":               {Machine{}, inputs{exists, looks(foreign)}, "[wait] []"},
		"which stays":               {Machine{}, inputs{exists, looks(foreign), late}, "[look] []"},
		"waits anew":                {Machine{}, inputs{exists, looks(foreign), late, fails(session.ErrDisconnected), cut, back, looks(foreign)}, "[wait] []"},
		"for as long":               {Machine{}, inputs{exists, looks(foreign), cut, back, looks(foreign), early}, "[] []"},
		"is another's by now":       {Machine{}, inputs{exists, looks(foreign), sees(another)}, "[wait] []"},
		"or joined again":           {Machine{}, inputs{exists, looks(foreign), sees(newer)}, "[wait] []"},
		"before the wait is over":   {Machine{}, inputs{exists, looks(foreign), sees(newer), early}, "[] []"},
		"or when it is":             {takes, inputs{exists, looks(foreign), late, looks(another)}, "[wait] []"},
		"is a duplicate":            {Machine{}, inputs{exists, looks(foreign), late, looks(foreign)}, "[] [{name held by another: held by session 0x2 <nil>}]"},
		"or had gone":               {Machine{}, inputs{exists, looks(foreign), late, looks(Sight{})}, "[create follow] []"},
		"or is replaced":            {takes, inputs{exists, looks(foreign), late, looks(foreign)}, "[store] []"},
		"when it is known":          {takes, inputs{exists, looks(foreign), late, looks(foreign), stores(foreign)}, "[takeOver] []"},
		"to be the same":            {takes, inputs{exists, looks(foreign), late, looks(foreign), stores(newer)}, "[look] []"},
		"not like one of ours":      {takes, inputs{exists, looks(curators), late, looks(curators), stores(curators)}, "[store] []"},
		"that is new":               {takes, inputs{exists, looks(curators), late, looks(curators), stores(curators), stores(marked)}, "[takeOver] []"},
		"not after leaving":         {takes, inputs{exists, looks(foreign), late, looks(foreign), leave, stores(foreign)}, "[] [{<nil> <nil>}]"},
		"not when cut off":          {takes, inputs{exists, looks(foreign), late, looks(foreign), cut, stores(foreign)}, "[] []"},
		"nor when back":             {takes, inputs{exists, looks(foreign), late, looks(foreign), cut, back, stores(foreign)}, "[look] []"},
		"nor seen when cut off":     {takes, inputs{exists, looks(foreign), late, cut, looks(foreign)}, "[] []"},
		"nor seen when leaving":     {takes, inputs{exists, looks(foreign), late, leave, looks(foreign)}, "[] [{<nil> <nil>}]"},
		"at once":                   {atOnce, inputs{exists, looks(foreign)}, "[store] []"},
		"or when that is asked for": {Machine{}, inputs{exists, looks(foreign), insist}, "[store] []"},
		"also at the last look":     {Machine{}, inputs{exists, looks(foreign), late, insist, looks(foreign)}, "[store] []"},
		"but not after joining":     {Machine{}, inputs{ok, insist, expires, anew, exists, looks(foreign)}, "[wait] []"},
		"what no session owns":      {takes, inputs{exists, looks(persistent)}, "[look] []"},
		"is not taken over":         {takes, inputs{exists, looks(persistent), looks(persistent)}, "[] [{name held by another: held by a node of no session <nil>}]"},
		"unless at once":            {atOnce, inputs{exists, looks(persistent)}, "[store] []"},
		"by an owner of myid 255":   {Machine{}, inputs{exists, looks(highest), late, looks(highest)}, "[] [{name held by another: held by session 0xffffffffffffffff <nil>}]"},
		"taken over by myid 255":    {Machine{}, inputs{ok, sees(highest)}, "[] [{name held by another: taken over by session 0xffffffffffffffff <nil>}]"},
		"we are replaced":           {Machine{}, inputs{ok, sees(foreign)}, "[] [{name held by another: taken over by session 0x2 <nil>}]"},
		"when we were away":         {takes, inputs{ok, expires, anew, exists, looks(foreign)}, "[wait] []"},
		"by one who stays":          {takes, inputs{ok, expires, anew, exists, looks(foreign), late, looks(foreign)}, "[] [{name held by another: held by session 0x2 <nil>}]"},
		"or was asked at once":      {atOnce, inputs{ok, expires, anew, exists, looks(foreign)}, "[wait] []"},
		"or by a node of nobody":    {atOnce, inputs{ok, expires, anew, exists, looks(persistent), looks(persistent)}, "[] [{name held by another: held by a node of no session <nil>}]"},
		"our ghost never is":        {takes, inputs{ok, expires, anew, exists, looks(past)}, "[store] []"},
		"cut off":                   {Machine{}, inputs{ok, cut}, "[] [{0001-01-01 00:00:00 +0000 UTC}]"},
		"nothing is said yet":       {Machine{}, inputs{ok, cut, back}, "[look] []"},
		"the watch ends with it":    {Machine{}, inputs{ok, blinds}, "[] []"},
		"it still stands":           {Machine{}, inputs{ok, cut, back, looks(own)}, "[] [{}]"},
		"it does not":               {Machine{}, inputs{ok, cut, back, looks(Sight{})}, "[create follow] [{node deleted by another client, or with the session}]"},
		"it is another's":           {Machine{}, inputs{ok, cut, back, looks(foreign)}, "[] [{name held by another: taken over by session 0x2 <nil>}]"},
		"an update has to wait":     {Machine{}, inputs{ok, cut, update}, "[] []"},
		"for a look":                {Machine{}, inputs{ok, cut, update, back}, "[look] []"},
		"and is made":               {Machine{}, inputs{ok, cut, update, back, looks(own)}, "[store] [{}]"},
		"not to another's":          {Machine{}, inputs{ok, cut, update, back, looks(foreign)}, "[] [{name held by another: taken over by session 0x2 <nil>}]"},
		"an update of another's":    {Machine{}, inputs{ok, update, stores(foreign)}, "[look] []"},
		"of one not known better":   {Machine{}, inputs{plain, update, stores(foreign)}, "[look] []"},
		"a wait of the past":        {Machine{}, inputs{exists, looks(foreign), expires, anew, exists, looks(foreign)}, "[wait] []"},
		"what was seen is old":      {Machine{}, inputs{ok, same}, "[store] []"},
		"what is seen later":        {Machine{}, inputs{ok, same, lost, looks(own)}, "[] []"},
		"what is refused":           {Machine{}, inputs{ok, same, fails(session.ErrNoAuth)}, "[] []"},
		"leaving does not wait":     {Machine{}, inputs{ok, cut, leave}, "[withdraw] []"},
		"nor delete another's node": {Machine{}, inputs{ok, cut, leave, back, other}, "[] [{<nil> <nil>}]"},
		"left before it is created": {Machine{}, inputs{leave, ok}, "[withdraw] []"},
		"left":                      {Machine{}, inputs{ok, leave}, "[withdraw] []"},
		"left for good":             {Machine{}, inputs{ok, leave, did}, "[] [{<nil> <nil>}]"},
		"left first":                {Machine{}, inputs{ok, leave, hides, did}, "[] [{<nil> <nil>}]"},
		"cannot be read":            {Machine{}, inputs{ok, hides}, "[withdraw] []"},
		"could not be read before":  {Machine{}, inputs{ok, hid}, "[] []"},
		"of a past not barred":      {takes, inputs{exists, looks(foreign), late, looks(foreign), fails(session.ErrNoAuth), sees(Sight{}), ok, sees(past)}, "[store] [{node deleted by another client, or with the session}]"},
		"left, and not created":     {Machine{}, inputs{leave, exists}, "[withdraw] []"},
		"left another's":            {Machine{}, inputs{exists, looks(foreign), leave}, "[] [{<nil> <nil>}]"},
		"left, and in doubt":        {Machine{}, inputs{leave, lost}, "[withdraw] []"},
		"left while it is read":     {Machine{}, inputs{lost, leave, fails(session.ErrNoAuth)}, "[withdraw] []"},
		"read only by its owner":    {Machine{}, inputs{lost, fails(session.ErrNoAuth)}, "[withdraw] []"},
		"may not be deleted":        {Machine{}, inputs{ok, leave, fails(session.ErrNoAuth)}, "[] [{<nil> not given up, as the server refuses that: not authorized}]"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.data, c.config.rev = "a", 1
			m, _ := c.config.after(heard{session.Connected{Epoch: 1, ID: 1, Timeout: time.Second}})
			var out Effects
			for _, in := range c.ins {
				m, out = m.after(in(m))
			}
			var does []string
			for _, e := range out.Do {
				if _, reply := e.(answer); !reply {
					does = append(does, strings.TrimPrefix(fmt.Sprintf("%T", e), "presence."))
				}
			}
			check.Equal(t, fmt.Sprintf("%v %v", does, out.Emit), c.want, "got")
		})
	}
}

// Whether a node stood is what it was when it was to be given up.
func TestStood(t *testing.T) {
	m, _ := Machine{data: "a", rev: 1}.after(heard{session.Connected{Epoch: 1, ID: 1, Timeout: time.Second}})
	early, _ := m.after(Leave{})
	early, _ = early.after(created{m.request, 7, birth})
	m, _ = m.after(created{m.request, 7, birth})
	away, _ := m.after(heard{session.Suspended{}})
	away, _ = away.after(heard{session.Resumed{}})
	away, _ = away.after(Leave{})
	away, _ = away.after(looked{away.request, Sight{Exists: true, Owner: 2}})
	check.True(t, !away.Stood() && away.Ended(), "%v", away)
	m, _ = m.after(Leave{})
	unseen, _ := m.after(done{m.request, true})
	check.True(t, !unseen.Stood() && unseen.Ended(), "%v", unseen)
	successor, _ := m.after(done{m.request, false})
	check.True(t, successor.Stood() && successor.Ended(), "%v", successor)
	m, _ = m.after(heard{session.Expired{Epoch: 1}})
	check.True(t, !early.Stood() && m.Stood() && m.Ended() && m.Err() == nil && errors.Is(m.Reason(), ErrLeft), "%v, %v", early, m)
}

// What the server does not accept is no reason to drop what was asked for later.
func TestRefusal(t *testing.T) {
	m, _ := Machine{data: "a", rev: 1}.after(heard{session.Connected{Epoch: 1, ID: 1, Timeout: time.Second}})
	m, _ = m.after(created{m.request, 7, birth})
	m, _ = m.after(Update{"b", actors.Reply[error]{}})
	m, _ = m.after(Update{"c", actors.Reply[error]{}})
	m, out := m.after(failed{m.request, session.ErrTooLarge})
	check.True(t, len(out.Do) == 2 && len(out.Do[0].(answer).replies) == 1 && out.Do[1] == (store{m.request, birth, "c"}), "%#v", out.Do)
	m, _ = m.after(saw{m.request.epoch, Sight{}}) // that it is gone is no reason to forget what stood there
	m, out = m.after(failed{m.request, session.ErrTooLarge})
	check.True(t, len(out.Do) == 3 && len(out.Do[0].(answer).replies) == 1 && out.Do[1] == (create{m.request, "a"}) && m.data == "a", "%v: %#v", m, out.Do)
	m, _ = m.after(created{m.request, 8, birth})
	m, _ = m.after(Update{"d", actors.Reply[error]{}})
	m, out = m.after(failed{m.request, session.ErrTooLarge})
	check.True(t, len(out.Do) == 1 && len(m.waiters) == 0 && m.data == "a" && m.asked == nothing, "%v: %#v", m, out.Do)
}

// A deletion says nothing of an update that was in doubt.
func TestLeavingConfirmsNoUpdate(t *testing.T) {
	m, _ := Machine{rev: 1}.after(heard{session.Connected{Epoch: 1, ID: 1, Timeout: time.Second}})
	for _, in := range []func() Input{
		func() Input { return created{m.request, 50, birth} },
		func() Input { return Update{} },
		func() Input { return Leave{} },
		func() Input { return failed{m.request, session.ErrUnknownOutcome} },
	} {
		m, _ = m.after(in())
	}
	m, out := m.after(done{m.request, false})
	check.True(t, len(out.Do) == 1 && errors.Is(out.Do[0].(answer).err, ErrLeft) && m.Ended(), "%#v; %v", out.Do, m)
}

// after is Step with effects of its own.
func (m Machine) after(in Input) (Machine, Effects) {
	var out Effects
	m = m.Step(in, &out)
	return m, out
}
