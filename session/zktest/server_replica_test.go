package zktest_test

import (
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/zktest"
)

func ask(t *testing.T, addr, word string) string {
	t.Helper()
	c := check.Have(net.Dial("tcp", addr))(t)
	defer func() { _ = c.Close() }()
	check.Have(c.Write([]byte(word)))(t)
	text := check.Have(io.ReadAll(c))(t)
	return string(text)
}

// openAt opens a session at one replica.
func openAt(t *testing.T, srv *zktest.Server, replica int) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	addr := srv.Addrs()[replica]
	return connect(t, 4*time.Second, srv.Dialer(), addr, addr)
}

func TestReplicaLags(t *testing.T) {
	inBubble(t, []zktest.Option{zktest.Replicas(3, time.Second)}, func(t *testing.T, srv *zktest.Server) {
		leader, _ := openAt(t, srv, 0)
		follower, _ := openAt(t, srv, 1)
		begin := time.Now()
		_, _, appears, err := follower.ExistsW("/a")
		check.Must(t, err)
		check.Have(leader.Create("/a", nil, 0, world))(t)
		if got, _, err := follower.Exists("/a"); got || err != nil {
			t.Fatal("it is there already", err)
		}
		if e := <-appears; e.Type != zk.EventNodeCreated || time.Since(begin) != time.Second {
			t.Fatal(e, time.Since(begin))
		}

		// A sync catches up, and so does a write.
		check.Have(leader.Set("/a", []byte("1"), -1))(t)
		check.Have(follower.Sync("/"))(t)
		check.Reads(follower.Get("/a"))(t, "1")
		check.Have(leader.Set("/a", []byte("2"), -1))(t)
		check.Fails(follower.Create("/a", nil, 0, world))(t, zk.ErrNodeExists)
		check.Reads(follower.Get("/a"))(t, "2")
		check.Have(leader.Set("/a", []byte("3"), -1))(t)
		srv.SetLag(1, 0)
		check.Reads(follower.Get("/a"))(t, "3")
	})
}

// Run once on three real servers, see the package's notes: with a timeout of 2 s
// the node was gone after 2.1 s, while reads were answered until 4.9 s.
func TestIsolatedReplicaAnswersWhileSessionsExpire(t *testing.T) {
	inBubble(t, []zktest.Option{zktest.Replicas(3, 0), zktest.Tick(200 * time.Millisecond)}, func(t *testing.T, srv *zktest.Server) {
		leader, _ := openAt(t, srv, 0)
		cut, events := openAt(t, srv, 2)
		id := cut.SessionID()
		check.Have(cut.Create("/e", nil, zk.FlagEphemeral, world))(t)
		_, _, gone, err := leader.GetW("/e")
		check.Must(t, err)
		begin := time.Now()
		srv.Isolate(2)
		<-gone
		check.AtMost(t, time.Since(begin), 4200*time.Millisecond)
		<-time.After(time.Second) // of the bubble
		if ok, _, err := cut.Exists("/e"); !ok || err != nil {
			t.Fatal("the replica has heard of it", err)
		}
		answered := make(chan error)
		go func() {
			_, err := cut.Create("/late", nil, 0, world)
			answered <- err
		}()
		synctest.Wait()
		check.None(t, answered, "a write was answered")
		srv.Heal(2)
		check.True(t, <-answered != nil, "a dead session has written")
		awaitState(t, events, zk.StateExpired)
		check.Require(t, !slices.Contains(srv.Paths(), "/late") && cut.SessionID() != id, "%v", srv.Paths())
	})
}

func TestIsolatedReplicaGoesOnAfterHealing(t *testing.T) {
	inBubble(t, []zktest.Option{zktest.Replicas(2, 0)}, func(t *testing.T, srv *zktest.Server) {
		other, _ := openAt(t, srv, 0)
		cut, _ := openAt(t, srv, 1)
		srv.Isolate(1)
		answered := make(chan error)
		go func() {
			_, err := cut.Create("/a", nil, 0, world)
			answered <- err
		}()
		<-time.After(time.Second) // of the bubble
		check.Have(other.Create("/b", nil, 0, world))(t)
		srv.Heal(1)
		check.Must(t, <-answered)
		check.EqualSlices(t, srv.Paths(), []string{"/a", "/b"})
		if i, ok := srv.Serving(cut.SessionID()); i != 1 || !ok {
			t.Fatal(i, ok)
		}
	})
}

// When the leader is cut off, the others go on without it.
func TestIsolatedLeader(t *testing.T) {
	inBubble(t, []zktest.Option{zktest.Replicas(2, 0)}, func(t *testing.T, srv *zktest.Server) {
		old, _ := openAt(t, srv, 0)
		other, _ := openAt(t, srv, 1)
		srv.Isolate(0)
		check.Have(other.Create("/a", nil, 0, world))(t)
		if ok, _, err := old.Exists("/a"); ok || err != nil {
			t.Fatal("it was told", err)
		}
		srv.Heal(0)
		if ok, _, err := old.Exists("/a"); !ok || err != nil {
			t.Fatal(err)
		}
	})
}
