package zktest_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/zktest"
)

// acl is what the nodes of these tests have.
var acl = zk.WorldACL(zk.PermAll)

// A stage is a client that goes through a proxy, and one that does not.
type stage struct {
	*testing.T
	proxy  *zktest.Proxy
	addr   string // the server's
	victim *zk.Conn
	states <-chan zk.Event
	direct *zk.Conn
	dir    string // of this test
}

// id returns the session of the client that goes through the proxy.
func (s stage) id() int64 { return s.victim.SessionID() }

// exists asks the server what there is.
func (s stage) exists(name string) bool {
	s.Helper()
	ok, _, err := s.direct.Exists(s.dir + name)
	check.Must(s, err)
	return ok
}

// arrived waits until the proxy has n requests of the kind.
func (s stage) arrived(op zktest.Op, n int) {
	s.Helper()
	eventually(s.T, func() error {
		if got := s.proxy.Requests()[op]; got < n {
			return errors.New("not enough requests")
		}
		return nil
	})
}

// create creates a node in the background.
func (s stage) create(name string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := s.victim.Create(s.dir+name, nil, 0, acl)
		done <- err
	}()
	return done
}

// await returns what comes from the channel.
func await[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("nothing within %v", patience)
		panic("unreachable")
	}
}

func pending[T any](t *testing.T, ch <-chan T) {
	t.Helper()
	select {
	case v := <-ch:
		t.Fatalf("got %v too early", v)
	default:
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	e := zktest.StartEnsemble(t, 1, zktest.NoSync())
	for name, test := range map[string]func(stage){
		"Counts":            testCounts,
		"Trace":             testTrace,
		"Latency":           testLatency,
		"Delay":             testDelay,
		"DropRequest":       testDropRequest,
		"DropReply":         testDropReply,
		"DropReplyOfMulti":  testDropReplyOfMulti,
		"DropHandshake":     testDropHandshake,
		"Disconnect":        testDisconnect,
		"Refuse":            testRefuse,
		"FreezeToServer":    testFreezeToServer,
		"FreezeToClient":    testFreezeToClient,
		"FreezeButEvents":   testFreezeButEvents,
		"FreezeReconnect":   testFreezeReconnect,
		"FreezeEverybody":   testFreezeEverybody,
		"Expire":            testExpire,
		"ExpireEverybody":   testExpireEverybody,
		"ExpireWhileFrozen": testExpireWhileFrozen,
		"FourLetterWord":    testFourLetterWord,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage{T: t, addr: e.Addr(0), dir: "/" + name}
			s.proxy = zktest.NewProxy(t, e.Addrs()...)
			s.direct = dial(t, patience, e.Addrs()...)
			check.Have(s.direct.Create(s.dir, nil, 0, acl))(t)
			s.victim, s.states = connect(t, patience, net.DialTimeout, s.proxy.Addrs()...)
			t.Cleanup(func() { s.proxy.Thaw(0) })
			test(s)
		})
	}
}

func testCounts(s stage) {
	check.Equal(s, len(s.proxy.Requests()), 0, "a handshake counts as")
	for _, name := range []string{"/a", "/b"} {
		check.Must(s, await(s.T, s.create(name)))
	}
	if _, _, err := s.victim.Get(s.dir); err != nil {
		s.Fatal(err)
	}
	got := s.proxy.Requests()
	check.True(s, got[zktest.OpCreate] == 2 && got[zktest.OpGetData] == 1 && len(got) == 2, "counted %v", got)
	s.proxy.ResetRequests()
	check.Equal(s, len(s.proxy.Requests()), 0, "counted after a reset")
	check.EqualSlices(s, s.proxy.Sessions(), []int64{s.id()}, "sessions", s.id())
	if i, ok := s.proxy.Server(s.id()); i != 0 || !ok {
		s.Errorf("connected to server %d, %v", i, ok)
	}
	if i, ok := s.proxy.Server(1); ok {
		s.Errorf("session 1 is connected to server %d", i)
	}
	s.victim.Close()
	eventually(s.T, func() error {
		if len(s.proxy.Sessions()) > 0 {
			return errors.New("a closed session is known")
		}
		return nil
	})
}

