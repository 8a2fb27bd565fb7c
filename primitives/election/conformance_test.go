package election_test

import (
	"testing"

	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/internal/conformance"
	"github.com/zkactors/zkactors/session"
)

func TestConformance(t *testing.T) {
	recipe := func(layout election.Layout) conformance.Recipe[election.Event] {
		return conformance.Recipe[election.Event]{
			Name: layout.String(),
			Open: func(s *session.Session) (conformance.Handle[election.Event], error) {
				return election.New(s, "/elections/a", &election.Options{Layout: layout})
			},
			Last: conformance.Is[election.Left, election.Event],
		}
	}
	conformance.Run(t, recipe(election.Standard), recipe(election.Curator), recipe(election.Kazoo))
}
