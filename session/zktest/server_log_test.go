package zktest_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestCommitted: every change is reported once, in order, with its owner; so are the end of a
// session and a restore.
func TestCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []string
		note := func(tx zktest.Transaction) {
			for _, ch := range tx.Changes {
				all = append(all, fmt.Sprintf("%d %s %s ephemeral %v restored %v", ch.Kind, ch.Path, ch.Data, ch.Owner != 0, tx.Restored))
			}
			if tx.Closes != 0 {
				all = append(all, fmt.Sprintf("closes, with %d changes", len(tx.Changes)))
			}
		}
		srv := check.Open(zktest.NewServer(zktest.Config{InProcess: true, Committed: note}))(t)
		client, _ := openAt(t, srv, 0)
		check.Have(client.Create("/a", []byte("1"), 0, world))(t)
		backup := srv.Backup()
		check.Have(client.Multi(
			&zk.SetDataRequest{Path: "/a", Data: []byte("2"), Version: -1},
			&zk.CreateRequest{Path: "/mine", Acl: world, Flags: zk.FlagEphemeral},
		))(t)
		check.Have(client.Create("/b", nil, 0, world))(t)
		check.Must(t, client.Delete("/b", -1))
		_, err := client.Create("/a", nil, 0, world)
		check.Is(t, err, zk.ErrNodeExists)
		srv.Expire(client.SessionID())
		srv.Restore(backup)
		synctest.Wait()
		if want := []string{
			"0 /a 1 ephemeral false restored false",
			"2 /a 2 ephemeral false restored false",
			"0 /mine  ephemeral true restored false",
			"0 /b  ephemeral false restored false",
			"1 /b  ephemeral false restored false",
			"1 /mine  ephemeral false restored false",
			"closes, with 1 changes",
			"0 /a 1 ephemeral false restored true",
		}; !slices.Equal(all, want) {
			t.Errorf("%q", all)
		}
	})
}
