package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/mark"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/priority"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// errNotReleased is the reason for which a revocation uses force.
var errNotReleased = errors.New("not released in time")

// RevokeOptions are optional parameters for [Revoke]. A nil *RevokeOptions is equivalent
// to a zero RevokeOptions.
type RevokeOptions struct {
	// ForceAfter is the time that the holders have to release the lock before their nodes are
	// deleted. With zero, the default, no force is used.
	ForceAfter time.Duration

	// Layout is the layout of the lock. The default is [Standard].
	Layout Layout
}

// Revoke asks the present holders of the lock at path to release it: each receives [Revoked]. It
// follows ZooKeeper's recipe of revocable locks.
//
// Without [RevokeOptions.ForceAfter] it returns when all holders have been asked. With it, Revoke
// returns when all have gone: a holder that has not released the lock by then loses it, with
// [ErrRevoked], by the deletion of its node, also if it has downgraded it. A holder that cannot be
// reached learns of its loss only at the deadline of its lease; until then, only tokens
// and guards protect the resource.
//
// The error is [ErrNotHeld] if the lock is not held. If ctx ends first, the error is its cause; the
// requests made by then remain, and no force is used.
func Revoke(ctx context.Context, s *session.Session, path string, opts *RevokeOptions) error {
	o := client.Options(opts)
	err := o.validate()
	if err == nil {
		err = validate(s, path, Options{Layout: o.Layout})
	}
	if err != nil {
		return err
	}
	for {
		asked, held, err := o.askHolders(ctx, s, path)
		switch {
		case err != nil:
			return err
		case len(asked) > 0:
			return o.enforce(ctx, s, asked)
		case !held:
			return fmt.Errorf("revoke lock %s: %w", path, ErrNotHeld)
		}
	}
}

// askHolders asks the contenders that hold the lock. If all of them left before they were asked,
// held is true and asked is empty: the lock may have been granted again.
func (o RevokeOptions) askHolders(ctx context.Context, s *session.Session, path string) (asked []tenancy, held bool, err error) {
	if err := s.Sync(ctx, path); err != nil { // a server that lags shows former holders
		return nil, false, fmt.Errorf("revoke: %w", err)
	}
	all, err := Contenders(ctx, s, path, &Options{Layout: o.Layout})
	if err != nil {
		return nil, false, fmt.Errorf("revoke: %w", err)
	}
	for _, c := range all {
		if !c.Holding {
			continue
		}
		held = true
		t, err := o.ask(ctx, s, c.Node)
		switch {
		case err == nil:
			asked = append(asked, t)
		case !errors.Is(err, ErrNotHeld):
			return nil, true, err
		}
	}
	return asked, held, nil
}

// RevokeNode is [Revoke] for one contender, whether or not it holds the lock yet. node is the path
// of its node, as in [Contender]. A contender that does not hold yet receives [Revoked] when it
// does. If there is no such node, the error is [ErrNotHeld].
func RevokeNode(ctx context.Context, s *session.Session, node string, opts *RevokeOptions) error {
	o := client.Options(opts)
	err := o.validate()
	if s == nil {
		err = errors.Join(err, fmt.Errorf("lock: %w: session is nil", session.ErrInvalidArgument))
	} else if e := client.CheckPath(s, node); e != nil {
		err = errors.Join(err, fmt.Errorf("lock: node: %w", e))
	}
	if err != nil {
		return err
	}
	_, name := znode.Split(node)
	_, ok := grammars[o.Layout].Parse(name)
	if _, ranked := nodes.ParseRank(name); !ok || ranked != (o.Layout == Prioritized) {
		return fmt.Errorf("lock: node: %w: %s does not stand in a line of the %v layout", session.ErrInvalidArgument, node, o.Layout)
	}
	t, err := o.ask(ctx, s, node)
	if err != nil {
		return err
	}
	return o.enforce(ctx, s, []tenancy{t})
}

