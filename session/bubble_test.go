package session_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// inBubble runs f beside a server in memory, in a bubble.
func inBubble(t *testing.T, config zktest.Config, f func(t *testing.T, srv *zktest.Server, opts *session.Options)) {
	t.Helper()
	kit.Run(t, config, func(w kit.World) {
		f(w.T, w.Server, &session.Options{Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: w.DialContext})
	})
}

// withSession runs f beside a server in memory, with a session of 12 s, in a bubble.
func withSession(t *testing.T, f func(t *testing.T, srv *zktest.Server, s *session.Session)) {
	t.Helper()
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		f(t, srv, mustOpen(t, srv.Addrs(), opts))
	})
}

// withSessions is withSession with another session beside it.
func withSessions(t *testing.T, f func(t *testing.T, srv *zktest.Server, s, other *session.Session)) {
	t.Helper()
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		f(t, srv, mustOpen(t, srv.Addrs(), opts), mustOpen(t, srv.Addrs(), opts))
	})
}

// pass lets the bubble's clock go on, which takes no time.
func pass(d time.Duration) { <-time.After(d) }

// TestDeadlineToTheMillisecond freezes a connection, at a time that the bubble's
// clock makes exact, and compares who knows what when.
func TestDeadlineToTheMillisecond(t *testing.T) {
	for name, fault := range map[string]func(*zktest.Server, int64){
		"frozen":                  func(srv *zktest.Server, id int64) { srv.Freeze(id, zktest.Both) },
		"frozen to the server":    func(srv *zktest.Server, id int64) { srv.Freeze(id, zktest.ToServer) },
		"frozen to the client":    func(srv *zktest.Server, id int64) { srv.Freeze(id, zktest.ToClient) },
		"frozen but for events":   func(srv *zktest.Server, id int64) { srv.Freeze(id, zktest.ToClientButEvents) },
		"refused":                 func(srv *zktest.Server, _ int64) { srv.Refuse(true); srv.Disconnect(0) },
		"cut off from the leader": func(srv *zktest.Server, _ int64) { srv.Isolate(1) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second, Replicas: 2}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				var away atomic.Bool
				opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if away.Load() {
						return nil, errors.New("away")
					}
					return srv.DialContext(ctx, network, addr)
				}
				s := mustOpen(t, srv.Addrs()[1:], opts)
				other := mustOpen(t, srv.Addrs()[:1], &session.Options{Timeout: 20 * time.Second, Dialer: srv.DialContext})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				check.Have(s.Create(ctx, "/a", nil, session.Ephemeral))(t)
				defer s.Hold()()
				check.Must(t, other.Sync(ctx, "/"))
				gone := make(chan time.Time, 1)
				other.Async(0).Watch("/a", func(_ []byte, _ *session.Stat, err error) {
					check.OK(t, err)
				}, func(_ []byte, _ *session.Stat, err error) {
					if errors.Is(err, session.ErrNoNode) {
						gone <- time.Now()
					}
				})
				events := s.Events(ctx)
				<-events // Connected
				pass(time.Hour + 1100*time.Millisecond)
				fault(srv, s.ID())
				broken := time.Now()
				await[session.Lapsed](t, events)
				lost := time.Since(broken)
				away.Store(true) // else the session goes on
				srv.Refuse(false)
				released := (<-gone).Sub(broken)
				t.Logf("lost after %v, given away after %v", lost, released)
				check.True(t, lost < released, "lost after %v, and given away after %v", lost, released)
				// T − margin after a heartbeat that two others followed; there is one every T/9.
				const heartbeat = 12 * time.Second / 9
				if longest := 12*time.Second - 250*time.Millisecond - 2*heartbeat; lost > longest || lost < longest-heartbeat {
					t.Errorf("lost after %v, want within %v before %v", lost, heartbeat, longest)
				}
			})
		})
	}
}

func mustOpen(t *testing.T, addrs []string, opts *session.Options) *session.Session {
	t.Helper()
	s := check.Have(session.Open(t.Context(), addrs, opts))(t)
	t.Cleanup(s.Close)
	return s
}

