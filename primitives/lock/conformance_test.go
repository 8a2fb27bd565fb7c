package lock_test

import (
	"testing"

	"github.com/zkactors/zkactors/primitives/internal/conformance"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
)

func TestConformance(t *testing.T) {
	for name, open := range map[string]func(*session.Session, string, *lock.Options) (*lock.Lock, error){
		"exclusive": lock.New, "read": lock.NewRead, "write": lock.NewWrite,
	} {
		t.Run(name, func(t *testing.T) {
			conformance.Run(t, conformance.Recipe[lock.Event]{
				Open: func(s *session.Session) (conformance.Handle[lock.Event], error) { return open(s, "/locks/a", nil) },
				Last: func(ev lock.Event) bool { return conformance.Is[lock.Released](ev) || conformance.Is[lock.Lost](ev) },
			})
		})
	}
}
