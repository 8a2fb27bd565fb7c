package barrier

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// TestParty plays what a party hears and is answered, and compares what it does at the end.
func TestParty(t *testing.T) {
	const id, other = "00000000-0000-4000-8000-000000000000", "0000000001-11111111-0000-4000-8000-000000000000-1"
	own := func(round, entry int) string { return fmt.Sprintf("%010d-%s-%d", round, id, entry) }
	reads := func(zxid int64, round, parties int, members ...string) sight {
		return sight{zxid: zxid, czxid: 1, version: int32(zxid), book: book{round, parties, members}}
	}
	refused := func(at culprit, err error) answered { return answered{at: at, err: err} }
	counts := func(n int) answered { return answered{count: n} }
	lists := func(names ...string) answered { return answered{names: names} }
	up := heard{session.Connected{Epoch: 1, Timeout: time.Second}}
	upAnew := []input{heard{session.Expired{Epoch: 1}}, heard{session.Connected{Epoch: 2, Timeout: time.Second}}}

	enters := []input{up, enter{}, saw{1, reads(4, 0, 2)}}
	opens := append(slices.Clip(enters), refused(directory, session.ErrNoNode))
	inHalf := append(slices.Clip(opens), refused(directory, session.ErrNodeExists)) // the lower node was removed
	first := append(slices.Clip(enters), counts(1))
	last := append(slices.Clip(enters), counts(2))
	in := append(slices.Clip(first), saw{1, reads(5, 1, 2, own(1, 1), other)})
	leaves := append(slices.Clip(in), leave{})
	waits := append(slices.Clip(leaves), counts(1))
	looks := append(slices.Clip(waits), tick{1}, lists(own(1, 1)))
	unfit := []input{up, enter{}, saw{1, reads(4, 0, 3)}}
	// The last round is not over when its successor is complete.
	early := []input{up, enter{}, saw{1, reads(4, 1, 2)}, counts(2), lists(own(2, 1), other), refused(earlier, session.ErrNodeExists)}

	for name, row := range map[string]struct {
		before []input
		then   []input
		does   string // after the last
	}{
		"enters":                               {enters, nil, "entering 1"},
		"its node stands, unexpectedly":        {enters, []input{refused(party, session.ErrNodeExists)}, "guard 1 listing 1"},
		"no directory":                         {opens, nil, "opening 1 keeps"},
		"half a directory":                     {inHalf, nil, "opening 1 keeps again"},
		"half a directory, not to be deleted":  {inHalf, []input{refused(directory, session.ErrNoAuth)}, "withdrawn: not authorized; unguard unfollow answer"},
		"half a directory, made again":         {inHalf, []input{answered{}, answered{read: reads(5, 0, 2)}, counts(2), lists(own(1, 1), other)}, "waiting present=2; starting 1"},
		"cancelled while it lists":             {last, []input{cancel{}, lists(own(1, 1), other)}, "waiting present=2; retiring 1"},
		"the watch ends while it lists":        {last, []input{blind{1, session.ErrDisconnected}, lists(own(1, 1), other)}, "waiting present=2;"},
		"a node that goes as the round begins": {first, []input{lost{1, own(1, 1), session.ErrNoNode}, refused(record, session.ErrBadVersion), saw{1, reads(5, 1, 2, own(1, 1), other)}}, "entered round=1 members=" + id + "," + nodes.PartyName(other) + "; guard 1 answer"},
		"closed, and its node is not its own":  {first, []input{closeHandle{}, refused(party, session.ErrNoAuth)}, "closed; abandon 1"},
		"closed while it gathers":              {first, []input{closeHandle{}}, "answer unguard exiting 1"},
		"closed while it waits for the others": {waits, []input{closeHandle{}}, "closed; answer unawait unguard"},
		"closed while it looks, and they go":   {looks, []input{closeHandle{}, over{epoch: 1, round: 1, err: session.ErrNoNode}}, ""},
		"cancelled, and its node likewise":     {first, []input{cancel{}, refused(party, session.ErrNoAuth)}, "withdrawn; abandon 1 unguard unfollow answer confirm"},
		"another number of parties":            {unfit, nil, "syncing 0"},
		"the server may have lagged":           {unfit, []input{answered{}}, "rereading 0"},
		"another number of parties, for sure":  {unfit, []input{answered{}, answered{read: reads(4, 0, 3)}}, "inspecting 0"},
		"the next server may lag, too":         {unfit, slices.Concat([]input{answered{}}, upAnew, []input{saw{2, reads(4, 0, 3)}}), "syncing 0"},
		"a directory in use":                   {opens, []input{refused(directory, session.ErrNotEmpty)}, "rereading 0"},
		"a directory in use, still":            {opens, []input{refused(directory, session.ErrNotEmpty), answered{read: reads(4, 0, 2)}, refused(directory, session.ErrNoNode), refused(directory, session.ErrNotEmpty)}, "syncing 0"},
		"a directory in use, in a new session": {opens, slices.Concat([]input{refused(directory, session.ErrNotEmpty)}, upAnew, []input{saw{2, reads(4, 0, 2)}, refused(directory, session.ErrNoNode), refused(directory, session.ErrNotEmpty)}), "rereading 0"},
		"the last round goes on":               {early, nil, "await 1 looking 1"},
		"the last round goes on, and the next": {early, []input{counts(1), saw{1, reads(6, 2, 2, other)}, counts(1)}, "unawait entering 3"},
		"nobody is left in the last round":     {early, []input{counts(0)}, "shutting 1"},
		"the last round is removed":            {early, []input{counts(0), answered{}, lists(own(2, 1), other)}, "waiting present=2; starting 2"},
		"copies are left in the last round":    {early, []input{answered{ownerless: []string{other}}}, "shutting 1 with 1"},
		"copies are left, and one is gone":     {early, []input{answered{ownerless: []string{other}}, refused(party, session.ErrNoNode)}, "looking 1"},
		"copies are left, and not to be deleted": {
			early, []input{answered{ownerless: []string{other}}, answered{at: party, err: session.ErrNoAuth, foreign: "x"}}, "unawait retiring 2",
		},
		"a copy beside it":                      {last, []input{lists(own(1, 1))}, "waiting present=1;"},
		"leaves first":                          {waits, nil, "leaving remaining=1; await 1 wait"},
		"the end is not to be seen, and enters": {waits, []input{enter{}, over{epoch: 1, round: 1, err: session.ErrNoAuth}}, "lost: not authorized; unawait answer entering 2"},
		"looks who is left":                     {looks, nil, "looking 1"},
		"looks again":                           {looks, []input{refused(0, session.ErrDisconnected)}, "checking 1"},
		"leaves last":                           {leaves, []input{counts(0)}, "shutting 1"},
		"leaves last, and another comes":        {leaves, []input{counts(0), refused(directory, session.ErrNotEmpty)}, "await 1 wait"},
	} {
		m := newMachine(id, "", 2)
		did := ""
		for _, in := range slices.Concat(row.before, row.then) {
			if a, is := in.(answered); is {
				a.requestID = m.asked.requestID
				in = a
			}
			var out effects
			m = m.Step(in, &out)
			did = told(out)
		}
		check.Equal(t, did, row.does, name, m)
	}
}

