package barrier_test

import (
	"context"
	"errors"

	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
)

// This file holds the promised call sites. It need only compile.

var _ = func(ctx context.Context, s *session.Session) error {
	b, err := barrier.New(s, "/barriers/deploy", nil)
	if err != nil {
		return err
	}
	defer b.Close()
	err = errors.Join(b.Raise(ctx), b.Lift(ctx), b.Wait(ctx))
	if err != nil {
		return err
	}
	for ev := range b.Events() {
		switch ev := ev.(type) {
		case barrier.Raised:
			_ = ev.Token
		case barrier.Released:
		case barrier.Closed:
			_ = ev.Err
		}
	}

	d, err := barrier.NewDouble(s, "/barriers/run", 5, nil)
	if err != nil {
		return err
	}
	defer d.Close()
	err = errors.Join(d.Enter(ctx), d.Leave(ctx))
	for ev := range d.Events() {
		switch ev := ev.(type) {
		case barrier.Waiting:
			_ = ev.Present
		case barrier.Entered:
			_, _ = ev.Round, ev.Members
		case barrier.Leaving:
			_ = ev.Remaining
		case barrier.Left:
			_ = ev.Round
		case barrier.Lost:
			_ = ev.Err
		case barrier.Withdrawn, barrier.Closed:
		}
	}
	return err
}
