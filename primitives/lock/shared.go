package lock

import (
	"context"
	"fmt"

	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// ErrNotWrite means that a lock cannot be downgraded because it is no write lock.
var ErrNotWrite = line.ErrNotWrite

// NewRead is [New] for a lock that readers share. It waits for the writers and the exclusive
// contenders that came before it, and watches the nearest of them.
func NewRead(s *session.Session, path string, opts *Options) (*Lock, error) {
	return open(s, path, Read, opts)
}

// NewWrite is [New] for a lock that excludes readers, writers and exclusive contenders,
// and can be downgraded.
func NewWrite(s *session.Session, path string, opts *Options) (*Lock, error) {
	return open(s, path, Write, opts)
}

// AcquireRead is [Acquire] for a read lock. In the context of another read lock, it fails with
// [ErrReentered] if a contender that excludes readers stands in line: that contender waits for the
// first read lock, and the second would wait for that contender.
func AcquireRead(ctx context.Context, s *session.Session, path string, opts *Options) (*Lock, error) {
	return acquire(ctx, s, path, Read, opts)
}

// AcquireWrite is [Acquire] for a write lock.
func AcquireWrite(ctx context.Context, s *session.Session, path string, opts *Options) (*Lock, error) {
	return acquire(ctx, s, path, Write, opts)
}

// TryAcquireRead is [TryAcquire] for a read lock: it fails only when a contender that
// excludes readers is ahead.
func TryAcquireRead(ctx context.Context, s *session.Session, path string, opts *Options) (*Lock, error) {
	return tryAcquire(ctx, s, path, Read, opts)
}

// TryAcquireWrite is [TryAcquire] for a write lock.
func TryAcquireWrite(ctx context.Context, s *session.Session, path string, opts *Options) (*Lock, error) {
	return tryAcquire(ctx, s, path, Write, opts)
}

// Downgrade turns a write lock that is held into a read lock, in one transaction: no writer comes
// between, and the readers behind it proceed. It returns nil when that is done. The token stays the
// same.
//
// If there is nothing to downgrade, the error is [ErrNotHeld] or [ErrNotWrite]. If the lock is lost
// meanwhile, it wraps [ErrLost]. If ctx ends first, it is the cause, and the downgrade goes on.
func (l *Lock) Downgrade(ctx context.Context) error { return l.handle.Downgrade(ctx) }

// Upgrade always fails at once, with [ErrUpgrade].
func (l *Lock) Upgrade(context.Context) error {
	return fmt.Errorf("upgrade lock %s: %w", l.path, ErrUpgrade)
}
