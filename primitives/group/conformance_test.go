package group_test

import (
	"testing"

	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/internal/conformance"
	"github.com/zkactors/zkactors/session"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Recipe[group.Event]{
		Open: func(s *session.Session) (conformance.Handle[group.Event], error) {
			return group.Join(s, "/groups/a", "me", []byte("here"), nil)
		},
		Last: conformance.Is[group.Left, group.Event],
	})
}
