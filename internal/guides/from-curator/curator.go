// Package curator has the code of docs/guides/from-curator.md.
package curator

import (
	"context"
	"time"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
)

// Report is the same in Go, on the same path.
func Report(ctx context.Context, s *session.Session, report func(ctx context.Context) error) error {
	waits, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	l, err := lock.Acquire(waits, s, "/locks/report", nil)
	if err != nil {
		return err // of a wait that took too long, it names the holder
	}
	defer l.Close()
	held, cancel := l.Context(ctx) // ends when the lock is lost
	defer cancel()
	if err := report(held); err != nil {
		return err
	}
	return l.Err() // not nil if the lock was lost under the report
}
