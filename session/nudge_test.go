package session_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A pinging connection counts the pings that are written.
type pinging struct {
	net.Conn
	n *atomic.Int64
}

func (p pinging) Write(b []byte) (int, error) {
	p.n.Add(int64(bytes.Count(b, []byte{0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11})))
	return p.Conn.Write(b)
}

// TestNudge: a server that has forgotten to answer, until the next packet comes, receives one ping
// for each silence, soon. Servers that are slow, and sessions that ask for nothing, receive none.
func TestNudge(t *testing.T) {
	var pings atomic.Int64
	open := func(w kit.World) *session.Session {
		return w.Open(session.Options{Timeout: 20 * time.Second, Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := w.DialContext(ctx, network, address)
			return pinging{conn, &pings}, err
		}})
	}
	nudged := func(ask func()) (took time.Duration, n int64) {
		pings.Store(0)
		began := time.Now()
		ask()
		return time.Since(began), pings.Load()
	}
	t.Run("a forgotten answer", func(t *testing.T) {
		kit.Run(t, zktest.Config{}, func(w kit.World) {
			s := open(w)
			for range 10 {
				w.Stall(zktest.Match{Session: s.ID(), Op: zktest.OpCreate})
				took, n := nudged(func() {
					check.Have(s.Create(w.Context(), "/a", nil, session.EphemeralSequential))(w)
				})
				check.AtMost(w, took, 100*time.Millisecond, "the answer")
				check.Equal(w, n, int64(1), "pings")
			}
		})
	})
	t.Run("a slow server", func(t *testing.T) {
		const slow = 300 * time.Millisecond
		kit.Run(t, zktest.Config{Latency: slow / 2}, func(w kit.World) {
			s := open(w)
			check.Have(s.Exists(w.Context(), "/"))(w) // it has shown how slow it is
			for range 10 {
				took, n := nudged(func() { check.Have(s.Exists(w.Context(), "/"))(w) })
				check.Equal(w, took, slow, "the answer")
				check.Equal(w, n, int64(0), "pings")
			}
		})
	})
	t.Run("a server that works on it for long", func(t *testing.T) {
		kit.Run(t, zktest.Config{}, func(w kit.World) {
			s := open(w)
			w.SwallowReply(zktest.Match{Session: s.ID(), Op: zktest.OpExists})
			_, n := nudged(func() {
				ctx, cancel := context.WithTimeout(w.Context(), time.Second)
				defer cancel()
				_, err := s.Exists(ctx, "/")
				check.Is(w, err, context.DeadlineExceeded)
			})
			check.Equal(w, n, int64(1), "pings")
		})
	})
	t.Run("a silent server", func(t *testing.T) {
		kit.Run(t, zktest.Config{}, func(w kit.World) {
			s := open(w)
			for range 5 {
				w.Freeze(s.ID(), zktest.ToClient)
				_, n := nudged(func() {
					asked := kit.Begin(func() error { _, err := s.Exists(w.Context(), "/"); return err })
					kit.Pass(time.Second)
					w.Thaw(s.ID())
					check.OK(w, <-asked)
				})
				check.Equal(w, n, int64(1), "pings")
			}
		})
	})
}
