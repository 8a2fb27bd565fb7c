package session_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestCostOfALease counts the requests of an hour with which a session keeps a lease that a recipe
// relies on. Every ninth of the timeout there was a heartbeat before, and every second one was a
// transaction: see docs/adr/0065.
func TestCostOfALease(t *testing.T) {
	for _, tt := range []struct {
		timeout, tick time.Duration
		beats         int // of which, before
		commits       int
		before        [2]int
	}{
		{10 * time.Second, 0, 3240, 648, [2]int{3240, 1620}},
		{10 * time.Second, 2 * time.Second, 2430, 810, [2]int{3240, 1620}},
		{10 * time.Second, 200 * time.Millisecond, 3240, 1080, [2]int{3240, 1620}},
		{30 * time.Second, 0, 1080, 216, [2]int{1080, 540}},
		{30 * time.Second, 2 * time.Second, 648, 216, [2]int{1080, 540}},
		{30 * time.Second, 200 * time.Millisecond, 648, 216, [2]int{1080, 540}},
		{40 * time.Second, 2 * time.Second, 486, 162, [2]int{810, 405}},
	} {
		t.Run(fmt.Sprintf("%v tick %v", tt.timeout, tt.tick), func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: 2 * time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				opts.Timeout, opts.ServerTick, opts.Lease = tt.timeout, tt.tick, session.LeaseCommitted
				var sent traffic
				opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := srv.DialContext(ctx, network, addr)
					return countedConn{conn, &sent}, err
				}
				s := mustOpen(t, srv.Addrs(), opts)
				life := livesOf(s)
				defer s.Rely()()
				check.Have(s.Create(t.Context(), "/a", nil, session.Ephemeral))(t)
				pass(time.Minute)
				srv.ResetRequests()
				sent.reset()
				pass(time.Hour)
				counts := srv.Requests()
				near := func(what string, n, want int) {
					t.Helper()
					check.True(t, n >= want-2 && n <= want+1, "%d %s, want %d", n, what, want)
				}
				near("heartbeats", counts[zktest.OpSync]+counts[zktest.OpCheck], tt.beats)
				near("transactions", counts[zktest.OpCheck], tt.commits)
				near("requests in all, with pings", int(sent.requests.Load()), tt.beats)
				check.AtMost(t, counts[zktest.OpCheck], tt.before[1]*2/3, "transactions, beside those of before")
				life.undisturbed(t)
			})
		})
	}
}

// TestCostOfALeaseOnSlowServers: proofs are late there, and each has no more requests for that.
func TestCostOfALeaseOnSlowServers(t *testing.T) {
	for _, tt := range []struct {
		tick, trip time.Duration
		beats      int // in ten minutes
	}{
		{0, 160 * time.Millisecond, 540},
		{0, 222 * time.Millisecond, 628},
		{0, 270 * time.Millisecond, 625},
		{0, 800 * time.Millisecond, 1016},
		{2 * time.Second, 222 * time.Millisecond, 540},
		{2 * time.Second, 800 * time.Millisecond, 843},
		{2 * time.Second, 1500 * time.Millisecond, 896},
	} {
		t.Run(fmt.Sprintf("%v tick %v", tt.trip, tt.tick), func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: 2 * time.Second, Latency: tt.trip / 2}, func(t *testing.T, srv *zktest.Server, _ *session.Options) {
				s := mustOpen(t, srv.Addrs(), &session.Options{Timeout: 10 * time.Second, ServerTick: tt.tick, Lease: session.LeaseCommitted, Dialer: srv.DialContext})
				life := livesOf(s)
				defer s.Rely()()
				pass(time.Minute)
				srv.ResetRequests()
				pass(10 * time.Minute)
				counts := srv.Requests()
				check.AtMost(t, counts[zktest.OpSync]+counts[zktest.OpCheck], tt.beats+tt.beats/50, "heartbeats")
				life.undisturbed(t)
			})
		})
	}
}

// TestCostOfALeaseBesideLongReplies: heartbeats go out ahead of requests whose replies are long.
// They come in the place of others.
func TestCostOfALeaseBesideLongReplies(t *testing.T) {
	const size = 256 << 10
	chosen := hasten.OneIn(2, 3)
	for _, tt := range []struct {
		takes, pause time.Duration
		beats        int // in five minutes
	}{
		{600 * time.Millisecond, 0, 499},
		{150 * time.Millisecond, 0, 270},
		{600 * time.Millisecond, 500 * time.Millisecond, 272},
	} {
		if !chosen() {
			continue
		}
		t.Run(fmt.Sprintf("%v, pause %v", tt.takes, tt.pause), func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: 2 * time.Second, MaxOwed: 1 << 30, Latency: time.Millisecond}, func(t *testing.T, srv *zktest.Server, _ *session.Options) {
				first := mustOpen(t, srv.Addrs(), &session.Options{Dialer: srv.DialContext})
				check.Have(first.Create(t.Context(), "/large", make([]byte, size), session.Persistent))(t)
				var way line
				way.down.Store(int64(size / tt.takes.Seconds()))
				s := mustOpen(t, srv.Addrs(), &session.Options{Timeout: 10 * time.Second, Lease: session.LeaseCommitted, Dialer: way.dialer(srv)})
				life := livesOf(s)
				defer s.Rely()()
				ctx, cancel := context.WithCancel(t.Context())
				var reader sync.WaitGroup
				defer reader.Wait()
				defer cancel()
				reader.Go(func() {
					for ctx.Err() == nil {
						_, _, err := s.Get(ctx, "/large")
						check.True(t, err == nil || ctx.Err() != nil, "%v", err)
						pass(tt.pause)
					}
				})
				pass(time.Minute)
				srv.ResetRequests()
				pass(5 * time.Minute)
				counts := srv.Requests()
				check.AtMost(t, counts[zktest.OpSync]+counts[zktest.OpCheck], tt.beats+tt.beats/30, "heartbeats")
				life.undisturbed(t)
			})
		})
	}
}

