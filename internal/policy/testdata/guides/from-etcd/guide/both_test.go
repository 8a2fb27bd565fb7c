package guide

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestBoth: the old lock comes first and goes last, and the loss of either ends the work.
func TestBoth(t *testing.T) {
	srv := zktest.Start(t)
	s, err := session.Open(t.Context(), srv.Addrs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lost := make(chan struct{})
	var story []string
	old := func(context.Context) (func(), <-chan struct{}, error) {
		story = append(story, "old")
		return func() {
			held, err := lock.TryAcquire(context.Background(), s, "/l", nil)
			if err != nil {
				t.Error("the lock here is not released yet:", err)
			} else {
				held.Close()
			}
			story = append(story, "old released")
		}, lost, nil
	}
	both := func(lose func()) error {
		story = nil
		return Both(t.Context(), s, "/l", old, func(ctx context.Context, token int64) error {
			if _, err := lock.TryAcquire(ctx, s, "/l", nil); token <= 0 || !errors.Is(err, lock.ErrReentered) && !errors.Is(err, lock.ErrHeld) {
				t.Error(token, err)
			}
			story = append(story, "work")
			lose()
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}
	want := []string{"old", "work", "old released"}
	if err := both(func() { srv.Expire(s.ID()) }); !errors.Is(err, lock.ErrLost) || !slices.Equal(story, want) {
		t.Error(err, story)
	}
	if err := s.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := both(func() { close(lost) }); !errors.Is(err, context.Canceled) || !slices.Equal(story, want) {
		t.Error(err, story)
	}
	ours := errors.New("ours")
	failing := func(context.Context) (func(), <-chan struct{}, error) { return nil, nil, ours }
	if err := Both(t.Context(), s, "/l", failing, nil); !errors.Is(err, ours) {
		t.Error(err)
	}
}
