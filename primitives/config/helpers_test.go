package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// inBubble runs f with n sessions on a server in memory, in a bubble whose clock is its own.
func inBubble(t *testing.T, n int, f func(t *testing.T, srv *zktest.Server, s ...*session.Session)) {
	t.Helper()
	inBubbleOn(t, zktest.Config{}, n, f)
}

func inBubbleOn(t *testing.T, config zktest.Config, n int, f func(t *testing.T, srv *zktest.Server, s ...*session.Session)) {
	t.Helper()
	config.Tick = time.Second
	kit.Sessions(t, config, n, session.Options{Timeout: 12 * time.Second, ServerTick: time.Second},
		func(t *testing.T, srv *zktest.Server, all []*session.Session) { f(t, srv, all...) })
}

func open[T any](t *testing.T, s *session.Session, path string, codec func() config.Codec[T], opts *config.Options) *config.Value[T] {
	t.Helper()
	return check.Open(config.Open(s, path, codec, opts))(t)
}

// counter opens a number.
func counter(t *testing.T, s *session.Session) *config.Value[int] {
	t.Helper()
	return open(t, s, "/app/counter", config.JSON[int], nil)
}

func increment(old int) (int, error) { return old + 1, nil }

// expect fails the test unless the newest event, after a while, is the one that is wanted.
func expect[T any](t *testing.T, v *config.Value[T], want string) config.Event {
	t.Helper()
	v.Events()
	kit.Pass(10 * time.Second)
	select {
	case ev, open := <-v.Events():
		check.Require(t, open, "the handle has ended: %v", v.Err())
		check.Require(t, ev.String() == want, "%v, want %s", ev, want)
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
	check.Require(t, err == nil && got == want && at == version, "%v version %d, %v; want %v version %d", got, at, err, want, version)
}

// markers returns the nodes that are markers.
func markers(srv *zktest.Server) []string {
	return slices.DeleteFunc(srv.Paths(), func(p string) bool { return !strings.Contains(p, "/_c_") })
}

// noMarkers fails the test if there is a ghost.
func noMarkers(t *testing.T, srv *zktest.Server) {
	t.Helper()
	check.Len(t, markers(srv), 0, "left behind")
}
