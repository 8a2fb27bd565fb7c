package guides

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/guides/operating"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestReady(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		w.Refuse(true)
		s := check.Open(session.Start(w.Addrs(), &session.Options{Dialer: w.DialContext}))(w)
		ask := func() int {
			answer := httptest.NewRecorder()
			operating.Ready(s)(answer, httptest.NewRequestWithContext(w.Context(), "GET", "/readyz", nil))
			return answer.Code
		}
		check.Equal(w, ask(), http.StatusServiceUnavailable)
		w.Refuse(false)
		check.Must(w, s.Await(w.Context()))
		check.Equal(w, ask(), http.StatusOK)
	})
}
