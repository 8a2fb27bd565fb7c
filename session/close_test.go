package session_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestCloseIsNotMissed closes sessions while others do what the session's loop would.
func TestCloseIsNotMissed(t *testing.T) {
	for range hasten.Sized(hasten.Usually(200, 80), 30) {
		withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for !errors.Is(exists(t, s), session.ErrClosed) {
						continue
					}
				})
			}
			begun := time.Now()
			s.Close()
			check.AtMost(t, time.Since(begun), time.Second, "Close took")
			wg.Wait()
		})
	}
}

func exists(t *testing.T, s *session.Session) error {
	_, err := s.Exists(t.Context(), "/")
	return err
}

// TestCloseWhileDisconnected: the server is told as soon as it can be.
func TestCloseWhileDisconnected(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		check.Have(s.Create(t.Context(), "/a", nil, session.Ephemeral))(t)
		srv.Disconnect(0)
		s.Close()
		check.Len(t, srv.Sessions(), 0, "the server still knows sessions")
	})
}

// TestDeadlineEndsClose: when the deadline passes, the server need not be told any more.
func TestDeadlineEndsClose(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.CloseTimeout = time.Hour
		s := mustOpen(t, srv.Addrs(), opts)
		s.Subscribe(func(session.Event) <-chan struct{} { return make(chan struct{}) }) // it never settles
		srv.Freeze(0, zktest.Both)
		begun := time.Now()
		s.Close()
		check.AtMost(t, time.Since(begun), opts.Timeout, "Close took")
		srv.Thaw(0)
	})
}

// TestCloseInEveryState closes sessions that are in trouble. The bubble shows that no
// goroutine is left, and its clock how long it took.
func TestCloseInEveryState(t *testing.T) {
	for name, trouble := range map[string]func(*zktest.Server, *session.Session){
		"connected":        func(*zktest.Server, *session.Session) {},
		"just cut":         func(srv *zktest.Server, _ *session.Session) { srv.Disconnect(0) },
		"suspended":        func(srv *zktest.Server, _ *session.Session) { srv.Refuse(true); srv.Disconnect(0); synctest.Wait() },
		"frozen":           func(srv *zktest.Server, _ *session.Session) { srv.Freeze(0, zktest.Both) },
		"half frozen":      func(srv *zktest.Server, _ *session.Session) { srv.Freeze(0, zktest.ToClient) },
		"expired":          func(srv *zktest.Server, s *session.Session) { srv.Expire(s.ID()) },
		"expired, refused": func(srv *zktest.Server, s *session.Session) { srv.Refuse(true); srv.Expire(s.ID()); pass(time.Minute) },
		"in the handshake": func(srv *zktest.Server, _ *session.Session) {
			srv.Freeze(0, zktest.Both)
			srv.Disconnect(0)
			pass(time.Second)
		},
		"after an hour off": func(srv *zktest.Server, _ *session.Session) { srv.Freeze(0, zktest.Both); pass(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
				events := s.Events(context.Background())
				s.Events(context.Background()) // that nobody reads
				for i := range 20 {
					s.Async(0).Create(fmt.Sprintf("/%d", i), nil, session.Ephemeral, func(string, error) {})
				}
				trouble(srv, s)
				failed := make(chan error, 20)
				for i := range 20 {
					s.Async(0).Create(fmt.Sprintf("/late-%d", i), nil, session.Ephemeral, func(_ string, err error) { failed <- err })
				}
				begun := time.Now()
				for range 3 {
					go s.Close()
				}
				s.Close()
				check.AtMost(t, time.Since(begun), 2*time.Second, "Close took")
				for range 20 { // each is answered
					err := <-failed
					check.True(t, err == nil || errors.Is(err, session.ErrClosed) || errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrUnknownOutcome), "%v", err)
				}
				var last session.Event
				for ev := range events {
					last = ev
				}
				check.Equal[session.Event](t, last, session.Closed{}, "the last event is")
				if ev, ok := <-s.Events(context.Background()); !ok || ev != (session.Closed{}) {
					t.Errorf("a late subscriber gets %v, %v", ev, ok)
				}
				srv.Thaw(0)
				srv.Refuse(false)
			})
		})
	}
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
