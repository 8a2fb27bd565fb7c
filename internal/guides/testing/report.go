// Package report has the code of docs/guides/testing.md, and its tests.
package report

import (
	"context"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
)

// Run writes the report while no other process does.
func Run(ctx context.Context, s *session.Session, write func(ctx context.Context) error) error {
	return lock.Do(ctx, s, "/locks/report", nil, func(ctx context.Context, _ int64) error { return write(ctx) })
}
