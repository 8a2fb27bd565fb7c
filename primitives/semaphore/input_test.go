package semaphore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestDoWithoutFunction: a nil function is refused before a lease is acquired.
func TestDoWithoutFunction(t *testing.T) {
	srv := zktest.Start(t)
	s := check.Open(session.Open(t.Context(), srv.Addrs(), nil))(t)
	if err := semaphore.Do(t.Context(), s, "/a", 3, nil, nil); !errors.Is(err, session.ErrInvalidArgument) || !strings.Contains(err.Error(), "f:") {
		t.Error(err)
	}
	if stat, err := s.Exists(t.Context(), "/a"); stat != nil || err != nil {
		t.Error("the semaphore is there", err)
	}
}
