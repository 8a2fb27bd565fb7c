// Package relay carries TCP connections with a delay, as the network between two hosts does: what
// arrives is passed on after a constant time, in both directions, however much is on its way.
package relay

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A Relay delays connections. It is safe for concurrent use.
type Relay struct {
	oneWay time.Duration

	sent, received atomic.Int64 // bytes from the clients, and from the servers

	mu        sync.Mutex
	arrived   sync.Cond // a packet, or the end
	queue     []packet  // in the order in which they are due: the delay is the same for all
	listeners []net.Listener
	conns     map[net.Conn]struct{}
	closed    bool
	done      chan struct{} // closed when closed is set

	parts sync.WaitGroup
}

// A packet is on its way.
type packet struct {
	to   *sender
	data []byte // nil at the end of the connection
	due  time.Time
}

// most is the number of packets that wait for a receiver that does not read. After that the others
// wait, too.
const most = 1 << 14

// nap is the longest sleep, so that Close does not wait for a packet.
const nap = 10 * time.Millisecond

// A sender writes to one end of a connection. After an error it still takes its packets, and drops
// them, so that they delay no other connection.
type sender struct {
	conn net.Conn
	due  chan []byte // nil is the end
}

// New returns a relay that delays each direction of its connections by oneWay.
func New(oneWay time.Duration) *Relay {
	r := &Relay{oneWay: oneWay, conns: make(map[net.Conn]struct{}), done: make(chan struct{})}
	r.arrived.L = &r.mu
	r.parts.Go(r.deliver)
	return r
}

// To listens at a port of the loopback, and carries its connections to target. It returns the
// address.
func (r *Relay) To(target string) (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	accept := func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return // it is closed
			}
			r.parts.Go(func() { r.carry(near, target) })
		}
	}
	kept := r.keep(func() {
		r.listeners = append(r.listeners, l)
		r.parts.Go(accept)
	})
	if !kept {
		return "", errors.Join(net.ErrClosed, l.Close())
	}
	return l.Addr().String(), nil
}

// Bytes returns how many bytes the relay has received from the clients, which dial it, and how many
// from the servers. It counts all connections.
func (r *Relay) Bytes() (sent, received int64) { return r.sent.Load(), r.received.Load() }

// keep calls f, unless the relay is closed.
func (r *Relay) keep(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		f()
	}
	return !r.closed
}

// carry carries one connection until both directions have ended.
func (r *Relay) carry(near net.Conn, target string) {
	defer near.Close() //nolint:errcheck // it is over
	far, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer far.Close() //nolint:errcheck // it is over
	if !r.keep(func() { r.conns[near], r.conns[far] = struct{}{}, struct{}{} }) {
		return
	}
	var ways sync.WaitGroup
	for _, way := range []struct {
		from, to net.Conn
		bytes    *atomic.Int64
	}{{near, far, &r.sent}, {far, near, &r.received}} {
		to := &sender{way.to, make(chan []byte, most)}
		ways.Go(func() { r.receive(way.from, to, way.bytes) })
		ways.Go(func() { r.send(to) })
	}
	ways.Wait()
	r.mu.Lock()
	delete(r.conns, near)
	delete(r.conns, far)
	r.mu.Unlock()
}

// receive puts what arrives on its way.
func (r *Relay) receive(from net.Conn, to *sender, bytes *atomic.Int64) {
	for {
		data := make([]byte, 16<<10)
		n, err := from.Read(data)
		due := time.Now().Add(r.oneWay)
		if n > 0 {
			bytes.Add(int64(n))
			r.put(packet{to, data[:n:n], due})
		}
		if err != nil {
			r.put(packet{to, nil, due})
			return
		}
	}
}

func (r *Relay) put(p packet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.queue = append(r.queue, p)
	r.arrived.Signal()
}

// deliver hands packets over when they are due. It has a thread of its own, because the timers of
// Go may come a millisecond late.
func (r *Relay) deliver() {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	sharpen()
	for {
		r.mu.Lock()
		for len(r.queue) == 0 && !r.closed {
			r.arrived.Wait()
		}
		if r.closed {
			r.mu.Unlock()
			return
		}
		p := r.queue[0]
		r.queue = r.queue[1:]
		r.mu.Unlock()
		for left := time.Until(p.due); left > 0; left = time.Until(p.due) {
			select {
			case <-r.done:
				return
			default:
				sleep(min(left, nap))
			}
		}
		select {
		case p.to.due <- p.data:
		case <-r.done:
			return
		}
	}
}

// send writes the packets that are due, and ends its direction of the connection after the last.
func (r *Relay) send(to *sender) {
	var err error
	for {
		select {
		case data := <-to.due:
			switch {
			case data == nil:
				if half, is := to.conn.(interface{ CloseWrite() error }); is {
					_ = half.CloseWrite() // the other end may have closed it
				}
				return
			case err == nil:
				if _, err = to.conn.Write(data); err != nil {
					to.conn.Close() //nolint:errcheck // it has failed
				}
			}
		case <-r.done:
			return
		}
	}
}

// Close ends all connections, and waits until they have ended.
func (r *Relay) Close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.done)
	}
	r.arrived.Signal()
	closing := make([]io.Closer, 0, len(r.listeners)+len(r.conns))
	for _, l := range r.listeners {
		closing = append(closing, l)
	}
	for c := range r.conns {
		closing = append(closing, c)
	}
	r.mu.Unlock()
	for _, c := range closing {
		c.Close() //nolint:errcheck // nothing is to be saved
	}
	r.parts.Wait()
}
