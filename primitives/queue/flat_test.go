package queue_test

import (
	"strings"
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
			refused(t, err, c.want, argument)
		}
	})
}

// TestFlatReceipts: the receipts stand where they are to, and go with the handle.
func TestFlatReceipts(t *testing.T) {
	for receipts, dir := range map[string]string{"": "/queues/_queue-receipts", "/ours/receipts": "/ours/receipts"} {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q := check.Have(queue.NewFlat(s[0], at, queue.Curator, &queue.FlatOptions{Receipts: receipts}))(t)
			put(t, q, "x")
			check.Len(t, left(srv, dir[strings.LastIndex(dir, "/")+1:]), 1, dir)
			srv.DropReply(zktest.Match{Op: zktest.OpMulti})
			put(t, q, "y")
			check.EqualSlices(t, drain(t, q), []string{"x", "y"}, "taken")
			check.Must(t, q.Close(t.Context()))
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
				return openSession(t, srv, session.Options{
					Auth: []session.Auth{{Scheme: "digest", Secret: []byte("a:b")}},
					ACL:  append(session.CreatorAll(), session.ACL{Perms: perms, Scheme: "world", ID: "anyone"}),
				})
			}
			closed, opened := admin(session.PermRead), admin(session.PermAll)
			check.Have(closed.Create(t.Context(), "/app", nil, session.Persistent))(t)
			check.Have(opened.Create(t.Context(), "/app/jobs", nil, session.Persistent))(t)
			putForeign(t, opened, "/app/jobs/"+prefix, "of another client")
			q := flat(t, s[0], "/app/jobs", layout)
			put(t, q, "x", "y")
			check.EqualSlices(t, drain(t, q), []string{"of another client", "x", "y"}, "taken")
			srv.DropReply(zktest.Match{Op: zktest.OpMulti})
			check.Fails(q.Put(t.Context(), []byte("z")))(t, session.ErrUnknownOutcome)
			srv.DropReply(zktest.Match{Op: zktest.OpMulti})
			data, err := q.TryTake(t.Context())
			check.True(t, string(data) == "z" && session.InDoubt(err), "%q, %v", data, err)
			put(t, q, "last")
			check.EqualSlices(t, drain(t, q), []string{"last"}, "taken")
			check.Must(t, q.Close(t.Context()))
		})
	}
}
