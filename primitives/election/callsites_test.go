package election_test

import (
	"context"
	"errors"

	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/session"
)

// callSites is what users write, and is only to compile.
func callSites(ctx context.Context, s *session.Session) error {
	c, err := election.New(s, "/elections/scheduler", &election.Options{Data: []byte("host-1")})
	if err != nil {
		return err
	}
	defer c.Close()
	for ev := range c.Events() {
		switch ev := ev.(type) {
		case election.Elected:
			_ = ev.Term
		case election.Standing:
			_ = ev.Node
		case election.LeaderChanged:
			_, _, _, _ = ev.Leader.Node, ev.Leader.Data, ev.Term, ev.Acknowledged
		case election.Suspended:
			_ = ev.Deadline
		case election.Resumed:
		case election.Deposed:
			_ = ev.Err
		case election.Overrun:
			_ = ev.Term
		case election.Left:
			_ = ev.Err
		}
	}
	term, leading := c.Leading()
	leader, known := c.Leader()
	_, _, _, _ = term, leading, leader, known
	err = c.Acknowledge(ctx)
	err = errors.Join(err, c.Resign(ctx))
	err = errors.Join(err, c.Lead(ctx, func(ctx context.Context, term int64) error { return ctx.Err() }))
	o, err2 := election.Observe(s, "/elections/scheduler", nil)
	if err2 != nil {
		return err2
	}
	defer o.Close()
	for ev := range o.Events() {
		_ = ev.Leader
	}
	return errors.Join(err, c.Transfer(ctx, "/elections/scheduler/candidates/x"))
}

var _ = callSites
