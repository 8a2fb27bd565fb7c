package queue_test

import (
	"testing"

	"github.com/zkactors/zkactors/primitives/internal/conformance"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Recipe[queue.Event]{
		Open: func(s *session.Session) (conformance.Handle[queue.Event], error) {
			q, err := queue.New(s, "/queues/a", nil)
			if err != nil {
				return nil, err
			}
			return q.Consume(nil)
		},
		Last: func(ev queue.Event) bool {
			_, last := ev.(queue.Closed)
			return last
		},
	})
}
