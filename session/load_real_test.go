package session_test

import (
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var loadLasts = flag.Duration("session.load", 2*time.Second, "how long 512 callers of each session write to a real server; go-zookeeper does the same, in turns, if it is 10s or more")

// TestRealLoad: 512 callers in each of eight sessions write 8 KiB to a real server, one after the
// other, without a pause. No request fails, and no connection is lost. The campaign has as many
// writes as go-zookeeper, less 10 %.
func TestRealLoad(t *testing.T) {
	const sessions, callers, size = 8, 512, 8 << 10
	e := zktest.StartEnsemble(t, 1, zktest.NoSync())
	all := make([]*session.Session, sessions)
	lives := make([]*lives, sessions)
	for i := range all {
		all[i] = mustOpen(t, e.Addrs(), nil)
		lives[i] = livesOf(all[i])
	}
	path := func(i int) string { return fmt.Sprintf("/%d", i) }
	for i := range callers {
		check.Have(all[0].Create(t.Context(), path(i), nil, session.Persistent))(t)
	}
	write := func(who string, set func(session, caller int, data []byte) error) int64 {
		var done atomic.Int64
		var working sync.WaitGroup
		begun := time.Now()
		for i := range sessions {
			for j := range callers {
				working.Go(func() {
					for data := make([]byte, size); time.Since(begun) < *loadLasts; done.Add(1) {
						check.OK(t, set(i, j, data))
					}
				})
			}
		}
		working.Wait()
		t.Logf("%s: %.0f writes/s", who, float64(done.Load())/time.Since(begun).Seconds())
		return done.Load()
	}
	ours := func() int64 {
		return write("zkactors", func(i, j int, data []byte) error {
			_, err := all[i].Set(t.Context(), path(j), data, session.AnyVersion)
			return err
		})
	}
	if *loadLasts < 10*time.Second {
		ours()
	} else {
		theirs := besideGoZookeeper(t, e.Addrs(), sessions, func(set func(session, caller int, data []byte) error) int64 { return write("go-zookeeper", set) }, path)
		want, got := theirs(), ours()
		got += ours()
		want += theirs()
		check.True(t, 10*got >= 9*want, "%d writes, and %d of go-zookeeper", got, want)
	}
	for _, l := range lives {
		l.undisturbed(t)
	}
}

// besideGoZookeeper returns what has sessions of go-zookeeper write.
func besideGoZookeeper(t *testing.T, addrs []string, sessions int, write func(set func(session, caller int, data []byte) error) int64, path func(int) string) func() int64 {
	t.Helper()
	conns := make([]*zk.Conn, sessions)
	for i := range conns {
		conn, events, err := zk.Connect(addrs, 10*time.Second, zk.WithLogInfo(false))
		check.OK(t, err)
		t.Cleanup(conn.Close)
		go func() {
			for range events { // until it is closed
			}
		}()
		conns[i] = conn
	}
	return func() int64 {
		return write(func(i, j int, data []byte) error {
			_, err := conns[i].Set(path(j), data, -1)
			return err
		})
	}
}
