package lock_test

import (
	"testing"

	"github.com/zkactors/zkactors/primitives/internal/conformance"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Recipe[lock.Event]{
		Open: func(s *session.Session) (conformance.Handle[lock.Event], error) { return lock.New(s, "/locks/a", nil) },
		Last: func(ev lock.Event) bool {
			switch ev.(type) {
			case lock.Released, lock.Lost:
				return true
			case lock.Waiting, lock.Acquired, lock.Suspended, lock.Resumed, lock.Revoked:
			}
			return false
		},
	})
}
