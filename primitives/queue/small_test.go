package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// smallServer plays with a session on a server that takes smaller requests than the session
// believes.
func smallServer(t *testing.T, f func(t *testing.T, srv *zktest.Server, s ...*session.Session)) {
	t.Helper()
	bubbled(t, zktest.Config{MaxRequest: 100_000, Latency: time.Millisecond}, 1, f)
}

// TestSmallServerPut: an item that is too large for the server is refused. Others are put.
func TestSmallServerPut(t *testing.T) {
	smallServer(t, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		q := open(t, s[0], nil)
		_, err := q.Put(ctx, make([]byte, 200_000))
		check.Is(t, err, session.ErrTooLarge)
		put(t, q, "small")
		equal(t, "taken", drain(t, q), []string{"small"})
		ok(t, q.Close(ctx))
	})
}
