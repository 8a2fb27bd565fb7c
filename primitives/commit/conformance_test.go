package commit_test

import (
	"context"
	"testing"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/internal/conformance"
	"github.com/zkactors/zkactors/session"
)

func TestConformance(t *testing.T) {
	last := func(ev commit.Event) bool {
		switch ev.(type) {
		case commit.Committed, commit.Aborted, commit.Left:
			return true
		case commit.Prepare, commit.Voted, commit.Forgotten:
		}
		return false
	}
	coordinator := conformance.Recipe[commit.Event]{
		Name: "coordinator",
		Open: func(s *session.Session) (conformance.Handle[commit.Event], error) {
			return commit.Begin(context.Background(), s, "/app/tx/"+znode.NewGUID(), &commit.Options{Sites: []string{"a", "b"}})
		},
		Last: last,
	}
	site := conformance.Recipe[commit.Event]{
		Name: "site",
		Open: func(s *session.Session) (conformance.Handle[commit.Event], error) {
			return commit.Join(s, "/app/tx", "a", nil)
		},
		Last: last,
	}
	conformance.Run(t, coordinator, site)
}
