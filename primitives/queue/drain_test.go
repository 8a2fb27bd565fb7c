package queue_test

import (
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
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
				check.Must(t, q.Close(t.Context()))
			}, queue.ErrClosed},
			"the session is closed": {func(_ *testing.T, _ *zktest.Server, _ *queue.Queue, s []*session.Session) { s[0].Close() }, session.ErrClosed},
			"no connection": {func(_ *testing.T, srv *zktest.Server, _ *queue.Queue, s []*session.Session) {
				srv.Disconnect(s[0].ID())
			}, nil},
			"the session expires": {func(_ *testing.T, srv *zktest.Server, _ *queue.Queue, s []*session.Session) { srv.Expire(s[0].ID()) }, nil},
		} {
			t.Run(name, func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					q := open(t, s[0], nil)
					put(t, q, "x")
					drains := kit.Begin(func() error { return q.Drain(t.Context()) })
					kit.Pass(early)
					test.happens(t, srv, q, s)
					if test.want == nil {
						check.EqualSlices(t, drain(t, open(t, s[1], nil)), []string{"x"}, "left")
					}
					check.Is(t, answered(t, drains), test.want)
				})
			})
		}
	}
}

// TestOperateWithoutSession: what an operator reads is read in the next session if there is none,
// and all is done over the next connection.
func TestOperateWithoutSession(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q, dead := open(t, s[0], nil), letters(t, s[0], nil)
		put(t, q, "x")
		for _, fail := range []func(int64){srv.Disconnect, srv.Expire} {
			after := func() *queue.Queue {
				fail(s[0].ID())
				return q
			}
			srv.Disconnect(s[0].ID())
			check.Must(t, q.Pause(t.Context()))
			check.Equal(t, check.Have(after().Paused(t.Context()))(t), true)
			srv.Disconnect(s[0].ID())
			check.Must(t, q.Resume(t.Context()))
			check.Equal(t, peek(t, after()), "x")
			check.Equal(t, check.Have(after().Len(t.Context()))(t), 1)
			fail(s[0].ID())
			check.Fails(dead.PurgeAll(t.Context()))(t, nil)
			fail(s[0].ID())
			check.EqualSlices(t, dataOf(list(t, dead)), nil, "letters")
		}
		check.Equal(t, check.Have(q.Purge(t.Context()))(t), 1)
	})
}
