package discovery_test

import (
	"testing"

	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/primitives/internal/conformance"
	"github.com/zkactors/zkactors/session"
)

func TestConformance(t *testing.T) {
	conformance.Run(t,
		conformance.Recipe[discovery.Event]{
			Name: "an instance",
			Open: func(s *session.Session) (conformance.Handle[discovery.Event], error) {
				return discovery.Register(s, "/services", discovery.Instance{Service: "search", ID: "me"}, nil)
			},
			Last: conformance.Is[discovery.Unregistered, discovery.Event],
		},
		conformance.Recipe[discovery.Event]{
			Name: "a member",
			Open: func(s *session.Session) (conformance.Handle[discovery.Event], error) {
				return discovery.Register(s, "/services", discovery.Instance{Service: "search", Address: "10.0.0.7"}, &discovery.Options{Format: discovery.ServerSet})
			},
			Last: conformance.Is[discovery.Unregistered, discovery.Event],
		},
	)
}
