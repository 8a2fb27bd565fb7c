// Package persistent registers and removes a persistent node of a name, and finds out whether that
// was done when a reply is lost: the common part of names and of instances that stay.
package persistent

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/session"
)

// passing reports whether a request may succeed if it is made again.
func passing(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (session.Passing(err) || client.IsAny(err, session.ErrBadVersion, session.ErrNoNode, session.ErrNodeExists))
}

// The errors that callers can act on. Recipes give them their own names.
var (
	// ErrTaken means that another client has registered the name.
	ErrTaken = presence.ErrDuplicate

	// ErrNotFound means that there is no such name.
	ErrNotFound = errors.New("no such name")

	// ErrForeign means that the name lives with another session, which would register it again.
	ErrForeign = errors.New("name lives with another session")
)

// Register creates the node below path, or gives it the data if replace is set, and tries until its
// outcome is known, or cannot be known.
func Register(ctx context.Context, s *session.Session, path, node string, data []byte, replace bool) error {
	var before *session.Stat // the node that stands there, as far as is known
	doubt := false           // whether a write to that was done
	var pauses owned.Set
	defer pauses.End()
	for {
		if replace || doubt {
			there, now, err := s.Get(ctx, node)
			err = client.Without(err, session.ErrNoNode) // then there is no Stat
			if err == nil && doubt {
				err = settle(before, now, bytes.Equal(there, data), replace)
			} else if doubt {
				err = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, err)
			}
			switch {
			case errors.Is(err, errStands):
				return nil
			case err != nil:
				return err
			case now != nil && now.EphemeralOwner == 0 && bytes.Equal(there, data):
				return nil // as wanted
			}
			before = now
		}
		err := write(ctx, s, node, data, before)
		doubt = session.InDoubt(err)
		switch {
		case err == nil, ctx.Err() != nil:
			return err
		case errors.Is(err, session.ErrNodeExists) && !replace:
			return ErrTaken
		case errors.Is(err, session.ErrNoNode) && before == nil:
			err = s.EnsurePath(ctx, path)
		}
		if err != nil && (!passing(ctx, err) || pauses.Wait(ctx, err) != nil) {
			return err
		}
	}
}

// write puts the data where before stood. Its error wraps the server's error, or
// [session.ErrBadVersion] if the node is another by now.
func write(ctx context.Context, s *session.Session, node string, data []byte, before *session.Stat) error {
	switch {
	case before == nil:
		_, err := s.Create(ctx, node, data, session.Persistent)
		return err
	case before.EphemeralOwner != 0:
		_, err := s.Multi(ctx, session.DeleteOp(node, before.Version), session.CreateOp(node, data, session.Persistent))
		return err
	}
	stat, err := s.Set(ctx, node, data, before.Version)
	if err == nil && stat.EphemeralOwner != 0 {
		return session.ErrBadVersion // a name that would end with its session, and is replaced now
	}
	return err
}

// errStands means that the name has the data that was to be registered.
var errStands = errors.New("registered")

// settle returns the outcome of a write to before, from the node that stands there now. It returns
// nil if nothing did: or if a node that was to be created, and may have been removed again since,
// is not there.
func settle(before, now *session.Stat, same, replace bool) error {
	stands := same && now != nil && now.EphemeralOwner == 0
	switch {
	case before == nil && now == nil:
		return nil
	case before == nil && stands && (replace || now.Version == 0):
		return errStands
	case before == nil && !replace:
		return fmt.Errorf("%w, and it is not known whether it was registered before: %w", ErrTaken, session.ErrUnknownOutcome)
	case stands:
		return errStands
	case before == nil || now == nil || before.Czxid != now.Czxid:
		// Another client may have replaced or removed it since: that client would not have
		// it written again.
	case before.EphemeralOwner != 0 || now.Version == before.Version:
		return nil // it would be another node, or another version
	case now.Version == before.Version+1:
		return nil // another client has written that version
	}
	return fmt.Errorf("%w: another client has changed the name meanwhile; look it up", session.ErrUnknownOutcome)
}

// Remove removes a persistent name. A refusal of a server that may lag is only good when it
// knows what had been done before.
func Remove(ctx context.Context, s *session.Session, node string) error {
	err := remove(ctx, s, node)
	if client.IsAny(err, ErrNotFound, ErrForeign) {
		if err := s.Sync(ctx, node); err != nil {
			return err
		}
		err = remove(ctx, s, node)
	}
	return err
}

// remove removes the persistent node that stands there first.
func remove(ctx context.Context, s *session.Session, node string) error {
	var seen session.Stat
	err := owned.Remove(ctx, s, session.Removal{Path: node, Contested: true, Is: func(stat *session.Stat) bool {
		if seen.Czxid == 0 {
			seen = *stat
		}
		return stat.Czxid == seen.Czxid && stat.EphemeralOwner == 0
	}})
	switch {
	case err != nil:
		return err
	case seen.Czxid == 0:
		return ErrNotFound
	case seen.EphemeralOwner != 0:
		return fmt.Errorf("%w: %s", ErrForeign, znode.SessionID(seen.EphemeralOwner))
	}
	return nil
}
