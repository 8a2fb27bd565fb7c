package procedure

import (
	"context"
	"errors"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

// A counter asks for each number below its input, and adds up the answers.
type counter struct{ sum int }

// Step implements [actors.Machine].
func (c counter) Step(in int, out *actors.Effects[int, None]) counter {
	c.sum += in
	for i := range in {
		out.Do = append(out.Do, i)
	}
	return c
}

// Ended implements [actors.Machine].
func (counter) Ended() bool { return false }

// TestAnswersAtOnce: an answer that comes while the effects of a step are performed waits for the
// others of that step.
func TestAnswersAtOnce(t *testing.T) {
	var done []int
	p := Run(counter{}, func(do int, answer func(int)) {
		done = append(done, do)
		answer(do)
	}, 3)
	check.EqualSlices(t, done, []int{0, 1, 2, 0, 0, 1, 0}, "performed")
	check.Equal(t, p.machine.sum, 3+0+1+2+0+0+1+0, "sum")
}

// TestAwait: a context that ends abandons the command, whose answer says whether it may be done.
func TestAwait(t *testing.T) {
	cause := errors.New("had enough")
	for _, test := range []struct {
		name    string
		answer  error // of the command that is abandoned
		unknown bool
		caused  bool
	}{
		{"not done", Abandoned(false), false, true},
		{"in doubt", Abandoned(true), true, true},
		{"answered meanwhile", session.ErrNoNode, false, false},
		{"done meanwhile", nil, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			err := Await(ctx, func(done func(error)) func() {
				cancel(cause)
				return func() { done(test.answer) }
			})
			check.True(t, errors.Is(err, cause) == test.caused && session.InDoubt(err) == test.unknown && (test.caused || errors.Is(err, test.answer)), "%v", err)
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	check.Is(t, AwaitAnswer(ctx, func(done func(error)) {
		cancel(cause)
		defer done(nil) // too late: its caller may have left
	}), nil)
	check.Is(t, Await(ctx, func(func(error)) func() { panic("it begins") }), cause)
}

// TestPasses: a request of an epoch is not repeated when that is over.
func TestPasses(t *testing.T) {
	check.True(t, Passes(0, session.ErrExpired) && !Passes(1, session.ErrExpired) && Passes(1, session.ErrDisconnected) && !Passes(0, session.ErrNoNode) && !Passes(0, nil), "passes")
}
