package session_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// onTestsGoroutine reports whether a function of package testing has called, however
// indirectly. The goroutines of a session have no such caller.
func onTestsGoroutine() bool {
	var pcs [100]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "testing.") {
			return true
		}
		if !more {
			return false
		}
	}
}

// An eavesdropper is told of requests, and keeps on which goroutine.
type eavesdropper struct {
	session.NopObserver
	mu      sync.Mutex
	callers map[string]int // callbacks on the goroutine of the test
	told    map[string]int // requests
	given   map[string]int // those of them that ended with their context
}

func (e *eavesdropper) called(what string) {
	if onTestsGoroutine() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.callers[what]++
	}
}

func (e *eavesdropper) State(session.Event) { e.called("Observer.State") }

func (e *eavesdropper) Request(op string, _ time.Duration, err error) {
	e.called("Observer.Request")
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told[op]++
	if errors.Is(err, context.DeadlineExceeded) {
		e.given[op]++
	}
}

func eavesdropping(opts *session.Options) *eavesdropper {
	e := &eavesdropper{callers: make(map[string]int), told: make(map[string]int), given: make(map[string]int)}
	opts.Observer = e
	return e
}

// TestCallbacksAreNotTheCallers: no callback, for whatever is due, runs on the goroutine
// that calls a method: it may hold a lock that the callback wants, and may recover panics.
func TestCallbacksAreNotTheCallers(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		e := eavesdropping(opts)
		s := mustOpen(t, srv.Addrs(), opts)
		use := func() {
			for _, path := range []string{"/", "no path"} {
				for range 100 {
					a := s.Async(0)
					a.Create(path, nil, session.Persistent, func(string, error) { e.called("Create") })
					a.Delete(path, 0, func(error) { e.called("Delete") })
					a.Get(path, func([]byte, *session.Stat, error) { e.called("Get") })
					a.Exists(path, func(*session.Stat, error) { e.called("Exists") })
					a.Multi([]session.Op{session.CheckOp(path, 0)}, func([]session.OpResult, error) { e.called("Multi") })
					a.EnsurePath(path, func(bool, error) { e.called("EnsurePath") })
					a.Withdraw("/none", func() { e.called("Withdraw") })
					sub := a.Follow(path, session.AspectData, true, func(session.Reading, error) { e.called("Follow") })
					cancel := a.Watch(path, func([]byte, *session.Stat, error) { e.called("Watch") }, func([]byte, *session.Stat, error) { e.called("Watch") })
					unsubscribe := s.Subscribe(func(session.Event) <-chan struct{} { e.called("Subscribe"); return nil })
					ctx, end := context.WithCancel(t.Context())
					s.Events(ctx)
					end()
					s.Events(ctx)
					_, _ = s.Exists(ctx, path)
					_, _ = s.Create(ctx, path, nil, session.Ephemeral)
					sub.Cancel()
					cancel()
					unsubscribe()
				}
			}
		}
		use()
		_, _ = s.Exists(t.Context(), "/")
		srv.Disconnect(0)
		use()
		srv.Expire(0)
		use()
		s.Close()
		use()
		synctest.Wait()
		for what, n := range e.callers {
			t.Errorf("%s: %d callbacks on the caller's goroutine", what, n)
		}
	})
}

// TestGivenUpIsObserved: once, as given up if the request was waiting for a connection, and
// as what it was if it was waiting for a reply that came.
func TestGivenUpIsObserved(t *testing.T) {
	for name, fault := range map[string]func(*zktest.Server){
		"queued": func(srv *zktest.Server) { srv.Refuse(true); srv.Disconnect(0); synctest.Wait() },
		"sent":   func(srv *zktest.Server) { srv.Freeze(0, zktest.ToClient) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				e := eavesdropping(opts)
				s := mustOpen(t, srv.Addrs(), opts)
				fault(srv)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var wg sync.WaitGroup
				for _, request := range []func(){
					func() { _, _ = s.Exists(ctx, "/") },
					func() { _, _, _ = s.Get(ctx, "/") },
					func() { _, _, _ = s.Children(ctx, "/") },
					func() { _ = s.Sync(ctx, "/") },
					func() { _, _ = s.Set(ctx, "/a", nil, 0) },
					func() { _ = s.Delete(ctx, "/a", 0) },
					func() { _, _ = s.Create(ctx, "/a", nil, session.Persistent) },
					func() { _, _ = s.Multi(ctx, session.CheckOp("/a", 0)) },
					func() { _ = s.EnsurePath(ctx, "/a") },
				} {
					wg.Go(request)
				}
				wg.Wait()
				srv.Refuse(false)
				srv.Thaw(0)
				pass(time.Minute)
				e.mu.Lock()
				defer e.mu.Unlock()
				want := map[string]int{"exists": 1, "get": 1, "children": 1, "sync": 1, "set": 1, "delete": 1, "create": 1, "multi": 1, "ensure": 1}
				if fmt.Sprint(e.told) != fmt.Sprint(want) || name == "queued" && fmt.Sprint(e.given) != fmt.Sprint(want) {
					t.Errorf("told %v, of these given up %v, want %v", e.told, e.given, want)
				}
			})
		})
	}
}

// TestRefusedIsObserved: as every request that is answered.
func TestRefusedIsObserved(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		e := eavesdropping(opts)
		s := mustOpen(t, srv.Addrs(), opts)
		_ = s.Delete(t.Context(), "no path", 0)
		s.Close()
		_, _ = s.Exists(t.Context(), "/")
		e.mu.Lock()
		defer e.mu.Unlock()
		if want := map[string]int{"delete": 1, "exists": 1}; fmt.Sprint(e.told) != fmt.Sprint(want) {
			t.Errorf("told %v, want %v", e.told, want)
		}
	})
}

// TestGivingUpAReadThatMovesOn (with the race detector): reads wait while the session is
// suspended, are handed to the next epoch when it expires, and are given up.
func TestGivingUpAReadThatMovesOn(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := mustOpen(t, srv.Addrs(), opts)
		srv.Refuse(true)
		srv.Disconnect(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				check.Fails(s.Exists(ctx, "/"))(t, context.DeadlineExceeded)
			})
		}
		wg.Wait()
		srv.Refuse(false)
	})
}
