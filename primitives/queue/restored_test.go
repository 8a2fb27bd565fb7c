package queue_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// gated opens a session that can be cut off from the servers.
func gated(t *testing.T, srv *zktest.Server) *kit.Gate {
	t.Helper()
	return kit.World{T: t, Server: srv}.OpenGated(session.Options{Timeout: 12 * time.Second, ServerTick: time.Second})
}

// expires waits until the server has ended the session.
func expires(t *testing.T, srv *zktest.Server, s *kit.Gate) {
	t.Helper()
	for slices.Contains(srv.Sessions(), s.ID()) {
		kit.Pass(time.Second)
	}
}

// TestTakeAfterARestore: a call of Take has read an item, and its session lapses. Meanwhile the
// servers come back with older data, and another item has the name and the version. The call does
// not remove that unread.
func TestTakeAfterARestore(t *testing.T) {
	for _, layout := range []queue.Layout{queue.Curator, queue.Kazoo} {
		for _, test := range []struct {
			name string
			lost zktest.Match
			warm bool // the handle has a receipt, and so has the backup
		}{
			{name: "a removal that was not sent", lost: zktest.Match{Path: "/queues/_queue-receipts/*"}},
			{name: "a removal in doubt", lost: zktest.Match{Op: zktest.OpMulti}, warm: true},
		} {
			t.Run(test.name, func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					far := gated(t, srv)
					near, q := openAs(t, s[0], at, layout), openAs(t, far.Session, at, layout)
					check.Must(t, s[0].EnsurePath(t.Context(), at))
					if test.warm {
						put(t, q, "the first")
						drain(t, q)
					}
					backup := srv.Backup()
					put(t, near, "old")
					far.Refuse()
					test.lost.Session = far.ID()
					srv.DropRequest(test.lost)
					var data []byte
					done := kit.Begin(func() (err error) { data, err = q.Take(t.Context()); return err })
					expires(t, srv, far)
					srv.Restore(backup)
					later := openAs(t, openSession(t, srv, session.Options{}), at, layout)
					put(t, later, "new")
					far.Mend()
					check.Must(t, <-done)
					check.Equal(t, string(data), "new")
					check.EqualSlices(t, drain(t, later), nil, "left")
				})
			})
		}
	}
}

// putMeanwhile puts an item of which the request is lost. The session is cut off until it has
// ended, and the servers come back with the backup meanwhile. The outcome is unknown.
func putMeanwhile(t *testing.T, srv *zktest.Server, far *kit.Gate, q anyQueue, item string, backup zktest.Backup) {
	t.Helper()
	far.Refuse()
	srv.DropRequest(zktest.Match{Op: zktest.OpMulti, Session: far.ID()})
	done := beginPut(t.Context(), q, item)
	expires(t, srv, far)
	srv.Restore(backup)
	far.Mend()
	check.Is(t, <-done, session.ErrUnknownOutcome)
}

// TestPutAfterARestore: an item was not put before the session ended. Meanwhile the servers come
// back with older data, and with the receipt as it was then. That is no sign that the item was put.
func TestPutAfterARestore(t *testing.T) {
	for _, layout := range []queue.Layout{standard, queue.Curator} {
		bubble(t, 0, func(t *testing.T, srv *zktest.Server, _ ...*session.Session) {
			far := gated(t, srv)
			q := openAs(t, far.Session, at, layout)
			put(t, q, "first")
			backup := srv.Backup()
			put(t, q, "second")
			putMeanwhile(t, srv, far, q, "third", backup)
			check.EqualSlices(t, drain(t, q), []string{"first"}, "left")
		})
	}
}

// TestBoundAfterARestore: the items of a bounded queue were counted, and then servers come back
// with older data, at the same version and with more items. The bound holds.
func TestBoundAfterARestore(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		far := gated(t, srv)
		opts := &queue.Options{MaxItems: 1}
		q, other := open(t, far.Session, opts), open(t, s[0], opts)
		put(t, q, "first")
		backup := srv.Backup()
		check.EqualSlices(t, drain(t, other), []string{"first"}, "taken")
		putMeanwhile(t, srv, far, q, "second", backup)
		check.EqualSlices(t, drain(t, q), []string{"first"}, "left")
		put(t, q, "third")
		check.EqualSlices(t, drain(t, q), []string{"third"}, "left")
	})
}

// TestTakeLeftBetweenSessions: the context of a call of Take ends after its session, and before the
// next. The call does not wait for that.
func TestTakeLeftBetweenSessions(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		far := gated(t, srv)
		q := open(t, far.Session, nil)
		put(t, q, "first")
		drain(t, q)
		put(t, open(t, s[0], nil), "second")
		far.Refuse()
		srv.DropRequest(zktest.Match{Op: zktest.OpMulti, Session: far.ID()})
		ctx, cancel := context.WithCancel(t.Context())
		done := beginTake(ctx, q)
		expires(t, srv, far)
		kit.Pass(time.Second)
		cancel()
		kit.Pass(time.Hour)
		check.Is(t, kit.Returned(t, "Take", done), session.ErrUnknownOutcome)
		far.Mend()
	})
}
