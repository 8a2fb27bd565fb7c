package barrier_test

import (
	"context"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRelies: the lease of a session rests on the quorum while a party is in, or on its way in or
// out, and while a gate is raised, and at no other time: then its heartbeats are committed.
func TestRelies(t *testing.T) {
	bubble(t, 2, zktest.Config{Replicas: 3}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		relies := func(when string, want bool) {
			t.Helper()
			kit.Pass(time.Minute) // for what was under way
			srv.ResetRequests()
			kit.Pass(time.Minute)
			counts := srv.RequestsOf(s[0].ID())
			if committed := counts[zktest.OpCheck] > 0; committed != want {
				t.Errorf("%s: %v", when, counts)
			}
		}
		call := func(do func(context.Context) error) <-chan error {
			return begin(func() error { return do(t.Context()) })
		}
		relies("at first", false)
		d := doubles(t, s, 2)
		relies("at rest", false)
		one := call(d[0].Enter)
		relies("while Enter waits", true)
		check.Must(t, d[1].Enter(t.Context()))
		check.Must(t, kit.Returned(t, "Enter", one))
		relies("inside", true)
		one = call(d[0].Leave)
		relies("while Leave waits", true)
		check.Must(t, d[1].Leave(t.Context()))
		check.Must(t, kit.Returned(t, "Leave", one))
		relies("after a round", false)
		one = call(d[0].Enter)
		relies("while another Enter waits", true)
		d[0].Close()
		if kit.Returned(t, "Enter", one) == nil {
			t.Error("Enter alone")
		}
		relies("after Close", false)

		b := single(t, s[0], &barrier.Options{})
		relies("with a handle", false)
		gate, err := b.TryRaise(t.Context())
		check.Must(t, err)
		relies("with a gate", true)
		check.Must(t, gate.Lift(t.Context()))
		relies("without a gate", false)
	})
}
