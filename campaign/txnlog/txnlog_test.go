package txnlog_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/txnlog"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestReal: a server's log has what was done, each kind of change, and what the end of a session
// deletes.
func TestReal(t *testing.T) {
	dir := t.TempDir()
	e := zktest.StartEnsemble(t, 1, zktest.DataIn(dir))
	start := time.Now().Round(0)
	ctx := context.Background()
	s := check.Have(session.Open(ctx, e.Addrs(), nil))(t)
	check.Have(s.Create(ctx, "/a", []byte("1"), session.Persistent))(t)
	check.Have(s.Create(ctx, "/c", nil, session.Container))(t)
	check.Have(s.Set(ctx, "/a", []byte("2"), 0))(t)
	created := check.Have(s.Multi(ctx, session.CreateOp("/a/e", []byte("3"), session.Ephemeral), session.SetOp("/a", []byte("4"), 1)))(t)
	check.Len(t, created, 2)
	_, err := s.Multi(ctx, session.DeleteOp("/a", 17))
	check.True(t, err != nil, "a transaction with a wrong version passes")
	_, err = s.Multi(ctx, session.CreateOp("/refused", nil, session.Persistent), session.DeleteOp("/a", 17))
	check.True(t, err != nil, "a transaction passes whose last operation has a wrong version")
	check.Have(s.Create(ctx, "/gone", nil, session.Persistent))(t)
	check.Must(t, s.Delete(ctx, "/gone", session.AnyVersion))
	s.Close()

	data := check.Have(filepath.Glob(filepath.Join(dir, "*", "server-0", "data")))(t)
	check.Len(t, data, 1)
	all := check.Have(txnlog.Read(data[0]))(t)
	var tree txnlog.Tree
	var changes []history.Change
	for _, tx := range all {
		c := tree.Commit(tx, start)
		check.True(t, c.At.At > -time.Second && c.At.At < time.Minute, "%+v", c)
		if c.Closes != 0 {
			check.Equal(t, c.Closes, s.ID())
		}
		changes = append(changes, c.Changes...)
	}
	want := []history.Change{
		{Kind: history.Created, Path: "/a", Data: "1"},
		{Kind: history.Created, Path: "/c"},
		{Kind: history.Set, Path: "/a", Data: "2"},
		{Kind: history.Created, Path: "/a/e", Data: "3", Owner: s.ID()},
		{Kind: history.Set, Path: "/a", Data: "4"},
		{Kind: history.Created, Path: "/gone"},
		{Kind: history.Deleted, Path: "/gone"},
		{Kind: history.Deleted, Path: "/a/e"},
	}
	check.True(t, slices.Equal(changes, want), "%+v", changes)
	check.True(t, slices.Equal(tree.Nodes(), []history.Change{{Kind: history.Created, Path: "/a", Data: "4"}, want[1]}), "%+v", tree.Nodes())

	// The last record is cut off, as when the server is killed while it writes.
	logs := check.Have(filepath.Glob(filepath.Join(data[0], "version-2", "log.*")))(t)
	check.Len(t, logs, 1)
	text := check.Have(os.ReadFile(logs[0]))(t)
	written := len(text)
	for written > 0 && text[written-1] == 0 {
		written--
	}
	check.Must(t, os.WriteFile(logs[0], text[:written-1], 0o600))
	check.Len(t, check.Have(txnlog.Read(data[0]))(t), len(all)-1)
}

// TestCommitted: what only one of three servers has was not committed.
func TestCommitted(t *testing.T) {
	of := func(zxids ...int64) (log []txnlog.Transaction) {
		for _, zxid := range zxids {
			log = append(log, txnlog.Transaction{Zxid: zxid})
		}
		return log
	}
	var got []int64
	for _, tx := range txnlog.Committed(of(1, 2, 3), of(1, 2, 5), of(2, 5)) {
		got = append(got, tx.Zxid)
	}
	check.True(t, slices.Equal(got, []int64{1, 2, 5}), "%v", got)
}
