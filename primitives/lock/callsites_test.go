package lock_test

import (
	"context"
	"errors"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
)

// callSites is what users write, and is only to compile.
func callSites(ctx context.Context, s *session.Session, results chan error, path string, data []byte, v int32) error {
	held, err := lock.Acquire(ctx, s, "/locks/report", nil)
	if err != nil {
		return err
	}
	defer held.Close()
	token := held.Token()
	_ = token
	_, _ = s.Multi(ctx, held.Guard(), session.SetOp(path, data, v))
	work, cancel := held.Context(ctx)
	defer cancel()
	_ = errors.Is(context.Cause(work), lock.ErrLost)
	select {
	case <-held.Done():
		return held.Err()
	case err := <-results:
		_ = err
	}

	held, err = lock.TryAcquire(ctx, s, "/locks/report", nil)
	_, _ = held, errors.Is(err, lock.ErrHeld)
	err = lock.Do(ctx, s, "/locks/report", nil, func(ctx context.Context, token int64) error { return ctx.Err() })
	_ = err

	l, err := lock.New(s, "/locks/report", &lock.Options{Data: []byte("host-1")})
	if err != nil {
		return err
	}
	for ev := range l.Events() {
		switch ev := ev.(type) {
		case lock.Waiting:
			_ = ev.Ahead
		case lock.Acquired:
			_, _ = ev.Token, ev.Node
		case lock.Suspended:
			_ = ev.Deadline
		case lock.Resumed:
		case lock.Revoked:
			_ = ev.Deadline
		case lock.Released:
		case lock.Lost:
			_ = ev.Err
		}
	}
	err = l.Release(ctx)
	l.Close()
	_ = lock.Options{ReleaseInBackground: true}

	for _, open := range []func(*session.Session, string, *lock.Options) (*lock.Lock, error){lock.NewRead, lock.NewWrite} {
		l, err := open(s, "/locks/table", &lock.Options{Layout: lock.Curator})
		if err != nil {
			return err
		}
		select {
		case <-l.Revoked():
		case <-l.Done():
		}
		_ = errors.Is(l.Downgrade(ctx), lock.ErrNotHeld)
		_ = errors.Is(l.Upgrade(ctx), lock.ErrUpgrade)
		l.Close()
	}
	for _, acquire := range []func(context.Context, *session.Session, string, *lock.Options) (*lock.Lock, error){
		lock.AcquireRead, lock.AcquireWrite, lock.TryAcquireRead, lock.TryAcquireWrite,
	} {
		l, err := acquire(ctx, s, "/locks/table", &lock.Options{Layout: lock.Kazoo})
		if err != nil {
			return err
		}
		l.Close()
	}

	h, err3 := lock.AcquireAll(ctx, s, []lock.Want{{Path: "/locks/a"}, {Path: "/locks/b", Kind: lock.Read}}, nil)
	if err3 != nil {
		return err3
	}
	defer h.Close()
	_, err3 = s.Multi(ctx, append(h.Guards(), session.SetOp("/data", nil, 0))...)

	cs, err2 := lock.Contenders(ctx, s, "/locks/table", nil)
	for _, c := range cs {
		_, _, _, _, _ = c.Node, c.Kind, c.Data, c.Session, c.Holding
	}
	return errors.Join(err, err2, err3)
}

var _ = callSites
