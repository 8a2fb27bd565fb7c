package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/session"
)

// A Contender stands in line for a lock.
type Contender struct {
	Node    string // the path of its node
	Kind    Kind
	Data    []byte // its [Options.Data]
	Session int64  // the session that it stands there through
	Holding bool   // it is first
}

// A Kind says how a contender wants the lock.
type Kind int

// The kinds.
const (
	Exclusive Kind = iota
)

func (k Kind) String() string { return [...]string{"exclusive"}[k] }

// Contenders returns who stands in line for the lock at path, in line order, as the
// server that the session is connected to knows it. There are none if there is no
// such path. Who leaves while they are read is left out.
//
// If opts is nil, the default options are used.
func Contenders(ctx context.Context, s *session.Session, path string, opts *Options) ([]Contender, error) {
	if err := validate(s, path, opts.withDefaults()); err != nil {
		return nil, err
	}
	names, _, err := s.Children(ctx, path)
	if errors.Is(err, session.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("contenders: %w", err)
	}
	type answer struct {
		contender Contender
		err       error
	}
	names = line(names)
	answers := make([]chan answer, len(names))
	for i, name := range names {
		answers[i] = make(chan answer, 1)
		node := session.Join(path, name)
		s.Async(0).Get(node, func(data []byte, stat *session.Stat, err error) {
			a := answer{contender: Contender{Node: node, Data: data}, err: err}
			if err == nil {
				a.contender.Session = stat.EphemeralOwner
			}
			answers[i] <- a
		})
	}
	var all []Contender
	for i := range answers {
		var a answer
		select {
		case a = <-answers[i]:
		case <-ctx.Done():
			return nil, fmt.Errorf("contenders of %s: %w", path, context.Cause(ctx))
		}
		switch {
		case errors.Is(a.err, session.ErrNoNode):
			continue
		case a.err != nil:
			return nil, fmt.Errorf("contenders: %w", a.err)
		}
		a.contender.Holding = len(all) == 0
		all = append(all, a.contender)
	}
	return all, nil
}
