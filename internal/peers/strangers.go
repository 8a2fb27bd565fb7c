package peers

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

// Overtakes has the contender join while contenders of the library under test hold, and another of
// them waits. Then it calls leave, and reports whether the contender was granted within the trial;
// with a trial of 0 it waits without a limit. When leave returns, all of ours have left, so the
// contender is granted at the latest now. Then the contender leaves too.
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
		check.OK(t, <-come) // granted after ours have left
	}
	if coming.Wait(); tenancy != nil {
		check.OK(t, tenancy.Release(ctx))
	}
}

// Awaits reads events until one has type G, the grant, and reports whether that comes before the
// channel is closed.
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

// A Grant is a [Tenancy] of the library under test.
type Grant[H interface {
	Release(ctx context.Context) error
	Close()
}] struct {
	Handle  H
	Session *session.Session
}

// Visit implements [Tenancy].
func (g Grant[H]) Visit(ctx context.Context, path string) (int, error) {
	return Visit(ctx, g.Session, path)
}

// Release releases and closes the handle.
func (g Grant[H]) Release(ctx context.Context) error {
	defer g.Handle.Close()
	return g.Handle.Release(ctx)
}
