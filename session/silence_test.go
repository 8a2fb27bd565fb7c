package session_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A narrow connection takes its time for each byte that comes, or goes.
type narrow struct {
	net.Conn
	down, up *atomic.Int64 // bytes a second; 0: as many as there are
}

func (n narrow) Read(p []byte) (int, error) {
	rate := int(n.down.Load())
	if rate > 0 {
		p = p[:min(len(p), max(rate/100, 1))]
	}
	read, err := n.Conn.Read(p)
	if rate > 0 {
		<-time.After(time.Duration(read) * time.Second / time.Duration(rate))
	}
	return read, err
}

func (n narrow) Write(p []byte) (int, error) {
	rate := int(n.up.Load())
	if rate == 0 {
		return n.Conn.Write(p)
	}
	done := 0
	for done < len(p) {
		wrote, err := n.Conn.Write(p[done:min(len(p), done+max(rate/100, 1))])
		if done += wrote; err != nil {
			return done, err
		}
		<-time.After(time.Duration(wrote) * time.Second / time.Duration(rate))
	}
	return done, nil
}

// A line is the way of a session to its server, which can be made narrow.
type line struct{ down, up atomic.Int64 }

func (l *line) dialer(srv *zktest.Server) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := srv.DialContext(ctx, network, address)
		return narrow{conn, &l.down, &l.up}, err
	}
}

// lives counts the changes in the life of a session.
type lives struct{ suspended, expired atomic.Int32 }

func livesOf(s *session.Session) *lives {
	l := new(lives)
	s.Subscribe(func(ev session.Event) <-chan struct{} {
		switch ev.(type) {
		case session.Suspended:
			l.suspended.Add(1)
		case session.Expired:
			l.expired.Add(1)
		case session.Connected, session.Resumed, session.Closed:
		}
		return nil
	})
	return l
}

// undisturbed fails the test if a session was suspended or lost.
func (l *lives) undisturbed(t *testing.T) {
	t.Helper()
	if suspended, expired := l.suspended.Load(), l.expired.Load(); suspended+expired > 0 {
		t.Errorf("suspended %d times, expired %d times, though bytes came all the time", suspended, expired)
	}
}

// TestLoadIsNotSilence: a server that answers all the time is kept, however long one answer takes,
// and no request fails. The session has the default timeout of 10 s, and something relies on it.
func TestLoadIsNotSilence(t *testing.T) {
	minutes := hasten.Sized(hasten.Usually(2*time.Minute, 40*time.Second), 10*time.Second)
	for _, tt := range []struct {
		name     string
		nodes    int
		size     int // of a node
		down, up int64
		lasts    time.Duration
		write    bool
	}{
		{"a reply of 1 MiB", 1, 1<<20 - 1000, 400 << 10, 0, 0, false},
		{"replies of 1 MiB, one after the other", 1, 1<<20 - 1000, 500 << 10, 0, 2 * minutes, false},
		{"a request of 1 MiB", 1, 1<<20 - 1000, 0, 400 << 10, 0, true},
		{"many long replies", 64, 512 << 10, 8 << 20, 0, 0, false},
		{"long replies for minutes", 64, 512 << 10, 8 << 20, 0, minutes, false},
		{"many requests to a slow server", 600, 1, 200 * 88, 0, 0, true},
		{"512 callers with 8 KiB each", 512, 8 << 10, 0, 2 << 20, minutes / 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: 2 * time.Second, MaxOwed: 1 << 30}, func(t *testing.T, srv *zktest.Server, _ *session.Options) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				first := mustOpen(t, srv.Addrs(), &session.Options{Dialer: srv.DialContext})
				data := make([]byte, tt.size)
				for i := range tt.nodes {
					check.Have(first.Create(ctx, fmt.Sprintf("/%d", i), data, session.Persistent))(t)
				}
				var way line
				s := mustOpen(t, srv.Addrs(), &session.Options{Dialer: way.dialer(srv)})
				defer s.Rely()()
				life := livesOf(s)
				way.down.Store(tt.down)
				way.up.Store(tt.up)
				end := time.Now().Add(tt.lasts)
				var callers sync.WaitGroup
				for i := range tt.nodes {
					path := fmt.Sprintf("/%d", i)
					callers.Go(func() {
						for again := true; again; again = time.Now().Before(end) {
							var err error
							if tt.write {
								_, err = s.Set(ctx, path, data, session.AnyVersion)
							} else {
								_, _, err = s.Get(ctx, path)
							}
							check.OK(t, err)
						}
					})
				}
				callers.Wait()
				life.undisturbed(t)
			})
		})
	}
}

