package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestHealthy: a session is healthy while it is connected to a quorum. Otherwise the error says
// why, since when, and what the newest failure was.
func TestHealthy(t *testing.T) {
	const patience = time.Minute
	open := func(t *testing.T, srv *zktest.Server, opts *session.Options) *session.Session {
		s := mustOpen(t, srv.Addrs(), opts)
		pass(patience)
		check.OK(t, s.Healthy(t.Context()))
		return s
	}
	start := func(t *testing.T, srv *zktest.Server, opts *session.Options) *session.Session {
		s := check.Have(session.Start(srv.Addrs(), opts))(t)
		return s
	}
	for name, row := range map[string]struct {
		begin  func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) *session.Session
		why    error         // nil before the first connection
		since  time.Duration // after the begin
		failed string        // the newest failure
	}{
		"never connected": {func(t *testing.T, srv *zktest.Server, _ *tap, opts *session.Options) *session.Session {
			srv.Refuse(true)
			return start(t, srv, opts)
		}, nil, 0, "refused"},
		"suspended": {func(t *testing.T, srv *zktest.Server, _ *tap, opts *session.Options) *session.Session {
			s := open(t, srv, opts)
			srv.Refuse(true)
			srv.Disconnect(0)
			pass(time.Second)
			return s
		}, session.ErrDisconnected, patience, "refused"},
		"expired": {func(t *testing.T, srv *zktest.Server, _ *tap, opts *session.Options) *session.Session {
			s := open(t, srv, opts)
			s.Subscribe(func(ev session.Event) (settled <-chan struct{}) {
				if _, expired := ev.(session.Expired); expired {
					srv.Refuse(true)
				}
				return nil
			})
			srv.Expire(s.ID())
			pass(time.Hour)
			return s
		}, session.ErrExpired, patience, "refused"},
		"lapsed": {func(t *testing.T, srv *zktest.Server, _ *tap, opts *session.Options) *session.Session {
			s := open(t, srv, opts)
			t.Cleanup(s.Hold())
			srv.Refuse(true)
			srv.Disconnect(0)
			pass(time.Hour)
			return s
		}, session.ErrDisconnected, patience, "refused"},
		"closed": {func(t *testing.T, srv *zktest.Server, _ *tap, opts *session.Options) *session.Session {
			s := open(t, srv, opts)
			s.Close()
			return s
		}, session.ErrClosed, patience, ""},
		"closed while suspended": {func(t *testing.T, srv *zktest.Server, _ *tap, opts *session.Options) *session.Session {
			s := open(t, srv, opts)
			srv.Refuse(true)
			srv.Disconnect(0)
			pass(time.Second)
			s.Close()
			return s
		}, session.ErrClosed, patience, "refused"},
		"read-only": {func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) *session.Session {
			opts.ReadOnly = true
			s := open(t, srv, opts)
			tp.strikeWith(strike{greeting: readOnly, always: true})
			srv.Disconnect(0)
			pass(time.Second)
			return s
		}, session.ErrReadOnly, patience, " at "},
		"no quorum": {func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) *session.Session {
			tp.strikeWith(strike{greeting: readOnly, always: true})
			return start(t, srv, opts)
		}, nil, 0, "quorum"},
		"refused": {func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) *session.Session {
			opts.Auth = []session.Auth{{Scheme: "digest", Secret: []byte("user:password")}}
			s := open(t, srv, opts)
			const authFailed = -115
			tp.strikeWith(strike{auth: authFailed, always: true})
			srv.Disconnect(0)
			pass(time.Second)
			return s
		}, session.ErrAuthFailed, patience, "authentication failed"},
		"wrong server": {func(t *testing.T, srv *zktest.Server, _ *tap, opts *session.Options) *session.Session {
			opts.Dialer = func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					defer func() { _ = theirs.Close() }()
					_, _ = theirs.Read(make([]byte, 1<<10))
					_, _ = io.WriteString(theirs, "HTTP/1.1 400 Bad Request\r\n\r\n")
				}()
				return ours, nil
			}
			return start(t, srv, opts)
		}, nil, 0, "frame"},
		"silent server": {func(t *testing.T, srv *zktest.Server, _ *tap, opts *session.Options) *session.Session {
			srv.Freeze(0, zktest.Both)
			s := start(t, srv, opts)
			pass(patience)
			return s
		}, nil, 0, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
				begun := time.Now()
				s := row.begin(t, srv, tp, opts)
				defer s.Close()
				synctest.Wait()
				err := s.Healthy(t.Context())
				var why *session.UnhealthyError
				check.Require(t, errors.As(err, &why) && (row.why == nil || errors.Is(why.Err, row.why)) && (row.why != nil || why.Err.Error() == "not connected yet"), "unhealthy because of %v, want %v", err, row.why)
				check.Equal(t, why.Since.Sub(begun), row.since, "unhealthy since")
				if row.failed == "" {
					check.True(t, len(why.Failures) == 0, "the failures are %v, want none", why.Failures)
					return
				}
				check.Require(t, len(why.Failures) == 1, "the failures are %v", why.Failures)
				if last := why.Failures[0]; !errors.Is(err, last.Err) || last.Server != srv.Addrs()[0] || last.At.Before(begun) {
					t.Errorf("the failure is %v", last)
				}
				if text := err.Error(); !strings.Contains(text, row.failed) || !strings.Contains(text, srv.Addrs()[0]) {
					t.Errorf("%q does not name the server and %q", text, row.failed)
				}
				srv.Thaw(0)
			})
		})
	}
}

// TestHealthyNamesEachServer: the error has the newest failure of each server of the list, the
// newest of all first, and the cause of a context that has ended.
func TestHealthyNamesEachServer(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second, Replicas: 3}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.Dialer = func(_ context.Context, _, addr string) (net.Conn, error) {
			return nil, fmt.Errorf("no way to %s", addr)
		}
		servers := srv.Addrs()
		s := check.Have(session.Start(servers, opts))(t)
		defer s.Close()
		for _, left := range [][]string{servers, servers[:2]} {
			check.Must(t, s.SetServers(left))
			pass(time.Minute)
			err := s.Healthy(t.Context())
			var why *session.UnhealthyError
			check.Require(t, errors.As(err, &why) && len(why.Failures) == len(left), "%d servers, and %v", len(left), err)
			for i, f := range why.Failures {
				check.True(t, slices.Contains(left, f.Server) && f.Err.Error() == "no way to "+f.Server && errors.Is(err, f.Err) && strings.Contains(err.Error(), f.Err.Error()), "%v of %v", f, err)
				if i > 0 {
					check.False(t, f.At.After(why.Failures[i-1].At), "%v is newer than %v", f, why.Failures[i-1])
				}
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		given := errors.New("the probe was given up")
		cancel(given)
		check.Is(t, s.Healthy(ctx), given)
	})
}
