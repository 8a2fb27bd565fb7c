package crew

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// errRefused is the error of a dial while the crew refuses connections.
var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// network has the connections of a crew. It returns connections without a wrapper, because sessions
// of this library write directly to the kernel's sockets.
type network struct {
	mu      sync.Mutex
	dials   []Dial
	sockets map[*net.TCPConn]string // the connections that may be open, with their addresses
	refused time.Time               // no dial succeeds until this time
}

func (n *network) dial(ctx context.Context, transport, address string) (net.Conn, error) {
	at := time.Now()
	n.mu.Lock()
	refused := at.Before(n.refused)
	n.mu.Unlock()
	conn, err := net.Conn(nil), error(errRefused)
	if !refused {
		conn, err = new(net.Dialer).DialContext(ctx, transport, address)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials = append(n.dials, Dial{at, err != nil})
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(errors.New("the connection is not TCP"), conn.Close())
	}
	if n.sockets == nil {
		n.sockets = make(map[*net.TCPConn]string)
	}
	n.sockets[tcp] = address
	return tcp, nil
}

// each calls f with the open connections.
func (n *network) each(f func(fd uintptr, address string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c, address := range n.sockets {
		raw, err := c.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { f(fd, address) })
		}
		if err != nil { // closed
			delete(n.sockets, c)
		}
	}
}

func (n *network) cut() {
	n.each(func(fd uintptr, _ string) {
		_ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) // the connection may have ended by itself
	})
}

func (n *network) refuse(until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused = until
}

func (n *network) report(since time.Time) (dials []Dial, servers map[string]int) {
	servers = make(map[string]int)
	n.each(func(_ uintptr, address string) { servers[address]++ })
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.dials {
		if !d.At.Before(since) {
			dials = append(dials, d)
		}
	}
	return dials, servers
}

func (n *network) traffic() (sent, received float64) {
	n.each(func(fd uintptr, _ string) {
		s, r := traffic(fd)
		sent += s
		received += r
	})
	return sent, received
}
