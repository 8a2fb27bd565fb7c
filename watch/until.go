package watch

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/session"
)

// UntilGone waits until there is no node at path, in this session or a later one. It
// returns nil at once if there is none, and leaves no watch on a node that does not
// exist. If ctx ends first it returns the cause, and otherwise fails only if the path
// is malformed, may not be read, or the session is closed.
//
// A node that is deleted and made again while the session is disconnected may be
// taken for one that has stayed.
func UntilGone(ctx context.Context, s *session.Session, path string) error {
	if s == nil {
		return fmt.Errorf("watch: %w: session is nil", session.ErrInvalidArgument)
	}
	if err := session.ValidatePath(path); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	for {
		err := untilOver(ctx, s, path)
		switch {
		case errors.Is(err, session.ErrNoNode):
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("watch %s: %w", path, context.Cause(ctx))
		case !errors.Is(err, session.ErrExpired):
			return err
		}
		// The next epoch sees what has become of the node.
	}
}

// untilOver waits until the watch on the node ends, and returns why.
func untilOver(ctx context.Context, s *session.Session, path string) error {
	over := make(chan error, 1)
	end := func(_ []byte, _ *session.Stat, err error) {
		if err != nil {
			select {
			case over <- err:
			default:
			}
		}
	}
	cancel := s.Async(0).Watch(path, end, end)
	defer cancel()
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
