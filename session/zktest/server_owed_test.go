package zktest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// dialInside connects to a server in the bubble, without a handshake.
func dialInside(t *testing.T, srv *Server) *rawClient {
	t.Helper()
	c := check.Have(srv.DialContext(t.Context(), "tcp", srv.Addrs()[0]))(t)
	t.Cleanup(func() { _ = c.Close() })
	return &rawClient{Conn: c}
}

func openInside(t *testing.T, srv *Server) *rawClient {
	t.Helper()
	w := dialInside(t, srv)
	check.Require(t, w.shake(wire.ConnectRequest{Timeout: 30000}) && w.session != 0, "no session")
	return w
}

// mustEnd fails the test unless the connection ends.
func (w *rawClient) mustEnd(t *testing.T) {
	t.Helper()
	a, err := w.receive()
	check.Require(t, a.gone && err == nil, "the connection goes on: %v, %v", a, err)
}

func (w *rawClient) mustCall(t *testing.T, op Op, arg body) {
	t.Helper()
	a, err := w.call(op, arg)
	check.Require(t, err == nil && a.err == codeOK && !a.gone, "%v %v", a, err)
}

// owed returns what a session is owed, and how many requests were read from it.
// Both are zero without a connection.
func owed(srv *Server, session int64) (bytes, requests int) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for _, c := range srv.connsOf(session) {
		_, bytes = c.out.owes()
		return bytes, c.received
	}
	return 0, 0
}

const (
	bigReply = 500 << 10
	manyGets = 100
)

// bigNode makes a node whose data is large.
func bigNode(t *testing.T, w *rawClient) {
	t.Helper()
	w.mustCall(t, OpCreate, argCreate("/big", make([]byte, bigReply), 0))
}

// askMuch asks for 50 MB and reads nothing of it.
func askMuch(w *rawClient) {
	for range manyGets {
		w.send(OpGetData, argWatch("/big", false))
	}
}

// receiveAll reads what askMuch has asked for.
func receiveAll(t *testing.T, w *rawClient) {
	t.Helper()
	for i := range manyGets {
		a, err := w.receive()
		check.Require(t, err == nil && !a.gone && a.err == codeOK && a.xid == int32(i+1) && len(a.rest) >= bigReply, "%v %v %v %v %v", i, a.xid, a.err, a.gone, err)
	}
}

// A client that does not read is owed little, nothing more is read from it, and
// others are served meanwhile.
func TestServerOwesASlowClientLittle(t *testing.T) {
	for _, test := range []struct {
		name   string
		option Option
		frozen bool
	}{
		{"at once", func(*Config) {}, false},
		{"late", Latency(time.Millisecond), false},
		{"frozen", func(*Config) {}, true},
		{"little", func(c *Config) { c.MaxOwed = 1 }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := Start(t, InProcess(), test.option, Timeouts(time.Second, time.Minute))
				fast, slow := openInside(t, srv), openInside(t, srv)
				bigNode(t, fast)
				if test.frozen {
					srv.Freeze(slow.session, ToClient)
				}
				askMuch(slow)
				<-time.After(time.Second) // of the bubble: until nothing happens any more
				synctest.Wait()
				bytes, requests := owed(srv, slow.session)
				if most := srv.config.MaxOwed + frameSize + bigReply; bytes > most {
					t.Errorf("the client is owed %d bytes, at most %d are allowed", bytes, most)
				}
				// What is not owed is in the pipe.
				if most := (srv.config.MaxOwed+streamSize)/bigReply + 3; requests > most {
					t.Errorf("%d requests have been read, at most %d are allowed", requests, most)
				}
				fast.mustCall(t, OpGetData, argWatch("/big", false))
				srv.Thaw(slow.session)
				receiveAll(t, slow)
				synctest.Wait() // until what was written is no longer owed
				if bytes, requests := owed(srv, slow.session); bytes != 0 || requests != manyGets+1 {
					t.Error(bytes, requests)
				}
			})
		})
	}
}

// The same on sockets.
func TestServerOwesASlowClientLittleOnASocket(t *testing.T) {
	t.Parallel()
	srv := Start(t, Timeouts(time.Second, time.Minute))
	fast, slow := openWire(t, srv.Addrs()[0]), openWire(t, srv.Addrs()[0])
	bigNode(t, fast)
	go askMuch(slow)
	most := srv.config.MaxOwed + frameSize + bigReply
	for range 1000 {
		fast.mustCall(t, OpExists, argWatch("/big", false))
		if bytes, _ := owed(srv, slow.session); bytes > most {
			t.Fatalf("the client is owed %d bytes, at most %d are allowed", bytes, most)
		}
	}
	receiveAll(t, slow)
}

