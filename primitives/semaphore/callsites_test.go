package semaphore_test

import (
	"context"
	"errors"

	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
)

// callSites is what users write, and is only to compile.
func callSites(ctx context.Context, s *session.Session, path string, data []byte, v int32) error {
	lease, err := semaphore.Acquire(ctx, s, "/limits/exports", 10, nil)
	if err != nil {
		return err
	}
	defer lease.Close()
	_, _ = s.Multi(ctx, lease.Guard(), session.SetOp(path, data, v))
	work, cancel := lease.Context(ctx)
	defer cancel()
	_ = errors.Is(context.Cause(work), semaphore.ErrLost)
	select {
	case <-lease.Done():
		return lease.Err()
	default:
	}

	sem, err := semaphore.New(s, "/limits/exports", 10, &semaphore.Options{Weight: 3})
	if err != nil {
		return err
	}
	for ev := range sem.Events() {
		switch ev := ev.(type) {
		case semaphore.Waiting:
			_ = ev.Ahead
		case semaphore.Acquired:
			_, _ = ev.ID, ev.Node
		case semaphore.Suspended:
			_ = ev.Deadline
		case semaphore.Resumed:
		case semaphore.Released:
		case semaphore.Lost:
			_ = ev.Err
		}
	}
	_, _, err = sem.ID(), sem.Node(), sem.Release(ctx)
	sem.Close()

	tried, err2 := semaphore.TryAcquire(ctx, s, "/limits/exports", 10, nil)
	_, _ = tried, errors.Is(err2, semaphore.ErrFull)
	err3 := semaphore.Do(ctx, s, "/limits/exports", 10, nil, func(ctx context.Context) error { return ctx.Err() })
	_ = semaphore.Options{AnyLimit: true, Data: data, ReleaseInBackground: true}

	err4 := semaphore.SetLimit(ctx, s, "/limits/exports", 12)
	limit, err5 := semaphore.Limit(ctx, s, "/limits/exports")
	holders, err6 := semaphore.Holders(ctx, s, "/limits/exports")
	for _, h := range holders {
		_, _, _, _, _ = h.Node, h.Weight, h.Data, h.Session, limit
	}
	return errors.Join(err, err3, err4, err5, err6)
}

var _ = callSites
