// Package etcd has the code of docs/guides/from-etcd.md.
package etcd

import (
	"context"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
)

// Both runs work while the old lock and the lock at path are held. old acquires the first: it
// returns how to release it, and a channel that closes when it is lost, such as the channel of
// concurrency.Session.Done.
func Both(ctx context.Context, s *session.Session, path string, old func(ctx context.Context) (release func(), lost <-chan struct{}, err error), work func(ctx context.Context, token int64) error) error {
	release, lost, err := old(ctx)
	if err != nil {
		return err
	}
	defer release() // the last to be acquired is the first to be released
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	l, err := lock.Acquire(ctx, s, path, nil)
	if err != nil {
		return err
	}
	defer l.Close() // returns when it is released, also if ctx has ended
	held, end := l.Context(ctx)
	defer end()
	if err := work(held, l.Token()); err != nil {
		return err
	}
	return l.Err()
}
