// Package zklock has the code of docs/guides/from-zk-lock.md.
package zklock

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
)

// Before is with zk.Lock.
func Before(conn *zk.Conn, work func() error) error {
	l := zk.NewLock(conn, "/locks/report", zk.WorldACL(zk.PermAll))
	if err := l.Lock(); err != nil {
		return err
	}
	defer l.Unlock()
	return work()
}

// Report is the same with this library.
func Report(ctx context.Context, s *session.Session, work func(ctx context.Context) error) error {
	l, err := lock.Acquire(ctx, s, "/locks/report", nil)
	if err != nil {
		return err
	}
	defer l.Close()
	held, cancel := l.Context(ctx) // ends when the lock is lost
	defer cancel()
	if err := work(held); err != nil {
		return err
	}
	return l.Err() // not nil if the lock was lost under the work
}
