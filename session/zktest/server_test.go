package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/zktest"
)

func open(t *testing.T, srv *zktest.Server, timeout time.Duration) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	// With one address alone, this client waits for a second before it uses it
	// again.
	addrs := append(srv.Addrs(), srv.Addrs()...)
	return connect(t, timeout, srv.Dialer(), addrs...)
}

func TestServerServes(t *testing.T) {
	srv := zktest.Start(t)
	conn := dial(t, 10*time.Second, srv.Addrs()...)
	check.Have(conn.Create("/a", []byte("x"), 0, zk.WorldACL(zk.PermAll)))(t)
	data, stat, events, err := conn.GetW("/a")
	check.Require(t, err == nil && string(data) == "x" && stat.Version == 0, "%v %v %v", string(data), stat, err)
	check.Have(conn.Set("/a", []byte("y"), 0))(t)
	if e := <-events; e.Type != zk.EventNodeDataChanged || e.Path != "/a" {
		t.Fatal(e)
	}
	check.Is(t, conn.Delete("/a", 7), zk.ErrBadVersion)
}

func TestServerExpiresInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.InProcess(), zktest.Tick(2*time.Second))
		victim, events := open(t, srv, 30*time.Second)
		other, _ := open(t, srv, 30*time.Second)
		check.Have(victim.Create("/e", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)))(t)
		ok, _, gone, err := other.ExistsW("/e")
		check.Require(t, ok && err == nil, "%v %v", ok, err)
		begin := time.Now()
		srv.Freeze(victim.SessionID(), zktest.Both)
		if e := <-gone; e.Type != zk.EventNodeDeleted {
			t.Fatal(e)
		}
		check.Within(t, time.Since(begin), 20*time.Second, 32*time.Second, "expired after")
		srv.Thaw(0)
		awaitState(t, events, zk.StateExpired)
	})
}

func TestServerRefusesBadConfigs(t *testing.T) {
	for _, config := range []zktest.Config{
		{Tick: -1},
		{Tick: time.Microsecond},
		{MinTimeout: time.Second, MaxTimeout: time.Millisecond},
		{Replicas: -1},
		{MaxRequest: -1},
		{Latency: -1},
		{Lag: -1},
		{ReapInterval: -1},
		{Addr: "nonsense"},
		{Addr: "127.0.0.1:nonsense"},
	} {
		if srv, err := zktest.NewServer(config); err == nil {
			srv.Close()
			t.Errorf("%+v was accepted", config)
		}
	}
}

func TestServerListensWhereItIsTold(t *testing.T) {
	first := zktest.Start(t)
	addr := first.Addrs()[0]
	if _, err := zktest.NewServer(zktest.Config{Addr: addr, Replicas: 2}); err == nil {
		t.Fatal("two servers at one address")
	}
	first.Close()
	first.Close()
	second := zktest.Start(t, zktest.Listen(addr), zktest.Replicas(2, 0))
	if got := second.Addrs(); got[0] != addr || len(got) != 2 {
		t.Fatal(got)
	}
	conn := dial(t, 10*time.Second, second.Addrs()[1])
	if _, _, _, err := conn.GetW("/"); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, second.Watches(), 1)
	if _, err := second.DialContext(t.Context(), "tcp", "127.0.0.1:1"); err == nil {
		t.Fatal("there is nothing at this address")
	}
}
