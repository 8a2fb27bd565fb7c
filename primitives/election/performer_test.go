package election

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/line"
)

// newPerformer returns a candidate without an actor, and its session.
func newPerformer() (*Candidate, *scripted) {
	s := &scripted{}
	return newCandidate(s, campaignPath, (&Options{Data: []byte{}}).withDefaults(), id), s
}

// TestEndOfPlace: nothing of a candidate that has left stays with the session.
func TestEndOfPlace(t *testing.T) {
	c, s := newPerformer()
	c.line.Begin(func(line.Input) {}, nil)
	check.AtLeast(t, s.kept, 1, "what the session keeps of a candidate")
	c.observe(machine{ended: true}, []Event{Left{}})
	check.Equal(t, s.kept, 0, "what it keeps after the end")
}

// TestWorkBesideTheTerm: a function whose term is over does not begin, and the place does not wait
// for it. When its term is over, the end of its context is no news.
func TestWorkBesideTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newPerformer()
		var told []input
		c.tell = func(in input) { told = append(told, in) }
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		calls := 0
		expect := func(called int) {
			t.Helper()
			again, err := c.work(ctx, 7, returned{}, func(context.Context, int64) error {
				calls++
				c.end(ErrDeposed)
				return nil
			})
			check.True(t, again && err == nil, "%v, %v", again, err)
			check.Equal(t, calls, called, "calls of the function")
		}
		expect(0)
		check.True(t, slices.Equal(told, []input{returned{}}), "before the term: told %v", told)
		c.now.term = 7
		expect(1)
		check.True(t, slices.Equal(told, []input{returned{}, returned{}}), "after the term: told %v", told)
		cancel()
		synctest.Wait()
		check.Len(t, told, 2, "inputs")
	})
}