// TestWaitsForTheWindow: what waits for room in the window fails by its own context only, and as
// what was never sent. A connection that breaks meanwhile fails what is in flight, and no more.
func TestWaitsForTheWindow(t *testing.T) {
	const callers, size, rate = 400, 8 << 10, 200 << 10
	inBubble(t, zktest.Config{Tick: 2 * time.Second, MaxOwed: 1 << 30}, func(t *testing.T, srv *zktest.Server, _ *session.Options) {
		var way line
		s := mustOpen(t, srv.Addrs(), &session.Options{Dialer: way.dialer(srv)})
		check.Have(s.Create(t.Context(), "/a", nil, session.Persistent))(t)
		way.up.Store(rate)
		var failed atomic.Int32
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				if _, err := s.Set(t.Context(), "/a", make([]byte, size), session.AnyVersion); err != nil {
					check.Is(t, err, session.ErrUnknownOutcome)
					failed.Add(1)
				}
			})
		}
		pass(time.Second)
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Set(soon, "/a", nil, session.AnyVersion)
		check.True(t, errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, session.ErrUnknownOutcome), "%v", err)
		srv.Disconnect(s.ID())
		all.Wait()
		const inFlight = 1 << 18 / size // at first
		if n := failed.Load(); n == 0 || n > inFlight {
			t.Errorf("%d of %d fail, want those in flight, which are up to %d", n, callers, inFlight)
		}
	})
}

// TestRepliesOverTheLimit: replies that are dropped take the time of others, and end no connection.
func TestRepliesOverTheLimit(t *testing.T) {
	inBubble(t, zktest.Config{Tick: 2 * time.Second, MaxOwed: 1 << 30}, func(t *testing.T, srv *zktest.Server, _ *session.Options) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		first := mustOpen(t, srv.Addrs(), &session.Options{Dialer: srv.DialContext})
		check.Have(first.Create(ctx, "/large", make([]byte, 1<<20-1000), session.Persistent))(t)
		var way line
		s := mustOpen(t, srv.Addrs(), &session.Options{Dialer: way.dialer(srv), MaxReply: 64 << 10})
		defer s.Rely()()
		life := livesOf(s)
		way.down.Store(3 << 20)
		end := time.Now().Add(hasten.Sized(hasten.Usually(2*time.Minute, 40*time.Second), 10*time.Second))
		var callers sync.WaitGroup
		for range 64 {
			callers.Go(func() {
				for time.Now().Before(end) {
					_, _, err := s.Get(ctx, "/large")
					check.Is(t, err, session.ErrTooLarge)
				}
			})
		}
		callers.Wait()
		life.undisturbed(t)
	})
}

// TestManyWatchesOverASlowUplink sets many watches again, which takes longer than the timeout.
func TestManyWatchesOverASlowUplink(t *testing.T) {
	watches := hasten.Usually(20_000, 8_000)
	rate := int64(15 * watches / 2) // bytes a second: it takes longer than the timeout
	inBubble(t, zktest.Config{Tick: 2 * time.Second}, func(t *testing.T, srv *zktest.Server, _ *session.Options) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var way line
		s := mustOpen(t, srv.Addrs(), &session.Options{Dialer: way.dialer(srv)})
		defer s.Rely()()
		var planted sync.WaitGroup
		changed := make(chan struct{}, 1)
		for i := range watches {
			path := fmt.Sprintf("/%064d-%d", 0, i)
			planted.Add(2)
			s.Async(0).Create(path, nil, session.Persistent, func(string, error) { planted.Done() })
			s.Async(0).Watch(path, func([]byte, *session.Stat, error) { planted.Done() }, func(_ []byte, _ *session.Stat, err error) {
				if err == nil {
					changed <- struct{}{}
				}
			})
		}
		planted.Wait()
		life := livesOf(s)
		way.up.Store(rate)
		srv.Disconnect(0)
		_, err := s.Exists(ctx, "/") // when the watches stand again
		check.OK(t, err)
		check.Equal(t, life.expired.Load(), 0, "losses of the session in the attempt to set its watches again")
		other := mustOpen(t, srv.Addrs(), &session.Options{Dialer: srv.DialContext})
		check.Have(other.Set(ctx, fmt.Sprintf("/%064d-%d", 0, watches-1), nil, session.AnyVersion))(t)
		<-changed
	})
}

