package guides

import (
	"context"
	"errors"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	etcd "github.com/zkactors/zkactors/internal/guides/from-etcd"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestBoth: the old lock comes first and goes last, and the loss of either ends the work.
func TestBoth(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		s := w.Open(session.Options{})
		lost := make(chan struct{})
		var story []string
		old := func(context.Context) (func(), <-chan struct{}, error) {
			story = append(story, "old")
			return func() {
				held, err := lock.TryAcquire(context.Background(), s, "/l", nil)
				if err != nil {
					w.Error("the lock here is not released yet:", err)
				} else {
					held.Close()
				}
				story = append(story, "old released")
			}, lost, nil
		}
		both := func(lose func()) error {
			story = nil
			return etcd.Both(w.Context(), s, "/l", old, func(ctx context.Context, token int64) error {
				if _, err := lock.TryAcquire(ctx, s, "/l", nil); token <= 0 || !errors.Is(err, lock.ErrReentered) && !errors.Is(err, lock.ErrHeld) {
					w.Error(token, err)
				}
				story = append(story, "work")
				lose()
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}
		want := []string{"old", "work", "old released"}
		check.Is(w, both(func() { w.Expire(s.ID()) }), lock.ErrLost)
		check.EqualSlices(w, story, want)
		check.Must(w, s.Await(w.Context()))
		check.Is(w, both(func() { close(lost) }), context.Canceled)
		check.EqualSlices(w, story, want)
		ours := errors.New("ours")
		failing := func(context.Context) (func(), <-chan struct{}, error) { return nil, nil, ours }
		check.Is(w, etcd.Both(w.Context(), s, "/l", failing, nil), ours)
	})
}
