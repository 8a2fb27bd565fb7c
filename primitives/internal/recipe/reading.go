package recipe

import (
	"context"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// Map returns the results of f for all elements, in order.
func Map[A, B any](all []A, f func(A) B) []B {
	mapped := make([]B, len(all))
	for i, a := range all {
		mapped[i] = f(a)
	}
	return mapped
}

// A Reading is the answer to the read of a node.
type Reading struct {
	Data []byte
	Stat *session.Stat
	Err  error
}

// Get reads a node.
func Get(ctx context.Context, s *session.Session, path string) (r Reading) {
	r.Data, r.Stat, r.Err = s.Get(ctx, path)
	return r
}

// Read reads nodes, all at once. The readings have the order of the paths. A read that failed with
// a passing error is repeated. If ctx ends first, the error is its cause.
func Read(ctx context.Context, s *session.Session, paths []string) ([]Reading, error) {
	answers := make([]chan Reading, len(paths))
	for i, path := range paths {
		answers[i] = make(chan Reading, 1)
		s.Async(0).Get(path, func(data []byte, stat *session.Stat, err error) { answers[i] <- Reading{data, stat, err} })
	}
	all := make([]Reading, len(paths))
	for i, path := range paths {
		select {
		case all[i] = <-answers[i]:
		case <-ctx.Done():
			return nil, client.Of(s).Explain(context.Cause(ctx))
		}
		if session.Passing(all[i].Err) { // nothing is lost by reading again
			all[i] = Get(ctx, s, path)
		}
	}
	return all, nil
}
