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
	check.None(t, ch)
}

func TestProxy(t *testing.T) {
	t.Parallel()
	e := zktest.SharedEnsemble(t, 1)
	for name, test := range map[string]func(stage){
		"Counts":         testCounts,
		"Trace":          testTrace,
		"Latency":        testLatency,
		"FourLetterWord": testFourLetterWord,
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
