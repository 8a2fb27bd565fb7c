package session_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// readOnly forges the handshake of a server that has lost its quorum.
func readOnly(frame []byte) []byte {
	const withoutFlag = 36
	return append(frame[:withoutFlag:withoutFlag], 1)
}

// TestReadOnly: a read-only server answers the blocking reads of the session. For everything else
// there is no connection: writes are refused, Async requests wait, the lease ends in time, and no
// event tells of a connection.
func TestReadOnly(t *testing.T) {
	tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
		ctx := t.Context()
		opts.ReadOnly = true
		s := mustOpen(t, srv.Addrs(), opts)
		check.Have(s.Create(ctx, "/held", []byte("x"), session.Ephemeral))(t)
		defer s.Rely()()
		events := s.Events(ctx)
		<-events // Connected

		tp.strikeWith(strike{greeting: readOnly, always: true})
		srv.Disconnect(0)
		suspended := (<-events).(session.Suspended)
		answered := make(chan error, 1)
		s.Async(1).Exists("/held", func(_ *session.Stat, err error) { answered <- err })
		check.Reads(s.Get(ctx, "/held"))(t, "x")
		check.True(t, s.ReadOnly(), "the session is not read-only")
		check.OK(t, s.Await(ctx))
		srv.ResetRequests()
		for name, call := range map[string]func() error{
			"set":        func() error { _, err := s.Set(ctx, "/held", nil, session.AnyVersion); return err },
			"create":     func() error { _, err := s.Create(ctx, "/b", nil, session.Persistent); return err },
			"sequential": func() error { _, err := s.Create(ctx, "/b-", nil, session.EphemeralSequential); return err },
			"delete":     func() error { return s.Delete(ctx, "/held", session.AnyVersion) },
			"multi":      func() error { _, err := s.Multi(ctx, session.CheckOp("/", session.AnyVersion)); return err },
			"ensure":     func() error { return s.EnsurePath(ctx, "/b") },
			"sync":       func() error { return s.Sync(ctx, "/") },
			"ACL":        func() error { _, err := s.SetACL(ctx, "/held", session.WorldAll(), session.AnyVersion); return err },
		} {
			if err := call(); !errors.Is(err, session.ErrReadOnly) || errors.Is(err, session.ErrUnknownOutcome) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, call := range map[string]func() error{
			"exists":   func() error { _, err := s.Exists(ctx, "/held"); return err },
			"children": func() error { _, _, err := s.Children(ctx, "/"); return err },
			"ACL":      func() error { _, _, err := s.GetACL(ctx, "/"); return err },
		} {
			check.OK(t, call(), name)
		}
		check.Equal(t, srv.Proposals(), 0, "proposals")
		check.None(t, answered, "an Async request was answered")

		// The session is lost at its deadline, whatever the server answers.
		check.Equal[session.Event](t, <-events, session.Expired{ID: s.ID(), Epoch: 1})
		check.Equal(t, time.Since(suspended.Deadline), 0, "Expired comes after the deadline")
		check.Is(t, <-answered, session.ErrExpired)
		pass(time.Minute)
		if _, err := s.Exists(ctx, "/"); err != nil || !s.ReadOnly() {
			t.Errorf("in the next epoch: %v", err)
		}
		check.None(t, events)

		// A server with a quorum ends all of that.
		tp.strikeWith(strike{})
		srv.Disconnect(0)
		if c, ok := (<-events).(session.Connected); !ok || c.Epoch != 2 || s.ReadOnly() {
			t.Errorf("%v", c)
		}
		check.Have(s.Create(ctx, "/held", nil, session.Ephemeral))(t)
		if stat, err := s.Exists(ctx, "/held"); err != nil || stat.EphemeralOwner != s.ID() {
			t.Errorf("%v, %v", stat, err)
		}
	})
}

// TestReadOnlyIsAChoice: without the option, a server that has no quorum is no server.
func TestReadOnlyIsAChoice(t *testing.T) {
	tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
		opts.ReadOnly = true
		tp.strikeWith(strike{greeting: readOnly, always: true})
		s := mustOpen(t, srv.Addrs(), opts) // a read-only server suffices
		defer s.Close()
		check.True(t, s.State() == nil && s.ID() == 0 && s.ReadOnly(), "%v, %#x", s.State(), s.ID())
		opts.ReadOnly = false
		plain := check.Have(session.Start(srv.Addrs(), opts))(t)
		defer plain.Close()
		pass(time.Minute)
		synctest.Wait()
		check.True(t, plain.State() == nil && !plain.ReadOnly(), "%v", plain)
	})
}

// TestReadOnlyAndSlow: long replies of a read-only server are no reason to warn, as it bears no
// lease.
func TestReadOnlyAndSlow(t *testing.T) {
	tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
		const size = 1 << 20
		check.Have(mustOpen(t, srv.Addrs(), opts).Create(t.Context(), "/long", make([]byte, size-1000), session.Persistent))(t)
		var way line
		opts.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := tp.dialContext(ctx, network, address)
			return narrow{conn, &way.down, &way.up}, err
		}
		opts.ReadOnly, opts.Timeout = true, 12*time.Second
		tp.strikeWith(strike{greeting: readOnly, always: true})
		s := mustOpen(t, srv.Addrs(), opts)
		defer s.Rely()()
		way.down.Store(size * 10 / 48)
		for range 4 {
			_, _, err := s.Get(t.Context(), "/long")
			check.OK(t, err)
		}
		check.True(t, s.ReadOnly(), "the session is not read-only")
		way.down.Store(0)
	})
}
