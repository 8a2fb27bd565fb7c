package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// A Contender stands in line for a lock.
type Contender struct {
	Node    string // the path of its node
	Kind    Kind
	Data    []byte // its [Options.Data]
	Session int64  // the session that it stands there through
	Holding bool   // it need not wait for anybody
	Revoked bool   // it has been asked to release
}

// A Kind says how a contender wants the lock.
type Kind int

// The kinds.
const (
	Exclusive = Kind(line.Exclusive)
	Read      = Kind(line.Read)
	Write     = Kind(line.Write)
)

func (k Kind) String() string { return [...]string{"exclusive", "read", "write"}[k] }

// Contenders returns who stands in line for the lock at path, in line order, as the
// server that the session is connected to knows it. There are none if there is no
// such path. Who leaves while they are read is left out.
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
	type answer struct {
		contender Contender
		err       error
	}
	standing := grammars[o.Layout].Line(names)
	answers := make([]chan answer, len(standing))
	for i, c := range standing {
		answers[i] = make(chan answer, 1)
		node := session.Join(path, c.Name)
		s.Async(0).Get(node, func(data []byte, stat *session.Stat, err error) {
			a := answer{contender: Contender{Node: node, Kind: Kind(c.Kind)}, err: err}
			a.contender.Data, a.contender.Revoked, _ = unmark(data)
			if err == nil {
				a.contender.Session = stat.EphemeralOwner
			}
			answers[i] <- a
		})
	}
	var all []Contender
	sharing := true // all so far are readers
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
		sharing = sharing && a.contender.Kind == Read
		a.contender.Holding = len(all) == 0 || sharing
		all = append(all, a.contender)
	}
	return all, nil
}
