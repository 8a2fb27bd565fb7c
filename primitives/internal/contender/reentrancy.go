package contender

import (
	"context"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// This file makes a context remember the grants in which it was derived. So a call that would wait
// for the grant of its own caller can be refused.

// A site is the path of a recipe, and the session of the caller.
type site struct {
	session *session.Session
	path    string
}

// stays is the key under which a context carries its innermost stay.
type stays struct{}

// A stay is a grant in whose context a caller works. That context may be derived from the contexts
// of outer grants.
type stay struct {
	site
	holder any
	over   <-chan struct{} // closed when it is no longer held
	outer  *stay
}

// ParentContext returns ctx. If ctx is nil, it returns a context that has ended with a cause that
// says so, because the methods called Context return no error.
func ParentContext(ctx context.Context) context.Context {
	if ctx != nil {
		return ctx
	}
	ctx, end := context.WithCancelCause(context.Background())
	end(fmt.Errorf("%w: parent: the context is nil", session.ErrInvalidArgument))
	return ctx
}

// Within returns a context that belongs to the grant of holder until over is closed.
func Within(ctx context.Context, s *session.Session, path string, holder any, over <-chan struct{}) context.Context {
	ctx = ParentContext(ctx)
	outer, _ := ctx.Value(stays{}).(*stay)
	return context.WithValue(ctx, stays{}, &stay{site{s, path}, holder, over, outer})
}

// Holders returns the holders of type H that still hold, and to whose grants the context belongs.
func Holders[H any](ctx context.Context, s *session.Session, path string) (all []H) {
	in, _ := ctx.Value(stays{}).(*stay)
	for ; in != nil; in = in.outer {
		h, ok := in.holder.(H)
		if ok && in.site == (site{s, path}) && !client.Closed(in.over) {
			all = append(all, h)
		}
	}
	return all
}
