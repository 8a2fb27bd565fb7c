package session_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A traffic counts what goes over connections. The clients here write each request with one call,
// and read replies as they come.
type traffic struct{ requests, up, down atomic.Int64 }

func (c *traffic) reset() {
	c.requests.Store(0)
	c.up.Store(0)
	c.down.Store(0)
}

type countedConn struct {
	net.Conn
	counts *traffic
}

func (c countedConn) Write(p []byte) (int, error) {
	c.counts.requests.Add(1)
	c.counts.up.Add(int64(len(p)))
	return c.Conn.Write(p)
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.counts.down.Add(int64(n))
	return n, err
}

// TestCostOfNothingAtStake counts what sessions send in an hour, beside go-zookeeper's own client.
// A session with nothing at stake costs the servers no more.
func TestCostOfNothingAtStake(t *testing.T) {
	const timeout = 12 * time.Second
	for _, tt := range []struct {
		name   string
		begin  func(t *testing.T, s *session.Session)
		syncs  int
		checks int
		pings  int
	}{
		{"nothing", func(*testing.T, *session.Session) {}, 0, 0, 900},
		{"a watch", func(t *testing.T, s *session.Session) {
			s.Async(0).Watch("/", func(_ []byte, _ *session.Stat, err error) { check.OK(t, err) }, func([]byte, *session.Stat, error) {})
		}, 0, 0, 900},
		{"an ephemeral node", func(t *testing.T, s *session.Session) {
			check.Have(s.Create(t.Context(), "/a", nil, session.Ephemeral))(t)
		}, 2700, 0, 0},
		{"what excludes others", func(t *testing.T, s *session.Session) { t.Cleanup(s.Rely()) }, 1800, 900, 0},
		{"nothing any more", func(t *testing.T, s *session.Session) { s.Rely()() }, 0, 0, 900},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				var ours, plain traffic
				opts.Timeout = timeout
				opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := srv.DialContext(ctx, network, addr)
					return countedConn{conn, &ours}, err
				}
				opts.Lease = session.LeaseCommitted
				s := mustOpen(t, srv.Addrs(), opts)
				z, _, err := zk.Connect(srv.Addrs(), timeout, zk.WithLogInfo(false), zk.WithDialer(func(network, addr string, _ time.Duration) (net.Conn, error) {
					conn, err := srv.DialContext(t.Context(), network, addr)
					return countedConn{conn, &plain}, err
				}))
				check.OK(t, err)
				defer z.Close()
				tt.begin(t, s)
				pass(time.Minute)
				srv.ResetRequests()
				ours.reset()
				plain.reset()
				pass(time.Hour)
				counts := srv.Requests()
				near := func(what string, n, want int) {
					t.Helper()
					check.True(t, n >= want-1 && n <= want+1, "%d %s, want %d", n, what, want)
				}
				near("syncs", counts[zktest.OpSync], tt.syncs)
				near("transactions", counts[zktest.OpCheck], tt.checks)
				near("pings", int(ours.requests.Load())-tt.syncs-tt.checks, tt.pings)
				if tt.pings > 0 {
					check.AtMost(t, ours.requests.Load(), plain.requests.Load()+1, "requests beside go-zookeeper's")
					check.AtMost(t, ours.up.Load(), plain.up.Load()+12, "bytes sent beside go-zookeeper's")
					check.AtMost(t, ours.down.Load(), plain.down.Load()+20, "bytes received beside go-zookeeper's")
				}
				_, connected := s.State().(session.Connected)
				check.True(t, connected, "%v", s.State())
			})
		})
	}
}

// TestLeaseBeginsAfterPings: what excludes others is created after pings of an hour, or of a while.
// The first is answered one round trip later than others, and the loss is told in time whenever the
// server falls silent from then on.
func TestLeaseBeginsAfterPings(t *testing.T) {
	const timeout, trip = 12 * time.Second, 100 * time.Millisecond
	chosen := hasten.OneIn(4, 7)
	for _, tt := range []struct {
		name  string
		after time.Duration
		trips time.Duration
	}{
		{"just connected", 3 * time.Second, 1},
		{"a while", 7 * time.Second, 2},
		{"an hour", time.Hour, 2},
		{"an hour and a second", time.Hour + time.Second, 2},
		{"an hour and three", time.Hour + 3*time.Second, 2},
	} {
		for _, tick := range []time.Duration{0, time.Second} {
			for _, trust := range []session.Lease{session.LeaseCommitted, session.LeaseAnswered, session.LeaseProven} {
				for silence := time.Duration(0); silence <= timeout; silence += timeout / 4 {
					if !chosen() {
						continue
					}
					t.Run(fmt.Sprintf("%s tick %v lease %d silent after %v", tt.name, tick, trust, silence), func(t *testing.T) {
						inBubble(t, zktest.Config{Tick: time.Second, Latency: trip / 2, Replicas: replicas(trust)}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
							opts.Timeout, opts.ServerTick, opts.Lease = timeout, tick, trust
							s := mustOpen(t, followed(srv), opts)
							other := mustOpen(t, srv.Addrs(), &session.Options{Timeout: 20 * time.Second, Dialer: srv.DialContext})
							events := s.Events(t.Context())
							<-events // Connected
							pass(tt.after)
							begun := time.Now()
							t.Cleanup(s.Rely())
							t.Cleanup(s.Hold())
							check.Have(s.Create(t.Context(), "/a", nil, session.Ephemeral))(t)
							// The answer to a ping, or a heartbeat, that is under way may prove the
							// lease earlier.
							check.Within(t, time.Since(begun), trip, tt.trips*trip, "the first creation")
							begun = time.Now()
							check.Have(s.Create(t.Context(), "/b", nil, session.Ephemeral))(t)
							check.Equal(t, time.Since(begun), trip, "the second creation")
							gone := make(chan time.Time, 1)
							other.Async(0).Watch("/a", func(_ []byte, _ *session.Stat, err error) { check.OK(t, err) }, func(_ []byte, _ *session.Stat, err error) {
								if errors.Is(err, session.ErrNoNode) {
									gone <- time.Now()
								}
							})
							pass(silence)
							check.None(t, events)
							srv.Freeze(s.ID(), zktest.Both)
							srv.Refuse(true)
							await[session.Lapsed](t, events)
							told := time.Now()
							released := <-gone
							t.Logf("told %v before the node went", released.Sub(told))
							check.True(t, told.Before(released), "told %v too late", told.Sub(released))
						})
					})
				}
			}
		}
	}
}

