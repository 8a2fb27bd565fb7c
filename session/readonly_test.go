package session_test

import (
	"context"
	"encoding/binary"
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
		defer s.Hold()()
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

		// What is held is lost at the deadline, whatever the server answers.
		check.Require(t, conformant[session.Lapsed](<-events), "it has not lapsed")
		check.Equal(t, time.Since(suspended.Deadline), 0, "Lapsed comes after the deadline")
		check.Is(t, <-answered, session.ErrLapsed)
		pass(time.Minute)
		if _, err := s.Exists(ctx, "/"); err != nil || !s.ReadOnly() {
			t.Errorf("after the deadline: %v", err)
		}
		check.None(t, events)

		// A server with a quorum ends all of that.
		tp.strikeWith(strike{})
		srv.Disconnect(0)
		check.Require(t, conformant[session.Resumed](<-events) && !s.ReadOnly(), "%v", s)
		check.Have(s.Set(ctx, "/held", nil, session.AnyVersion))(t)
	})
}

// TestReadOnlyStranger: a server without a quorum that does not know the session, or has seen less
// than the session, serves its reads behind the deadline, by a session of the connection. When it
// has a quorum again, the session is taken up, and no other is left.
func TestReadOnlyStranger(t *testing.T) {
	const at = 8 // the place of the session
	for name, refuse := range map[string]func(frame []byte) []byte{
		"does not know it": func(frame []byte) []byte { clear(frame[at : at+8]); return readOnly(frame) },
		"has seen less":    func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
				opts.ReadOnly, opts.Timeout = true, 6*time.Second
				s := mustOpen(t, srv.Addrs(), opts)
				defer s.Close()
				check.Have(s.Create(t.Context(), "/held", []byte("x"), session.Ephemeral))(t)
				id := s.ID()
				tp.strikeWith(strike{always: true, greeting: func(frame []byte) []byte {
					if int64(binary.BigEndian.Uint64(frame[at:])) == id {
						return refuse(frame)
					}
					return readOnly(frame)
				}})
				srv.Disconnect(0)
				check.Reads(s.Get(t.Context(), "/held"))(t, "x")
				check.True(t, s.ReadOnly() && s.ID() == id, "%v", s)
				tp.strikeWith(strike{})
				srv.Disconnect(0)
				synctest.Wait()
				check.Have(s.Set(t.Context(), "/held", nil, session.AnyVersion))(t)
				pass(time.Minute)
				check.True(t, !s.ReadOnly() && s.ID() == id, "%v", s)
				check.EqualSlices(t, srv.Sessions(), []int64{id})
			})
		})
	}
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