func (o RevokeOptions) validate() error {
	var errs []error
	if o.ForceAfter < 0 {
		errs = append(errs, fmt.Errorf("lock: RevokeOptions.ForceAfter: %w: %v is negative", session.ErrInvalidArgument, o.ForceAfter))
	}
	if err := o.Layout.validate(); err != nil {
		errs = append(errs, fmt.Errorf("lock: RevokeOptions.Layout: %w", err))
	}
	return errors.Join(errs...)
}

// A tenancy identifies one contender that was asked to leave.
type tenancy struct {
	node  string
	czxid int64
}

// ask writes a revoke request, unless there is one. A holder that may have been asked, and is gone,
// counts as asked.
func (o RevokeOptions) ask(ctx context.Context, s *session.Session, node string) (tenancy, error) {
	var pauses owned.Set
	defer pauses.End()
	var doubted tenancy
	for {
		data, stat, err := s.Get(ctx, node)
		if reader, ok := o.downgraded(node); ok && errors.Is(err, session.ErrNoNode) {
			node = reader
			continue
		}
		if errors.Is(err, session.ErrNoNode) && doubted.node != "" {
			return doubted, nil
		}
		if err != nil {
			return tenancy{}, refused(node, err)
		}
		t := tenancy{node, stat.Czxid}
		own, marked, _ := mark.Split(data)
		if marked {
			return t, nil
		}
		_, err = s.Set(ctx, node, o.Layout.mark(own, o.ForceAfter), stat.Version)
		if session.InDoubt(err) {
			doubted = t
		}
		switch {
		case err == nil:
			return t, nil
		case errors.Is(err, session.ErrNoNode), errors.Is(err, session.ErrBadVersion), session.Passing(err) && ctx.Err() == nil:
			err = pauses.Wait(ctx, err)
		}
		if err != nil {
			return tenancy{}, refused(node, err)
		}
	}
}

// downgraded returns the path of the reader's node that a downgrade puts in place of the writer's.
func (o RevokeOptions) downgraded(node string) (reader string, ok bool) {
	path, name := znode.Split(node)
	reader, ok = o.Layout.weaker(name)
	return znode.Join(path, reader), ok
}

func refused(node string, err error) error {
	if errors.Is(err, session.ErrNoNode) {
		err = ErrNotHeld
	}
	return fmt.Errorf("revoke lock %s: %w", node, err)
}

// enforce waits until all have left, and deletes the nodes of those that have not left in time.
func (o RevokeOptions) enforce(ctx context.Context, s *session.Session, asked []tenancy) error {
	if o.ForceAfter == 0 {
		return nil
	}
	patience, end := context.WithTimeoutCause(ctx, o.ForceAfter, errNotReleased)
	defer end()
	for len(asked) > 0 {
		t := asked[0]
		asked = asked[1:]
		err := watch.UntilGone(patience, s, t.node)
		if errors.Is(err, errNotReleased) {
			err = o.evict(ctx, s, t)
		}
		if err != nil {
			return refused(t.node, err)
		}
		reader, ok := o.downgraded(t.node)
		if !ok {
			continue
		}
		switch t, err := o.ask(ctx, s, reader); { // by a downgrade it may still hold
		case err == nil:
			asked = append(asked, t)
		case !errors.Is(err, ErrNotHeld):
			return err
		}
	}
	return nil
}

// evict deletes the node, if it is still the node of the tenancy, and its claim.
func (o RevokeOptions) evict(ctx context.Context, s *session.Session, t tenancy) error {
	r := session.Removal{Path: t.node, Is: func(stat *session.Stat) bool { return stat.Czxid == t.czxid }}
	if o.Layout == Prioritized {
		path, name := znode.Split(t.node)
		r.Then = priority.New(client.Of(s), path, priority.Options{}).Unclaim(name)
	}
	return owned.Remove(ctx, s, r)
}