// stands fails the test unless there is a node at the path.
func stands(t *testing.T, s *session.Session, path string) {
	t.Helper()
	stat, err := s.Exists(check.Patient(t), path)
	check.True(t, err == nil && stat != nil, "%s is missing: %v", path, err)
}

// isGone fails the test if there is a node at the path.
func isGone(t *testing.T, s *session.Session, path string) {
	t.Helper()
	stat, err := s.Exists(check.Patient(t), path)
	check.True(t, err == nil && stat == nil, "%s stands: %v", path, err)
}

// blackHole accepts everything and answers nothing.
func blackHole() net.Conn {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }() // until near is closed
	return near
}

// TestSilentServers: servers that accept connections and say nothing cost an eighth of the timeout
// each, at most 1.5 s, and the pause before them: see docs/adr/0056.
func TestSilentServers(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == srv.Addrs()[0] {
				return srv.DialContext(ctx, network, addr)
			}
			return blackHole(), nil
		}
		const each, pauses = 1500 * time.Millisecond, 350 * time.Millisecond
		begun := time.Now()
		s := mustOpen(t, append([]string{"silent-1:1", "silent-2:1"}, srv.Addrs()...), opts)
		check.AtMost(t, time.Since(begun), 2*each+pauses, "two silent servers cost")
		for range 10 {
			pass(3 * time.Second) // and the server has proved to be of use
			suspended := time.Now()
			srv.Disconnect(0)
			check.Have(s.Exists(t.Context(), "/"))(t)
			check.AtMost(t, time.Since(suspended), 2*each+pauses, "a reconnect past two silent servers took")
		}
		if first, ok := s.State().(session.Resumed); !ok {
			t.Errorf("the session was lost: %v", first)
		}
	})
}

// TestOpenIsCancelled at every moment.
func TestOpenIsCancelled(t *testing.T) {
	for after := range 30 {
		inBubble(t, zktest.Config{Tick: time.Second, Latency: 10 * time.Millisecond}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(after)*2*time.Millisecond)
			defer cancel()
			s, err := session.Open(ctx, append([]string{"silent:1"}, srv.Addrs()...), &session.Options{
				Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
					if addr == "silent:1" {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return srv.DialContext(ctx, network, addr)
				},
				Auth: []session.Auth{{Scheme: "digest", Secret: []byte("a:b")}},
			})
			switch {
			case err == nil:
				s.Close()
			case !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("after %d ms: %v", 2*after, err)
			}
		})
	}
}

// TestHangingUp counts how often a server that accepts the session and then hangs up is
// asked.
func TestHangingUp(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second, Replicas: 3}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		var dialled atomic.Int32
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialled.Add(1)
			return srv.DialContext(ctx, network, addr)
		}
		s := mustOpen(t, srv.Addrs(), opts)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for ev := range s.Events(ctx) {
			switch ev.(type) {
			case session.Connected, session.Resumed:
				srv.Disconnect(0)
			case session.Suspended, session.Lapsed, session.Expired, session.Closed:
			}
		}
		check.Within(t, dialled.Load(), 10, 200, "dials in ten seconds")
	})
}

// TestDeadlineInSleep: that a deadline has passed while the machine slept is told within a
// heartbeat, also if no packet arrives.
func TestDeadlineInSleep(t *testing.T) {
	const timeout = 18 * time.Second
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		s := w.OpenGated(session.Options{Timeout: timeout})
		defer s.Hold()()
		events := s.Events(w.Context())
		s.Cut()
		var slept atomic.Int64
		s.Sleep(func() time.Duration { return time.Duration(slept.Load()) })
		pass(time.Second)
		slept.Store(int64(time.Hour))
		s.SetWallClock(time.Hour) // ahead
		woken := time.Now()
		await[session.Lapsed](t, events)
		check.AtMost(w, time.Since(woken), timeout/9, "told after the machine woke, by")
	})
}
