package watch_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// inBubble runs f with two sessions on a server in memory, in a bubble.
func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server, s, other *session.Session)) {
	t.Helper()
	kit.Sessions(t, zktest.Config{}, 2, session.Options{Timeout: 10 * time.Second}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		create(t, all[1], "/a", "")
		f(t, srv, all[0], all[1])
	})
}

// runInBubble is inBubble in a subtest.
func runInBubble(t *testing.T, name string, f func(t *testing.T, srv *zktest.Server, s, other *session.Session)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, f) })
}

func remove(t *testing.T, s *session.Session) {
	t.Helper()
	check.Must(t, s.Delete(t.Context(), "/a", session.AnyVersion))
}

func TestUntilGone(t *testing.T) {
	for name, happen := range map[string]func(*testing.T, *zktest.Server, *session.Session, *session.Session){
		"deleted": func(t *testing.T, _ *zktest.Server, _, other *session.Session) { remove(t, other) },
		"changed, then deleted": func(t *testing.T, _ *zktest.Server, _, other *session.Session) {
			for range 3 {
				check.Have(other.Set(t.Context(), "/a", []byte("x"), session.AnyVersion))(t)
			}
			remove(t, other)
		},
		"deleted while nobody listened": func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
			srv.Refuse(true)
			srv.Disconnect(s.ID())
			remove(t, other)
			srv.Refuse(false)
		},
		"deleted after the session expired": func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
			events := s.Events(t.Context())
			<-events // Connected
			srv.Expire(s.ID())
			for ev := range events {
				if c, ok := ev.(session.Connected); ok && c.Epoch == 2 {
					break
				}
			}
			synctest.Wait()
			remove(t, other)
		},
		"deleted between two sessions": func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
			srv.Refuse(true)
			srv.Expire(s.ID())
			remove(t, other)
			srv.Refuse(false)
		},
	} {
		runInBubble(t, name, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					check.OK(t, watch.UntilGone(t.Context(), s, "/a"))
					stat, err := other.Exists(t.Context(), "/a")
					check.True(t, stat == nil && err == nil, "the node is there: %v", err)
				})
			}
			synctest.Wait()
			happen(t, srv, s, other)
			wg.Wait()
			check.Equal(t, srv.Watches(), 0, "watches are left on the server")
		})
	}
}

func TestUntilGoneOfNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, s, _ *session.Session) {
		for range 100 {
			check.Must(t, watch.UntilGone(t.Context(), s, "/never"))
		}
		check.Equal(t, srv.Watches(), 0, "watches stand on a node that does not exist")
	})
}

// TestUntilGoneIsAbandoned: the watch is kept for the next, and there is only one.
func TestUntilGoneIsAbandoned(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, s, _ *session.Session) {
		srv.ResetRequests()
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			err := watch.UntilGone(ctx, s, "/a")
			check.Require(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
			cancel()
		}
		n, reads := srv.Watches(), srv.Requests()[zktest.OpGetData]
		check.True(t, n == 1 && reads == 1, "%d watches, %d reads, want one of each", n, reads)
	})
}

func TestUntilGoneRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *zktest.Server, s, _ *session.Session) {
		check.Is(t, watch.UntilGone(t.Context(), nil, "/a"), session.ErrInvalidArgument) // no session
		for _, path := range []string{"", "a", "/a/", "/a//b"} {
			check.Is(t, watch.UntilGone(t.Context(), s, path), session.ErrInvalidPath, path)
		}
		waiting := kit.Begin(func() error { return watch.UntilGone(t.Context(), s, "/a") })
		s.Close()
		check.Is(t, <-waiting, session.ErrClosed)                             // closed while waiting
		check.Is(t, watch.UntilGone(t.Context(), s, "/a"), session.ErrClosed) // a closed session
	})
}
