package queue_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestFlatBadInput: what is no layout, path or directory is refused by its name.
func TestFlatBadInput(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		for what, c := range map[string]struct {
			path     string
			layout   queue.Layout
			receipts string
			want     error
		}{
			"path":                        {"queues", queue.Curator, "", session.ErrInvalidPath},
			"layout":                      {at, 0, "", session.ErrInvalidArgument},
			"layout: none":                {at, 9, "", session.ErrInvalidArgument},
			"FlatOptions.Receipts":        {at, queue.Kazoo, "receipts", session.ErrInvalidPath},
			"FlatOptions.Receipts: it":    {at, queue.Kazoo, at, session.ErrInvalidPath},
			"FlatOptions.Receipts: in it": {at, queue.Kazoo, at + "/receipts", session.ErrInvalidPath},
		} {
			argument, _, _ := strings.Cut(what, ":")
			_, err := queue.NewFlat(s[0], c.path, c.layout, &queue.FlatOptions{Receipts: c.receipts})
			check.Is(t, err, c.want)
			check.True(t, err != nil && strings.Contains(err.Error(), argument), "%s: %v", what, err)
		}
	})
}

// TestFlatReceipts: the receipts stand where they are to, and go with the handle.
func TestFlatReceipts(t *testing.T) {
	for receipts, dir := range map[string]string{"": "/queues/_queue-receipts", "/ours/receipts": "/ours/receipts"} {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q, err := queue.NewFlat(s[0], at, queue.Curator, &queue.FlatOptions{Receipts: receipts})
			ok(t, err)
			put(t, q, "x")
			check.Len(t, left(srv, dir[strings.LastIndex(dir, "/")+1:]), 1, dir)
			srv.DropReply(zktest.Match{Op: zktest.OpMulti})
			put(t, q, "y")
			equal(t, "taken", drain(t, q), []string{"x", "y"})
			ok(t, q.Close(t.Context()))
			check.Len(t, left(srv, dir[strings.LastIndex(dir, "/")+1:]), 0, dir)
		})
	}
}

// TestFlatWithoutReceipts: an operator has made the queue in a directory where we may create
// nothing, as the other libraries need not. We do without receipts: a lost reply leaves the outcome
// unknown.
func TestFlatWithoutReceipts(t *testing.T) {
	for layout, prefix := range map[queue.Layout]string{queue.Curator: "qn-", queue.Kazoo: "entry-100-"} {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			admin := func(perms session.Perms) *session.Session {
				a, err := session.Open(t.Context(), srv.Addrs(), &session.Options{
					Dialer: srv.DialContext, Auth: []session.Auth{{Scheme: "digest", Secret: []byte("a:b")}},
					ACL: append(session.CreatorAll(), session.ACL{Perms: perms, Scheme: "world", ID: "anyone"}),
				})
				ok(t, err)
				return a
			}
			closed, opened := admin(session.PermRead), admin(session.PermAll)
			defer closed.Close()
			defer opened.Close()
			_, err := closed.Create(t.Context(), "/app", nil, session.Persistent)
			ok(t, err)
			_, err = opened.Create(t.Context(), "/app/jobs", nil, session.Persistent)
			ok(t, err)
			_, err = opened.Multi(t.Context(), session.CreateOp("/app/jobs/"+prefix, []byte("of another client"), session.PersistentSequential))
			ok(t, err)
			q := flat(t, s[0], "/app/jobs", layout)
			put(t, q, "x", "y")
			equal(t, "taken", drain(t, q), []string{"of another client", "x", "y"})
			srv.DropReply(zktest.Match{Op: zktest.OpMulti})
			_, err = q.Put(t.Context(), []byte("z"))
			check.Is(t, err, session.ErrUnknownOutcome)
			srv.DropReply(zktest.Match{Op: zktest.OpMulti})
			data, err := q.TryTake(t.Context())
			check.True(t, string(data) == "z" && session.InDoubt(err), "%q, %v", data, err)
			put(t, q, "last")
			equal(t, "taken", drain(t, q), []string{"last"})
			ok(t, q.Close(t.Context()))
		})
	}
}

// TestLargePuts: calls whose items do not fit into one transaction together do not share one.
func TestLargePuts(t *testing.T) {
	const calls = 24
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := flat(t, s[0], at, queue.Curator)
		put(t, q, "first")
		before := srv.Requests()[zktest.OpMulti]
		var callers sync.WaitGroup
		for range calls {
			callers.Go(func() {
				_, err := q.Put(t.Context(), make([]byte, 600<<10))
				ok(t, err)
			})
		}
		callers.Wait()
		check.Equal(t, srv.Requests()[zktest.OpMulti]-before, calls, "transactions")
	})
}
