package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// Once runs f once in the life of the cluster, whichever clients call it with the path, and returns
// the outcome that f returned then: for a migration, or with a path for each tick, for cron. Calls
// that come while f runs wait for it, and later ones return at once, after one read.
//
// f runs while its caller holds the lock at <path>/runners: its context ends when the lock is lost,
// and token is the fencing token of the grant. If f returns an error, Once returns that, nothing is
// recorded, and the next caller runs f. So f may have to cope with what an earlier run has left. If
// f returns nil, its outcome is recorded in the node <path>/outcome, in one transaction with the
// guard of the lock. If the lock was lost before that, the error wraps [ErrLost], and f runs again.
// If it is not known whether the outcome was recorded, the error wraps
// [session.ErrUnknownOutcome]: call Once again. An outcome that is too large for a node is not
// recorded, with [session.ErrTooLarge], and f has run in vain.
//
// If the path belongs to another recipe, f does not run, and the error wraps [ErrForeign]. If f
// panics, or calls [runtime.Goexit], nothing is recorded, the next caller runs f, and that goes on.
//
// If the server refuses to release the lock for a session timeout, the error says so, and is
// returned with the outcome if that is recorded: calls that wait already go on to wait.
//
// The outcome stays until a client deletes its node: then f runs once more. If ctx ends first, the
// error is its cause. If opts is nil, the default options are used.
func Once(ctx context.Context, s *session.Session, path string, opts *Options, f func(ctx context.Context, token int64) (outcome []byte, err error)) (outcome []byte, err error) {
	if f == nil {
		return nil, fmt.Errorf("lock: f: %w: the function is nil", session.ErrInvalidArgument)
	}
	if outcome, done, err := Outcome(ctx, s, path); done || err != nil {
		return outcome, err
	}
	if err := recipe.AwaitVacant(ctx, s, path, nodes.OfOnce); err != nil {
		return nil, fmt.Errorf("once %s: %w", path, err)
	}
	l, err := Acquire(ctx, s, znode.Join(path, nodes.Runners), opts)
	if err != nil {
		return nil, fmt.Errorf("once %s: %w", path, err)
	}
	defer func() {
		// If ctx has ended, the release goes on. A loss is in the error of the run or the record.
		if refused := l.Release(ctx); refused != nil && ctx.Err() == nil && l.Err() == nil {
			err = client.Both(err, fmt.Errorf("once %s: %w", path, refused))
		}
	}()
	// Our node was created, or the one ahead of it deleted, after the outcome was recorded, if it
	// was: so the server knows it.
	if outcome, done, err := Outcome(ctx, s, path); done || err != nil {
		return outcome, err
	}
	work, end := l.Context(ctx)
	defer end()
	if work.Err() != nil { // while the outcome was read
		return nil, fmt.Errorf("once %s: %w", path, context.Cause(work))
	}
	outcome, err = f(work, l.Token())
	if err == nil {
		err = record(ctx, s, l, path, outcome)
	}
	if err != nil {
		return nil, err
	}
	return outcome, nil
}

// Outcome returns the outcome of the function that [Once] has run, and false if none is recorded.
func Outcome(ctx context.Context, s *session.Session, path string) (outcome []byte, done bool, err error) {
	if err := recipe.Check(s, "lock", path, nil); err != nil {
		return nil, false, err
	}
	if err := client.Usable(ctx); err != nil {
		return nil, false, fmt.Errorf("once %s: %w", path, err)
	}
	outcome, stat, err := s.Get(ctx, znode.Join(path, nodes.Outcome))
	if err = client.Without(err, session.ErrNoNode); err != nil {
		return nil, false, fmt.Errorf("once %s: %w", path, err)
	}
	return outcome, stat != nil, nil
}

// record records the outcome while the lock is held. No other client records one meanwhile. If a
// reply is lost, a read shows whether it was recorded.
func record(ctx context.Context, s *session.Session, l *Lock, path string, outcome []byte) error {
	var pauses owned.Set
	defer pauses.End()
	node := znode.Join(path, nodes.Outcome)
	doubt := false
	for {
		_, err := s.Multi(ctx, l.Guard(), session.CreateOp(node, outcome, session.Persistent))
		switch {
		case err == nil:
			return nil
		case !doubt && errors.Is(err, session.ErrNodeExists):
			err = fmt.Errorf("%w: another client has recorded an outcome", ErrLost)
		case doubt && client.IsAny(err, session.ErrNodeExists, session.ErrNoNode):
			// It was recorded by the first try, or the lock is lost since.
			recorded, done, failed := Outcome(ctx, s, path)
			switch {
			case done && bytes.Equal(recorded, outcome):
				return nil
			case failed != nil:
				err = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, failed)
			case done:
				err = fmt.Errorf("%w: another client has run the function as well", ErrLost)
			}
		case session.InDoubt(err) && ctx.Err() == nil:
			doubt = true
			if pauses.Wait(ctx, err) == nil {
				continue
			}
		case session.Passing(err) && pauses.Wait(ctx, err) == nil:
			continue
		}
		if doubt && !errors.Is(err, ErrLost) {
			err = client.Doubted(err)
		}
		return fmt.Errorf("once %s: the function has returned, but its outcome is not recorded: %w", path, err)
	}
}