func testTrace(s stage) {
	s.proxy.StartTrace()
	check.Must(s, await(s.T, s.create("/a")))
	check.Fails(s.victim.Create(s.dir+"/a", nil, 0, acl))(s, zk.ErrNodeExists)
	_, _, changed, err := s.victim.GetW(s.dir + "/a")
	check.Must(s, err)
	check.Have(s.direct.Set(s.dir+"/a", nil, -1))(s)
	await(s.T, changed)
	var lines []string
	for _, r := range s.proxy.Trace() {
		if r.Op == zktest.OpPing {
			continue
		}
		check.False(s, r.Session != s.id() || r.Time.IsZero() || (r.Dir == zktest.ToClient && r.Op != 0 && r.Zxid == 0), "incomplete record %+v", r)
		r.Zxid, r.Xid = 0, 0
		lines = append(lines, r.String())
	}
	want := []string{
		"conn 1 > create [/Trace/a] xid=0",
		"conn 1 < create xid=0 zxid=0x0 err=0",
		"conn 1 > create [/Trace/a] xid=0",
		"conn 1 < create xid=0 zxid=0x0 err=-110",
		"conn 1 > getData [/Trace/a] xid=0",
		"conn 1 < getData xid=0 zxid=0x0 err=0",
		"conn 1 < event [/Trace/a]",
	}
	check.True(s, slices.Equal(lines, want), "recorded\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
}

func testLatency(s stage) {
	const latency = 200 * time.Millisecond
	s.proxy.StartTrace()
	s.proxy.Latency(latency)
	begin := time.Now()
	var all sync.WaitGroup
	const n = 10
	for range n {
		all.Go(func() {
			if _, _, err := s.victim.Get(s.dir); err != nil {
				s.Error(err)
			}
		})
	}
	all.Wait()
	check.AtLeast(s, time.Since(begin), 2*latency, "a round trip took")
	// Nothing waited for anything: all requests came before the first reply.
	var sent int
	for _, r := range s.proxy.Trace() {
		if r.Op != zktest.OpGetData {
			continue
		}
		if r.Dir == zktest.ToClient {
			break
		}
		sent++
	}
	check.Equal(s, sent, n, "requests before the first reply")
}

func testDelay(s stage) {
	const delay = 100 * time.Millisecond
	s.proxy.Delay(zktest.Match{Op: zktest.OpCreate}, delay)
	begin := time.Now()
	check.Must(s, await(s.T, s.create("/a")))
	check.AtLeast(s, time.Since(begin), delay, "took")
	check.OK(s, s.proxy.AwaitFault(patience))
}

func testDropRequest(s stage) {
	s.proxy.DropRequest(zktest.Match{Op: zktest.OpCreate, Path: s.dir + "/*", Skip: 1})
	if err := s.proxy.AwaitFault(time.Millisecond); err == nil {
		s.Error("a fault has hit nothing")
	}
	check.Must(s, await(s.T, s.create("/a")))
	check.Is(s, await(s.T, s.create("/b")), zk.ErrConnectionClosed)
	check.OK(s, s.proxy.AwaitFault(patience))
	check.True(s, s.exists("/a") && !s.exists("/b"), "the wrong request was lost")
	awaitState(s.T, s.states, zk.StateHasSession)
	check.OK(s, await(s.T, s.create("/b")))
}

func testDropReply(s stage) {
	id := s.id()
	s.proxy.DropReply(zktest.Match{Op: zktest.OpCreate, Session: id + 1}) // another's
	s.proxy.DropReply(zktest.Match{Path: s.dir + "/b"})
	check.Must(s, await(s.T, s.create("/a")))
	check.Is(s, await(s.T, s.create("/b")), zk.ErrConnectionClosed)
	check.True(s, s.exists("/b"), "the server did not get it")
	awaitState(s.T, s.states, zk.StateHasSession)
	check.Equal(s, s.id(), id, "the session was lost")
	if err := s.proxy.AwaitFault(time.Millisecond); err == nil {
		s.Error("the other fault has hit nothing")
	}
}

func testDropReplyOfMulti(s stage) {
	s.proxy.DropReply(zktest.Match{Op: zktest.OpMulti, Path: s.dir + "/c"})
	_, err := s.victim.Multi(
		&zk.CreateRequest{Path: s.dir + "/a", Data: []byte("data"), Acl: acl},
		&zk.SetDataRequest{Path: s.dir + "/a", Data: []byte("other"), Version: -1},
		&zk.CheckVersionRequest{Path: s.dir, Version: 0},
		&zk.CreateRequest{Path: s.dir + "/b", Acl: acl},
		&zk.DeleteRequest{Path: s.dir + "/b", Version: -1},
		&zk.CreateRequest{Path: s.dir + "/c", Acl: acl},
	)
	check.Is(s, err, zk.ErrConnectionClosed)
	check.True(s, s.exists("/a") && !s.exists("/b") && s.exists("/c"), "not done")
}

func testDropHandshake(s stage) {
	s.proxy.DropReply(zktest.Match{Op: zktest.OpCreateSession})
	s.proxy.Disconnect(0)
	check.Must(s, s.proxy.AwaitFault(patience))
	awaitState(s.T, s.states, zk.StateHasSession)
}

func testDisconnect(s stage) {
	id := s.id()
	s.proxy.Disconnect(id + 1)
	if _, _, err := s.victim.Get(s.dir); err != nil {
		s.Fatal(err)
	}
	s.proxy.Disconnect(id)
	awaitState(s.T, s.states, zk.StateDisconnected)
	awaitState(s.T, s.states, zk.StateHasSession)
	check.Equal(s, s.id(), id, "the session was lost")
}

func testRefuse(s stage) {
	s.proxy.Refuse(true)
	if _, _, err := s.victim.Get(s.dir); err != nil {
		s.Fatal(err) // what there is stays
	}
	conn, err := net.Dial("tcp", s.proxy.Addrs()[0])
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
		conn.Close() //nolint:errcheck // it is closed already
	}
	check.True(s, err != nil, "accepted")
	s.proxy.Disconnect(0)
	awaitState(s.T, s.states, zk.StateDisconnected)
	awaitState(s.T, s.states, zk.StateConnecting)
	s.proxy.Refuse(false)
	awaitState(s.T, s.states, zk.StateHasSession)
}