// told says what a party does.
func told(out effects) string {
	var all []string
	for _, ev := range out.Emit {
		all = append(all, ev.String()+";")
	}
	for _, e := range out.Do {
		switch e := e.(type) {
		case request:
			s := fmt.Sprintf("%v %d", e.step, e.round)
			if e.keeps && e.step == opening {
				s += " keeps"
			}
			if e.again {
				s += " again"
			}
			if n := len(e.ownerless); n > 0 {
				s += fmt.Sprint(" with ", n)
			}
			all = append(all, s)
		case guard:
			all = append(all, fmt.Sprint("guard ", e.round))
		case await:
			all = append(all, fmt.Sprint("await ", e.round))
		case abandon:
			all = append(all, fmt.Sprint("abandon ", e.round))
		case follow, unfollow, unguard, unawait, wait, readLater, answer, confirm:
			all = append(all, strings.TrimPrefix(fmt.Sprintf("%T", e), "barrier."))
		}
	}
	return strings.Join(all, " ")
}

// TestRecordUnread: an Enter whose record cannot be read any more ends, even if a round may have
// begun, and leaves no node.
func TestRecordUnread(t *testing.T) {
	m := newMachine("id", "a", 2)
	var asked request
	var said []DoubleEvent
	take := func(in input) {
		var out effects
		m = m.Step(in, &out)
		said = append(said, out.Emit...)
		for _, e := range out.Do {
			if r, is := e.(request); is {
				asked = r
			}
		}
	}
	reply := func(in answered) {
		in.requestID = asked.requestID
		take(in)
	}
	take(heard{session.Connected{ID: 1, Epoch: 1}})
	take(enter{})
	take(saw{1, sight{zxid: 5, czxid: 1, version: 1, book: book{Parties: 2}, nodes: 1}})
	reply(answered{count: 1})
	take(cancel{})
	check.Require(t, asked.step == retiring, "after a cancel: %v", m)
	take(blind{epoch: 1, err: session.ErrNoAuth})
	reply(answered{at: record, err: session.ErrBadVersion})
	check.Require(t, asked.step == exiting, "the record has changed, and cannot be read: %v", m)
	reply(answered{count: 1})
	if _, is := said[len(said)-1].(Withdrawn); !is || m.stage != resting {
		t.Errorf("%v: %v", said, m)
	}
	take(enter{}) // the next one says why
	take(blind{epoch: 1, err: session.ErrNoAuth})
	if last, is := said[len(said)-1].(Withdrawn); !is || !errors.Is(last.Err, session.ErrNoAuth) {
		t.Errorf("%v: %v", said, m)
	}
}

