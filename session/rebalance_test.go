package session_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRebalance: a server that was down gets its sessions back, one after the other, and without a
// loss. Sessions that are where they belong stay.
func TestRebalance(t *testing.T) {
	chosen := hasten.OneIn(2, 3)
	for _, tt := range []struct {
		name      string
		rebalance time.Duration
		returns   bool
	}{
		{"by default", 0, true},
		{"in a minute", time.Minute, true},
		{"never", -1, false},
	} {
		if !chosen() {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second, Replicas: 3}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				const n = 60
				var down, dials, moves, atOnce, most atomic.Int64
				third := srv.Addrs()[2]
				opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if dials.Add(1); addr == third && down.Load() != 0 {
						return nil, errors.New("refused")
					}
					return srv.DialContext(ctx, network, addr)
				}
				opts.Rebalance, opts.Lease = tt.rebalance, session.LeaseCommitted
				all := make([]*session.Session, n)
				for i := range all {
					all[i] = mustOpen(t, srv.Addrs(), opts)
					t.Cleanup(all[i].Rely())
					all[i].Subscribe(func(ev session.Event) <-chan struct{} {
						switch ev.(type) {
						case session.Suspended:
							moves.Add(1)
							most.Store(max(most.Load(), atOnce.Add(1)))
						case session.Resumed:
							atOnce.Add(-1)
						case session.Expired:
							t.Errorf("session %d: %v", i, ev)
						case session.Connected, session.Closed:
						}
						return nil
					})
				}
				pass(hasten.Sized(15*time.Minute, 4*time.Minute))
				check.Equal(t, moves.Load(), 0, "moves of sessions that are where they belong")
				before := spread(srv, all)
				down.Store(1)
				srv.Disconnect(0)
				pass(15 * time.Minute)
				away := spread(srv, all)
				check.Equal(t, away[2], 0, "sessions on the server that is down")
				check.AtMost(t, moves.Load(), 2*n, "losses of the connection, and returns to the others")
				down.Store(0)
				moves.Store(0)
				most.Store(0)
				pass(11 * time.Minute)
				synctest.Wait()
				after := spread(srv, all)
				t.Logf("%v, %v, %v; %d moves, at most %d at once", before, away, after, moves.Load(), most.Load())
				check.Equal(t, slices.Equal(after, before), tt.returns, "as before")
				check.Equal(t, moves.Load() > 0, tt.returns, "sessions move")
				check.AtMost(t, most.Load(), n/10, "at once")
			})
		})
	}
}

// TestRebalanceToASilentServer: a server that accepts connections, and says nothing, is tried less
// and less often.
func TestRebalanceToASilentServer(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		var homes atomic.Int64 // connections to servers that are silent
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == srv.Addrs()[0] {
				return srv.DialContext(ctx, network, addr)
			}
			homes.Add(1)
			return blackHole(), nil
		}
		opts.Lease = session.LeaseCommitted // it asks nothing else
		var s *session.Session
		for s == nil || homes.Load() == 0 { // until it belongs to the silent one
			s = mustOpen(t, append([]string{"silent:1"}, srv.Addrs()...), opts)
		}
		defer s.Rely()()
		homes.Store(0)
		pass(24 * time.Hour)
		check.AtMost(t, homes.Load(), 2*(5+24), "connections in a day") // each return is two: one to look
		check.AtLeast(t, homes.Load(), 2*9, "connections in a day")
		if _, ok := s.State().(session.Resumed); !ok {
			t.Errorf("after a day: %v", s.State())
		}
	})
}

