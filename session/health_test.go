package session_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestHealthy: a session is healthy while it is connected to a quorum. Otherwise the error says why,
// since when, and what the newest failure was.
func TestHealthy(t *testing.T) {
	const patience = time.Minute
	open := func(t *testing.T, srv *zktest.Server, opts *session.Options) *session.Session {
		s := mustOpen(t, srv.Addrs(), opts)
		pass(patience)
		if err := s.Healthy(); err != nil {
			t.Error(err)
		}
		return s
	}
	start := func(t *testing.T, srv *zktest.Server, opts *session.Options) *session.Session {
		s, err := session.Start(srv.Addrs(), opts)
		if err != nil {
			t.Fatal(err)
		}
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
			srv.Refuse(true)
			srv.Disconnect(0)
			pass(time.Hour)
			return s
		}, session.ErrExpired, patience, "refused"},
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
				err := s.Healthy()
				var why *session.UnhealthyError
				if !errors.As(err, &why) || row.why != nil && !errors.Is(why.Err, row.why) || row.why == nil && why.Err.Error() != "not connected yet" {
					t.Fatalf("unhealthy because of %v, want %v", err, row.why)
				}
				if since := why.Since.Sub(begun); since != row.since {
					t.Errorf("unhealthy since %v, want %v", since, row.since)
				}
				if row.failed == "" {
					if why.Last != (session.Failure{}) {
						t.Errorf("the failure is %v, want none", why.Last)
					}
					return
				}
				if !errors.Is(err, why.Last.Err) || why.Last.Server != srv.Addrs()[0] || why.Last.At.Before(begun) {
					t.Errorf("the failure is %v", why.Last)
				}
				if text := err.Error(); !strings.Contains(text, row.failed) || !strings.Contains(text, srv.Addrs()[0]) {
					t.Errorf("%q does not name the server and %q", text, row.failed)
				}
				srv.Thaw(0)
			})
		})
	}
}

// TestHealthyAgain: a session that is connected again, or is followed by another, is healthy.
func TestHealthyAgain(t *testing.T) {
	for name, down := range map[string]time.Duration{"resumed": time.Second, "the next": time.Hour} {
		t.Run(name, func(t *testing.T) {
			bubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				s := mustOpen(t, srv.Addrs(), opts)
				defer s.Close()
				srv.Refuse(true)
				srv.Disconnect(0)
				pass(down)
				if s.Healthy() == nil {
					t.Error("the session is healthy without a server")
				}
				srv.Refuse(false)
				pass(time.Minute)
				if err := s.Healthy(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
