package barrier

import (
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
		"enters":                                {enters, nil, "entering 1"},
		"its node stands, unexpectedly":         {enters, []input{refused(party, session.ErrNodeExists)}, "guard 1 listing 1"},
		"no directory":                          {opens, nil, "opening 1 keeps"},
		"half a directory":                      {inHalf, nil, "opening 1 keeps again"},
		"half a directory, not to be deleted":   {inHalf, []input{refused(directory, session.ErrNoAuth)}, "withdrawn: not authorized; unguard unfollow answer"},
		"half a directory, made again":          {inHalf, []input{answered{}, answered{read: reads(5, 0, 2)}, counts(2), lists(own(1, 1), other)}, "waiting present=2; starting 1"},
		"cancelled while it lists":              {last, []input{cancel{}, lists(own(1, 1), other)}, "waiting present=2; retiring 1"},
		"the watch ends while it lists":         {last, []input{blind{1, session.ErrDisconnected}, lists(own(1, 1), other)}, "waiting present=2;"},
		"a node that goes as the round begins":  {first, []input{lost{1, own(1, 1), session.ErrNoNode}, refused(record, session.ErrBadVersion), saw{1, reads(5, 1, 2, own(1, 1), other)}}, "entered round=1 members=" + id + "," + nodes.PartyName(other) + "; guard 1 answer"},
		"closed, and its node is not its own":   {first, []input{closeHandle{}, refused(party, session.ErrNoAuth)}, "closed; abandon 1"},
		"closed while it gathers":               {first, []input{closeHandle{}}, "answer unguard exiting 1"},
		"closed while it waits for the others":  {waits, []input{closeHandle{}}, "closed; answer unawait unguard"},
		"closed while it looks, and they go":    {looks, []input{closeHandle{}, over{epoch: 1, round: 1, err: session.ErrNoNode}}, ""},
		"cancelled, and its node likewise":      {first, []input{cancel{}, refused(party, session.ErrNoAuth)}, "withdrawn; abandon 1 unguard unfollow answer confirm"},
		"another number of parties":             {unfit, nil, "syncing 0"},
		"the server may have lagged":            {unfit, []input{answered{}}, "rereading 0"},
		"another number of parties, for sure":   {unfit, []input{answered{}, answered{read: reads(4, 0, 3)}}, "inspecting 0"},
		"the next server may lag, too":          {unfit, slices.Concat([]input{answered{}}, upAnew, []input{saw{2, reads(4, 0, 3)}}), "syncing 0"},
		"a directory in use":                    {opens, []input{refused(directory, session.ErrNotEmpty)}, "rereading 0"},
		"a directory in use, still":             {opens, []input{refused(directory, session.ErrNotEmpty), answered{read: reads(4, 0, 2)}, refused(directory, session.ErrNoNode), refused(directory, session.ErrNotEmpty)}, "syncing 0"},
		"a directory in use, in a new session":  {opens, slices.Concat([]input{refused(directory, session.ErrNotEmpty)}, upAnew, []input{saw{2, reads(4, 0, 2)}, refused(directory, session.ErrNoNode), refused(directory, session.ErrNotEmpty)}), "rereading 0"},
		"the last round goes on":                {early, nil, "await 1 looking 1"},
		"the last round goes on, and the next":  {early, []input{counts(1), saw{1, reads(6, 2, 2, other)}, counts(1)}, "unawait entering 3"},
		"nobody is left in the last round":      {early, []input{counts(0)}, "shutting 1"},
		"the last round is removed":             {early, []input{counts(0), answered{}, lists(own(2, 1), other)}, "waiting present=2; starting 2"},
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
