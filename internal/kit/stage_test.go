package kit

import (
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestCounts: a session that holds counts on it until its deadline, and in its name no later one
// does.
func TestCounts(t *testing.T) {
	Run(t, zktest.Config{Tick: time.Second}, func(w World) {
		s := w.Open(session.Options{Timeout: 10 * time.Second})
		id := s.ID()
		client.Of(s).Rely(1)
		client.Of(s).Hold(1)
		w.Freeze(0, zktest.Both)
		Pass(time.Second)
		check.True(w, Counts(s, id), "it does not count on itself while it may be back")
		Pass(10 * time.Second)
		check.False(w, Counts(s, id), "it counts on itself after its deadline")
		w.Thaw(0)
		check.Must(w, s.Await(w.Context()))
		check.True(w, !Counts(s, id) && Counts(s, s.ID()), "the later session counts as the one before")
	})
}
