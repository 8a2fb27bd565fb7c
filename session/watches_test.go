package session_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRemadeNodesAreGone: a node that was deleted, and made again before the session looked,
// is told as gone to those who watch it until then.
func TestRemadeNodesAreGone(t *testing.T) {
	for name, remake := range map[string]func(t *testing.T, srv *zktest.Server, s, other *session.Session){
		"while suspended": func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
			srv.Refuse(true)
			srv.Disconnect(s.ID())
			synctest.Wait()
			if err := other.Delete(t.Context(), "/me", session.AnyVersion); err != nil {
				t.Fatal(err)
			}
			if _, err := other.Create(t.Context(), "/me", []byte("another"), session.Ephemeral); err != nil {
				t.Fatal(err)
			}
			srv.Refuse(false)
		},
		"in one transaction": func(t *testing.T, _ *zktest.Server, _, other *session.Session) {
			if _, err := other.Multi(t.Context(), session.SetOp("/me", nil, session.AnyVersion),
				session.DeleteOp("/me", session.AnyVersion), session.CreateOp("/me", []byte("another"), session.Ephemeral)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				s := mustOpen(t, srv.Addrs(), opts)
				defer s.Close()
				other := mustOpen(t, srv.Addrs(), opts)
				defer other.Close()
				if _, err := s.Create(t.Context(), "/me", []byte("mine"), session.Ephemeral); err != nil {
					t.Fatal(err)
				}
				var told []string
				read := make(chan struct{})
				s.Async(0).Watch("/me", func([]byte, *session.Stat, error) { close(read) }, func(data []byte, _ *session.Stat, err error) {
					if errors.Is(err, session.ErrNoNode) {
						data = []byte("gone")
					}
					told = append(told, string(data))
				})
				<-read
				remake(t, srv, s, other)
				if err := exists(t, s); err != nil {
					t.Fatal(err)
				}
				pass(time.Minute)
				if len(told) == 0 || told[len(told)-1] != "gone" {
					t.Errorf("told %q", told)
				}
			})
		})
	}
}
