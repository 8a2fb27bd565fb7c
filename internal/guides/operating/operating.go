// Package operating has the code of docs/guides/operating.md.
package operating

import (
	"net/http"

	"github.com/zkactors/zkactors/session"
)

// Ready answers a readiness probe. It sends no request to ZooKeeper.
func Ready(s *session.Session) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.Healthy(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}
