package lock_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestDoWithoutFunction: a nil function is refused before the lock is acquired.
func TestDoWithoutFunction(t *testing.T) {
	srv := zktest.Start(t)
	s := check.Open(session.Open(t.Context(), srv.Addrs(), nil))(t)
	if err := lock.Do(t.Context(), s, "/a", nil, nil); !errors.Is(err, session.ErrInvalidArgument) || !strings.Contains(err.Error(), "f:") {
		t.Error(err)
	}
	if stat, err := s.Exists(t.Context(), "/a"); stat != nil || err != nil {
		t.Error("the line is there", err)
	}
}

// TestLongPath: the error of a long path names the path, not the data.
func TestLongPath(t *testing.T) {
	srv := zktest.Start(t)
	s := check.Open(session.Open(t.Context(), srv.Addrs(), nil))(t)
	for _, bytes := range []int{600_000, 3_000_000} {
		_, err := lock.New(s, "/"+strings.Repeat("x", bytes), nil)
		check.True(t, errors.Is(err, session.ErrInvalidPath) && !strings.Contains(err.Error(), "Data") && len(err.Error()) <= 500, "%.600v", err)
	}
}