// What a client is owed is what was so when the request was executed.
func TestServerOwesWhatWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := Start(t, InProcess(), Timeouts(time.Second, time.Minute))
		a, b := openInside(t, srv), openInside(t, srv)
		b.mustCall(t, OpCreate, argCreate("/p", []byte("old"), 0))
		b.mustCall(t, OpCreate, argCreate("/p/a", nil, 0))
		b.mustCall(t, OpCreate, argCreate("/p/b", nil, 0))
		a.mustCall(t, OpCreate, argCreate("/own", nil, 1))
		asked := []struct {
			op  Op
			arg body
		}{
			{OpExists, argWatch("/p", false)},
			{OpGetData, argWatch("/p", false)},
			{OpGetChildren, argWatch("/p", false)},
			{OpGetChildren2, argWatch("/p", false)},
			{OpGetACL, argPath("/p")},
			{OpGetEphemerals, argPath("/")},
			{OpGetAllChildren, argPath("/p")},
			{OpMultiRead, argMulti(part{OpGetData, argWatch("/p", false)}, part{OpGetChildren, argWatch("/p", false)})},
			{OpWhoAmI, nil},
		}
		var want [][]byte
		for _, r := range asked {
			reply, err := a.call(r.op, r.arg)
			check.Require(t, err == nil && !reply.gone && reply.err == codeOK, "%v %v %v", r.op, reply, err)
			want = append(want, reply.rest)
		}
		srv.Freeze(a.session, ToClient)
		for _, r := range asked {
			a.send(r.op, r.arg)
		}
		a.send(OpDelete, argVersion("/own", -1))
		a.send(OpAuth, argAuth("digest", "a:b"))
		synctest.Wait()
		b.mustCall(t, OpDelete, argVersion("/p/a", -1))
		b.mustCall(t, OpCreate, argCreate("/p/c", nil, 0))
		b.mustCall(t, OpSetData, argSet("/p", []byte("new"), -1))
		b.mustCall(t, OpSetACL, argACL("/p", -1, acl{permRead | permAdmin, identity{"world", "anyone"}}))
		srv.Thaw(a.session)
		for i, r := range asked {
			if reply, err := a.receive(); err != nil || reply.err != codeOK || !bytes.Equal(reply.rest, want[i]) {
				t.Errorf("%v: %q, want %q, %v", r.op, reply.rest, want[i], err)
			}
		}
	})
}

// Notifications do not wait for the client. A client that does not read them
// loses its connection in the end.
func TestServerCutsForUnreadEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := Start(t, InProcess(), Timeouts(time.Second, time.Minute), func(c *Config) { c.MaxOwed = 4 << 10 })
		busy, deaf := openInside(t, srv), openInside(t, srv)
		deaf.mustCall(t, OpAddWatch, argVersion("/", 1))
		srv.Freeze(deaf.session, ToClient)
		most, events := eventFactor*srv.config.MaxOwed, 0
		for requests := 1; requests > 0 && events < most/frameSize; events++ {
			busy.mustCall(t, OpCreate, argCreate("/n-", nil, 2))
			synctest.Wait()
			var bytes int
			if bytes, requests = owed(srv, deaf.session); bytes > most {
				t.Fatal(bytes)
			}
		}
		deaf.mustEnd(t)
		check.True(t, events >= most/frameSize/3, "cut after %d notifications", events)
		check.True(t, len(srv.Sessions()) == 2, "the session has ended with its connection")
	})
}

// A connection without a handshake is cut, at a whole multiple of GreetTimeout.
func TestServerCutsWhoDoesNotGreet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := Start(t, InProcess(), Timeouts(time.Second, time.Minute))
		begin := time.Now()
		greeted := openInside(t, srv)
		<-time.After(3 * time.Second)
		silent, half := dialInside(t, srv), dialInside(t, srv)
		check.Have(half.Write([]byte{0, 0, 0, 45, 0, 0}))(t)
		for _, w := range []*rawClient{silent, half} {
			if _, err := w.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(begin) != 20*time.Second {
				t.Fatal(err, time.Since(begin))
			}
		}
		check.Must(t, greeted.settle())
		synctest.Wait()
		srv.mu.Lock()
		defer srv.mu.Unlock()
		check.True(t, len(srv.clients) == 1 && srv.stats.neverGreeted == 2, "%v %v", len(srv.clients), srv.stats.neverGreeted)
	})
}

func TestServerCutsWhoDoesNotGreetByItsClock(t *testing.T) {
	clock := new(ManualClock)
	srv := Start(t, WithClock(clock), GreetTimeout(time.Second))
	silent := dialWire(t, srv.Addrs()[0])
	greeted := openWire(t, srv.Addrs()[0]) // after the other one was accepted
	clock.Advance(2 * time.Second)
	silent.mustEnd(t)
	check.Must(t, greeted.settle())
}

// A real server does the same.
func TestRealServerCutsWhoDoesNotGreet(t *testing.T) {
	t.Parallel()
	ens := StartEnsemble(t, 1, NoSync(), JVMFlags("-Dzookeeper.nio.sessionlessCnxnTimeout=1000"))
	silent := dialWire(t, ens.Addr(0))
	silent.mustEnd(t)
}

// A spentListener is one of a process without descriptors, for a while.
type spentListener struct {
	net.Listener

	errors, accepts int
}

func (l *spentListener) Accept() (net.Conn, error) {
	l.accepts++
	switch {
	case l.accepts <= l.errors:
		return nil, fmt.Errorf("accept: %w", syscall.EMFILE)
	case l.accepts == l.errors+1:
		near, _ := newPipe(nil, nil)
		return near, nil
	}
	return nil, net.ErrClosed
}

func TestAcceptRestsAfterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, served := time.Now(), 0
		l := &spentListener{errors: 100}
		accept(l, func(net.Conn) { served++ })
		if took := time.Since(begin); took < 100*acceptPause || served != 1 || l.accepts != 102 {
			t.Fatal(took, served, l.accepts)
		}
	})
}
