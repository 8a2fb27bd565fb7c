package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/mark"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/priority"
	"github.com/zkactors/zkactors/session"
)

// A Contender stands in line for a lock.
type Contender struct {
	Node    string // the path of its node
	Kind    Kind
	Data    []byte // its [Options.Data]
	Session int64  // the session that it stands there through
	Holding bool   // it waits for no other
	Revoked bool   // it has been asked to release

	// Priority is its [Options.Priority]; 0 in layouts that have none.
	Priority int
}

// Contenders returns the contenders for the lock at path, in line order, as the server that
// the session is connected to knows it. There are none if there is no such path. A
// contender that leaves while they are read is left out. Where others contend in another
// layout, the error may be [ErrLayout].
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
	answers := make([]chan contenderRead, len(standing))
	for i, c := range standing {
		answers[i] = make(chan contenderRead, 1)
		node := znode.Join(path, c.Name)
		s.Async(0).Get(node, func(data []byte, stat *session.Stat, err error) {
			answers[i] <- readContender(node, c, data, stat, err)
		})
	}
	var all []Contender
	var front nodes.Front // of the contenders so far
	for i, c := range standing {
		var a contenderRead
		select {
		case a = <-answers[i]:
		case <-ctx.Done():
			return nil, fmt.Errorf("contenders of %s: %w", path, client.Of(s).Explain(context.Cause(ctx)))
		}
		if session.Passing(a.err) { // nothing is lost by reading again
			node := znode.Join(path, c.Name)
			data, stat, err := s.Get(ctx, node)
			a = readContender(node, c, data, stat, err)
		}
		if weaker, ok := o.Layout.weaker(c.Name); ok && errors.Is(a.err, session.ErrNoNode) { // it may have become that
			held := holds[c.Name] || holds[weaker]
			c.Name, c.Kind = weaker, nodes.Read
			if holds != nil {
				holds[weaker] = held
			}
			node := znode.Join(path, weaker)
			data, stat, err := s.Get(ctx, node)
			a = readContender(node, c, data, stat, err)
		}
		switch {
		case errors.Is(a.err, session.ErrNoNode):
			continue
		case a.err != nil:
			return nil, fmt.Errorf("contenders: %w", a.err)
		}
		a.contender.Holding = front.Holds(c.Kind)
		if holds != nil {
			a.contender.Holding = holds[c.Name]
		}
		all = append(all, a.contender)
	}
	return all, nil
}

// A contenderRead is the result of reading one contender.
type contenderRead struct {
	contender Contender
	err       error
}

func readContender(node string, c nodes.Rank, data []byte, stat *session.Stat, err error) contenderRead {
	r := contenderRead{Contender{Node: node, Kind: Kind(c.Kind), Priority: c.Priority}, err}
	if err == nil {
		r.contender.Data, r.contender.Revoked, _ = mark.Split(data)
		r.contender.Session = stat.EphemeralOwner
	}
	return r
}

// line returns the contenders among the children in the order of the line. It also
// returns which of them hold the lock, if that does not follow from the order.
func (l Layout) line(ctx context.Context, s *session.Session, path string, names []string) ([]nodes.Rank, map[string]bool, error) {
	ranks := priority.Ranks(names)
	if l == Prioritized {
		if slices.ContainsFunc(names, priority.IsForeign) {
			return nil, nil, fmt.Errorf("%s: %w", path, ErrLayout)
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
