// Package kazoo has the code of docs/guides/from-kazoo.md.
package kazoo

import (
	"context"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
)

// Report is the same in Go, on the same path.
func Report(ctx context.Context, s *session.Session, report func(ctx context.Context, token int64) error) error {
	return lock.Do(ctx, s, "/locks/report", &lock.Options{Layout: lock.Kazoo, Data: []byte("web-1")}, report)
}
