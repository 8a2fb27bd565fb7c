package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// A Candidacy describes a candidate, in the result of [Candidates].
type Candidacy struct {
	Node    string // the path of its node
	Data    []byte // its [Options.Data]
	Session int64  // the session that owns its node
	Leading bool   // it leads
}

// Candidates returns the candidates at path, in the order of the line, as the session's server
// knows them. There are none if the path does not exist. A candidate that leaves during the call is
// left out, and so are contenders of another layout.
//
// If opts is nil, the default options are used.
func Candidates(ctx context.Context, s *session.Session, path string, opts *ObserveOptions) ([]Candidacy, error) {
	layout := client.Options(opts).Layout
	if err := validate(s, path, Options{Layout: layout}); err != nil {
		return nil, err
	}
	p := newStore(layout, path, "")
	names, _, err := s.Children(ctx, p.dir)
	if errors.Is(err, session.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("candidates: %w", err)
	}
	standing := grammars[layout].Line(names)
	paths := recipe.Map(standing, func(c nodes.Contender) string { return znode.Join(p.dir, c.Name) })
	if layout == Standard {
		paths = append(paths, p.leader) // after the candidates
	}
	read, err := recipe.Read(ctx, s, paths)
	if err != nil {
		return nil, fmt.Errorf("candidates of %s: %w", path, err)
	}
	var all []Candidacy
	for i, r := range read {
		switch {
		case errors.Is(r.Err, session.ErrNoNode):
		case r.Err != nil:
			return nil, fmt.Errorf("candidates: %w", r.Err)
		case i < len(standing):
			all = append(all, Candidacy{Node: paths[i], Data: r.Data, Session: r.Stat.EphemeralOwner})
		default:
			leader := nodes.ParseLeader(r.Data)
			for j := range all {
				all[j].Leading = leader.Successor == "" && all[j].Node == znode.Join(p.dir, leader.Node)
			}
		}
	}
	if layout != Standard && len(all) > 0 {
		all[0].Leading = true
	}
	return all, nil
}
