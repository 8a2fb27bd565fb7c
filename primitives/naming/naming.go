package naming

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// Register registers the name with the data, in the name service at path, and returns
// when it can be looked up. If somebody else has the name, the error wraps [ErrTaken].
//
// A persistent name stays until somebody removes it. If ctx ends before the outcome is
// known, the error says so, by [session.ErrUnknownOutcome]. An ephemeral name is kept by
// the session from then on; if ctx ends first, it is given up in the background. To
// register a name again that this session keeps is [ErrTaken], or with Options.Replace
// an update.
//
// If opts is nil, the default options are used.
func Register(ctx context.Context, s *session.Session, path, name string, data []byte, opts *Options) error {
	o := opts.withDefaults()
	node, err := nodeOf(s, path, name)
	if err == nil {
		err = validate(s, node, data, o)
	}
	if err != nil {
		return err
	}
	if !o.Ephemeral {
		if err := registerPersistent(ctx, s, path, node, data, o.Replace); err != nil {
			return fmt.Errorf("naming: register %q: %w", name, err)
		}
		return nil
	}
	if kept := tableOf(s).get(node); kept != nil && o.Replace {
		return kept.Update(ctx, data)
	}
	r, err := Keep(s, path, name, data, &o)
	if err != nil {
		return err
	}
	select {
	case <-r.registered:
		return nil
	case <-r.Done():
		return fmt.Errorf("naming: register %q: %w", name, errors.Join(r.Err(), context.Cause(ctx)))
	case <-ctx.Done():
		_ = r.actor.Tell(presence.Leave{}) // an ended one has left
		return fmt.Errorf("naming: register %q: %w", name, context.Cause(ctx))
	}
}

// passing reports whether a request may succeed if it is made again.
func passing(ctx context.Context, err error) bool {
	return ctx.Err() == nil && !errors.Is(err, session.ErrClosed) && isAny(err,
		session.ErrUnknownOutcome, session.ErrDisconnected, session.ErrExpired,
		session.ErrBadVersion, session.ErrNoNode, session.ErrNodeExists)
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}

// registerPersistent tries until it is known what became of it.
func registerPersistent(ctx context.Context, s *session.Session, path, node string, data []byte, replace bool) error {
	doubt := false // whether an earlier attempt has succeeded
	for {
		_, err := s.Create(ctx, node, data, session.Persistent)
		if err == nil {
			return nil
		}
		doubt = doubt || errors.Is(err, session.ErrUnknownOutcome)
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, session.ErrNoNode):
			if err := s.EnsurePath(ctx, path); err != nil {
				return err
			}
			continue
		case errors.Is(err, session.ErrNodeExists):
			if !doubt && !replace {
				return ErrTaken
			}
			var over bool
			over, err = settle(ctx, s, node, data, replace)
			if over {
				return err
			}
			doubt = doubt || errors.Is(err, session.ErrUnknownOutcome)
		}
		if err != nil && !passing(ctx, err) {
			return err
		}
	}
}

// settle compares what stands with what is to be. It reports whether there is nothing left
// to do.
func settle(ctx context.Context, s *session.Session, node string, data []byte, replace bool) (over bool, err error) {
	there, stat, err := s.Get(ctx, node)
	same := err == nil && stat.EphemeralOwner == 0 && bytes.Equal(there, data)
	switch {
	case err != nil:
	case same && (replace || stat.Version == 0):
		return true, nil
	case !replace:
		return true, ErrTaken
	case stat.EphemeralOwner != 0:
		_, err = s.Multi(ctx, session.DeleteOp(node, stat.Version), session.CreateOp(node, data, session.Persistent))
		return err == nil, err
	default:
		_, err = s.Set(ctx, node, data, stat.Version)
		return err == nil, err
	}
	return false, err
}

// Unregister removes the name: a persistent one, or one that this session keeps. It
// returns nil when that is confirmed. If there is no such name, the error wraps
// [ErrNotFound]; if it lives with another session, [ErrForeign]. If ctx ends before the
// outcome is known, the error wraps its cause; a name that this session keeps is given up
// all the same.
func Unregister(ctx context.Context, s *session.Session, path, name string) error {
	node, err := nodeOf(s, path, name)
	if err != nil {
		return err
	}
	if kept := tableOf(s).get(node); kept != nil {
		return kept.leave(ctx)
	}
	if err := unregister(ctx, s, node); err != nil {
		return fmt.Errorf("naming: unregister %q: %w", name, err)
	}
	return nil
}

func unregister(ctx context.Context, s *session.Session, node string) error {
	tried := int64(0) // czxid of the node whose deletion is in doubt
	for {
		_, stat, err := s.Get(ctx, node)
		switch {
		case tried != 0 && (isAny(err, session.ErrNoNode) || err == nil && stat.Czxid != tried):
			return nil
		case isAny(err, session.ErrNoNode):
			return ErrNotFound
		case err != nil:
			return err
		case stat.EphemeralOwner != 0:
			return fmt.Errorf("%w: %#x", ErrForeign, stat.EphemeralOwner)
		}
		err = s.Delete(ctx, node, stat.Version)
		switch {
		case err == nil, isAny(err, session.ErrNoNode):
			return nil
		case isAny(err, session.ErrUnknownOutcome):
			tried = stat.Czxid
		}
		if !passing(ctx, err) {
			return err
		}
	}
}

// Lookup returns what the name stands for. If there is no such name, the error wraps
// [ErrNotFound]. It may be as old as the server is behind its leader.
func Lookup(ctx context.Context, s *session.Session, path, name string) ([]byte, error) {
	node, err := nodeOf(s, path, name)
	if err != nil {
		return nil, err
	}
	data, _, err := s.Get(ctx, node)
	if errors.Is(err, session.ErrNoNode) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("naming: look up %q: %w", name, err)
	}
	return data, nil
}

// List returns all names, in order.
func List(ctx context.Context, s *session.Session, path string) ([]string, error) {
	if _, err := nodeOf(s, path, "name"); err != nil {
		return nil, err
	}
	nodes, _, err := s.Children(ctx, path)
	if err != nil && !errors.Is(err, session.ErrNoNode) {
		return nil, fmt.Errorf("naming: list: %w", err)
	}
	var names []string
	for _, node := range nodes {
		if name, ok := decode(node); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Watch watches what the name stands for, whether or not it is registered, as
// [watch.Node] does.
//
// If opts is nil, the default options are used.
func Watch(s *session.Session, path, name string, opts *watch.Options) (*watch.Watch[watch.NodeState], error) {
	node, err := nodeOf(s, path, name)
	if err != nil {
		return nil, err
	}
	return watch.Node(s, node, opts)
}
