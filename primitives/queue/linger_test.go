package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestTakeLeftBetweenSessions: the context of a call of Take ends after its session, and before the
// next. The call does not wait for that.
func TestTakeLeftBetweenSessions(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		var away atomic.Bool
		far := apart(t, srv, &away)
		near, q := open(t, s[0], nil), open(t, far, nil)
		put(t, q, "first")
		drain(t, q)
		put(t, near, "second")
		away.Store(true)
		srv.DropRequest(zktest.Match{Op: zktest.OpMulti, Session: far.ID()})
		ctx, cancel := context.WithCancel(t.Context())
		done := beginTake(ctx, q)
		expires(t, far)
		kit.Pass(time.Second)
		cancel()
		select {
		case err := <-done:
			check.Is(t, err, session.ErrUnknownOutcome)
		case <-time.After(time.Hour):
			t.Error("Take waits for ever")
			away.Store(false)
			check.Is(t, <-done, session.ErrUnknownOutcome)
		}
	})
}
