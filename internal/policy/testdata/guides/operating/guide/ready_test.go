package guide

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReady(t *testing.T) {
	srv := zktest.Start(t)
	srv.Refuse(true)
	s, err := session.Start(srv.Addrs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ask := func() int {
		w := httptest.NewRecorder()
		Ready(s)(w, httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", nil))
		return w.Code
	}
	if got := ask(); got != http.StatusServiceUnavailable {
		t.Error(got)
	}
	srv.Refuse(false)
	if err := s.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != http.StatusOK {
		t.Error(got)
	}
}
