package line

import (
	"context"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// A site is the path of a recipe, and the session that it is seen through.
type site struct {
	session *session.Session
	path    string
}

// stays is the key under which the contexts of a grant carry the innermost stay. A request
// that would wait for its own context is refused by it.
type stays struct{}

// A stay is a grant that has a context, within those from which that is derived.
type stay struct {
	site
	holder any
	over   <-chan struct{} // closed when it is held no more
	outer  *stay
}

// Parent returns the context. Instead of nil it returns a context that has ended, with a cause that
// says so: the methods called Context have no error to return.
func Parent(ctx context.Context) context.Context {
	if ctx != nil {
		return ctx
	}
	ctx, end := context.WithCancelCause(context.Background())
	end(fmt.Errorf("%w: parent: the context is nil", session.ErrInvalidArgument))
	return ctx
}

// Within returns a context that says that the holder has it, until it is over.
func Within(ctx context.Context, s *session.Session, path string, holder any, over <-chan struct{}) context.Context {
	ctx = Parent(ctx)
	outer, _ := ctx.Value(stays{}).(*stay)
	return context.WithValue(ctx, stays{}, &stay{site{s, path}, holder, over, outer})
}

// Holders returns the holders of the type that have the context, and hold still.
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
