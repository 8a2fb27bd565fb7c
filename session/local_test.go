package session_test

import (
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

type localKey struct{}

// TestLocal: what is kept for a session is made once, and not shared with another.
func TestLocal(t *testing.T) {
	inBubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		a, b := mustOpen(t, srv.Addrs(), opts), mustOpen(t, srv.Addrs(), opts)
		create := func() any { return new(int) }
		first := a.Local(localKey{}, create)
		check.True(t, a.Local(localKey{}, create) == first && b.Local(localKey{}, create) != first, "not one for each session")
	})
}
