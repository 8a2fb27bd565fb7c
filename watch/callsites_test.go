package watch_test

import (
	"context"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// This file holds the promised call sites. It need only compile.

var _ = func(ctx context.Context, s *session.Session) error {
	type Limits struct{ Exports int }
	w, err := watch.Node(s, "/config/limits", nil)
	if err != nil {
		return err
	}
	defer w.Close()
	isNode := func(*watch.Watch[watch.NodeState]) {}
	isNode(w)
	for state := range w.Changes() {
		_, _, _ = state.Exists, state.Data, state.Stat
	}
	c, err := watch.Children(s, "/services/api", nil)
	if err != nil {
		return err
	}
	defer c.Close()
	for state := range c.Changes() {
		_, _, _ = state.Names, state.Added, state.Removed
	}
	t, err := watch.Tree(s, "/services", nil)
	if err != nil {
		return err
	}
	defer t.Close()
	<-t.Synced()
	_, _ = t.Get("/services/api"), t.Len()
	for state := range t.Changes() {
		_, _, _ = state.Added, state.Changed, state.Removed
	}
	v, err := watch.Value(s, "/config/limits", watch.JSON[Limits], nil)
	if err != nil {
		return err
	}
	defer v.Close()
	for state := range v.Changes() {
		_, _, _ = state.Value, state.Version, state.Err
	}
	if err := watch.UntilExists(ctx, s, "/a/b"); err != nil {
		return err
	}
	return watch.UntilGone(ctx, s, "/a/b")
}
