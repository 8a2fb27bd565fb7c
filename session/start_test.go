package session_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
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
		check.None(t, events)
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
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		events := s.Events(t.Context())
		<-events // Connected
		srv.Refuse(true)
		srv.Expire(s.ID())
		<-events // Suspended
		awaited := make(chan error, 1)
		go func() { awaited <- s.Await(t.Context()) }()
		synctest.Wait()
		check.None(t, awaited, "while suspended")
		srv.Refuse(false)
		check.OK(t, <-awaited)
		<-events // Expired
		if c, ok := (<-events).(session.Connected); !ok || c.Epoch != 2 {
			t.Error(c)
		}
		s.Close()
		check.Is(t, s.Await(t.Context()), session.ErrClosed)
	})
}

// A lateConn delivers what it reads first in the moment in which it is closed.
type lateConn struct {
	net.Conn
	late   atomic.Bool
	once   sync.Once
	closed chan struct{}
}

func (c *lateConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.late.CompareAndSwap(true, false) {
		<-c.closed
	}
	return n, err
}

func (c *lateConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// TestLateHandshake: an answer to the connect request that comes when the connection has
// been given up is nothing but late.
func TestLateHandshake(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		var late atomic.Int32 // how many of the next connections are
		late.Store(1)
		opts.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := srv.DialContext(ctx, network, address)
			c := &lateConn{Conn: conn, closed: make(chan struct{})}
			c.late.Store(late.Add(-1) >= 0)
			return c, err
		}
		s := mustOpen(t, srv.Addrs(), opts)
		id := s.ID()
		late.Store(1)
		srv.Disconnect(id)
		check.OK(t, s.Sync(t.Context(), "/"), "after a reconnect")
		check.Equal(t, s.ID(), id, "the session")
	})
}

type localKey struct{}

// TestLocal: what is kept for a session is made once, and not shared with another.
func TestLocal(t *testing.T) {
	inBubble(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		a, b := mustOpen(t, srv.Addrs(), opts), mustOpen(t, srv.Addrs(), opts)
		create := func() any { return new(int) }
		first := a.Local(localKey{}, create)
		check.True(t, a.Local(localKey{}, create) == first && b.Local(localKey{}, create) != first, "not one for each session")
	})
}

// TestTickWithoutLease: servers that grant so short a timeout that no lease can be proven are not
// used, and the reason names the option.
func TestTickWithoutLease(t *testing.T) {
	inBubble(t, zktest.Config{Tick: 100 * time.Millisecond}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.Timeout, opts.ServerTick = 12*time.Second, 3*time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := session.Open(ctx, srv.Addrs(), opts) // 20 ticks are granted
		check.True(t, err != nil && strings.Contains(err.Error(), "a session timeout of 2s, in which no lease can be proven with Options.ServerTick 3s"), "%v", err)
	})
}
