package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// A Candidacy is a candidate as [Candidates] finds it.
type Candidacy struct {
	Node    string // the path of its node
	Data    []byte // its [Options.Data]
	Session int64  // the session that it stands through
	Leading bool   // it leads
}

// Candidates returns the candidates at path, in the order in which they stand in line, as
// the session's server knows them. There are none if there is no such path. A contender
// that leaves while they are read is left out.
//
// If opts is nil, the default options are used.
func Candidates(ctx context.Context, s *session.Session, path string, opts *ObserveOptions) ([]Candidacy, error) {
	layout := recipe.Or(opts).Layout
	if err := validate(s, path, Options{Layout: layout}); err != nil {
		return nil, err
	}
	p := newPlace(layout, path, "")
	names, _, err := s.Children(ctx, p.dir)
	if errors.Is(err, session.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("candidates: %w", err)
	}
	names = layout.first().Line(names)
	type answer struct {
		data []byte
		stat *session.Stat
		err  error
	}
	answers := make([]chan answer, len(names)+1)
	for i := range answers {
		node := p.leader // as the last one
		if i < len(names) {
			node = znode.Join(p.dir, names[i])
		} else if layout != Standard {
			break
		}
		answers[i] = make(chan answer, 1)
		s.Async(0).Get(node, func(data []byte, stat *session.Stat, err error) { answers[i] <- answer{data, stat, err} })
	}
	var all []Candidacy
	for i, ch := range answers {
		if ch == nil { // the first leads
			if len(all) > 0 {
				all[0].Leading = true
			}
			break
		}
		var a answer
		select {
		case a = <-ch:
		case <-ctx.Done():
			return nil, fmt.Errorf("candidates of %s: %w", path, client.Of(s).Explain(context.Cause(ctx)))
		}
		switch {
		case errors.Is(a.err, session.ErrNoNode):
		case a.err != nil:
			return nil, fmt.Errorf("candidates: %w", a.err)
		case i < len(names):
			all = append(all, Candidacy{Node: znode.Join(p.dir, names[i]), Data: a.data, Session: a.stat.EphemeralOwner})
		default:
			r := parseRecord(a.data)
			for j := range all {
				all[j].Leading = r.successor == "" && all[j].Node == znode.Join(p.dir, r.node)
			}
		}
	}
	return all, nil
}
