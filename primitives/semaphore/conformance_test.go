package semaphore_test

import (
	"testing"

	"github.com/zkactors/zkactors/primitives/internal/conformance"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
)

func TestConformance(t *testing.T) {
	recipe := func(name string, weight int, numbered bool) conformance.Recipe[semaphore.Event] {
		return conformance.Recipe[semaphore.Event]{
			Name: name,
			Open: func(s *session.Session) (conformance.Handle[semaphore.Event], error) {
				return semaphore.New(s, "/limits/a", 2, &semaphore.Options{Weight: weight, Numbered: numbered})
			},
			Last: func(ev semaphore.Event) bool {
				return conformance.Is[semaphore.Released](ev) || conformance.Is[semaphore.Lost](ev)
			},
		}
	}
	conformance.Run(t, recipe("unit", 1, false), recipe("weighted", 2, false), recipe("numbered", 1, true))
}
