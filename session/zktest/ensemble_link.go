package zktest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// A server that does not run has linkDialTimeout to begin to listen, and a server that runs has
// linkDialRounds times as long. A follower must not be connected and then disconnected only because
// the leader is about to listen: it would elect again, while the leader waits for it until
// InitLimit.
const (
	linkDialTimeout = time.Second
	linkDialRounds  = 5
	linkDialPause   = 10 * time.Millisecond
)

// A linkWay is one of the two ways of a link.
type linkWay int

const (
	forward  linkWay = iota // from the server that connects to the server connected to
	backward                // the other way
)

// A linkEnd is one of the two ends of a link.
type linkEnd int

const (
	nearEnd linkEnd = iota // at the server that connects
	farEnd                 // at the server connected to
)

// A link connects one server of an ensemble to another: it is a proxy for
// each of the other's ports.
type link struct {
	listeners []net.Listener
	running   func() bool    // whether the server connected to is a process
	done      sync.WaitGroup // the link's goroutines

	mu      sync.Mutex
	flowing [2]chan struct{} // by way; closed while neither cut nor held
	lost    [2]bool          // by way; set by cut, cleared by heal
	severed [2]bool          // by end; set by sever, cleared by heal
	closed  bool
	conns   map[*linkConn]struct{}
}

// A linkConn is a connection that a server made through a link.
type linkConn struct {
	near, far net.Conn      // far is nil until connected
	severed   bool          // set when one end was reset; nothing flows any more
	closed    chan struct{} // closed with the connections
}

// newLink returns a link to a server's ports for the quorum and for elections.
func newLink(quorum, election string, running func() bool) (*link, error) {
	open := make(chan struct{})
	close(open)
	l := &link{running: running, flowing: [2]chan struct{}{open, open}, conns: make(map[*linkConn]struct{})}
	for _, target := range []string{quorum, election} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			l.close()
			return nil, err
		}
		l.listeners = append(l.listeners, listener)
		l.done.Go(func() {
			accept(listener, func(near net.Conn) {
				l.done.Go(func() { l.serve(near, target, target == election) })
			})
		})
	}
	return l, nil
}

// addrs returns the addresses to connect to for the quorum, and for elections.
func (l *link) addrs() []string {
	var addrs []string
	for _, listener := range l.listeners {
		addrs = append(addrs, listener.Addr().String())
	}
	return addrs
}

// serve carries one connection.
func (l *link) serve(near net.Conn, target string, election bool) {
	c := &linkConn{near: near, closed: make(chan struct{})}
	l.mu.Lock()
	if l.severed[nearEnd] || l.closed {
		l.mu.Unlock()
		reset(near)
		return
	}
	c.severed = l.severed[farEnd]
	l.conns[c] = struct{}{}
	l.mu.Unlock()
	defer l.drop(c)
	l.carry(c, target, election)
	l.drain(c)
}

// carry forwards what the two ends send until one of them ends.
func (l *link) carry(c *linkConn, target string, election bool) {
	// Over a cut cable a server cannot connect, and does not learn why.
	if !l.awaitFlow(c, forward) || !l.awaitFlow(c, backward) {
		return
	}
	far, err := l.dial(c, target)
	if err != nil {
		return
	}
	l.mu.Lock()
	_, alive := l.conns[c]
	alive = alive && !c.severed
	if alive {
		c.far = far
	}
	l.mu.Unlock()
	if !alive {
		reset(far)
		return
	}
	if election && !l.introduce(c, far, c.near) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { l.pump(c, c.near, far, backward) })
	l.pump(c, far, c.near, forward)
	back.Wait()
}

// drain loses what the remaining end of a severed connection sends, until that
// end closes it or the link is healed.
func (l *link) drain(c *linkConn) {
	l.mu.Lock()
	severed, remaining := c.severed, c.near
	if l.severed[nearEnd] {
		remaining = c.far
	}
	l.mu.Unlock()
	if severed && remaining != nil {
		io.Copy(io.Discard, remaining) //nolint:errcheck // every end is alike
	}
}

// dial connects to target, which may not listen yet.
func (l *link) dial(c *linkConn, target string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l.done.Go(func() {
		select {
		case <-c.closed:
			cancel()
		case <-ctx.Done():
		}
	})
	for round := 1; ; round++ {
		far, err := dialFor(ctx, linkDialTimeout, target)
		if err == nil || ctx.Err() != nil || round == linkDialRounds || !l.running() {
			return far, err
		}
	}
}