func testFreezeToServer(s stage) {
	s.proxy.Freeze(s.id(), zktest.ToServer)
	created := s.create("/a")
	s.arrived(zktest.OpCreate, 1)
	check.True(s, !s.exists("/a"), "it went through")
	s.proxy.Thaw(s.id() + 1)
	pending(s.T, created)
	s.proxy.Thaw(s.id())
	check.OK(s, await(s.T, created))
}

func testFreezeToClient(s stage) {
	s.proxy.Freeze(s.id(), zktest.ToClient)
	created := s.create("/a")
	eventually(s.T, func() error {
		if !s.exists("/a") {
			return errors.New("it did not go through")
		}
		return nil
	})
	pending(s.T, created)
	s.proxy.Thaw(0)
	check.OK(s, await(s.T, created))
}

func testFreezeButEvents(s stage) {
	_, _, appeared, err := s.victim.ExistsW(s.dir + "/event")
	check.Must(s, err)
	s.proxy.Freeze(s.id(), zktest.ToClientButEvents)
	created := s.create("/a")
	eventually(s.T, func() error {
		if !s.exists("/a") {
			return errors.New("it did not go through")
		}
		return nil
	})
	check.Have(s.direct.Create(s.dir+"/event", nil, 0, acl))(s)
	if ev := await(s.T, appeared); ev.Type != zk.EventNodeCreated {
		s.Error(ev)
	}
	pending(s.T, created)
	s.proxy.Thaw(0)
	check.OK(s, await(s.T, created))
}

// awaitHandshakes waits until clients have begun n handshakes.
func (s stage) awaitHandshakes(n int) {
	s.Helper()
	eventually(s.T, func() error {
		var got int
		for _, r := range s.proxy.Trace() {
			if r.Op == zktest.OpCreateSession && r.Dir == zktest.ToServer {
				got++
			}
		}
		if got < n {
			return errors.New("not enough handshakes")
		}
		return nil
	})
}

func testFreezeReconnect(s stage) {
	id := s.id()
	s.proxy.StartTrace()
	s.proxy.Freeze(id, zktest.Both)
	s.proxy.Disconnect(id)
	awaitState(s.T, s.states, zk.StateConnected)
	s.awaitHandshakes(1)
	pending(s.T, s.states)
	s.proxy.Thaw(id)
	awaitState(s.T, s.states, zk.StateHasSession)
	check.Equal(s, s.id(), id, "the session was lost")
}

func testFreezeEverybody(s stage) {
	s.proxy.StartTrace()
	s.proxy.Freeze(0, zktest.ToClient)
	conn, states, err := zk.Connect(s.proxy.Addrs(), patience, zk.WithLogger(silence{}))
	check.Must(s, err)
	defer conn.Close()
	awaitState(s.T, states, zk.StateConnected)
	s.awaitHandshakes(1)
	pending(s.T, states)
	s.proxy.Thaw(0)
	awaitState(s.T, states, zk.StateHasSession)
}

