package zktest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// readBuffer is the number of bytes of requests that a connection reads at once. It is all
// that a connection keeps while nothing happens.
const readBuffer = 4 << 10

// A conn is the server's side of a connection: a goroutine that reads requests,
// executes them and writes the replies. Another one runs while there is something
// to write that is no reply. With latency, a third one executes what the first
// one has read.
type conn struct {
	// Immutable.
	server  *Server
	replica *replica
	number  int64 // counts the connections of the server
	net     net.Conn
	since   time.Time
	done    chan struct{} // closed when the connection is

	// Owned by the server's lock.
	session      *session // nil before the handshake
	greets       int64    // the session whose handshake is frozen; 0 if none is
	timeout      int32    // negotiated by this connection
	old          bool     // the client does not know of servers that are read-only
	expires      int64    // when it is cut unless it greets, in milliseconds since the start
	stopGreeting func() bool
	who          []identity // authenticated
	waiting      []request  // for the leader; later ones wait with them
	stalled      []byte     // the request that waits for the next packet, see [Server.Stall]; nil if there is none
	mute         bool       // the replies to the present request are lost
	received     int
	sent         int
	lastOp       Op
	lastXid      int32

	// ending is set when the server takes no more requests.
	ending atomic.Bool

	out outbound
	in  inbound
}

// A flow has the directions of a connection that are stopped.
type flow struct{ requests, replies, events bool }

func (f flow) or(g flow) flow {
	return flow{f.requests || g.requests, f.replies || g.replies, f.events || g.events}
}

// A request is a frame to be executed.
type request struct {
	frame []byte
	mute  bool // its reply is lost
	cut   bool // and the connection with it
	fail  code // if not codeOK, it is not executed but answered with this
}

func newConn(s *Server, r *replica, nc net.Conn) *conn {
	c := &conn{
		server:  s,
		replica: r,
		number:  s.connections.Add(1),
		net:     nc,
		since:   s.config.Clock.Now(),
		done:    make(chan struct{}),
	}
	host, _, err := net.SplitHostPort(nc.RemoteAddr().String())
	if err == nil && !s.differs.onlyDigest {
		c.who = []identity{{"ip", host}}
	}
	c.out.changed.L = &c.out.mu
	c.in.changed.L = &c.in.mu
	c.in.most = s.config.MaxOwed
	c.stopGreeting = func() bool { return false }
	return c
}

// sessionID returns 0 before the handshake.
func (c *conn) sessionID() int64 {
	if c.session == nil {
		return 0
	}
	return c.session.id
}

// cut closes the connection at once.
func (c *conn) cut() {
	c.ending.Store(true)
	if !c.out.close() {
		return
	}
	close(c.done)
	_ = c.net.Close()
	c.in.close()
}

// end closes the connection when all that is to be written has been.
func (c *conn) end() {
	c.ending.Store(true)
	c.flush()
}

// read takes in requests until the connection ends.
func (c *conn) read() {
	late := c.server.config.Latency
	if late > 0 {
		// The end of the connection comes as late as all else.
		defer func() { c.in.put(nil, c.server.config.Clock.Now().Add(late)) }()
	} else {
		defer c.leave()
	}
	r := bufio.NewReaderSize(c.net, readBuffer)
	head, err := r.Peek(4)
	if err != nil {
		return
	}
	if reply, ok := c.server.fourLetterWord(string(head), c); ok {
		if string(head) == "stmk" {
			// The mask of what a real server logs follows. It has no effect.
			var request [12]byte
			if _, err := io.ReadFull(r, request[:]); err != nil {
				return
			}
			reply = fmt.Sprint(int64(binary.BigEndian.Uint64(request[4:])))
		}
		c.out.put(parcel{size: len(reply), bytes: []byte(reply)})
		c.end()
		return
	}
	for {
		frame, err := nextFrame(r, c.server.config.MaxRequest)
		switch {
		case err != nil:
			return
		case late > 0:
			if !c.in.put(slices.Clone(frame), c.server.config.Clock.Now().Add(late)) {
				return
			}
			continue
		case !c.handle(frame):
			return
		}
		// Replies to a burst of requests go out in one piece.
		frames, bytes := c.out.owes()
		if (!frameBuffered(r) || frames >= burstSize || bytes > c.server.config.MaxOwed) && !c.drain() {
			return
		}
	}
}

