package lock_test

import (
	"testing"
	"time"

	"github.com/zkactors/zkactors/primitives/internal/conformance"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
)

func TestConformance(t *testing.T) {
	recipe := func(name string, open func(*session.Session, string, *lock.Options) (*lock.Lock, error), opts *lock.Options) conformance.Recipe[lock.Event] {
		return conformance.Recipe[lock.Event]{
			Name: name,
			Open: func(s *session.Session) (conformance.Handle[lock.Event], error) { return open(s, "/locks/a", opts) },
			Last: func(ev lock.Event) bool { return conformance.Is[lock.Released](ev) || conformance.Is[lock.Lost](ev) },
		}
	}
	conformance.Run(t, recipe("exclusive", lock.New, nil), recipe("read", lock.NewRead, nil), recipe("write", lock.NewWrite, nil),
		recipe("with priorities", lock.New, prior(0)),
		recipe("with a delay", lock.New, &lock.Options{Delay: time.Second}), conformance.Recipe[lock.Event]{
			Name: "several",
			Open: func(s *session.Session) (conformance.Handle[lock.Event], error) {
				return lock.NewAll(s, exclusively("/locks/a", "/locks/b"), nil)
			},
			Last: recipe("", nil, nil).Last,
		})
}
