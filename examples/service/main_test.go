package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	if err := run(t.Context(), zktest.Start(t).Addrs()); err != nil {
		t.Fatal(err)
	}
}

// start runs an instance until the test ends.
func start(t *testing.T, srv *zktest.Server, name string) *service {
	t.Helper()
	v, err := open(srv.Addrs(), name)
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
// instances are members at the end.
func TestFaults(t *testing.T) {
	for name, fault := range map[string]func(srv *zktest.Server, id int64){
		"the session expires":   func(srv *zktest.Server, id int64) { srv.Expire(id) },
		"the connection is cut": func(srv *zktest.Server, id int64) { srv.Disconnect(id) },
		"the connection is frozen": func(srv *zktest.Server, id int64) {
			srv.Freeze(id, zktest.Both)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := zktest.Start(t)
			s, err := session.Open(t.Context(), srv.Addrs(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
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
		})
	}
}

// TestExports: on all instances together no more exports run at once than the limit allows, until
// the limit rises.
func TestExports(t *testing.T) {
	srv := zktest.Start(t)
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
}

// TestBadTenant: a tenant that is not a valid name is refused.
func TestBadTenant(t *testing.T) {
	v := start(t, zktest.Start(t), "a")
	expect(t, v, "POST", "/tenants/%00/orders", http.StatusBadRequest, "path")
}

// TestServersDown: an instance starts while no server is up, and works when a server is up.
func TestServersDown(t *testing.T) {
	srv := zktest.Start(t)
	srv.Refuse(true)
	v := start(t, srv, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if status, body := call(ctx, v, "POST", "/tenants/acme/orders"); status != http.StatusServiceUnavailable {
		t.Error(status, body)
	}
	srv.Refuse(false)
	expect(t, v, "POST", "/tenants/acme/orders", http.StatusOK, "order 1 of acme")
}