func testExpire(s stage) {
	id := s.id()
	check.Have(s.victim.Create(s.dir+"/a", nil, zk.FlagEphemeral, acl))(s)
	s.proxy.ResetRequests()
	s.proxy.Expire(id)
	check.True(s, !s.exists("/a"), "the session lives")
	awaitState(s.T, s.states, zk.StateExpired)
	awaitState(s.T, s.states, zk.StateHasSession)
	check.True(s, s.id() != id, "the session lives")
	check.Equal(s, len(s.proxy.Requests()), 0, "counted")
}

func testExpireEverybody(s stage) {
	other := dial(s.T, patience, s.proxy.Addrs()...)
	s.proxy.Refuse(true)
	check.Equal(s, len(s.proxy.Sessions()), 2, "sessions")
	s.proxy.Expire(0)
	check.Len(s, s.proxy.Sessions(), 0, "sessions")
	s.proxy.Refuse(false)
	awaitState(s.T, s.states, zk.StateExpired)
	eventually(s.T, func() error {
		_, _, err := other.Get(s.dir)
		return err
	})
}

func testExpireWhileFrozen(s stage) {
	check.Have(s.victim.Create(s.dir+"/a", nil, zk.FlagEphemeral, acl))(s)
	s.proxy.Freeze(s.id(), zktest.Both)
	s.proxy.Expire(s.id())
	check.True(s, !s.exists("/a"), "the session lives")
	pending(s.T, s.states)
	s.proxy.Thaw(0)
	awaitState(s.T, s.states, zk.StateExpired)
}

func testFourLetterWord(s stage) {
	conn := check.Have(net.Dial("tcp", s.proxy.Addrs()[0]))(s)
	defer conn.Close() //nolint:errcheck // it is over
	check.Have(io.WriteString(conn, "ruok"))(s)
	if got, err := io.ReadAll(conn); string(got) != "imok" || err != nil {
		s.Errorf("got %q, %v", got, err)
	}
}

func TestProxyRefusesNoServers(t *testing.T) {
	t.Parallel()
	if p, err := zktest.ListenProxy(); err == nil {
		p.Close()
		t.Error("accepted")
	}
}

func TestProxyWithoutServer(t *testing.T) {
	t.Parallel()
	l := check.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	client := check.Have(net.Dial("tcp", l.Addr().String()))(t)
	defer client.Close() //nolint:errcheck // its port is taken, and nobody listens there
	check.Must(t, l.Close())
	p := zktest.NewProxy(t, client.LocalAddr().String())
	conn := check.Have(net.Dial("tcp", p.Addrs()[0]))(t)
	defer conn.Close() //nolint:errcheck // it is over
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("connected to nobody")
	}
	p.Close()
	p.Close()
}

// What a frozen connection sends is bounded, and arrives complete.
func TestProxyHoldsNotMoreThanItCan(t *testing.T) {
	t.Parallel()
	l := check.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close() //nolint:errcheck // nothing was written
	p := zktest.NewProxy(t, l.Addr().String())
	p.Freeze(0, zktest.ToServer)
	client := check.Have(net.Dial("tcp", p.Addrs()[0]))(t)
	defer client.Close() //nolint:errcheck // it is over
	server, err := l.Accept()
	check.Must(t, err)
	defer server.Close() //nolint:errcheck // it is over

	check.Must(t, client.SetWriteDeadline(time.Now().Add(time.Second)))
	frame := append([]byte{0, 1, 0, 0}, bytes.Repeat([]byte{1}, 1<<16)...)
	sent := 0
	for err == nil && sent < 64<<20 {
		var n int
		n, err = client.Write(frame)
		sent += n
	}
	check.Require(t, errors.Is(err, os.ErrDeadlineExceeded), "%d bytes were accepted, %v", sent, err)
	p.Thaw(0)
	whole := int64(sent - sent%len(frame))
	if n, err := io.CopyN(io.Discard, server, whole); err != nil {
		t.Errorf("%d of %d bytes arrived, %v", n, sent, err)
	}
}

// BenchmarkProxy measures what a proxy costs, beside a direct connection.
func BenchmarkProxy(b *testing.B) {
	e := zktest.StartEnsemble(b, 1, zktest.NoSync())
	proxy := zktest.NewProxy(b, e.Addrs()...)
	for name, addrs := range map[string][]string{"direct": e.Addrs(), "proxy": proxy.Addrs()} {
		b.Run(name, func(b *testing.B) {
			conn, _, err := zk.Connect(addrs, patience, zk.WithLogger(silence{}))
			check.Must(b, err)
			defer conn.Close()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, _, err := conn.Exists("/"); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