// dialFor connects to target within a time.
func dialFor(ctx context.Context, limit time.Duration, target string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		far, err := new(net.Dialer).DialContext(ctx, "tcp", target)
		if err == nil {
			return far, nil
		}
		if pause(ctx, linkDialPause) != nil {
			return nil, err
		}
	}
}

// introduce forwards how a server begins a connection for elections, but for its
// address: the other would connect back to there, past the links. Without, it
// uses the address that it has been configured with.
func (l *link) introduce(c *linkConn, to, from net.Conn) bool {
	var head [8]byte // the server's number, or minus a version that comes before
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return false
	}
	if int64(binary.BigEndian.Uint64(head[:])) < 0 {
		var length [4]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return false
		}
		if _, err := io.ReadFull(from, length[:]); err != nil {
			return false
		}
		if _, err := io.CopyN(io.Discard, from, int64(binary.BigEndian.Uint32(length[:]))); err != nil {
			return false
		}
	}
	if !l.awaitFlow(c, forward) {
		return false
	}
	_, err := to.Write(head[:])
	return err == nil
}

// pump carries one way of a connection. What has been read when the link is cut is lost
// with the connection. Neither end learns of the other's end while it is cut.
func (l *link) pump(c *linkConn, to, from net.Conn, way linkWay) {
	defer l.end(c)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !l.awaitFlow(c, way) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// awaitFlow waits while the way is cut or held. It returns false if the
// connection has been closed or severed.
func (l *link) awaitFlow(c *linkConn, way linkWay) bool {
	for {
		l.mu.Lock()
		flowing := l.flowing[way]
		_, alive := l.conns[c]
		alive = alive && !c.severed
		stopped := l.isStopped(way)
		l.mu.Unlock()
		switch {
		case !alive:
			return false
		case !stopped:
			return true
		}
		select {
		case <-flowing:
		case <-c.closed:
			return false
		}
	}
}

// end closes a connection, unless one end of it is to learn nothing.
func (l *link) end(c *linkConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.severed {
		l.dropLocked(c)
	}
}

// drop closes a connection.
func (l *link) drop(c *linkConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropLocked(c)
}

func (l *link) dropLocked(c *linkConn) {
	if _, alive := l.conns[c]; !alive {
		return
	}
	delete(l.conns, c)
	close(c.closed)
	reset(c.near)
	if c.far != nil {
		reset(c.far)
	}
}

// cut stops what flows, without a word to either side.
func (l *link) cut(ways ...linkWay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, way := range ways {
		l.lost[way] = true
		l.stop(way)
	}
}

// hold keeps what flows until it is released.
func (l *link) hold(way linkWay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop(way)
}

// release ends hold. It does not end cut.
func (l *link) release(way linkWay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.lost[way] {
		l.resume(way)
	}
}

func (l *link) stop(way linkWay) {
	if !l.isStopped(way) {
		l.flowing[way] = make(chan struct{})
	}
}

func (l *link) resume(way linkWay) {
	if l.isStopped(way) {
		close(l.flowing[way])
	}
}

func (l *link) isStopped(way linkWay) bool {
	select {
	case <-l.flowing[way]:
		return false
	default:
		return true
	}
}

// sever resets the given ends of all connections, and of new ones until the
// link is healed. The other end learns nothing, and what it sends is lost.
func (l *link) sever(end linkEnd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.severed[end] = true
	for c := range l.conns {
		switch {
		case l.severed[1-end], end == nearEnd && c.far == nil:
			l.dropLocked(c)
			continue
		case end == nearEnd:
			reset(c.near)
		case c.far != nil:
			reset(c.far)
		}
		c.severed = true
	}
}

// reject closes all connections, and new ones until the link is healed.
func (l *link) reject() {
	l.sever(nearEnd)
	l.sever(farEnd)
}

// heal ends all that was done to the link. Connections that were cut have lost
// data, and are closed.
func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != [2]bool{} || l.severed != [2]bool{} {
		for c := range l.conns {
			l.dropLocked(c)
		}
	}
	l.lost, l.severed = [2]bool{}, [2]bool{}
	l.resume(forward)
	l.resume(backward)
}

// close ends the link, and returns when all its goroutines have.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	for c := range l.conns {
		l.dropLocked(c)
	}
	l.mu.Unlock()
	for _, listener := range l.listeners {
		listener.Close() //nolint:errcheck // nothing was written
	}
	l.done.Wait()
}

// reset closes a connection without waiting for what has not been sent.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0) //nolint:errcheck // it is closed in any case
	}
	c.Close() //nolint:errcheck // the connection is given up
}
