package session_test

import (
	"context"
	"errors"
	"fmt"
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

// spread returns how many of the sessions each server has.
func spread(srv *zktest.Server, all []*session.Session) []int {
	counts := make([]int, len(srv.Addrs()))
	for _, s := range all {
		if i, ok := srv.Serving(s.ID()); ok {
			counts[i]++
		}
	}
	return counts
}

// TestSetServers: 300 sessions follow changes of the list. They stay evenly spread, none
// expires, none moves without need, and nothing that was asked meanwhile fails.
func TestSetServers(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second, Replicas: 3}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		const n = 300
		opts.Timeout = 30 * time.Second
		addrs := srv.Addrs()
		var moves atomic.Int64
		all := make([]*session.Session, n)
		for i := range all {
			all[i] = mustOpen(t, addrs[i%2:i%2+1], opts)
			defer all[i].Close()
			if err := all[i].SetServers(addrs[:2]); err != nil { // no session moves
				t.Fatal(err)
			}
			check.Have(all[i].Create(t.Context(), fmt.Sprintf("/n%d", i), nil, session.Ephemeral))(t)
			all[i].Subscribe(func(ev session.Event) <-chan struct{} {
				switch ev := ev.(type) {
				case session.Suspended:
					moves.Add(1)
				case session.Expired:
					t.Errorf("session %d: %v", i, ev)
				case session.Connected, session.Resumed, session.Closed:
				}
				return nil
			})
		}
		synctest.Wait()
		moves.Store(0)
		change := func(list []string, least, most int64, want ...int) {
			t.Helper()
			var asked sync.WaitGroup
			for i, s := range all {
				for range 5 {
					s.Async(0).Set(fmt.Sprintf("/n%d", i), []byte("x"), session.AnyVersion, func(_ *session.Stat, err error) {
						check.OK(t, err, "session", i)
					})
				}
				asked.Go(func() {
					check.OK(t, s.SetServers(list))
					if _, err := s.Set(t.Context(), fmt.Sprintf("/n%d", i), []byte("y"), session.AnyVersion); err != nil {
						t.Errorf("session %d: %v", i, err)
					}
				})
			}
			asked.Wait()
			pass(time.Second)
			check.Within(t, moves.Swap(0), least, most, "of", n, "move, want to")
			for i, got := range spread(srv, all) {
				if got < want[i]-45 || got > want[i]+45 || want[i] == 0 && got > 0 { // five standard deviations
					t.Errorf("server %d has %d sessions, want about %d", i, got, want[i])
				}
			}
		}
		change(addrs, 55, 145, 100, 100, 100) // grows
		change([]string{addrs[2], addrs[1], addrs[0]}, 0, 0, 100, 100, 100)
		change(addrs[1:], 55, 145, 0, 150, 150)  // shrinks
		change(addrs[:2], 105, 195, 150, 150, 0) // one goes, one comes
		change(addrs[2:], n, n, 0, 0, 300)
		for i, s := range all {
			if c, ok := s.State().(session.Resumed); ok && c.Server != addrs[2] {
				t.Errorf("session %d: %v", i, c)
			}
		}
	})
}

// TestSetServersDrains: a session that moves waits for the answers to what it has sent. It gives
// up waiting when the server is silent.
func TestSetServersDrains(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second, Replicas: 2}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		addrs := srv.Addrs()
		s := mustOpen(t, addrs[:1], opts)
		sibling := check.Have(s.Sibling())(t)
		check.Must(t, sibling.Await(t.Context()))
		srv.Delay(zktest.Match{Op: zktest.OpSetData, Path: "/"}, time.Second)
		begun := time.Now()
		slow := make(chan error, 1)
		s.Async(0).Set("/", nil, session.AnyVersion, func(_ *session.Stat, err error) { slow <- err })
		synctest.Wait()
		check.Must(t, s.SetServers(addrs[1:]))
		if _, err := s.Exists(t.Context(), "/"); err != nil { // goes to the next server
			t.Fatal(err)
		}
		select {
		case err := <-slow:
			check.True(t, err == nil && time.Since(begun) >= time.Second, "%v after %v", err, time.Since(begun))
		default:
			t.Error("the session has moved before the answer")
		}
		for name, s := range map[string]*session.Session{"session": s, "sibling": sibling} {
			if i, ok := srv.Serving(s.ID()); !ok || i != 1 {
				t.Errorf("the %s is served by %d", name, i)
			}
		}
		srv.Freeze(s.ID(), zktest.Both)
		s.Async(0).Exists("/", func(*session.Stat, error) {})
		synctest.Wait()
		check.Must(t, s.SetServers(addrs[:1]))
		pass(5 * time.Second) // the silence is noticed
		srv.Thaw(s.ID())
		check.Must(t, s.Await(t.Context()))
		if c, ok := s.State().(session.Resumed); !ok || c.Server != addrs[0] {
			t.Errorf("%v", s.State())
		}
	})
}

