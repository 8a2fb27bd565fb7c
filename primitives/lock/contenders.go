package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/mark"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/priority"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// A Contender stands in line for a lock.
type Contender struct {
	Node    string // the path of its node
	Kind    Kind
	Data    []byte // its [Options.Data]
	Session int64  // the session that owns its node
	Holding bool   // it waits for no other contender
	Revoked bool   // another client has asked it to release the lock

	// Priority is its [Options.Priority]; 0 in layouts without priorities.
	Priority int
}

// Contenders returns the contenders for the lock at path, in the order of the line, as the
// session's server knows them. There are none if the path does not exist. A contender that leaves
// during the call is left out. If contenders of another layout stand there, they are left out, or
// the error is [ErrLayout]. Those of no known layout are left out.
//
// If opts is nil, the default options are used.
func Contenders(ctx context.Context, s *session.Session, path string, opts *Options) ([]Contender, error) {
	o := opts.withDefaults()
	if err := validate(s, path, o); err != nil {
		return nil, err
	}
	names, _, err := s.Children(ctx, path)
	if errors.Is(err, session.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("contenders: %w", err)
	}
	standing, holds, err := o.Layout.line(ctx, s, path, names)
	if err != nil {
		return nil, fmt.Errorf("contenders: %w", err)
	}
	paths := recipe.Map(standing, func(c nodes.Rank) string { return znode.Join(path, c.Name) })
	read, err := recipe.Read(ctx, s, paths)
	if err != nil {
		return nil, fmt.Errorf("contenders of %s: %w", path, err)
	}
	var all []Contender
	var ahead nodes.Ahead // the contenders so far
	for i, r := range read {
		c, node, held := standing[i], paths[i], holds[standing[i].Name]
		// by a downgrade
		if weaker, ok := o.Layout.weaker(c.Name); ok && errors.Is(r.Err, session.ErrNoNode) {
			c.Kind, node, held = nodes.Read, znode.Join(path, weaker), held || holds[weaker]
			r = recipe.Get(ctx, s, node)
		}
		switch {
		case errors.Is(r.Err, session.ErrNoNode):
			continue
		case r.Err != nil:
			return nil, fmt.Errorf("contenders: %w", r.Err)
		}
		if free := ahead.Holds(c.Kind); holds == nil {
			held = free
		}
		data, revoked, _ := mark.Split(r.Data)
		all = append(all, Contender{node, Kind(c.Kind), data, r.Stat.EphemeralOwner, held, revoked, c.Priority})
	}
	return all, nil
}

// line returns the contenders among the children, in the order of the line. If their order does not
// decide which of them hold the lock, it also returns these.
func (l Layout) line(ctx context.Context, s *session.Session, path string, names []string) ([]nodes.Rank, map[string]bool, error) {
	ranks := priority.Ranks(names)
	if l == Prioritized {
		if i := slices.IndexFunc(names, priority.IsForeign); i >= 0 {
			return nil, nil, fmt.Errorf("%s: %w", path, line.OtherLayout(nodes.OfLock, names[i]))
		}
		holds, err := priority.Holders(ctx, s, path)
		return ranks, holds, err
	}
	if len(ranks) > 0 {
		return nil, nil, fmt.Errorf("%s: %w: that of locks with priorities", path, ErrLayout)
	}
	for _, c := range grammars[l].Line(names) {
		ranks = append(ranks, nodes.Rank{Contender: c})
	}
	return ranks, nil, nil
}
