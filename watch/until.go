package watch

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// errFound ends a wait for a node.
var errFound = errors.New("there is a node")

// UntilGone waits until there is no node at path, in this session or a later one. It returns nil at
// once if there is none, and leaves no watch on a node that does not exist. If ctx ends first, it
// returns the cause. Otherwise it fails only if the path is malformed, the node may not be read or
// is over [session.Options.MaxReply], or the session is closed.
//
// The session's server may lag behind: UntilGone misses a node that was created through another
// server a moment before the call, unless [session.Session.Sync] comes first. It may miss that a
// node was deleted and created again while the session was disconnected.
func UntilGone(ctx context.Context, s *session.Session, path string) error {
	return until(ctx, s, path, session.ErrNoNode, false)
}

// UntilExists waits until there is a node at path. It returns nil at once if there is one. If ctx
// ends first, it returns the cause. Otherwise it fails only if the path is malformed, the node may
// not be read or is over [session.Options.MaxReply], or the session is closed.
func UntilExists(ctx context.Context, s *session.Session, path string) error {
	return until(ctx, s, path, errFound, true)
}

func until(ctx context.Context, s *session.Session, path string, wanted error, exists bool) error {
	if err := client.CheckContext(ctx); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if s == nil {
		return fmt.Errorf("watch: %w: session is nil", session.ErrInvalidArgument)
	}
	if err := session.ValidatePath(path); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	for {
		err := untilOver(ctx, s, path, exists)
		switch {
		case errors.Is(err, wanted):
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("watch %s: %w", path, client.Of(s).Explain(context.Cause(ctx)))
		case !errors.Is(err, session.ErrExpired):
			return err
		}
		// The next epoch reads the state of the node.
	}
}

// untilOver waits until the node exists, or the watch on it ends, and returns why.
func untilOver(ctx context.Context, s *session.Session, path string, exists bool) error {
	over := make(chan error, 1)
	sub := s.Async(0).Follow(path, session.AspectData, exists, func(r session.Reading, err error) {
		if exists && r.Stat != nil {
			err = errFound
		}
		if err != nil {
			select {
			case over <- err:
			default:
			}
		}
	})
	defer sub.Cancel()
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