// TestHoldersAreSpread: the transactions of a fleet do not fall together, though its sessions were
// opened, began to hold, or came back in one moment. Without a spread, all two hundred fall into
// one tenth of a second.
func TestHoldersAreSpread(t *testing.T) {
	const sessions, timeout, bin = 200, 10 * time.Second, 100 * time.Millisecond
	chosen := hasten.OneIn(5, 6)
	for _, tt := range []struct {
		name string
		then func(t *testing.T, srv *zktest.Server, all []*session.Session)
	}{
		{"opened together", func(*testing.T, *zktest.Server, []*session.Session) {}},
		{"written together", func(t *testing.T, _ *zktest.Server, all []*session.Session) {
			pass(time.Minute)
			for _, s := range all {
				s.Async(0).Set("/all", nil, session.AnyVersion, func(_ *session.Stat, err error) { check.OK(t, err) })
			}
		}},
		{"connected again together", func(_ *testing.T, srv *zktest.Server, _ []*session.Session) {
			pass(time.Minute)
			srv.Disconnect(0)
		}},
	} {
		for _, shares := range []session.Lease{session.LeaseCommitted, session.LeaseProven} {
			if !chosen() {
				continue
			}
			t.Run(fmt.Sprintf("%s, lease %d", tt.name, shares), func(t *testing.T) {
				inBubble(t, zktest.Config{Tick: 2 * time.Second, Replicas: replicas(shares)}, func(t *testing.T, srv *zktest.Server, _ *session.Options) {
					all := make([]*session.Session, sessions)
					for i := range all {
						all[i] = mustOpen(t, followed(srv), &session.Options{Timeout: timeout, Dialer: srv.DialContext, Lease: shares})
					}
					check.Have(all[0].Create(t.Context(), "/all", nil, session.Persistent))(t)
					for i, s := range all {
						t.Cleanup(s.Rely())
						check.Have(s.Create(t.Context(), fmt.Sprintf("/%d", i), nil, session.Ephemeral))(t)
					}
					tt.then(t, srv, all)
					pass(timeout / 4) // what it did is over
					commits, beats, sum := 0, 0, 0
					srv.ResetRequests()
					for range 3 * time.Minute / bin {
						pass(bin)
						counts := srv.Requests()
						srv.ResetRequests()
						commits, beats = max(commits, counts[zktest.OpCheck]), max(beats, counts[zktest.OpCheck]+counts[zktest.OpSync])
						sum += counts[zktest.OpCheck]
					}
					t.Logf("%d transactions; at most %d, and %d heartbeats, in %v", sum, commits, beats, bin)
					check.AtMost(t, commits, sessions/5, "transactions in a tenth of a second")
					check.AtMost(t, beats, sessions/3, "heartbeats in a tenth of a second")
				})
			})
		}
	}
}

// TestRootThatMayNotBeRead: a session keeps its lease though the ACL of the root forbids it to read
// that. The leader proposes a transaction that is not allowed too, and a quorum acknowledges it.
func TestRootThatMayNotBeRead(t *testing.T) {
	for _, mode := range []session.Lease{session.LeaseCommitted, session.LeaseProven} {
		inBubble(t, zktest.Config{Tick: time.Second, Replicas: replicas(mode)}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
			admin := mustOpen(t, srv.Addrs(), &session.Options{Dialer: srv.DialContext, Auth: []session.Auth{{Scheme: "digest", Secret: []byte("admin:secret")}}})
			check.Have(admin.Create(t.Context(), "/app", nil, session.Persistent))(t)
			check.Have(admin.SetACL(t.Context(), "/", session.CreatorAll(), session.AnyVersion))(t)
			opts.Lease = mode
			s := mustOpen(t, followed(srv), opts)
			events := s.Events(t.Context())
			<-events // Connected
			defer s.Rely()()
			check.Have(s.Create(t.Context(), "/app/a", nil, session.Ephemeral))(t)
			pass(5 * time.Minute)
			check.None(t, events, "the session is disturbed")
		})
	}
}