// nextFrame reads a frame. It is valid until the next one is read.
func nextFrame(r *bufio.Reader, most int) ([]byte, error) {
	head, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(head)))
	if n < 0 || n > most {
		return nil, io.ErrShortBuffer
	}
	if 4+n <= readBuffer {
		frame, err := r.Peek(4 + n)
		if err != nil {
			return nil, err
		}
		_, err = r.Discard(4 + n)
		return frame[4:], err
	}
	frame := make([]byte, 4+n)
	_, err = io.ReadFull(r, frame)
	return frame[4:], err
}

// frameBuffered reports whether the next frame can be had without waiting.
func frameBuffered(r *bufio.Reader) bool {
	if r.Buffered() < 4 {
		return false
	}
	head, _ := r.Peek(4)
	return uint64(r.Buffered()) >= 4+uint64(binary.BigEndian.Uint32(head))
}

// leave forgets a connection that has nothing more to say. One that is frozen
// is not known to be gone before it thaws.
func (c *conn) leave() {
	c.pass()
	if c.ending.Load() {
		// Let the replies go out first.
		c.drain()
		<-c.done
	}
	c.cut()
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.retire(c)
	delete(c.server.clients, c)
}

// handleLater executes requests when they arrive.
func (c *conn) handleLater() {
	defer c.leave()
	for {
		late, ok := c.in.take()
		if !ok || !c.pause(late.due.Sub(c.server.config.Clock.Now())) || late.frame == nil || !c.handle(late.frame) || !c.drain() {
			return
		}
	}
}

// pause waits, and reports whether the connection is still there.
func (c *conn) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	over := make(chan struct{})
	stop := c.server.config.Clock.AfterFunc(d, func() { close(over) })
	select {
	case <-over:
		return true
	case <-c.done:
		stop()
		return false
	}
}

// pass waits while what comes in is frozen, and reports whether the connection
// is still there.
func (c *conn) pass() bool { return c.in.pass() }

// setFrozen sets the directions that are stopped. The server's lock is held.
func (c *conn) setFrozen(f flow) {
	c.in.freeze(f.requests)
	c.out.freeze(f)
	c.flush()
}

// send queues bytes to be written. The server's lock is held.
func (c *conn) send(late time.Duration, p parcel) {
	if c.mute && !p.isEvent() {
		return
	}
	c.sent++
	c.server.stats.sent++
	if late += c.server.config.Latency; late > 0 {
		p.due = c.server.config.Clock.Now().Add(late)
	}
	c.out.put(p)
	if _, bytes := c.out.owes(); p.isEvent() && bytes > eventFactor*c.server.config.MaxOwed {
		c.cut()
	}
}

// noZxid is the zxid in the header of a notification, except from servers that report the zxid of a
// change.
const noZxid = -1

// notify tells the client of an event, in a transaction with the zxid. The server's lock is held.
func (c *conn) notify(event eventType, path string, zxid int64) {
	c.server.events++
	if !c.server.differs.eventZxid {
		zxid = noZxid
	}
	c.send(c.server.lateness(c, path), parcel{
		size:   frameSize + len(path),
		header: wire.Header{Zxid: zxid},
		event:  wire.Event{Kind: event, State: 3, Path: path},
	})
	c.flush()
}

// reply answers a request. It is encoded when it is written, without the server's
// lock: it must contain nothing that changes. The server's lock is held.
func (c *conn) reply(h wire.Header, op Op, r *wire.Reply) {
	c.send(0, parcel{size: sizeOf(r), header: h, op: op, reply: r})
}
