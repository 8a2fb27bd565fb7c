package shard_test

import (
	"testing"

	"github.com/zkactors/zkactors/primitives/internal/conformance"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Recipe[shard.Event]{
		Open: func(s *session.Session) (conformance.Handle[shard.Event], error) {
			return shard.Join(s, "/shards/orders", 3, &shard.Options{ID: "me"})
		},
		Last: conformance.Is[shard.Left, shard.Event],
	})
}
