package zktest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/zktest"
)

var world = zk.WorldACL(zk.PermAll)

// inBubble runs a test in a bubble of synctest.
func inBubble(t *testing.T, opts []zktest.Option, f func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, zktest.Start(t, append([]zktest.Option{zktest.InProcess()}, opts...)...))
	})
}

func TestServerSwallows(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, srv *zktest.Server) {
		conn, _ := open(t, srv, 4*time.Second)
		srv.SwallowReply(zktest.Match{Path: "/a"})
		srv.SwallowRequest(zktest.Match{Path: "/b"})
		answered := make(chan error, 2)
		for _, path := range []string{"/a", "/b"} {
			go func() {
				_, err := conn.Create(path, nil, 0, world)
				answered <- err
			}()
		}
		<-time.After(time.Minute) // of the bubble: pings go on
		check.Have(conn.Create("/c", nil, 0, world))(t)
		check.EqualSlices(t, srv.Paths(), []string{"/a", "/c"})
		check.None(t, answered, "answered")
		conn.Close()
		for range 2 {
			check.True(t, <-answered != nil, "answered without an answer")
		}
	})
}

func TestServerAnswersWithErrors(t *testing.T) {
	srv := zktest.Start(t)
	conn, _ := open(t, srv, 4*time.Second)
	srv.AnswerError(zktest.Match{Op: zktest.OpCreate}, -101)
	check.Fails(conn.Create("/a", nil, 0, world))(t, zk.ErrNoNode)
	check.Have(conn.Create("/a", nil, 0, world))(t)
	srv.AnswerError(zktest.Match{Op: zktest.OpCreateSession}, -112)
	srv.Disconnect(0)
	check.Must(t, srv.AwaitFault(patience))
}

func TestServerDelays(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, srv *zktest.Server) {
		conn, _ := open(t, srv, 10*time.Second)
		srv.Delay(zktest.Match{}, 2*time.Second)
		begin := time.Now()
		check.Have(conn.Create("/a", nil, 0, world))(t)
		check.Equal(t, time.Since(begin), 2*time.Second)
		check.Have(conn.Create("/b", nil, 0, world))(t)
		check.Equal(t, time.Since(begin), 2*time.Second)
	})
}

func TestServerDeliversEventsLate(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, srv *zktest.Server) {
		conn, _ := open(t, srv, 10*time.Second)
		other, _ := open(t, srv, 10*time.Second)
		check.Have(conn.Create("/a", nil, 0, world))(t)
		_, _, changed, err := conn.GetW("/a")
		check.Must(t, err)
		srv.DelayEvent(zktest.Match{Session: conn.SessionID(), Path: "/*"}, 2*time.Second)
		begin := time.Now()
		check.Have(other.Set("/a", []byte("x"), -1))(t)
		check.Equal(t, time.Since(begin), 0, "the writer was delayed")
		// The read comes behind the event, or it would show the future.
		data, _, err := conn.Get("/a")
		check.Require(t, err == nil && string(data) == "x", "%v %v", string(data), err)
		select {
		case <-changed:
		default:
			t.Fatal("a reply has overtaken the event")
		}
		check.Equal(t, time.Since(begin), 2*time.Second)
	})
}

func TestServerAwaitsFaults(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, srv *zktest.Server) {
		conn, _ := open(t, srv, 10*time.Second)
		check.Must(t, srv.AwaitFault(0))
		srv.Delay(zktest.Match{Op: zktest.OpSync, Path: "/a"}, time.Second)
		check.Have(conn.Sync("/b"))(t)
		if err := srv.AwaitFault(time.Second); err == nil || !strings.Contains(err.Error(), "Delay") {
			t.Fatal(err)
		}
		go func() { _, _ = conn.Sync("/a") }()
		check.Must(t, srv.AwaitFault(time.Second))
		srv.DropReply(zktest.Match{})
		srv.ClearFaults()
		check.Must(t, srv.AwaitFault(0))
	})
}

func TestServerRefuses(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, srv *zktest.Server) {
		srv.Refuse(true)
		conn, events, err := zk.Connect(append(srv.Addrs(), srv.Addrs()...), 4*time.Second, zk.WithLogger(silence{}), zk.WithDialer(srv.Dialer()))
		check.Must(t, err)
		defer conn.Close()
		_, _, err = conn.Get("/")
		check.True(t, err != nil, "served")
		srv.Refuse(false)
		awaitState(t, events, zk.StateHasSession)
	})
}

func TestServerExpires(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, srv *zktest.Server) {
		conn, events := open(t, srv, 10*time.Second)
		other, _ := open(t, srv, 10*time.Second)
		check.Have(conn.Create("/e", nil, zk.FlagEphemeral, world))(t)
		srv.KeepEphemerals(5 * time.Second)
		begin := time.Now()
		_, _, gone, err := other.GetW("/e")
		check.Must(t, err)
		srv.Expire(conn.SessionID())
		awaitState(t, events, zk.StateExpired)
		check.Require(t, slices.Equal(srv.Paths(), []string{"/e"}), "%v", srv.Paths())
		if e := <-gone; e.Type != zk.EventNodeDeleted || time.Since(begin) != 5*time.Second {
			t.Fatal(e, time.Since(begin))
		}
	})
}

// A session ends at the first whole tick after its timeout, counted from when
// the server has last heard of it.
func TestServerExpiresAtTicks(t *testing.T) {
	clock := new(zktest.ManualClock)
	srv := zktest.Start(t, zktest.WithClock(clock), zktest.Tick(2*time.Second))
	conn, events := open(t, srv, 10*time.Second)
	check.Have(conn.Create("/e", nil, zk.FlagEphemeral, world))(t)
	clock.Advance(11999 * time.Millisecond)
	check.Require(t, len(srv.Sessions()) == 1, "expired too early")
	clock.Advance(time.Millisecond)
	check.Require(t, len(srv.Sessions()) == 0 && len(srv.Paths()) == 0, "not expired: %v %v", srv.Sessions(), srv.Paths())
	awaitState(t, events, zk.StateExpired)
}

