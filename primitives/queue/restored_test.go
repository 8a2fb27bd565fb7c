package queue_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var errApart = errors.New("apart")

// apart opens a session that cannot connect anew while away is set.
func apart(t *testing.T, srv *zktest.Server, away *atomic.Bool) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), srv.Addrs(), &session.Options{
		Timeout: 12 * time.Second, ServerTick: time.Second,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			if away.Load() {
				return nil, errApart
			}
			return srv.DialContext(ctx, network, address)
		},
	})
	check.Must(t, err)
	t.Cleanup(s.Close)
	return s
}

// expires waits until a session has counted itself as lost.
func expires(t *testing.T, s *session.Session) {
	t.Helper()
	for ev := range s.Events(t.Context()) {
		if _, expired := ev.(session.Expired); expired {
			return
		}
	}
}

// TestTakeAfterARestore: a call of Take has read an item, and its session ends. Meanwhile the
// servers come back with older data, and another item has the name and the version. The call does
// not remove that unread.
func TestTakeAfterARestore(t *testing.T) {
	for _, layout := range []queue.Layout{queue.Curator, queue.Kazoo} {
		for _, test := range []struct {
			name    string
			lost    zktest.Match
			warm    bool // the handle has a receipt, and so has the backup
			unknown bool
		}{
			{name: "a removal that was not sent", lost: zktest.Match{Path: "/queues/_queue-receipts/*"}},
			{name: "a removal in doubt", lost: zktest.Match{Op: zktest.OpMulti}, warm: true, unknown: true},
		} {
			t.Run(test.name, func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					var away atomic.Bool
					far := apart(t, srv, &away)
					near, q := openAs(t, s[0], at, layout), openAs(t, far, at, layout)
					check.Must(t, s[0].EnsurePath(t.Context(), at))
					if test.warm {
						put(t, q, "the first")
						drain(t, q)
					}
					backup := srv.Backup()
					put(t, near, "old")
					away.Store(true)
					test.lost.Session = far.ID()
					srv.DropRequest(test.lost)
					type taken struct {
						data []byte
						err  error
					}
					done := make(chan taken, 1)
					go func() {
						data, err := q.Take(t.Context())
						done <- taken{data, err}
					}()
					expires(t, far)
					srv.Restore(backup)
					fresh := check.Have(session.Open(t.Context(), srv.Addrs(), &session.Options{Timeout: 12 * time.Second, Dialer: srv.DialContext}))(t)
					defer fresh.Close()
					later := openAs(t, fresh, at, layout)
					put(t, later, "new")
					away.Store(false)
					got := <-done
					if test.unknown {
						check.True(t, session.InDoubt(got.err) && string(got.data) == "old", "%q, %v", got.data, got.err)
						check.EqualSlices(t, drain(t, later), []string{"new"}, "left")
						return
					}
					check.True(t, got.err == nil && string(got.data) == "new", "%q, %v", got.data, got.err)
					check.EqualSlices(t, drain(t, later), nil, "left")
				})
			})
		}
	}
}

// putMeanwhile puts an item of which the request is lost. The session is cut off until it has
// ended, and the servers come back with the backup meanwhile. The outcome is unknown.
func putMeanwhile(t *testing.T, srv *zktest.Server, far *session.Session, away *atomic.Bool, q anyQueue, item string, backup zktest.Backup) {
	t.Helper()
	away.Store(true)
	srv.DropRequest(zktest.Match{Op: zktest.OpMulti, Session: far.ID()})
	done := kit.Begin(func() error { _, err := q.Put(t.Context(), []byte(item)); return err })
	expires(t, far)
	srv.Restore(backup)
	away.Store(false)
	check.Is(t, <-done, session.ErrUnknownOutcome)
}

// TestPutAfterARestore: an item was not put before the session ended. Meanwhile the servers come
// back with older data, and with the receipt as it was then. That is no sign that the item was put.
func TestPutAfterARestore(t *testing.T) {
	for _, layout := range []queue.Layout{standard, queue.Curator} {
		bubble(t, 0, func(t *testing.T, srv *zktest.Server, _ ...*session.Session) {
			var away atomic.Bool
			far := apart(t, srv, &away)
			q := openAs(t, far, at, layout)
			put(t, q, "first")
			backup := srv.Backup()
			put(t, q, "second")
			putMeanwhile(t, srv, far, &away, q, "third", backup)
			check.EqualSlices(t, drain(t, q), []string{"first"}, "left")
		})
	}
}

// TestBoundAfterARestore: the items of a bounded queue were counted, and then servers come back
// with older data, at the same version and with more items. The bound holds.
func TestBoundAfterARestore(t *testing.T) {
	bubble(t, 0, func(t *testing.T, srv *zktest.Server, _ ...*session.Session) {
		var away, never atomic.Bool
		far, near := apart(t, srv, &away), apart(t, srv, &never)
		opts := &queue.Options{MaxItems: 1}
		q, other := open(t, far, opts), open(t, near, opts)
		put(t, q, "first")
		backup := srv.Backup()
		check.EqualSlices(t, drain(t, other), []string{"first"}, "taken")
		putMeanwhile(t, srv, far, &away, q, "second", backup)
		check.EqualSlices(t, drain(t, q), []string{"first"}, "left")
		put(t, q, "third")
		check.EqualSlices(t, drain(t, q), []string{"third"}, "left")
	})
}
