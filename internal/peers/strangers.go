package peers

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

// Overtakes has the contender come while contenders of the library under test hold, and another waits. It calls
// leave with whether it was granted within the trial what it came for. When leave returns, all of ours have left, and
// the contender, which is granted it by then, leaves too. A trial of 0 has no end.
func (c Contender) Overtakes(ctx context.Context, t *testing.T, path string, trial time.Duration, leave func(granted bool)) {
	t.Helper()
	var tenancy Tenancy
	var coming sync.WaitGroup
	come := make(chan error, 1)
	coming.Go(func() {
		var err error
		tenancy, err = c.Join(ctx, path, 0)
		come <- err
	})
	limited, cancel := ctx, context.CancelFunc(func() {})
	if trial > 0 {
		limited, cancel = context.WithTimeout(ctx, trial)
	}
	defer cancel()
	select {
	case err := <-come:
		check.Must(t, err)
		leave(true)
	case <-limited.Done():
		leave(false)
		check.OK(t, <-come) // they are granted it after us
	}
	if coming.Wait(); tenancy != nil {
		check.OK(t, tenancy.Release(ctx))
	}
}

// Awaits reads events up to a grant, which is of type G, and reports whether it comes before the last event.
func Awaits[G, Ev any](ctx context.Context, t *testing.T, events <-chan Ev) bool {
	t.Helper()
	for {
		select {
		case ev, more := <-events:
			if _, granted := any(ev).(G); granted || !more {
				return granted
			}
		case <-ctx.Done():
			t.Fatal("a contender of ours hears nothing")
		}
	}
}

// A Grant is a tenancy of ours.
type Grant[H interface {
	Release(ctx context.Context) error
	Close()
}] struct {
	Handle  H
	Session *session.Session
}

// Visit does what [Visit] does.
func (g Grant[H]) Visit(ctx context.Context, path string) (int, error) {
	return Visit(ctx, g.Session, path)
}

// Release releases and closes the handle.
func (g Grant[H]) Release(ctx context.Context) error {
	defer g.Handle.Close()
	return g.Handle.Release(ctx)
}