// TestEventsAreNoAnswers: a server that passes events on, and answers nothing, is left for another
// one while there is time.
func TestEventsAreNoAnswers(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second, Replicas: 2}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		const nodes = 100
		other := mustOpen(t, srv.Addrs()[:1], &session.Options{Dialer: srv.DialContext})
		s := mustOpen(t, srv.Addrs(), opts)
		defer s.Rely()()
		var planted sync.WaitGroup
		for i := range nodes {
			path := fmt.Sprintf("/%d", i)
			check.Have(other.Create(ctx, path, nil, session.Persistent))(t)
			planted.Add(1)
			s.Async(0).Watch(path, func([]byte, *session.Stat, error) { planted.Done() }, func([]byte, *session.Stat, error) {})
		}
		planted.Wait()
		events := s.Events(ctx)
		<-events // Connected
		srv.Freeze(s.ID(), zktest.ToClientButEvents)
		var writer sync.WaitGroup
		writer.Go(func() {
			for i := range nodes {
				check.Have(other.Set(ctx, fmt.Sprintf("/%d", i), nil, session.AnyVersion))(t)
				pass(200 * time.Millisecond)
			}
		})
		ev := <-events
		if _, suspended := ev.(session.Suspended); !suspended {
			t.Errorf("the first event is %v", ev)
		}
		srv.Thaw(s.ID()) // as the next server answers
		ev = <-events
		if _, resumed := ev.(session.Resumed); !resumed {
			t.Errorf("after Suspended: %v", ev)
		}
		writer.Wait()
	})
}

// A hesitant connection takes its time for the first bytes that come.
type hesitant struct {
	net.Conn
	first time.Duration
	begun atomic.Bool
}

func (h *hesitant) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if !h.begun.Swap(true) {
		pass(h.first)
	}
	return n, err
}

// TestSlowOnce: a server that was slow, and then falls silent, is left while there is time for two
// others, of which the first is as silent.
func TestSlowOnce(t *testing.T) {
	const timeout = 10 * time.Second
	for _, tt := range []struct {
		name      string
		handshake time.Duration
		stalls    []time.Duration
		deaf      bool // the next server does not even take the connection
	}{
		{"fast, then silence", 0, nil, false},
		{"fast, then nobody there", 0, nil, true},
		{"answers", 0, []time.Duration{2 * time.Second, 2500 * time.Millisecond}, false},
		{"handshake, then silence", 1500 * time.Millisecond, nil, false},
		{"handshake, then nobody there", 1500 * time.Millisecond, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, _ *session.Options) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var past atomic.Int32 // dials since the silence
				past.Store(-100)
				s := mustOpen(t, srv.Addrs(), &session.Options{Timeout: timeout, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
					switch n := past.Add(1); {
					case n == 1 && tt.deaf:
						<-ctx.Done()
						return nil, ctx.Err()
					case n == 1:
						return blackHole(), nil
					case n > 1:
						return srv.DialContext(ctx, network, addr)
					}
					conn, err := srv.DialContext(ctx, network, addr)
					return &hesitant{Conn: conn, first: tt.handshake}, err
				}})
				defer s.Rely()()
				events := s.Events(ctx)
				<-events // Connected
				pass(20 * time.Second)
				for _, stall := range tt.stalls {
					srv.Freeze(s.ID(), zktest.ToClient)
					pass(stall)
					srv.Thaw(s.ID())
					pass(500 * time.Millisecond)
				}
				past.Store(0)
				srv.Freeze(s.ID(), zktest.Both)
				_, suspended := (<-events).(session.Suspended)
				srv.Thaw(s.ID()) // as the next server answers
				_, resumed := (<-events).(session.Resumed)
				check.EqualSlices(t, []bool{suspended, resumed}, slices.Repeat([]bool{true}, 2), "suspended, resumed")
			})
		})
	}
}
