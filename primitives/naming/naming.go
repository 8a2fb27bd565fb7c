package naming

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/persistent"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// Register registers the name with the data, in the name service at path, and returns when the name
// can be looked up. If another client has the name, the error wraps [ErrTaken].
//
// A persistent name stays until a client deletes it. If the outcome is not known, the error wraps
// [session.ErrUnknownOutcome]: ctx has ended, or the reply was lost and another client has changed
// the name since, which is not undone. An ephemeral name is kept by the session from then on; if
// ctx ends first, it is given up in the background. A second registration of a name that this
// session keeps is [ErrTaken], or, with Options.Replace, an update.
//
// If opts is nil, the default options are used.
func Register(ctx context.Context, s *session.Session, path, name string, data []byte, opts *Options) error {
	if err := client.Usable(ctx); err != nil {
		return fmt.Errorf("naming: register %q: %w", name, err)
	}
	o := client.Options(opts)
	node, err := nodeOf(s, path, name)
	if err == nil {
		err = validate(s, node, data, o)
	}
	switch {
	case err != nil:
		return err
	case o.Ephemeral:
		return registerEphemeral(ctx, s, path, name, data, o)
	}
	if err := persistent.Register(ctx, s, path, node, data, o.Replace); err != nil {
		return fmt.Errorf("naming: register %q: %w", name, err)
	}
	return nil
}

func registerEphemeral(ctx context.Context, s *session.Session, path, name string, data []byte, o Options) error {
	node := znode.Join(path, encode(name))
	for {
		r, err := Keep(s, path, name, data, &o)
		if err == nil {
			if err = r.kept.Await(ctx); err != nil {
				err = fmt.Errorf("naming: register %q: %w", name, err)
			}
			return err
		}
		if !errors.Is(err, ErrTaken) || !o.Replace {
			return err
		}
		switch k := presence.Find(s, node).(type) {
		case *kept:
			_ = k.Tell(presence.Insist{}) // it may still be waiting
			err = (&Registration{session: s, name: name, node: node, kept: k}).Update(ctx, data)
			if err == nil || ctx.Err() != nil || !k.Last().Ended() {
				return err
			}
		case nil: // it has ended meanwhile
		default:
			return err
		}
	}
}

// Unregister removes the name: a persistent node, or a node that this session keeps, or waits for.
// It returns nil when the deletion is confirmed. If there is no such name, the error wraps
// [ErrNotFound]; if the name lives with another session, [ErrForeign]; if the server refuses the
// deletion, the error of the server. If ctx ends before the outcome is known, the error wraps its
// cause; a name that this session keeps is given up all the same.
func Unregister(ctx context.Context, s *session.Session, path, name string) error {
	if err := client.CheckContext(ctx); err != nil {
		return fmt.Errorf("naming: %w", err)
	}
	node, err := nodeOf(s, path, name)
	if err != nil {
		return err
	}
	gaveUp := false
	if k := keptBy(s, node); k != nil {
		err = k.Leave(ctx)
		last := k.Last()
		gaveUp = err == nil && last.Err() == nil
		if gaveUp && last.Stood() {
			return nil
		}
	}
	if err == nil { // it was waited for, or lost before
		err = client.Of(s).Explain(persistent.Remove(ctx, s, node))
	}
	if err == nil || gaveUp && errors.Is(err, ErrNotFound) {
		return nil
	}
	return fmt.Errorf("naming: unregister %q: %w", name, err)
}

// Lookup returns the data of the name. If there is no such name, the error wraps [ErrNotFound]. The
// data may be as old as the server is behind its leader.
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

// Watch watches the data of the name, whether or not it is registered, as [watch.Node] does.
//
// If opts is nil, the default options are used.
func Watch(s *session.Session, path, name string, opts *watch.Options) (*watch.Watch[watch.NodeState], error) {
	node, err := nodeOf(s, path, name)
	if err != nil {
		return nil, err
	}
	return watch.Node(s, node, opts)
}
