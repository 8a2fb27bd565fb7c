package session_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A lateConn delivers what it reads first in the moment in which it is closed.
type lateConn struct {
	net.Conn
	late   atomic.Bool
	once   sync.Once
	closed chan struct{}
}

func (c *lateConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.late.CompareAndSwap(true, false) {
		<-c.closed
	}
	return n, err
}

func (c *lateConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// TestLateHandshake: an answer to the connect request that comes when the connection has
// been given up is nothing but late.
func TestLateHandshake(t *testing.T) {
	srv := zktest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var late atomic.Int32 // how many of the next connections are
	late.Store(1)
	s := check.Have(session.Open(ctx, srv.Addrs(), &session.Options{
		Timeout: 4 * time.Second,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			c := &lateConn{Conn: conn, closed: make(chan struct{})}
			c.late.Store(late.Add(-1) >= 0)
			return c, nil
		},
	}))(t)
	defer s.Close()
	id := s.ID()
	late.Store(1)
	srv.Disconnect(id)
	if err := s.Sync(ctx, "/"); err != nil || s.ID() != id {
		t.Errorf("after a reconnect: %v", err)
	}
}
