package zktest_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRestore: the servers have the nodes and the sessions of the backup, and count their
// transactions from there. A session that has seen more than they have comes to its end, though
// they know it.
func TestRestore(t *testing.T) {
	inBubble(t, []zktest.Option{zktest.Replicas(2, time.Second)}, func(t *testing.T, srv *zktest.Server) {
		writer, states := openAt(t, srv, 0)
		check.Have(writer.Create("/config", []byte("old"), 0, world))(t)
		check.Have(writer.Create("/mine", nil, zk.FlagEphemeral, world))(t)
		backup := srv.Backup()
		before := check.Have(writer.Set("/config", []byte("new"), -1))(t)
		check.Have(writer.Create("/later", nil, 0, world))(t)

		for range 2 { // it is not modified
			srv.Restore(backup)
			check.True(t, slices.Equal(srv.Paths(), []string{"/config", "/mine"}), "%v", srv.Paths())
			check.True(t, slices.Equal(srv.Sessions(), []int64{writer.SessionID()}), "%v", srv.Sessions())
		}
		awaitState(t, states, zk.StateDisconnected)
		<-time.After(10 * time.Second) // of the bubble: its timeout passes
		synctest.Wait()
		check.True(t, slices.Equal(srv.Paths(), []string{"/config"}), "%v", srv.Paths())

		reader, _ := openAt(t, srv, 1)
		data, stat, err := reader.Get("/config")
		check.True(t, err == nil && string(data) == "old" && stat.Mzxid < before.Mzxid, "%q, %v, %v", data, stat, err)

		srv.Restore(zktest.Backup{})
		check.True(t, len(srv.Paths()) == 0 && len(srv.Sessions()) == 0, "%v, %v", srv.Paths(), srv.Sessions())
	})
}
