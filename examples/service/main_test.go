package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call sends a request to an instance, as a client would.
func call(ctx context.Context, v http.Handler, method, path string) (status int, body string) {
	w := httptest.NewRecorder()
	v.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, nil))
	return w.Code, w.Body.String()
}

// play runs a test beside a server in memory, in a bubble whose clock does not depend on the
// machine's.
func play(t *testing.T, with func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { with(t, zktest.Start(t, zktest.InProcess())) })
}

// A listener accepts the connections that its dial makes.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func listen() *listener {
	l := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error { l.close(); return nil }

func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

func (l *listener) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// TestServe: an instance serves at its address, and ends when it is stopped, after the
// export that is under way.
func TestServe(t *testing.T) {
	play(t, func(t *testing.T, srv *zktest.Server) {
		l := listen()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- serve(ctx, srv.Addrs(), srv.DialContext, l) }()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: l.dial}}
		input, more := io.Pipe()
		export, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+"/exports", input)
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan string, 1)
		go func() {
			answer, err := client.Do(export)
			if err != nil {
				answered <- err.Error()
				return
			}
			text, err := io.ReadAll(answer.Body)
			answered <- fmt.Sprint(string(text), err, answer.Body.Close())
		}()
		if _, err := more.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		s := connect(t, srv)
		running, err := watch.Children(s, exports+"/leases", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer running.Close()
		zktest.Await(t, running.Changes(), func(c watch.ChildrenState) bool { return len(c.Names) == 1 })
		stop()
		if err := more.Close(); err != nil {
			t.Error(err)
		}
		if text := <-answered; text != "exported\n<nil> <nil>" {
			t.Error(text)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// connect opens a session of the test.
func connect(t *testing.T, srv *zktest.Server) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), srv.Addrs(), &session.Options{Dialer: srv.DialContext})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// start runs an instance until the test ends.
func start(t *testing.T, srv *zktest.Server, name string) *service {
	t.Helper()
	v, err := open(srv.Addrs(), name, srv.DialContext)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() {
		if err := v.run(ctx); err != nil {
			t.Error(name, err)
		}
	})
	t.Cleanup(func() { stop(); loop.Wait(); v.close() })
	return v
}

// expect sends a request, and fails the test unless the answer has the given status and text.
func expect(t *testing.T, v *service, method, path string, status int, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if got, body := call(ctx, v, method, path); got != status || !strings.Contains(body, text) {
		t.Errorf("%s: %d %s, want %d %s", path, got, body, status, text)
	}
}

// TestFaults: after each fault of the leader's connection, runs go on, orders are counted, and both
// instances are members with a number at the end.
func TestFaults(t *testing.T) {
	for name, fault := range map[string]func(srv *zktest.Server, id int64){
		"the session expires":   func(srv *zktest.Server, id int64) { srv.Expire(id) },
		"the connection is cut": func(srv *zktest.Server, id int64) { srv.Disconnect(id) },
		"the connection is frozen": func(srv *zktest.Server, id int64) {
			srv.Freeze(id, zktest.Both)
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, srv *zktest.Server) {
				s := connect(t, srv)
				settings, err := config.Open(s, settingsAt, config.JSON[Settings], nil)
				if err != nil {
					t.Fatal(err)
				}
				defer settings.Close()
				if err := settings.Set(t.Context(), Settings{Every: 20 * time.Millisecond}); err != nil {
					t.Fatal(err)
				}
				observed, err := watch.Node(s, runs, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer observed.Close()
				members, err := group.Watch(s, instances, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer members.Close()
				ran := func(name string) {
					t.Helper()
					zktest.Await(t, observed.Changes(), func(n watch.NodeState) bool { return string(n.Data) == name })
				}
				a := start(t, srv, "a")
				ran("a")
				b := start(t, srv, "b")
				expect(t, a, "POST", "/tenants/acme/orders", http.StatusOK, "order 1 of acme")
				zktest.Await(t, members.Events(), func(ev group.MembersChanged) bool { return len(ev.Members) == 2 })

				frozen := a.session.ID()
				fault(srv, frozen)
				if name == "the connection is cut" { // the session goes on
					ran("a")
				} else { // another instance leads
					ran("b")
				}
				expect(t, b, "POST", "/tenants/acme/orders", http.StatusOK, "order 2 of acme")
				srv.Thaw(frozen)
				expect(t, a, "POST", "/tenants/acme/orders", http.StatusOK, "order 3 of acme")
				for len(members.Members()) != 2 {
					zktest.Await(t, members.Events(), nil)
				}
				expect(t, b, "GET", "/status", http.StatusOK, "leader")
				held, err := watch.Children(s, numbers+"/leases", nil)
				if err != nil {
					t.Fatal(err)
				}
				defer held.Close()
				zktest.Await(t, held.Changes(), func(c watch.ChildrenState) bool { return len(c.Names) == 2 })
			})
		})
	}
}

// TestExports: on all instances together no more exports run at once than the limit allows, until
// the limit rises.
func TestExports(t *testing.T) {
	play(t, func(t *testing.T, srv *zktest.Server) {
		a, b := start(t, srv, "a"), start(t, srv, "b")
		var running sync.WaitGroup
		defer running.Wait()
		for range 2 {
			input, more := io.Pipe()
			defer func() { _ = more.Close() }()
			running.Go(func() {
				a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "POST", "/exports", input))
			})
			if _, err := more.Write([]byte("x")); err != nil { // returns when a running export has read it
				t.Fatal(err)
			}
		}
		expect(t, b, "POST", "/exports", http.StatusTooManyRequests, "full")
		if err := semaphore.SetLimit(t.Context(), b.session, exports, 3); err != nil {
			t.Fatal(err)
		}
		expect(t, b, "POST", "/exports", http.StatusOK, "exported")
	})
}

// TestBadTenant: a tenant that is not a valid name is refused.
func TestBadTenant(t *testing.T) {
	play(t, func(t *testing.T, srv *zktest.Server) {
		v := start(t, srv, "a")
		expect(t, v, "POST", "/tenants/%00/orders", http.StatusBadRequest, "path")
	})
}

// TestServersDown: an instance starts while no server is up, and works when a server is up.
func TestServersDown(t *testing.T) {
	play(t, func(t *testing.T, srv *zktest.Server) {
		srv.Refuse(true)
		v := start(t, srv, "a")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if status, body := call(ctx, v, "POST", "/tenants/acme/orders"); status != http.StatusServiceUnavailable {
			t.Error(status, body)
		}
		expect(t, v, "GET", "/readyz", http.StatusServiceUnavailable, "not connected")
		srv.Refuse(false)
		expect(t, v, "POST", "/tenants/acme/orders", http.StatusOK, "order 1 of acme")
	})
}

// TestBadServers: if the servers are no addresses, the instance does not start, and does not listen
// any more.
func TestBadServers(t *testing.T) {
	l := listen()
	if err := serve(t.Context(), []string{"localhost:99999"}, nil, l); !errors.Is(err, session.ErrInvalidArgument) {
		t.Error(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error("it listens:", err)
	}
}
