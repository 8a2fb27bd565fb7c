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
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const path = "/barriers/run"

// bubble runs f with n sessions on a server in memory, in a bubble whose clock is its own.
func bubble(t *testing.T, n int, config zktest.Config, f func(t *testing.T, srv *zktest.Server, s []*session.Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config.InProcess, config.Tick = true, time.Second
		srv := check.Have(zktest.NewServer(config))(t)
		defer srv.Close()
		all := make([]*session.Session, n)
		for i := range all {
			all[i] = check.Have(session.Open(t.Context(), srv.Addrs(), &session.Options{
				Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: listening(srv),
			}))(t)
			defer all[i].Close()
		}
		f(t, srv, all)
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

// pass lets the bubble's clock go on, which takes no time.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
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

// settled returns the result of a call, which must have returned.
func settled(t *testing.T, what string, result <-chan error) error {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-result:
		return err
	default:
		t.Helper()
		t.Fatalf("%s has not returned", what)
		return nil
	}
}

// waits fails the test if the call has returned.
func waits(t *testing.T, what string, result <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-result:
		t.Fatalf("%s has returned %v", what, err)
	default:
	}
}

// ok fails the test unless err is nil.
func ok(t *testing.T, err error) {
	t.Helper()
	check.Must(t, err)
}

// parties returns the nodes of parties.
func parties(srv *zktest.Server) []string {
	return slices.DeleteFunc(srv.Paths(), func(p string) bool { return !strings.Contains(p, "/in/") })
}

// drain returns the events that are there.
func drain[Ev any](events <-chan Ev) (all []Ev) {
	for {
		synctest.Wait()
		select {
		case ev, open := <-events:
			if !open {
				return all
			}
			all = append(all, ev)
		default:
			return all
		}
	}
}
