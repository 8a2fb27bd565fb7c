package naming_test

import (
	"testing"

	"github.com/zkactors/zkactors/primitives/internal/conformance"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/session"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Recipe[naming.Event]{
		Open: func(s *session.Session) (conformance.Handle[naming.Event], error) {
			return naming.Keep(s, "/names", "me", []byte("here"), nil)
		},
		Last: conformance.Is[naming.Unregistered, naming.Event],
	})
}
