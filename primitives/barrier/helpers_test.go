package barrier_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const path = "/barriers/run"

// bubble runs f with n sessions on a server in memory, in a bubble whose clock is its own.
func bubble(t *testing.T, n int, config zktest.Config, f func(t *testing.T, srv *zktest.Server, s []*session.Session)) {
	t.Helper()
	config.Tick = time.Second
	kit.Run(t, config, func(w kit.World) {
		all := make([]*session.Session, n)
		for i := range all {
			all[i] = w.Open(session.Options{Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: listening(w.Server)})
			defer all[i].Close()
		}
		f(w.T, w.Server, all)
	})
}

// notified counts the notifications of watches that have come to the sessions of bubbles.
var notified atomic.Int64

// listening dials the server, and counts notifications.
func listening(srv *zktest.Server) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := srv.DialContext(ctx, network, address)
		return &listener{Conn: conn}, err
	}
}

// A listener is a connection whose frames are looked at. The first of them greets.
type listener struct {
	net.Conn
	rest    []byte
	greeted bool
}

func (l *listener) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	l.rest = append(l.rest, b[:n]...)
	const length, notification = 4, 0xffffffff
	for len(l.rest) >= 2*length {
		frame := length + int(binary.BigEndian.Uint32(l.rest))
		if len(l.rest) < frame {
			break
		}
		if l.greeted && binary.BigEndian.Uint32(l.rest[length:]) == notification {
			notified.Add(1)
		}
		l.rest, l.greeted = l.rest[frame:], true
	}
	return n, err
}

func double(t *testing.T, s *session.Session, parties int, name string) *barrier.Double {
	t.Helper()
	d := check.Have(barrier.NewDouble(s, path, parties, &barrier.DoubleOptions{Name: name}))(t)
	t.Cleanup(d.Close)
	return d
}

// doubles returns a handle in each session, named p0, p1 and so on.
func doubles(t *testing.T, all []*session.Session, parties int) []*barrier.Double {
	t.Helper()
	handles := make([]*barrier.Double, len(all))
	for i, s := range all {
		handles[i] = double(t, s, parties, fmt.Sprintf("p%d", i))
	}
	return handles
}

// begin calls f, and returns where its error will be.
func begin(f func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- f() }()
	return result
}

// parties returns the nodes of parties.
func parties(srv *zktest.Server) []string {
	return slices.DeleteFunc(srv.Paths(), func(p string) bool { return !strings.Contains(p, "/in/") })
}