// TestMovesToAFollower: sessions that rely leave a server that leads for those that follow, once,
// and do not return to it while they rely. Without the list's others they stay.
func TestMovesToAFollower(t *testing.T) {
	const n, timeout = 30, 10 * time.Second
	for name, tt := range map[string]struct {
		relies  bool
		servers int // in the list
		lease   session.Lease
		stays   bool
	}{
		"it relies":      {relies: true, servers: 3},
		"nothing relies": {servers: 3, stays: true},
		"one server":     {relies: true, servers: 1, stays: true},
		"it writes":      {relies: true, servers: 3, lease: session.LeaseCommitted, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second, Replicas: 3}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				opts.Timeout, opts.Lease, opts.Rebalance = timeout, tt.lease, time.Minute
				all := make([]*session.Session, n)
				var moves [n]atomic.Int32
				var at [n]atomic.Value // servers
				for i := range all {
					all[i] = mustOpen(t, srv.Addrs()[:tt.servers], opts)
					all[i].Subscribe(func(ev session.Event) <-chan struct{} {
						switch ev := ev.(type) {
						case session.Connected:
							at[i].Store(ev.Server)
						case session.Suspended:
							moves[i].Add(1)
						case session.Resumed:
							at[i].Store(ev.Server)
						case session.Lapsed, session.Expired, session.Closed:
						}
						return nil
					})
					if tt.relies {
						t.Cleanup(all[i].Rely())
					}
				}
				leading := func() (n int) {
					for i := range at {
						if at[i].Load() == srv.Addrs()[0] {
							n++
						}
					}
					return n
				}
				synctest.Wait()
				before := leading()
				check.AtLeast(t, before, 1, "sessions of the leader")
				pass(time.Hour)
				synctest.Wait()
				after, want := leading(), 0
				if tt.stays {
					want = before
				}
				check.Equal(t, after, want, "sessions of the leader, in the end")
				for i := range moves {
					check.AtMost(t, int(moves[i].Load()), 1, "moves of a session")
				}
			})
		})
	}
}

// wordy is a connection to a server that answers words, and takes no session.
type wordy struct {
	net.Conn
	silent bool
}

func (w wordy) Write(frame []byte) (int, error) {
	switch {
	case len(frame) == 4:
		return w.Conn.Write(frame)
	case w.silent:
		return len(frame), nil
	}
	return 0, errors.Join(errors.New("refused"), w.Close())
}

// TestMovesInADay: a session on a server that leads moves seldom, though those that say that they
// follow take no session, or are not known by their addresses, or though it relies now and then.
func TestMovesInADay(t *testing.T) {
	for name, tt := range map[string]struct {
		conn    func(net.Conn) net.Conn // to those that follow
		on, off time.Duration           // in which something relies, and does not
		most    int32
	}{
		"they hang up":        {conn: func(c net.Conn) net.Conn { return wordy{c, false} }, on: 24 * time.Hour, most: 40},
		"they say nothing":    {conn: func(c net.Conn) net.Conn { return wordy{c, true} }, on: 24 * time.Hour, most: 40},
		"they are elsewhere":  {conn: func(c net.Conn) net.Conn { return elsewhere{c, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}} }, on: 24 * time.Hour, most: 1},
		"a lock now and then": {on: 2 * time.Second, off: 18 * time.Second, most: 1},
		"half of the time":    {on: 15 * time.Minute, off: 15 * time.Minute, most: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second, Replicas: 3}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				leader := srv.Addrs()[0]
				opts.Timeout = 10 * time.Second
				opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := srv.DialContext(ctx, network, addr)
					if err == nil && addr != leader && tt.conn != nil {
						c = tt.conn(c)
					}
					return c, err
				}
				var moves atomic.Int32
				var s *session.Session
				for at := ""; at != leader; at = s.State().(session.Connected).Server {
					if s != nil {
						s.Close()
					}
					s = mustOpen(t, srv.Addrs(), opts)
				}
				s.Subscribe(func(ev session.Event) <-chan struct{} {
					if _, is := ev.(session.Suspended); is {
						moves.Add(1)
					}
					return nil
				})
				hours := hasten.Sized(24*time.Hour, 4*time.Hour)
				for begun := time.Now(); time.Since(begun) < hours; {
					rest := s.Rely()
					pass(min(tt.on, hours))
					rest()
					pass(tt.off)
				}
				synctest.Wait()
				check.AtMost(t, moves.Load(), tt.most, "moves in a day")
			})
		})
	}
}
