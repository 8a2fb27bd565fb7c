package barrier

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

// TestGate plays what becomes of a gate, and what TryRaise and Lift return.
func TestGate(t *testing.T) {
	lost := fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrDisconnected)
	up := became{session.Connected{ID: 7, Epoch: 1}}
	won := []gateInput{try{}, up, replied{token: 5}}
	for name, story := range map[string]struct {
		in   []gateInput
		want string
	}{
		"raised and lifted":           {append(won, minded{5}, lift{}, removed{}), "raising <nil> mind raised token=5; raze=5 <nil> released;"},
		"not asked yet":               {[]gateInput{up, replied{token: 5}}, ""},
		"connected, and asked later":  {[]gateInput{up, try{}, replied{token: 5}}, "raising <nil> mind raised token=5;"},
		"expired, and asked later":    {[]gateInput{up, became{session.Expired{Epoch: 1}}, try{}}, "session expired"},
		"closed, and asked later":     {[]gateInput{became{session.Closed{}}, try{}}, "session closed"},
		"before a session":            {[]gateInput{try{}, lift{}, up}, "withdrawn <nil>"},
		"in vain":                     {[]gateInput{try{}, up, replied{err: session.ErrNodeExists}}, "raising barrier is raised"},
		"no parent":                   {[]gateInput{try{}, up, replied{err: session.ErrNoNode}, replied{}, replied{token: 5}}, "raising making raising <nil> mind raised token=5;"},
		"a lost reply":                {[]gateInput{try{}, up, replied{err: lost}, replied{err: session.ErrNodeExists}, replied{token: 5, mine: true}}, "raising raising peering <nil> mind raised token=5;"},
		"a lost reply, and another":   {[]gateInput{try{}, up, replied{err: lost}, replied{err: session.ErrNodeExists}, replied{token: 5}, removed{}}, "raising raising peering barrier is raised raze=0"},
		"gone before the look":        {[]gateInput{try{}, up, replied{err: lost}, replied{err: session.ErrNodeExists}, replied{err: session.ErrNoNode}}, "raising raising peering raising"},
		"not to be created":           {[]gateInput{try{}, up, replied{err: session.ErrSessionFull}}, "raising session full: too many bytes of ephemeral paths; use another session"},
		"cancelled on the way":        {[]gateInput{try{}, up, lift{}, replied{token: 5}, removed{}}, "raising withdrawn raze=0 <nil>"},
		"stopped":                     {append(won, stop{}, removed{}), "raising <nil> mind raised token=5; raze=5 released;"},
		"the watch passes":            {append(won, unminded{session.ErrDisconnected}), "raising <nil> mind raised token=5; mind"},
		"the watch ends with it":      {append(won, unminded{session.ErrExpired}, became{session.Expired{Epoch: 1}}), "raising <nil> mind raised token=5; lost: session expired;"},
		"not to be watched":           {append(won, unminded{session.ErrNoAuth}, removed{}), "raising <nil> mind raised token=5; raze=5 lost: not authorized;"},
		"not to be lifted":            {append(won, lift{}, lift{}, removed{session.ErrNoAuth}), "raising <nil> mind raised token=5; raze=5 not authorized not authorized lost: not authorized;"},
		"deleted":                     {append(won, unminded{session.ErrNoNode}), "raising <nil> mind raised token=5; lost: the node was deleted;"},
		"replaced":                    {append(won, minded{6}), "raising <nil> mind raised token=5; lost: the node was deleted;"},
		"expired while it is raised":  {[]gateInput{try{}, up, replied{err: session.ErrExpired}, became{session.Expired{Epoch: 1}}}, "raising session expired"},
		"expired earlier":             {append(won, became{session.Expired{Epoch: 3}}), "raising <nil> mind raised token=5;"},
		"closed while it is lifted":   {append(won, lift{}, became{session.Closed{}}), "raising <nil> mind raised token=5; raze=5 <nil> released;"},
		"closed":                      {append(won, became{session.Closed{}}), "raising <nil> mind raised token=5; lost: session closed;"},
		"an answer that has no claim": {append(won, replied{token: 9}, removed{}), "raising <nil> mind raised token=5;"},
	} {
		g, got := newGate("x"), ""
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
			for _, e := range out.Do {
				switch e := e.(type) {
				case ply:
					say(e.step)
				case mind:
					say("mind")
				case raze:
					say(fmt.Sprint("raze=", e.token))
				case reply:
					say(e.err)
				}
			}
			for _, ev := range out.Emit {
				say(ev.String() + ";")
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
		lift{}:                            nil,
	} {
		g := newGate("x")
		for _, in := range []gateInput{try{}, became{session.Connected{Epoch: 1}}, replied{token: 5}, in} {
			g = g.Step(in, new(gateEffects))
		}
		check.True(t, g.over() && errors.Is(g.err, want), "after %v: %v, want %v", in, g.err, want)
	}
}
