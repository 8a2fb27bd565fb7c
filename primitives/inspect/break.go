package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// ErrGone means that the contender has left, or does not hold any more.
var ErrGone = errors.New("the contender is gone")

// Break deletes the node of a contender of a survey: the contender loses its grant, or its place in
// line, and the next in line may be granted it at once. A holder of this library is notified. A
// holder that is cut off learns of that only at the deadline of its session: until then, only
// tokens and guards protect the data that it works on. Prefer
// [github.com/zkactors/zkactors/primitives/lock.RevokeNode], which asks.
//
// Nothing is deleted if the node has another Czxid than in the survey: the error wraps [ErrGone]. A
// leader's record is deleted with its node. If the error wraps [session.ErrUnknownOutcome], the
// node may have been deleted.
func Break(ctx context.Context, s *session.Session, c Contender) error {
	err := client.CheckContext(ctx)
	if err == nil {
		err = validate(s, c.Node, Options{})
	}
	if err != nil {
		return err
	}
	for {
		err := tryBreak(ctx, s, c)
		switch {
		case errors.Is(err, session.ErrBadVersion): // the holder has written to it, or a contender that asks it to leave
			continue
		case errors.Is(err, session.ErrNoNode):
			err = ErrGone
		}
		if err != nil {
			return fmt.Errorf("break %s: %w", c.Node, err)
		}
		return nil
	}
}

func tryBreak(ctx context.Context, s *session.Session, c Contender) error {
	if err := s.Sync(ctx, c.Node); err != nil {
		return err
	}
	stat, err := s.Exists(ctx, c.Node)
	switch {
	case err != nil:
		return err
	case stat == nil || stat.Czxid != c.Czxid:
		return ErrGone
	}
	ops := []session.Op{session.DeleteOp(c.Node, stat.Version)}
	if c.Claim != "" && c.Wants == wantsLead {
		data, leader, err := s.Get(ctx, c.Claim)
		if err != nil {
			return err
		}
		if nodes.ParseLeader(data).Node != nameOf(c.Node) {
			return ErrGone
		}
		ops = append(ops, session.DeleteOp(c.Claim, leader.Version))
	}
	_, err = s.Multi(ctx, ops...)
	return err
}