// TestSetServersOnASlowServer: a session moves, though there is a heartbeat without an answer all
// the time.
func TestSetServersOnASlowServer(t *testing.T) {
	const trip = 1400 * time.Millisecond // longer than the time between heartbeats
	inBubble(t, zktest.Config{Tick: time.Second, Replicas: 2, Latency: trip / 2}, func(t *testing.T, srv *zktest.Server, _ *session.Options) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := mustOpen(t, srv.Addrs()[:1], &session.Options{Timeout: 10 * time.Second, Dialer: srv.DialContext})
		life := livesOf(s)
		pass(20 * time.Second)
		check.Must(t, s.SetServers(srv.Addrs()[1:]))
		check.Have(s.Exists(ctx, "/"))(t)
		check.Equal(t, life.expired.Load(), 0, "losses of the session")
	})
}

// TestSetServersWhileDown: a session without a connection tries the new list at once.
func TestSetServersWhileDown(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := check.Have(session.Start([]string{"gone.example:2181"}, opts))(t)
		defer s.Close()
		pass(time.Minute)
		check.Is(t, s.SetServers(nil), session.ErrInvalidArgument)
		check.Must(t, s.SetServers(srv.Addrs()))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		check.Must(t, s.Await(ctx))
		s.Close()
		check.Is(t, s.SetServers(srv.Addrs()), session.ErrClosed)
	})
}

// TestResolve: the list comes from a function, which may fail, and the session follows it.
func TestResolve(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second, Replicas: 2}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		var mu sync.Mutex
		var list []string
		why := errors.New("no such zone")
		set := func(servers []string, err error) {
			mu.Lock()
			defer mu.Unlock()
			list, why = servers, err
		}
		opts.Resolve = func(context.Context) ([]string, error) {
			mu.Lock()
			defer mu.Unlock()
			return list, why
		}
		opts.ResolveEvery = time.Minute
		s := check.Have(session.Start(nil, opts))(t)
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := s.Await(ctx); err == nil || !strings.Contains(err.Error(), "no such zone") {
			t.Error(err)
		}
		set([]string{"bad"}, nil)
		pass(2 * time.Second)
		set(srv.Addrs()[:1], nil)
		check.Must(t, s.Await(t.Context()))
		set(nil, why) // the last list remains
		pass(time.Hour)
		if i, ok := srv.Serving(s.ID()); !ok || i != 0 {
			t.Errorf("served by %d", i)
		}
		set(srv.Addrs()[1:], nil)
		pass(time.Minute + time.Second)
		if i, ok := srv.Serving(s.ID()); !ok || i != 1 {
			t.Errorf("served by %d", i)
		}
		for _, ev := range []session.Event{s.State()} {
			if _, ok := ev.(session.Resumed); !ok {
				t.Error(ev)
			}
		}
	})
}

// TestResolveBlocks: Close ends a resolution that does not return by itself.
func TestResolveBlocks(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, _ *zktest.Server, opts *session.Options) {
		opts.Resolve = func(ctx context.Context) ([]string, error) { <-ctx.Done(); return nil, ctx.Err() }
		s := check.Have(session.Start(nil, opts))(t)
		begun := time.Now()
		s.Close()
		check.Equal(t, time.Since(begun), 0, "Close took")
	})
}
