package life

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/campaign/workload"
	"github.com/zkactors/zkactors/session"
)

// Prepare creates the nodes of a system's workloads, and returns the paths below which they work.
func Prepare(ctx context.Context, operator *session.Session, system workload.System, setup *history.Client) ([]string, error) {
	var paths []string
	for _, w := range system.Workloads() { //nolint:contextcheck // what they run later has the contexts of its clients
		if w.Path != "/" {
			paths = append(paths, w.Path)
			if err := operator.EnsurePath(ctx, w.Path); err != nil {
				return nil, fmt.Errorf("prepare %s: %w", w.Name, err)
			}
		}
		for _, node := range slices.Sorted(maps.Keys(w.Nodes)) {
			if err := operator.EnsurePath(ctx, path.Dir(node)); err != nil {
				return nil, fmt.Errorf("prepare %s: %w", w.Name, err)
			}
			p := setup.Begin(history.Operation{Recipe: w.Name, Path: node, Kind: judge.Set, Argument: w.Nodes[node]})
			if _, err := operator.Create(ctx, node, []byte(w.Nodes[node]), session.Persistent); err != nil {
				return nil, fmt.Errorf("prepare %s: %w", w.Name, err)
			}
			p.End(history.OK, nil)
		}
	}
	return paths, nil
}
