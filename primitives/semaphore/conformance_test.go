package semaphore_test

import (
	"testing"

	"github.com/zkactors/zkactors/primitives/internal/conformance"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
)

func TestConformance(t *testing.T) {
	for name, weight := range map[string]int{"unit": 1, "weighted": 2} {
		t.Run(name, func(t *testing.T) {
			conformance.Run(t, conformance.Recipe[semaphore.Event]{
				Open: func(s *session.Session) (conformance.Handle[semaphore.Event], error) {
					return semaphore.New(s, "/limits/a", 2, &semaphore.Options{Weight: weight})
				},
				Last: func(ev semaphore.Event) bool {
					return conformance.Is[semaphore.Released](ev) || conformance.Is[semaphore.Lost](ev)
				},
			})
		})
	}
}
