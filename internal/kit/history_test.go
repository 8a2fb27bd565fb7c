package kit

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestHistory: the history of a server has the newest transactions, and says how many there were.
func TestHistory(t *testing.T) {
	var config zktest.Config
	h := new(history)
	config.Committed = h.add
	Run(t, config, func(w World) {
		s := w.Open(session.Options{})
		check.Have(s.Create(w.Context(), "/a", []byte("x"), session.Ephemeral))(w)
		for range 2 * shown {
			check.Have(s.Set(w.Context(), "/a", []byte("y"), session.AnyVersion))(w)
		}
		check.True(w, strings.Contains(h.String(), `sets /a "y"`) && !strings.Contains(h.String(), "creates"), "%v", h)
		s.Close()
	})
	text := h.String()
	check.Equal(t, strings.Count(text, "\n"), shown)
	check.True(t, strings.Contains(text, "61 transactions") || strings.Contains(text, "62 transactions"), "%s", text)
	check.True(t, strings.Contains(text, "ends session 0x") && strings.Contains(text, "deletes /a"), "%s", text)
}
