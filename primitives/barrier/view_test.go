package barrier

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

// TestView plays what is seen of a barrier, and what waiters are told.
func TestView(t *testing.T) {
	lost := fmt.Errorf("%w: lost", session.ErrDisconnected)
	up := became{session.Connected{Epoch: 1}}
	saw := func(token int64) looked { return looked{requestID: requestID{1, 1}, token: token} }
	for name, story := range map[string]struct {
		in      []viewInput
		emitted string
		done    string
	}{
		"none stands":                    {[]viewInput{up, pass{}, looked{requestID: requestID{1, 1}}}, "", "see look settled;"},
		"none stands before a session":   {[]viewInput{pass{}, up, looked{requestID: requestID{1, 1}}}, "", "see look settled;"},
		"waits while it stands":          {[]viewInput{up, sighted{1, 5, 4}, pass{}, saw(4), sighted{1, 6, 0}}, "raised token=4;released;", "see look settled;"},
		"waits until it is known":        {[]viewInput{up, pass{}, saw(4), sighted{1, 5, 0}}, "released;", "see look settled;"},
		"the look comes late":            {[]viewInput{up, sighted{1, 5, 4}, pass{}, sighted{1, 6, 0}, saw(4)}, "raised token=4;released;", "see look settled;"},
		"the look is repeated":           {[]viewInput{up, pass{}, looked{requestID: requestID{1, 1}, err: lost}, looked{requestID: requestID{1, 1}}}, "", "see look look settled;"},
		"the look is repeated elsewhere": {[]viewInput{up, pass{}, looked{requestID: requestID{1, 1}, err: session.ErrExpired}, became{session.Connected{Epoch: 2}}, looked{requestID: requestID{1, 1}}, looked{requestID: requestID{2, 1}}}, "", "see look see look settled;"},
		"the look fails":                 {[]viewInput{up, pass{}, looked{requestID: requestID{1, 1}, err: session.ErrNoAuth}}, "", "see look not authorized;"},
		"it is not a barrier":            {[]viewInput{up, pass{}, looked{requestID: requestID{1, 1}, token: 4, below: true}}, "", "see look not a barrier's node: the node has children or data, and is of another recipe;"},
		"another one stands":             {[]viewInput{up, sighted{1, 5, 4}, pass{}, saw(4), sighted{1, 7, 6}}, "raised token=4;raised token=6;", "see look "},
		"the same is told once":          {[]viewInput{up, sighted{1, 5, 4}, sighted{1, 7, 4}}, "raised token=4;", "see "},
		"what is older is ignored":       {[]viewInput{up, sighted{1, 9, 8}, sighted{1, 7, 0}}, "raised token=8;", "see "},
		"of another epoch":               {[]viewInput{up, sighted{2, 9, 8}}, "", "see "},
		"a sight older than the look":    {[]viewInput{up, sighted{1, 5, 0}, pass{}, saw(6)}, "released;", "see look "},
		"a sight newer than the look":    {[]viewInput{up, sighted{1, 5, 0}, pass{}, saw(6), sighted{1, 7, 0}}, "released;", "see look settled;"},
		"gone, and the server says when": {[]viewInput{up, sighted{1, 6, 6}, pass{}, saw(6), sighted{1, 0, 0}}, "raised token=6;released;", "see look settled;"},
		"given up":                       {[]viewInput{up, sighted{1, 5, 4}, pass{}, saw(4), give{}, sighted{1, 6, 0}}, "raised token=4;released;", "see look "},
		"the watch passes":               {[]viewInput{up, unsighted{1, lost}}, "", "see see "},
		"the session is over":            {[]viewInput{up, unsighted{1, session.ErrExpired}, became{session.Expired{Epoch: 1}}, became{session.Connected{Epoch: 2}}}, "", "see see "},
		"older data, and it stands":      {[]viewInput{up, sighted{1, 9, 8}, pass{}, saw(8), became{session.Connected{Epoch: 2}}, sighted{2, 3, 2}, sighted{2, 4, 2}}, "raised token=8;raised token=2;", "see look see "},
		"older data, and none stands":    {[]viewInput{up, sighted{1, 9, 8}, pass{}, saw(8), became{session.Connected{Epoch: 2}}, sighted{2, 3, 0}}, "raised token=8;released;", "see look see settled;"},
		"not to be read":                 {[]viewInput{up, pass{}, unsighted{1, session.ErrNoAuth}, sighted{1, 5, 0}}, "closed: not authorized;", "see look refused;"},
		"closed":                         {[]viewInput{up, pass{}, stop{}, stop{}}, "closed;", "see look refused;"},
		"its session is closed":          {[]viewInput{up, pass{}, became{session.Closed{}}}, "closed: session closed;", "see look refused;"},
	} {
		var v view
		var emitted, done string
		for _, in := range story.in {
			waiters := slices.Clone(v.waiters)
			next, out := v.after(in)
			check.EqualSlices(t, v.waiters, waiters, name, "a view is a value")
			for _, ev := range out.Emit {
				emitted += ev.String() + ";"
			}
			for _, do := range out.Do {
				switch do := do.(type) {
				case see:
					done += "see "
				case look:
					done += "look "
				case settle:
					if do.err == nil {
						done += "settled;"
					} else if errors.Is(do.err, ErrClosed) {
						done += "refused;"
					} else {
						done += do.err.Error() + ";"
					}
				}
			}
			v = next
		}
		check.True(t, emitted == story.emitted && done == story.done, "%s: %s and %s: %v", name, emitted, done, v)
	}
}

// after is Step with effects of its own.
func (m view) after(in viewInput) (view, viewEffects) {
	var out viewEffects
	m = m.Step(in, &out)
	return m, out
}
