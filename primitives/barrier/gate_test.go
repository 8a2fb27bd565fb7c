package barrier

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

// TestGate plays what becomes of a gate, and what TryRaise and Lift return: in each row, the
// outcome of Lift is the last word.
func TestGate(t *testing.T) {
	lost := fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrDisconnected)
	up := became{session.Connected{ID: 7, Epoch: 1}}
	won := []gateInput{up, replied{token: 5}}
	inDoubt := replied{err: lost}
	exists := replied{err: session.ErrNodeExists}
	expired, next := became{session.Expired{Epoch: 1}}, became{session.Connected{ID: 8, Epoch: 2}}
	for name, story := range map[string]struct {
		in   []gateInput
		want string
	}{
		"raised and lifted":           {append(won, minded{5}, stop{}, removed{epoch: 1}), "raising <nil> mind raised token=5; raze=5 released; <nil>"},
		"no session yet":              {nil, ""},
		"closed before it began":      {[]gateInput{became{session.Closed{}}}, "session closed <nil>"},
		"before a session":            {[]gateInput{stop{}, up}, "withdrawn <nil>"},
		"in vain":                     {[]gateInput{up, exists}, "raising barrier is raised <nil>"},
		"no parent":                   {[]gateInput{up, replied{err: session.ErrNoNode}, replied{}, replied{token: 5}}, "raising making raising <nil> mind raised token=5;"},
		"a lost reply":                {[]gateInput{up, inDoubt, exists, replied{token: 5, mine: true}}, "raising raising peering <nil> mind raised token=5;"},
		"a lost reply, and another":   {[]gateInput{up, inDoubt, exists, replied{token: 5}, removed{epoch: 1}}, "raising raising peering barrier is raised raze=0 <nil>"},
		"gone before the look":        {[]gateInput{up, inDoubt, exists, replied{err: session.ErrNoNode}}, "raising raising peering raising"},
		"not to be created":           {[]gateInput{up, replied{err: session.ErrSessionFull}}, "raising session full: too many bytes of ephemeral paths; use another session <nil>"},
		"cancelled on the way":        {[]gateInput{up, stop{}, replied{token: 5}, removed{epoch: 1}}, "raising withdrawn raze=0 <nil>"},
		"cancelled, and not removed":  {[]gateInput{up, stop{}, removed{1, session.ErrNoAuth}}, "raising withdrawn raze=0 not authorized"},
		"the watch passes":            {append(won, unminded{session.ErrDisconnected}), "raising <nil> mind raised token=5; mind"},
		"the watch ends with it":      {append(won, unminded{session.ErrExpired}, expired), "raising <nil> mind raised token=5; lost: session expired; <nil>"},
		"not to be watched":           {append(won, unminded{session.ErrNoAuth}, removed{epoch: 1}), "raising <nil> mind raised token=5; raze=5 lost: not authorized; <nil>"},
		"not to be lifted":            {append(won, stop{}, stop{}, removed{1, session.ErrNoAuth}), "raising <nil> mind raised token=5; raze=5 lost: not authorized; not authorized"},
		"deleted":                     {append(won, unminded{session.ErrNoNode}), "raising <nil> mind raised token=5; lost: the node was deleted; <nil>"},
		"replaced":                    {append(won, minded{6}), "raising <nil> mind raised token=5; lost: the node was deleted; <nil>"},
		"expired while it is raised":  {[]gateInput{up, replied{err: session.ErrExpired}, expired}, "raising session expired <nil>"},
		"expired in doubt":            {[]gateInput{up, inDoubt, expired}, "raising raising session expired <nil>"},
		"expired earlier":             {append(won, became{session.Expired{Epoch: 3}}), "raising <nil> mind raised token=5;"},
		"expired while it is lifted":  {append(won, stop{}, expired, removed{epoch: 1}), "raising <nil> mind raised token=5; raze=5"},
		"lifted by the next session":  {append(won, stop{}, expired, removed{epoch: 1}, next, removed{epoch: 1}, removed{epoch: 2}), "raising <nil> mind raised token=5; raze=5 raze=5 released; <nil>"},
		"or by the one after that":    {append(won, stop{}, expired, next, became{session.Expired{Epoch: 2}}, removed{epoch: 2}, became{session.Connected{Epoch: 3}}, removed{epoch: 3}), "raising <nil> mind raised token=5; raze=5 raze=5 raze=5 released; <nil>"},
		"or not":                      {append(won, stop{}, expired, next, removed{2, session.ErrNoAuth}), "raising <nil> mind raised token=5; raze=5 raze=5 lost: not authorized; not authorized"},
		"closed before the next":      {append(won, stop{}, expired, became{session.Closed{}}), "raising <nil> mind raised token=5; raze=5 released; <nil>"},
		"cancelled, and expired":      {[]gateInput{up, stop{}, expired}, "raising withdrawn raze=0 <nil>"},
		"not to be watched, expired":  {append(won, unminded{session.ErrNoAuth}, expired, next, removed{epoch: 2}), "raising <nil> mind raised token=5; raze=5 lost: not authorized; raze=5 <nil>"},
		"closed while it is lifted":   {append(won, stop{}, became{session.Closed{}}), "raising <nil> mind raised token=5; raze=5 released; <nil>"},
		"closed":                      {append(won, became{session.Closed{}}), "raising <nil> mind raised token=5; lost: session closed; <nil>"},
		"an answer that has no claim": {append(won, replied{token: 9}, removed{epoch: 1}), "raising <nil> mind raised token=5;"},
	} {
		var g gate
		got := ""
		say := func(words ...any) {
			for _, word := range words {
				if got != "" {
					got += " "
				}
				got += fmt.Sprint(word)
			}
		}
		for _, in := range story.in {
			var out gateEffects
			next := g.Step(in, &out)
			switch { // what TryRaise returns
			case g.stage > trying || next.stage == trying:
			case next.token != 0:
				say(nil)
			default:
				say(next.err)
			}
			for _, e := range out.Do {
				switch e := e.(type) {
				case ply:
					say(e.step)
				case mind:
					say("mind")
				case raze:
					say(fmt.Sprint("raze=", e.token))
				}
			}
			for _, ev := range out.Emit {
				say(ev.String() + ";")
			}
			if next.Ended() && !g.Ended() { // what Lift returns
				say(next.refused)
			}
			g = next
		}
		check.True(t, got == story.want, "%s: %s, want %s; %v", name, got, story.want, g)
	}
}

