package config_test

import (
	"testing"

	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/internal/conformance"
	"github.com/zkactors/zkactors/session"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Recipe[config.Event]{
		Open: func(s *session.Session) (conformance.Handle[config.Event], error) {
			return config.Open(s, "/config/a", config.Text, nil)
		},
		Last: conformance.Is[config.Closed, config.Event],
	})
}
