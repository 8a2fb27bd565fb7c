package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// errBelow refuses a node that cannot be lifted: it has children, or data that no barrier has.
var errBelow = fmt.Errorf("%w: the node has children or data, and is %w", ErrLayout, nodes.ErrForeign)

// isForeign reports whether a node at the path of a barrier belongs to another recipe. Curator's
// barriers may have data, and ours have if they are gates.
func isForeign(data []byte, stat *session.Stat) bool {
	return stat.NumChildren > 0 || !nodes.IsBarrier(data)
}

// foreign returns an error that says to which other recipe the node at the path belongs. It returns
// nil if there is none, or it may be a barrier's.
func foreign(ctx context.Context, s *session.Session, path string) error {
	data, stat, err := s.Get(ctx, path)
	if err != nil || !isForeign(data, stat) {
		return client.Without(err, session.ErrNoNode)
	}
	return whose(ctx, s, path, data)
}

// whose returns the error for a node that has the data, and is none of ours.
func whose(ctx context.Context, s *session.Session, path string, data []byte) error {
	names, _, err := s.Children(ctx, path)
	switch {
	case len(data) > 0 || err != nil && !errors.Is(err, session.ErrNoNode):
		return fmt.Errorf("%w: %w", ErrLayout, nodes.ForeignData(data))
	case len(names) == 0:
		return nil
	}
	known := func(name string) bool { owner, _ := nodes.Whose(name); return owner != "" }
	return fmt.Errorf("%w: %w", ErrLayout, nodes.ForeignChild(names[max(slices.IndexFunc(names, known), 0)]))
}
