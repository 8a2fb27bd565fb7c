package watch_test

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// TestSyncedFirstState: with Sync, the first state is at least as new as the call, also where
// the server is an hour behind, and busy; without, it may be as old as the server.
func TestSyncedFirstState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := check.Open(zktest.NewServer(zktest.Config{InProcess: true, Replicas: 2}))(t)
		open := func(addrs []string) *session.Session {
			return check.Have(session.Open(t.Context(), addrs, &session.Options{Timeout: 10 * time.Second, Dialer: srv.DialContext}))(t)
		}
		leader, s := open(srv.Addrs()[:1]), open(srv.Addrs()[1:])
		defer leader.Close()
		defer s.Close()
		create(t, leader, "/a", "0")
		create(t, leader, "/a/0", "")
		check.Must(t, s.Sync(t.Context(), "/a"))
		srv.SetLag(1, time.Hour)
		last := 0
		for _, sync := range []bool{false, true} {
			last++
			set(t, leader, "/a", strconv.Itoa(last))
			create(t, leader, fmt.Sprintf("/a/%d", last), "")
			if sync { // a busy server is asked again
				for range 8 {
					srv.AnswerError(zktest.Match{Op: zktest.OpSync, Session: s.ID()}, -127)
				}
			}
			opts := &watch.Options{Sync: sync}
			node := check.Open(watch.Node(s, "/a", opts))(t)
			value := check.Open(watch.Value(s, "/a", watch.Text, opts))(t)
			children := check.Open(watch.Children(s, "/a", opts))(t)
			c := check.Open(watch.Tree(s, "/a", &watch.TreeOptions{Sync: sync}))(t)
			<-c.Synced()
			want, names := "0", 1
			if sync {
				want, names = strconv.Itoa(last), last+1
			}
			check.Equal(t, string((<-node.Changes()).Data), want, "sync", sync)
			check.Equal(t, (<-value.Changes()).Value, want, "sync", sync)
			check.Equal(t, len((<-children.Changes()).Names), names, "sync", sync)
			state := c.Get("/a")
			check.True(t, string(state.Data) == want && len(c.Children("/a")) == names, "sync=%v: %v %v", sync, state, c.Children("/a"))
			<-time.After(time.Millisecond)
		}
	})
}

// TestTreeIsPipelined: a large tree is read with hundreds of requests in one round trip, not
// with one after the other.
func TestTreeIsPipelined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := check.Open(zktest.NewServer(zktest.Config{InProcess: true, Latency: oneWay, Tick: 10 * time.Second}))(t)
		open := func() *session.Session {
			return check.Have(session.Open(t.Context(), srv.Addrs(), &session.Options{Timeout: 100 * time.Second, Dialer: srv.DialContext}))(t)
		}
		s, other := open(), open()
		defer s.Close()
		defer other.Close()
		create(t, other, "/a", "")
		grow(t, other, "/a", 5000, nil)
		srv.ResetRequests()
		begun := time.Now()
		c := check.Open(watch.Tree(s, "/a", nil))(t)
		<-c.Synced()
		reads := 0
		for op, n := range srv.Requests() {
			if op == zktest.OpGetData || op == zktest.OpGetChildren2 {
				reads += n
			}
		}
		trips := float64(time.Since(begun)) / float64(roundTrip)
		t.Logf("%d nodes, %d reads in %.1f round trips", c.Len(), reads, trips)
		check.True(t, c.Len() == 5001 && reads == 2*5001 && trips <= 30, "%d nodes took %d reads and %.1f round trips", c.Len(), reads, trips)
	})
}