func TestServerReaps(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, srv *zktest.Server) {
		conn, _ := open(t, srv, 10*time.Second)
		check.Have(conn.CreateContainer("/c", nil, zk.FlagContainer, world))(t)
		check.Have(conn.CreateContainer("/unused", nil, zk.FlagContainer, world))(t)
		check.Have(conn.Create("/c/d", nil, 0, world))(t)
		check.Have(conn.CreateTTL("/t", nil, zk.FlagTTL, world, 90*time.Second))(t)
		check.Must(t, conn.Delete("/c/d", -1))
		<-time.After(time.Minute + time.Second)
		check.EqualSlices(t, srv.Paths(), []string{"/t", "/unused"})
		<-time.After(time.Minute)
		check.EqualSlices(t, srv.Paths(), []string{"/unused"})
	})
}

func TestServerHasLatency(t *testing.T) {
	const d = 5 * time.Millisecond
	inBubble(t, []zktest.Option{zktest.Latency(d)}, func(t *testing.T, srv *zktest.Server) {
		conn, _ := open(t, srv, 10*time.Second)
		begin := time.Now()
		check.Have(conn.Create("/a", nil, 0, world))(t)
		check.Equal(t, time.Since(begin), 2*d, "one round trip took")
		begin = time.Now()
		answered := make(chan error)
		for i := range 50 {
			go func() {
				_, err := conn.Create(fmt.Sprint("/b", i), nil, 0, world)
				answered <- err
			}()
		}
		for range 50 {
			check.Must(t, <-answered)
		}
		check.Equal(t, time.Since(begin), 2*d, "50 requests at once took")
	})
}

func TestServerCounts(t *testing.T) {
	srv := zktest.Start(t)
	conn, _ := open(t, srv, 10*time.Second)
	other, _ := open(t, srv, 10*time.Second)
	srv.ResetRequests()
	check.Have(conn.Create("/a", nil, 0, world))(t)
	check.Have(conn.Create("/b", nil, 0, world))(t)
	check.Have(other.Sync("/"))(t)
	_, _ = other.Create("/a", nil, 0, world)
	if got := srv.Requests(); got[zktest.OpCreate] != 3 || got[zktest.OpSync] != 1 || got.Total() != 4 {
		t.Fatal(got)
	}
	if got := srv.RequestsOf(other.SessionID()); got[zktest.OpCreate] != 1 || got.Total() != 2 {
		t.Fatal(got)
	}
	check.Equal(t, srv.Proposals(), 3)
}

func TestServerWrapsSequences(t *testing.T) {
	srv := zktest.Start(t)
	conn, _ := open(t, srv, 10*time.Second)
	check.Have(conn.Create("/s", nil, 0, world))(t)
	check.Must(t, srv.SetCversion("/s", 1<<31-2))
	for _, want := range []string{"/s/n-2147483646", "/s/n-2147483647", "/s/n--2147483648", "/s/n--2147483647"} {
		check.Equal(t, check.Have(conn.Create("/s/n-", nil, zk.FlagSequence, world))(t), want)
	}
	check.True(t, srv.SetCversion("/none", 0) != nil, "no error")
}

// So it was run once on a real server.
func TestServerSequencesCanGetStuck(t *testing.T) {
	srv := zktest.Start(t, zktest.StuckSequences())
	conn, _ := open(t, srv, 10*time.Second)
	check.Have(conn.Create("/s", nil, 0, world))(t)
	check.Must(t, srv.SetCversion("/s", 1<<31-2))
	for _, want := range []error{nil, nil, zk.ErrNodeExists, zk.ErrNodeExists} {
		check.Fails(conn.Create("/s/n-", nil, zk.FlagSequence, world))(t, want)
	}
}

func TestServerCutsLargeRequests(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	conn, events := open(t, srv, 10*time.Second)
	// The path, the ACL and the rest of the frame take 49 bytes.
	check.Have(conn.Create("/a", make([]byte, 1<<20-1-49), 0, world))(t)
	check.Fails(conn.Create("/b", make([]byte, 1<<20-1-48), 0, world))(t, zk.ErrConnectionClosed)
	awaitState(t, events, zk.StateHasSession)
	check.EqualSlices(t, srv.Paths(), []string{"/a"})
}

func TestServerKnowsWords(t *testing.T) {
	srv := zktest.Start(t)
	conn, _ := open(t, srv, 10*time.Second)
	check.Have(conn.Create("/e", nil, zk.FlagEphemeral, world))(t)
	if _, _, _, err := conn.GetW("/e"); err != nil {
		t.Fatal(err)
	}
	if ok := zk.FLWRuok(srv.Addrs(), time.Second); !ok[0] {
		t.Fatal("not ok")
	}
	id := fmt.Sprintf("0x%x", conn.SessionID())
	for word, want := range map[string][]string{
		"srvr": {"Mode: standalone\n", "Node count: 6\n"},
		"mntr": {"zk_server_state\tstandalone\n", "zk_ephemerals_count\t1\n", "zk_watch_count\t1\n", "zk_znode_count\t6\n"},
		"wchs": {"1 connections watching 1 paths\nTotal watches:1\n"},
		"dump": {id, "/e"},
		"cons": {"sid=" + id},
		"envi": {"zookeeper.version=3.8.0-"},
	} {
		got := ask(t, srv.Addrs()[0], word)
		for _, w := range want {
			check.True(t, strings.Contains(got, w), "%s: %q is not in\n%s", word, w, got)
		}
	}
}
