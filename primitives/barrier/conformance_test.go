package barrier_test

import (
	"context"
	"testing"

	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/internal/conformance"
	"github.com/zkactors/zkactors/session"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Recipe[barrier.Event]{
		Open: func(s *session.Session) (conformance.Handle[barrier.Event], error) {
			return barrier.New(s, path, nil)
		},
		Last: func(ev barrier.Event) bool {
			_, last := ev.(barrier.Closed)
			return last
		},
	})
}

// TestDoubleConformance runs the suite with parties that wait, and with parties that are inside.
func TestDoubleConformance(t *testing.T) {
	recipe := func(name string, parties int) conformance.Recipe[barrier.DoubleEvent] {
		return conformance.Recipe[barrier.DoubleEvent]{
			Name: name,
			Open: func(s *session.Session) (conformance.Handle[barrier.DoubleEvent], error) {
				d, err := barrier.NewDouble(s, path, parties, nil)
				if err != nil {
					return nil, err
				}
				go func() { _ = d.Enter(context.Background()) }() // Close ends it
				return d, nil
			},
			Last: conformance.Is[barrier.Closed, barrier.DoubleEvent],
		}
	}
	conformance.Run(t, recipe("waiting", 2), recipe("inside", 1))
}