// What a gate is lost for is what Err returns.
func TestWhyGatesAreLost(t *testing.T) {
	for in, want := range map[gateInput]error{
		unminded{session.ErrNoNode}:       ErrNodeGone,
		unminded{session.ErrNoAuth}:       session.ErrNoAuth,
		became{session.Expired{Epoch: 1}}: session.ErrExpired,
		became{session.Closed{}}:          session.ErrClosed,
		stop{}:                            nil,
	} {
		var g gate
		for _, in := range []gateInput{became{session.Connected{Epoch: 1}}, replied{token: 5}, in} {
			g = g.Step(in, new(gateEffects))
		}
		check.True(t, g.over() && errors.Is(g.err, want), "after %v: %v, want %v", in, g.err, want)
	}
}

// A tally counts the subscriptions to the events of a session.
type tally struct {
	*zkmodel.Session
	subscriptions, relied int
}

// Rely implements [client.Session].
func (s *tally) Rely(n int32) { s.relied += int(n) }

func (s *tally) Subscribe(tell func(session.Event) (settled <-chan struct{})) (cancel func()) {
	s.subscriptions++
	end := s.Session.Subscribe(tell)
	return func() {
		s.subscriptions--
		end()
	}
}

// TestGateLeavesNothing: of a gate that has ended, the session keeps nothing, but for a node that
// could not be deleted.
func TestGateLeavesNothing(t *testing.T) {
	for _, refused := range []bool{false, true} {
		s := &tally{Session: zkmodel.New(zkmodel.Faults{}, 1).Sessions[0]}
		p := &gatekeeper{session: s, path: plainPath, id: "a"}
		s.Rely(1)
		p.begin(func(gateInput) {}, nil)
		check.True(t, p.holders().take(1, 5, "a") && p.holders().take(1, 6, "b"), "another gate has the nodes")
		check.Equal(t, s.subscriptions, 1, "subscriptions of a gate")
		p.end(refused)
		check.Equal(t, s.subscriptions, 0, "subscriptions after its end")
		check.Equal(t, s.relied, 0, "leases after its end")
		left := map[int64]string{6: "b"}
		if refused {
			left[5] = "a"
		}
		check.EqualMaps(t, p.holders().gate, left, "refused", refused)
	}
}