// TestAwaitedOfAnotherRecord: only the directory that was known to stand is awaited.
func TestAwaitedOfAnotherRecord(t *testing.T) {
	for czxid, want := range map[int64]stage{4: leaving, 5: leaving, 6: resting} {
		m := machine{parties: 2, stage: leaving, epoch: 1, round: 1, awaited: 1, known: 5}
		var out effects
		m = m.Step(over{epoch: 1, round: 1, czxid: czxid}, &out)
		if left := slices.Contains(out.Emit, DoubleEvent(Left{1})); m.stage != want || left != (want == resting) {
			t.Errorf("directory of %d: %v, %v", czxid, m, out.Emit)
		}
	}
}

// TestMembersUnread: a member that leaves reads the record before it looks, and has left if that
// lists it no more.
func TestMembersUnread(t *testing.T) {
	for name, c := range map[string]struct {
		in   answered
		step step
		left stage
		says DoubleEvent
	}{
		"its own":       {answered{names: []string{"a", "b"}}, looking, leaving, nil},
		"another's":     {answered{names: []string{"b", "c"}}, idle, resting, Left{1}},
		"of no round":   {answered{}, idle, resting, Left{1}},
		"no record":     {answered{err: session.ErrNoNode}, idle, resting, Left{1}},
		"no data of it": {answered{bad: ErrLayout}, looking, leaving, nil},
		"disconnected":  {answered{err: session.ErrDisconnected}, checking, leaving, nil},
		"refused":       {answered{err: session.ErrNoAuth}, idle, resting, Lost{session.ErrNoAuth}},
	} {
		m := machine{parties: 2, stage: leaving, epoch: 1, round: 1, member: "a", awaited: 1, known: 5, ticks: 1}
		var out effects
		m = m.Step(tick{1}, &out)
		check.Require(t, m.step == checking, "%s: %v", name, m)
		out, c.in.requestID = effects{}, m.asked.requestID
		m = m.Step(c.in, &out)
		said := slices.Concat(out.Emit, []DoubleEvent{nil})[0]
		if m.step != c.step || m.stage != c.left || said != c.says {
			t.Errorf("%s: %v, %v", name, m, said)
		}
	}
}

