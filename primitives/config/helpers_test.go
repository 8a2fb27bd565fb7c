package config_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// bubble runs f with n sessions on a server in memory, in a bubble whose clock is its own.
func bubble(t *testing.T, n int, f func(t *testing.T, srv *zktest.Server, s ...*session.Session)) {
	t.Helper()
	bubbleOn(t, zktest.Config{}, n, f)
}

func bubbleOn(t *testing.T, config zktest.Config, n int, f func(t *testing.T, srv *zktest.Server, s ...*session.Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config.InProcess, config.Tick = true, time.Second
		srv, err := zktest.NewServer(config)
		if err != nil {
			t.Fatal(err)
		}
		defer srv.Close()
		all := make([]*session.Session, n)
		for i := range all {
			all[i], err = session.Open(t.Context(), srv.Addrs(), &session.Options{
				Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: srv.DialContext,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer all[i].Close()
		}
		f(t, srv, all...)
	})
}

// pass lets the bubble's clock go on, which takes no time.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func open[T any](t *testing.T, s *session.Session, path string, codec func() config.Codec[T], opts *config.Options) *config.Value[T] {
	t.Helper()
	v, err := config.Open(s, path, codec, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// counter opens a number.
func counter(t *testing.T, s *session.Session) *config.Value[int] {
	t.Helper()
	return open(t, s, "/app/counter", config.JSON[int], nil)
}

func increment(old int) (int, error) { return old + 1, nil }

// ok fails the test unless err is nil.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// expect fails the test unless the newest event, after a while, is the one that is wanted.
func expect[T any](t *testing.T, v *config.Value[T], want string) config.Event {
	t.Helper()
	v.Events()
	pass(10 * time.Second)
	select {
	case ev, open := <-v.Events():
		if !open {
			t.Fatalf("the handle has ended: %v", v.Err())
		}
		if ev.String() != want {
			t.Fatalf("%v, want %s", ev, want)
		}
		return ev
	default:
		t.Fatalf("no event, want %s", want)
		return nil
	}
}

// value fails the test unless that is the value.
func value[T comparable](t *testing.T, v *config.Value[T], want T, version int32) {
	t.Helper()
	got, at, err := v.Get(t.Context())
	if err != nil || got != want || at != version {
		t.Fatalf("%v version %d, %v; want %v version %d", got, at, err, want, version)
	}
}

// markers returns the nodes that are markers.
func markers(srv *zktest.Server) []string {
	return slices.DeleteFunc(srv.Paths(), func(p string) bool { return !strings.Contains(p, "/_c_") })
}

// noMarkers fails the test if there is a ghost.
func noMarkers(t *testing.T, srv *zktest.Server) {
	t.Helper()
	if left := markers(srv); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
