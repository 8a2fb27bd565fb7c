package queue_test

import (
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestDrainEnds: a Drain that waits ends at once with its handle and with its sessions. It goes on
// through the loss of a connection, and of a session.
func TestDrainEnds(t *testing.T) {
	for _, early := range []time.Duration{0, time.Second} {
		for name, test := range map[string]struct {
			happens func(t *testing.T, srv *zktest.Server, q *queue.Queue, s []*session.Session)
			want    error
		}{
			"Close": {func(t *testing.T, _ *zktest.Server, q *queue.Queue, _ []*session.Session) {
				ok(t, q.Close(t.Context()))
			}, queue.ErrClosed},
			"the session is closed": {func(_ *testing.T, _ *zktest.Server, _ *queue.Queue, s []*session.Session) { s[0].Close() }, session.ErrClosed},
			"no connection": {func(t *testing.T, srv *zktest.Server, q *queue.Queue, s []*session.Session) {
				srv.Disconnect(s[0].ID())
				equal(t, "left", drain(t, open(t, s[1], nil)), []string{"x"})
			}, nil},
			"the session expires": {func(t *testing.T, srv *zktest.Server, q *queue.Queue, s []*session.Session) {
				srv.Expire(s[0].ID())
				equal(t, "left", drain(t, open(t, s[1], nil)), []string{"x"})
			}, nil},
		} {
			t.Run(name, func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					q := open(t, s[0], nil)
					put(t, q, "x")
					drains := make(chan error, 1)
					go func() { drains <- q.Drain(t.Context()) }()
					pass(early)
					test.happens(t, srv, q, s)
					check.Is(t, answered(t, drains), test.want)
				})
			})
		}
	}
}
