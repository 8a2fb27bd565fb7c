package zktest

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// A conn is the server's side of a connection: a goroutine that reads requests
// and has them executed, one that writes, and with latency one more between
// reading and executing.
type conn struct {
	// Immutable.
	server  *Server
	replica *replica
	net     net.Conn
	since   time.Time
	done    chan struct{} // closed when the connection is

	closeOnce sync.Once

	// Owned by the server's lock.
	session  *session   // nil before the handshake
	timeout  int32      // negotiated by this connection
	who      []identity // authenticated
	waiting  []request  // for the leader; later ones wait with them
	mute     bool       // the replies to the present request are lost
	lateLine lateLine
	received int
	sent     int
	lastOp   Op
	lastXid  int32

	// ending is set when the server takes no more requests.
	ending atomic.Bool

	in  inbound
	out outbound
}

// A flow is what is stopped on a connection.
type flow struct{ requests, replies, events bool }

func (f flow) or(g flow) flow {
	return flow{f.requests || g.requests, f.replies || g.replies, f.events || g.events}
}

// inbound guards what comes in.
type inbound struct {
	mu      sync.Mutex
	stopped bool
	resume  chan struct{} // closed when stopped ends
}

// outbound queues what goes out.
type outbound struct {
	mu     sync.Mutex
	wake   chan struct{} // holds a value when there may be something to write
	queue  []parcel
	spare  []byte // a buffer to use again
	held   flow
	ending bool // close the connection when the queue is empty
	last   time.Time
}

// A parcel is bytes to be written at the same time.
type parcel struct {
	due   time.Time // zero means now
	event bool
	data  []byte
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
		net:     nc,
		since:   s.config.Clock.Now(),
		done:    make(chan struct{}),
	}
	host, _, err := net.SplitHostPort(nc.RemoteAddr().String())
	if err == nil {
		c.who = []identity{{"ip", host}}
	}
	c.out.wake = make(chan struct{}, 1)
	c.lateLine.wake = make(chan struct{}, 1)
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
	c.closeOnce.Do(func() {
		close(c.done)
		_ = c.net.Close()
	})
}

// end closes the connection when all that is to be written has been.
func (c *conn) end() {
	c.ending.Store(true)
	c.out.mu.Lock()
	c.out.ending = true
	c.out.mu.Unlock()
	c.flush()
}

// read takes in requests until the connection ends.
func (c *conn) read() {
	if c.server.config.Latency > 0 {
		// The end of the connection comes as late as all else.
		defer func() { c.lateLine.put(nil, c.server.config.Clock.Now().Add(c.server.config.Latency)) }()
	} else {
		defer c.leave()
	}
	r := bufio.NewReaderSize(c.net, 16<<10)
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return
	}
	if reply, ok := c.server.fourLetterWord(string(head[:]), c.replica); ok {
		c.out.put(time.Time{}, false, []byte(reply))
		c.end()
		<-c.done
		return
	}
	var buf []byte
	for {
		n := int32(binary.BigEndian.Uint32(head[:]))
		if n < 0 || int(n) > c.server.config.MaxRequest {
			return
		}
		if cap(buf) < int(n) || cap(buf) > 1<<16 && n < 1<<12 {
			buf = make([]byte, max(int(n), 512))
		}
		frame := buf[:n]
		if _, err := io.ReadFull(r, frame); err != nil {
			return
		}
		if latency := c.server.config.Latency; latency > 0 {
			c.lateLine.put(append([]byte{}, frame...), c.server.config.Clock.Now().Add(latency))
		} else if !c.handle(frame) {
			return
		}
		// Replies to a burst of requests go out in one piece.
		if r.Buffered() < 4 {
			c.flush()
		}
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
	}
}

// leave forgets a connection that has nothing more to say. One that is frozen
// is not known to be gone before it thaws.
func (c *conn) leave() {
	c.pass()
	if c.ending.Load() {
		// Let the replies go out first.
		c.flush()
		<-c.done
	}
	c.cut()
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.retire(c)
	delete(c.server.clients, c)
}

// A lateLine is the wire with latency between reading and executing.
type lateLine struct {
	mu    sync.Mutex
	wake  chan struct{}
	queue []lateFrame
}

type lateFrame struct {
	frame []byte
	due   time.Time
}

func (l *lateLine) put(frame []byte, due time.Time) {
	l.mu.Lock()
	l.queue = append(l.queue, lateFrame{frame, due})
	l.mu.Unlock()
	signal(l.wake)
}

func (l *lateLine) take() (lateFrame, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return lateFrame{}, false
	}
	f := l.queue[0]
	l.queue = l.queue[1:]
	return f, true
}