// TestEntrantsUnread: an Enter that may not list the entrants ends with the error, and leaves no
// node.
func TestEntrantsUnread(t *testing.T) {
	m := newMachine("id", "a", 1)
	var out effects
	take := func(in input, want step) {
		out = effects{}
		if m = m.Step(in, &out); m.step != want {
			t.Fatalf("%T leads to %v", in, m)
		}
	}
	take(heard{session.Connected{ID: 1, Epoch: 1}}, idle)
	take(enter{}, idle)
	take(saw{1, sight{zxid: 5, czxid: 1, version: 1, book: book{Parties: 1}, nodes: 1}}, entering)
	take(answered{requestID: m.asked.requestID, count: 1}, listing)
	take(answered{requestID: m.asked.requestID, err: session.ErrNoAuth}, retiring)
	take(answered{requestID: m.asked.requestID}, idle)
	if last, is := slices.Concat([]DoubleEvent{nil}, out.Emit)[len(out.Emit)].(Withdrawn); !is || !errors.Is(last.Err, session.ErrNoAuth) || m.node != 0 {
		t.Errorf("%v: %v", out.Emit, m)
	}
}

// TestRecordIsReadLater: a party that waits reads the record some time after a reconnect, which its
// GUID chooses, so that parties that reconnect together do not read at once. It does not read if
// the watch has delivered a newer reading by then, or the round has begun.
func TestRecordIsReadLater(t *testing.T) {
	const timeout = 12 * time.Second
	at := func(zxid int64, b book) saw {
		return saw{1, sight{zxid: zxid, czxid: 1, version: int32(zxid), book: b, nodes: 1}}
	}
	for name, c := range map[string]struct {
		before []input
		step   step
	}{
		"nothing new":        {nil, rereading},
		"a newer reading":    {[]input{at(6, book{Parties: 2})}, idle},
		"another round":      {[]input{at(6, book{1, 2, []string{"0000000001-80000000-1", "x"}})}, idle},
		"another session":    {[]input{heard{session.Expired{Epoch: 1}}, heard{session.Connected{ID: 2, Epoch: 2}}}, idle},
		"nothing was read":   {[]input{blind{1, session.ErrDisconnected}}, idle},
		"one more reconnect": {[]input{heard{session.Suspended{}}, heard{session.Resumed{}}}, rereading},
	} {
		m := newMachine("80000000", "", 2)
		var out effects
		take := func(in input) {
			out = effects{}
			m = m.Step(in, &out)
		}
		take(heard{session.Connected{ID: 1, Epoch: 1, Timeout: timeout}})
		take(enter{})
		take(at(5, book{Parties: 2}))
		take(answered{requestID: m.asked.requestID, count: 1})
		take(heard{session.Suspended{}})
		take(heard{session.Resumed{}})
		want := []effect{readLater{1, 1, timeout / 3 / 2}} // by the first digits of the GUID
		check.True(t, m.step == idle && slices.Equal(out.Do, want), "%s: back: %v, %v", name, m, out.Do)
		for _, in := range c.before {
			take(in)
		}
		take(due{1, 1})
		check.Equal(t, m.step, c.step, name)
	}
}

// TestBlocked: an entrant that awaits the end of a round, in which a node of another recipe is all
// that is left, fails: the next round cannot begin. For a member the round is over.
func TestBlocked(t *testing.T) {
	for _, at := range []stage{gathering, leaving} {
		m := machine{parties: 2, stage: at, epoch: 1, following: at == gathering, name: "n", round: 1, awaited: 1, step: looking}
		if at == gathering {
			m.round, m.node, m.sure, m.duty = 0, 2, true, true
		}
		m.asked = request{requestID: requestID{1, 3}, step: looking, round: 1}
		var out effects
		m = m.Step(answered{requestID: requestID{1, 3}, foreign: "x"}, &out)
		check.True(t, m.awaited == 0 && slices.Contains(out.Do, effect(unawait{})), "%v does %v", m, out.Do)
		if at == leaving {
			check.True(t, m.stage == resting && slices.Contains(out.Emit, DoubleEvent(Left{1})), "%v emits %v", m, out.Emit)
			continue
		}
		check.True(t, m.retire && errors.Is(m.failure, ErrLayout) && strings.Contains(m.failure.Error(), "x"), "%v: %v", m, m.failure)
	}
}