// TestLeaseBeginsWhileSuspended: a recipe begins to rely on a session whose connection is lost,
// when the newest proof is older than the lease. The server that is reached then keeps the session.
func TestLeaseBeginsWhileSuspended(t *testing.T) {
	for _, tt := range []struct{ idle, lost time.Duration }{
		{time.Second, 7 * time.Second}, // heartbeats are still syncs
		{time.Minute, 5 * time.Second},
	} {
		inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
			opts.ServerTick = 0
			s := mustOpen(t, srv.Addrs(), opts)
			life := livesOf(s)
			pass(time.Minute)
			s.Rely()()
			pass(tt.idle)
			srv.Refuse(true)
			srv.Disconnect(0)
			pass(tt.lost)
			defer s.Rely()()
			pass(time.Second)
			srv.Refuse(false)
			check.Have(s.Create(t.Context(), "/a", nil, session.Ephemeral))(t)
			pass(time.Minute)
			check.Equal(t, life.expired.Load(), 0, "sessions lost")
		})
	}
}

// TestLeaseBeginsBeforeTheSession: a recipe relies on a session before a server has answered.
func TestLeaseBeginsBeforeTheSession(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		srv.Refuse(true)
		s := check.Have(session.Start(srv.Addrs(), opts))(t)
		t.Cleanup(s.Close)
		life := livesOf(s)
		pass(time.Second)
		defer s.Rely()()
		pass(time.Second)
		srv.Refuse(false)
		check.Have(s.Create(t.Context(), "/a", nil, session.Ephemeral))(t)
		pass(time.Minute)
		check.Equal(t, life.expired.Load(), 0, "sessions lost")
	})
}

// TestLeaseBeginsElsewhere: the server does not answer, or the connection is left, before the lease
// is proven.
func TestLeaseBeginsElsewhere(t *testing.T) {
	const timeout = 12 * time.Second
	for name, fault := range map[string]func(srv *zktest.Server, id int64){
		"the sync is lost":        func(srv *zktest.Server, id int64) { srv.DropRequest(zktest.Match{Session: id, Op: zktest.OpSync}) },
		"its reply is lost":       func(srv *zktest.Server, id int64) { srv.DropReply(zktest.Match{Session: id, Op: zktest.OpSync}) },
		"the creation is lost":    func(srv *zktest.Server, id int64) { srv.DropRequest(zktest.Match{Session: id, Op: zktest.OpCreate}) },
		"the reply to it is lost": func(srv *zktest.Server, id int64) { srv.DropReply(zktest.Match{Session: id, Op: zktest.OpCreate}) },
		"cut":                     func(srv *zktest.Server, id int64) { srv.Disconnect(id) },
		"cut off from the leader": func(srv *zktest.Server, _ int64) { srv.Isolate(1) },
		"silent":                  func(srv *zktest.Server, id int64) { srv.Freeze(id, zktest.ToClient) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second, Replicas: 2, Latency: time.Millisecond}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				opts.Timeout = timeout
				s := mustOpen(t, srv.Addrs()[1:], opts)
				check.Must(t, s.SetServers(srv.Addrs()))
				life := livesOf(s)
				pass(time.Hour)
				fault(srv, s.ID())
				defer s.Rely()()
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				go func() {
					pass(timeout / 2) // another server, or this one, answers then
					srv.Thaw(s.ID())
				}()
				node := check.Have(s.Create(ctx, "/a-", nil, session.EphemeralSequential))(t)
				pass(time.Minute)
				stat := check.Have(s.Exists(t.Context(), node))(t)
				check.True(t, stat != nil && stat.EphemeralOwner == s.ID(), "the node is gone")
				check.Equal(t, life.expired.Load(), 0, "sessions lost")
			})
		})
	}
}