// handleLater executes requests when they arrive.
func (c *conn) handleLater() {
	defer c.leave()
	for {
		late, ok := c.lateLine.take()
		if !ok {
			select {
			case <-c.lateLine.wake:
				continue
			case <-c.done:
				return
			}
		}
		if !c.pause(late.due.Sub(c.server.config.Clock.Now())) || late.frame == nil || !c.handle(late.frame) {
			return
		}
		c.flush()
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
func (c *conn) pass() bool {
	for {
		c.in.mu.Lock()
		stopped, resume := c.in.stopped, c.in.resume
		c.in.mu.Unlock()
		if !stopped {
			return true
		}
		select {
		case <-resume:
		case <-c.done:
			return false
		}
	}
}

// setFrozen says what is stopped. The server's lock is held.
func (c *conn) setFrozen(f flow) {
	c.in.mu.Lock()
	switch {
	case f.requests && !c.in.stopped:
		c.in.stopped, c.in.resume = true, make(chan struct{})
	case !f.requests && c.in.stopped:
		c.in.stopped = false
		close(c.in.resume)
	}
	c.in.mu.Unlock()
	c.out.mu.Lock()
	c.out.held = flow{replies: f.replies, events: f.events}
	c.out.mu.Unlock()
	c.flush()
}

// send queues a frame. The server's lock is held.
func (c *conn) send(event bool, frame []byte, late time.Duration) {
	if c.mute && !event {
		return
	}
	c.sent++
	c.server.stats.sent++
	var due time.Time
	if late += c.server.config.Latency; late > 0 {
		due = c.server.config.Clock.Now().Add(late)
	}
	c.out.put(due, event, frame)
}

func (o *outbound) put(due time.Time, event bool, frame []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// Nothing overtakes what was sent before.
	if due.Before(o.last) {
		due = o.last
	}
	o.last = due
	if n := len(o.queue); n > 0 && o.queue[n-1].event == event && o.queue[n-1].due.Equal(due) {
		o.queue[n-1].data = append(o.queue[n-1].data, frame...)
		return
	}
	o.queue = append(o.queue, parcel{due, event, append(o.spare[:0], frame...)})
	o.spare = nil
}

func (c *conn) flush() { signal(c.out.wake) }

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// write sends what is queued until the connection ends.
func (c *conn) write() {
	defer c.cut()
	for {
		p, wait, state := c.out.take(c.server.config.Clock.Now())
		switch state {
		case outWaiting:
			over := make(chan struct{})
			stop := c.server.config.Clock.AfterFunc(wait, func() { close(over) })
			select {
			case <-over:
			case <-c.out.wake:
			case <-c.done:
				stop()
				return
			}
			stop()
		case outIdle:
			select {
			case <-c.out.wake:
			case <-c.done:
				return
			}
		case outEnded:
			return
		case outReady:
			if _, err := c.net.Write(p); err != nil {
				return
			}
			c.out.reuse(p)
		}
	}
}

type outState int

const (
	outIdle    outState = iota
	outWaiting          // for a time
	outReady            // there is something to write
	outEnded
)

// take returns what is to be written now.
func (o *outbound) take(now time.Time) ([]byte, time.Duration, outState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		o.last = time.Time{}
		if o.ending && !o.held.replies {
			return nil, 0, outEnded
		}
		return nil, 0, outIdle
	}
	for i, p := range o.queue {
		if p.event && o.held.events || !p.event && o.held.replies {
			continue
		}
		if wait := p.due.Sub(now); !p.due.IsZero() && wait > 0 {
			return nil, wait, outWaiting
		}
		o.queue = slices.Delete(o.queue, i, i+1)
		return p.data, 0, outReady
	}
	return nil, 0, outIdle
}

// reuse keeps a buffer for the next parcel, unless it is a large one.
func (o *outbound) reuse(b []byte) {
	if cap(b) > 1<<18 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spare = b
}

// notify tells the client of an event. The server's lock is held.
func (c *conn) notify(event eventType, path string) {
	s := c.server
	late := s.lateness(c, path)
	c.send(true, wire.AppendEvent(nil, -1, wire.Event{Kind: event, State: 3, Path: path}), late)
	c.flush()
}

// reply answers a request. The server's lock is held.
func (c *conn) reply(h wire.Header, op Op, r *wire.Reply) {
	s := c.server
	if begun := op == OpMultiRead && r != nil; begun && h.Code != codeOK {
		// The server notices the error after it has begun to answer.
		s.scratch = wire.AppendReply(s.scratch[:0], wire.Header{Xid: h.Xid, Zxid: h.Zxid}, op, r)
		wire.SetCode(s.scratch, h.Code)
	} else {
		s.scratch = wire.AppendReply(s.scratch[:0], h, op, r)
	}
	c.send(false, s.scratch, 0)
	if cap(s.scratch) > 1<<20 {
		s.scratch = nil
	}
}
