package session_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestStart: a session is started while there is no server. Its state is defined, a request
// ends with its context, another waits, and both it and the events go on when a server answers.
func TestStart(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		srv.Refuse(true)
		s := check.Have(session.Start(srv.Addrs(), opts))(t)
		defer s.Close()
		events := s.Events(t.Context())
		pass(time.Minute)
		check.True(t, s.State() == nil && s.ID() == 0 && s.String() == "session: not connected yet", "%v, %#x, %q", s.State(), s.ID(), s)
		select {
		case ev := <-events:
			t.Errorf("%v", ev)
		default:
		}
		for name, wait := range map[string]func(context.Context) error{
			"request": func(ctx context.Context) error { _, err := s.Exists(ctx, "/"); return err },
			"await":   s.Await,
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			if err := wait(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), srv.Addrs()[0]) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
		created := make(chan error, 1)
		s.Async(0).Create("/early", nil, session.Ephemeral, func(_ string, err error) { created <- err })
		awaited := make(chan error, 1)
		go func() { awaited <- s.Await(t.Context()) }()
		synctest.Wait()
		srv.Refuse(false)
		check.OK(t, <-created)
		check.OK(t, <-awaited)
		if c, ok := (<-events).(session.Connected); !ok || c.Epoch != 1 || c.ID != s.ID() {
			t.Errorf("%v", c)
		}
	})
}

// TestOpenNamesServersAndTroubles: the error names the server, and why it cannot be used.
func TestOpenNamesServersAndTroubles(t *testing.T) {
	inBubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.Dialer = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("it refuses") }
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := session.Open(ctx, srv.Addrs(), opts)
		check.True(t, errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), srv.Addrs()[0]) && strings.Contains(err.Error(), "it refuses"), "no server: %v", err)
	})
}

// TestAwait: it follows the connection through suspension and expiry, and ends with the session.
func TestAwait(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := mustOpen(t, srv.Addrs(), opts)
		events := s.Events(t.Context())
		<-events // Connected
		srv.Refuse(true)
		srv.Disconnect(0)
		<-events // Suspended
		awaited := make(chan error, 1)
		go func() { awaited <- s.Await(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-awaited:
			t.Errorf("while suspended: %v", err)
		default:
		}
		<-events // Expired
		synctest.Wait()
		srv.Refuse(false)
		check.OK(t, <-awaited)
		if c, ok := (<-events).(session.Connected); !ok || c.Epoch != 2 {
			t.Error(c)
		}
		s.Close()
		check.Is(t, s.Await(t.Context()), session.ErrClosed)
	})
}

// TestStartIsClosed: a session that was never connected is closed at once.
func TestStartIsClosed(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		srv.Refuse(true)
		s := check.Have(session.Start(srv.Addrs(), opts))(t)
		events := s.Events(t.Context())
		begun := time.Now()
		s.Close()
		check.Equal(t, time.Since(begun), 0, "Close took")
		check.Equal[session.Event](t, <-events, session.Closed{})
		if ev, ok := <-events; ok {
			t.Error(ev)
		}
	})
}
