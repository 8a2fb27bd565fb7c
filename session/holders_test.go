package session_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// replicas returns how many servers there are for a session with that lease: with LeaseProven, its
// server is one that follows. Its address is that of followed.
func replicas(trust session.Lease) int {
	if trust == session.LeaseProven {
		return 3
	}
	return 1
}

// followed returns the address of a server that follows, if one does.
func followed(srv *zktest.Server) []string { return srv.Addrs()[len(srv.Addrs())/2:][:1] }

// TestCostOfHolders counts the transactions of sessions that something relies on, in an hour: on a
// server that follows, a fleet needs few more than one session, and on one that is alone none. It
// is a sixth of an hour where tests are not thorough, and less under -short.
func TestCostOfHolders(t *testing.T) {
	const timeout = 12 * time.Second
	hour := hasten.Sized(hasten.Usually(time.Hour, 10*time.Minute), 4*time.Minute)
	alone := int(hour/timeout) * 9 / 3 // one of three heartbeats
	for _, tt := range []struct {
		name     string
		servers  int
		lease    session.Lease
		sessions int
		most     int
		least    int
	}{
		{"committed, one", 1, session.LeaseCommitted, 1, alone + 1, alone - 1},
		{"committed, 50", 1, session.LeaseCommitted, 50, 50 * (alone + 1), 50 * (alone - 1)},
		{"answered, 50", 1, session.LeaseAnswered, 50, 0, 0},
		{"a server that is alone, 50", 1, session.LeaseProven, 50, 0, 0},
		{"a server that follows, one", 3, session.LeaseProven, 1, alone + 1, alone - 1},
		{"a server that follows, 50", 3, session.LeaseProven, 50, 2 * alone, alone / 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second, Replicas: tt.servers}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				opts.Timeout, opts.Lease = timeout, tt.lease
				var lives []*lives
				for range tt.sessions {
					s := mustOpen(t, followed(srv), opts)
					t.Cleanup(s.Rely())
					lives = append(lives, livesOf(s))
					pass(37 * time.Millisecond)
				}
				pass(6*timeout + time.Minute)
				srv.ResetRequests()
				pass(hour)
				n := srv.Requests()[zktest.OpCheck]
				check.AtMost(t, n, tt.most, "transactions")
				check.True(t, n >= tt.least, "%d transactions, want at least %d", n, tt.least)
				for _, l := range lives {
					l.undisturbed(t)
				}
			})
		})
	}
}

// elsewhere is a connection to another address, as it seems.
type elsewhere struct {
	net.Conn
	addr net.Addr
}

func (e elsewhere) RemoteAddr() net.Addr { return e.addr }

// wordless is a connection to a server that answers no words.
type wordless struct{ net.Conn }

func (w wordless) Write(frame []byte) (int, error) {
	if len(frame) == 4 {
		return 0, errors.New("no words")
	}
	return w.Conn.Write(frame)
}

// TestHoldersWrite: where it is not certain that the server follows, a session that relies writes.
func TestHoldersWrite(t *testing.T) {
	const timeout = 12 * time.Second
	config := zktest.Match{Path: "/zookeeper/config"}
	for name, tt := range map[string]struct {
		conn   func(net.Conn) net.Conn
		before func(srv *zktest.Server)
		shares bool
	}{
		"it is certain":               {shares: true},
		"a balancer":                  {conn: func(c net.Conn) net.Conn { return elsewhere{c, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}} }},
		"srvr is not answered":        {conn: func(c net.Conn) net.Conn { return wordless{c} }},
		"no configuration to be read": {before: func(srv *zktest.Server) { srv.AnswerError(config, -102) }},
		"its request is lost":         {before: func(srv *zktest.Server) { srv.DropRequest(config) }, shares: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second, Replicas: 3}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				opts.Timeout = timeout
				opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := srv.DialContext(ctx, network, addr)
					if err == nil && tt.conn != nil {
						c = tt.conn(c)
					}
					return c, err
				}
				if tt.before != nil {
					tt.before(srv)
				}
				one, other := mustOpen(t, srv.Addrs()[1:2], opts), mustOpen(t, srv.Addrs()[2:], opts)
				defer one.Rely()()
				for range 30 {
					pass(timeout)
					check.Have(other.Set(t.Context(), "/", nil, session.AnyVersion))(t) // what another writes
				}
				srv.ResetRequests()
				for range 30 * 9 {
					pass(timeout / 9)
					check.Have(other.Set(t.Context(), "/", nil, session.AnyVersion))(t)
				}
				n := srv.RequestsOf(one.ID())[zktest.OpCheck]
				check.Equal(t, n == 0, tt.shares, fmt.Sprint(n, " transactions"))
			})
		})
	}
}
