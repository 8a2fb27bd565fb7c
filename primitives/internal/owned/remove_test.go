package owned

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRemove: a removal that is refused returns at once, and one whose context has ended makes no
// request any more.
func TestRemove(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		t := w.T
		g := w.OpenGated(session.Options{})
		check.Must(t, g.EnsurePath(t.Context(), "/dir/node"))
		began := time.Now()
		check.Is(t, Remove(t.Context(), g.Session, session.Removal{Path: "/dir"}), session.ErrNotEmpty)
		check.AtMost(t, time.Since(began), time.Second, "until it was refused")

		g.Cut()
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Remove(ctx, g.Session, session.Removal{Path: "/dir/node"}) }()
		synctest.Wait()
		cancel(errEnough)
		check.Is(t, <-ended, errEnough)
		check.Is(t, Remove(ctx, g.Session, session.Removal{Path: "/dir/node"}), errEnough)
		g.Mend()
		check.OK(t, g.Sync(t.Context(), "/"))
		<-time.After(time.Minute)
		check.Reads(g.Get(t.Context(), "/dir/node"))(t, "", "after the removal that was given up")

		check.OK(t, Remove(t.Context(), g.Session, session.Removal{Path: "/dir/node"}), "Remove")
		stat := check.Have(g.Exists(t.Context(), "/dir/node"))(t)
		check.True(t, stat == nil, "the node is there after its removal")
	})
}
