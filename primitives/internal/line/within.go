package line

import (
	"context"

	"github.com/zkactors/zkactors/session"
)

// A site is where a recipe is, as a session sees it. It is the key under which the contexts of a
// grant carry a stay, so that a request that would wait for its own context is refused.
type site struct {
	session *session.Session
	path    string
}

// A stay is a grant that has a context, within those from which that is derived.
type stay struct {
	holder any
	over   <-chan struct{} // closed when it is held no more
	outer  *stay
}

// Within returns a context that says that the holder has it, until it is over.
func Within(ctx context.Context, s *session.Session, path string, holder any, over <-chan struct{}) context.Context {
	at := site{s, path}
	outer, _ := ctx.Value(at).(*stay)
	return context.WithValue(ctx, at, &stay{holder, over, outer})
}

// Holders returns the holders of the type that have the context, and hold still.
func Holders[H any](ctx context.Context, s *session.Session, path string) (all []H) {
	in, _ := ctx.Value(site{s, path}).(*stay)
	for ; in != nil; in = in.outer {
		h, ok := in.holder.(H)
		select {
		case <-in.over:
		default:
			if ok {
				all = append(all, h)
			}
		}
	}
	return all
}
