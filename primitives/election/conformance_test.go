package election_test

import (
	"testing"

	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/internal/conformance"
	"github.com/zkactors/zkactors/session"
)

func TestConformance(t *testing.T) {
	for _, layout := range []election.Layout{election.Standard, election.Curator, election.Kazoo} {
		t.Run(layout.String(), func(t *testing.T) {
			conformance.Run(t, conformance.Recipe[election.Event]{
				Open: func(s *session.Session) (conformance.Handle[election.Event], error) {
					return election.New(s, "/elections/a", &election.Options{Layout: layout})
				},
				Last: conformance.Is[election.Left, election.Event],
			})
		})
	}
}
