package zktest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// maxHeld is the number of bytes that a pipe holds before it stops being filled.
const maxHeld = 4 << 20

// proxyBuffer is the size of the reads of a connection.
const proxyBuffer = 16 << 10

// A proxyConn is a client's connection, and the one to the server that belongs
// to it.
type proxyConn struct {
	// Immutable.
	proxy    *Proxy
	number   int
	upstream int
	client   net.Conn
	up, down *proxyPipe
	closed   chan struct{} // closed with the connections

	// The rest is guarded by proxy.mu.

	server      net.Conn // nil until connected
	isClosed    bool
	session     int64 // 0 while unknown
	raw         bool  // a four letter word, no frames
	outstanding []outstandingRequest
	doomed      bool   // what the client sends is lost
	whenIdle    *fault // cuts the connection when nothing is outstanding
}

// An outstandingRequest has not been answered.
type outstandingRequest struct {
	op   Op
	xid  int32
	drop *fault // loses its reply
}

func newProxyConn(p *Proxy, number, upstream int, client net.Conn) *proxyConn {
	return &proxyConn{
		proxy:    p,
		number:   number,
		upstream: upstream,
		client:   client,
		up:       newProxyPipe(),
		down:     newProxyPipe(),
		closed:   make(chan struct{}),
	}
}

// close closes the connections at once. The caller holds proxy.mu.
func (c *proxyConn) close() {
	if c.isClosed {
		return
	}
	c.isClosed = true
	close(c.closed)
	c.client.Close() //nolint:errcheck // cutting it is the purpose
	if c.server != nil {
		c.server.Close() //nolint:errcheck // cutting it is the purpose
	}
}

// serve carries the connection until it ends.
func (c *proxyConn) serve() {
	defer c.gone()
	server, err := net.DialTimeout("tcp", c.proxy.servers[c.upstream], proxyDialTimeout)
	if err != nil {
		c.down.put(proxyPacket{end: true}) // the client learns it unless it is frozen
		c.write(c.down, c.client)
		return
	}
	c.proxy.mu.Lock()
	c.server = server
	closed := c.isClosed
	c.proxy.mu.Unlock()
	if closed {
		server.Close() //nolint:errcheck // it was not used
		return
	}
	var parts sync.WaitGroup
	parts.Go(c.readRequests)
	parts.Go(c.readReplies)
	parts.Go(func() { c.write(c.up, server) })
	parts.Go(func() { c.write(c.down, c.client) })
	parts.Wait()
}

// gone forgets the connection.
func (c *proxyConn) gone() {
	p := c.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	c.close()
	delete(p.conns, c)
	// Faults that waited for an answer got what they wanted in another way.
	for _, r := range c.outstanding {
		p.faults.settle(r.drop)
	}
	p.faults.settle(c.whenIdle)
}

// A proxyPacket is to be delivered.
type proxyPacket struct {
	data   []byte
	due    time.Time // zero for at once
	event  bool      // a notification
	end    bool      // ends the connection
	fault  *fault
	record *Record // to be recorded when delivered
}

// A proxyPipe is one direction of a connection: the bytes that have been read and not written.
type proxyPipe struct {
	wake chan struct{} // holds a value when there may be something to write
	room chan struct{} // holds a value when there may be room for more

	mu      sync.Mutex
	queue   []proxyPacket
	size    int
	holding proxyHold
}

func newProxyPipe() *proxyPipe {
	return &proxyPipe{wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// poke puts a value into ch unless it holds one.
func pokeProxy(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// put queues a proxyPacket, and reports whether there is room for another.
func (q *proxyPipe) put(k proxyPacket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, k)
	q.size += len(k.data)
	pokeProxy(q.wake)
	return q.size < maxHeld
}

// hold sets what is kept back.
func (q *proxyPipe) hold(h proxyHold) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.holding = h
	pokeProxy(q.wake)
}

// take removes what may be delivered, up to an end. If something may be
// delivered later without any further event, it returns when.
func (q *proxyPipe) take(buffer []proxyPacket) (ready []proxyPacket, next time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ready = buffer[:0]
	if q.holding == proxyHoldAll {
		return ready, time.Time{}
	}
	var now time.Time
	kept := q.queue[:0]
	for i, k := range q.queue {
		if !k.due.IsZero() {
			if now.IsZero() {
				now = time.Now()
			}
			if k.due.After(now) {
				next = k.due
				kept = append(kept, q.queue[i:]...)
				break
			}
		}
		if q.holding == proxyHoldReplies && !k.event {
			kept = append(kept, k)
			continue
		}
		ready = append(ready, k)
		q.size -= len(k.data)
	}
	clear(q.queue[len(kept):])
	q.queue = kept
	if len(ready) > 0 && q.size < maxHeld {
		pokeProxy(q.room)
	}
	return ready, next
}

// fill queues what a reader of the connection has read, and waits for room. It
// returns false if the connection is closed.
func (c *proxyConn) fill(q *proxyPipe, packets ...proxyPacket) bool {
	room := true
	for _, k := range packets {
		room = q.put(k)
	}
	for !room {
		select {
		case <-q.room:
			q.mu.Lock()
			room = q.size < maxHeld
			q.mu.Unlock()
		case <-c.closed:
			return false
		}
	}
	return true
}

// write delivers what comes through the pipe, until the connection ends.
func (c *proxyConn) write(q *proxyPipe, to net.Conn) {
	var ready []proxyPacket
	var batch []byte
	var broken bool // the other end is gone; the goroutine that reads from there ends it
	var next time.Time
	for {
		if ready, next = q.take(ready); len(ready) == 0 {
			if !c.await(q, next) {
				return
			}
			continue
		}
		batch = batch[:0]
		var end *proxyPacket
		for i := range ready {
			if ready[i].end {
				end = &ready[i]
				break
			}
			batch = append(batch, ready[i].data...)
		}
		c.record(ready)
		if len(batch) > 0 && !broken {
			_, err := to.Write(batch)
			broken = err != nil
		}
		if end != nil {
			p := c.proxy
			p.mu.Lock()
			c.close()
			p.faults.settle(end.fault)
			p.mu.Unlock()
			return
		}
		clear(ready)
		if cap(batch) > maxHeld/16 {
			batch = nil
		}
	}
}

// await waits until there may be something to write. It returns false if the
// connection is closed.
func (c *proxyConn) await(q *proxyPipe, next time.Time) bool {
	if next.IsZero() {
		select {
		case <-q.wake:
			return true
		case <-c.closed:
			return false
		}
	}
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-q.wake:
		return true
	case <-c.closed:
		return false
	}
}

// record records what is about to be delivered.
func (c *proxyConn) record(packets []proxyPacket) {
	if !slices.ContainsFunc(packets, func(k proxyPacket) bool { return k.record != nil }) {
		return
	}
	p := c.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, k := range packets {
		if k.record != nil {
			k.record.Time = now
			p.trace = append(p.trace, *k.record)
		}
	}
}

// due returns when what has come now is to be delivered.
func (p *Proxy) due(extra time.Duration) time.Time {
	if p.latency+extra <= 0 {
		return time.Time{}
	}
	return time.Now().Add(p.latency + extra)
}

// readRequests reads what the client sends.
func (c *proxyConn) readRequests() {
	in := bufio.NewReaderSize(c.client, proxyBuffer)
	first := true
	for {
		data, err := readProxyFrame(in, first)
		if errors.Is(err, errFourLetterWord) {
			c.readRaw(in, c.up)
			return
		}
		if err != nil {
			c.fill(c.up, proxyPacket{end: true})
			return
		}
		if k, ok := c.request(data, first); ok && !c.fill(c.up, k) {
			return
		}
		first = false
	}
}

// readRaw forwards what is not in frames.
func (c *proxyConn) readRaw(in io.Reader, q *proxyPipe) {
	c.proxy.mu.Lock()
	c.raw = true
	c.proxy.mu.Unlock()
	for {
		data := make([]byte, proxyBuffer)
		n, err := in.Read(data)
		if n > 0 && !c.fill(q, proxyPacket{data: data[:n]}) {
			return
		}
		if err != nil {
			c.fill(q, proxyPacket{end: true})
			return
		}
	}
}

// request looks at a request and decides what becomes of it. It returns false
// if it is lost.
func (c *proxyConn) request(data []byte, first bool) (proxyPacket, bool) {
	p := c.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	var xid int32
	op := OpCreateSession
	if first {
		// The server refuses a malformed request.
		hello, _ := wire.ParseConnectRequest(data[4:])
		c.session = hello.Session
		p.thawOrFreeze(c)
	} else {
		xid, _, _ = wire.ParseRequestHeader(data[4:]) // the server refuses a malformed one
		op = opOf(data[4:])
	}
	if op != OpPing && op != OpCreateSession && op != OpCloseSession {
		p.counts[op]++
	}
	var paths []string
	if !first && (len(p.faults.open) > 0 || p.tracing) {
		paths = pathsOf(data[4:])
	}
	if p.tracing {
		p.trace = append(p.trace, Record{
			Time: time.Now(), Dir: ToServer, Conn: c.number, Session: c.session,
			Op: op, Paths: paths, Xid: xid,
		})
	}
	if c.doomed {
		return proxyPacket{}, false
	}
	request := outstandingRequest{op: op, xid: xid}
	var delay time.Duration
	if f := p.faults.next(c.session, op, paths); f != nil {
		switch {
		case f.what.drop:
			c.doomed = true
			if len(c.outstanding) == 0 {
				c.down.put(proxyPacket{end: true, fault: f})
			} else {
				c.whenIdle = f
			}
			return proxyPacket{}, false
		case f.what.mute:
			c.doomed = true
			request.drop = f
		default:
			delay = f.what.delay
			p.faults.settle(f)
		}
	}
	c.outstanding = append(c.outstanding, request)
	return proxyPacket{data: data, due: p.due(delay)}, true
}

// readReplies reads what the server sends.
func (c *proxyConn) readReplies() {
	in := bufio.NewReaderSize(c.server, proxyBuffer)
	first := true
	for {
		if first {
			// Which of the two it is shows only when the client has spoken.
			if _, err := in.Peek(1); err == nil && c.isRaw() {
				c.readRaw(in, c.down)
				return
			}
		}
		data, err := readProxyFrame(in, false)
		if err != nil {
			c.fill(c.down, proxyPacket{end: true})
			return
		}
		packets := c.reply(data, first)
		if !c.fill(c.down, packets...) || packets[len(packets)-1].end {
			return
		}
		first = false
	}
}

func (c *proxyConn) isRaw() bool {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	return c.raw
}

// reply looks at what the server sent and decides what becomes of it.
func (c *proxyConn) reply(data []byte, first bool) []proxyPacket {
	p := c.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	k := proxyPacket{data: data, due: p.due(0)}
	record := Record{Dir: ToClient, Conn: c.number}
	var request outstandingRequest
	if first {
		request = c.answered(0)
		c.opened(data)
	} else {
		h, rest, _ := wire.ParseHeader(data[4:]) // the client refuses a malformed one
		record.Xid, record.Zxid, record.Err = h.Xid, h.Zxid, int32(h.Code)
		k.event = h.Xid == xidNotification
		if !k.event {
			request = c.answered(h.Xid)
		} else if p.tracing {
			e, _ := wire.ParseEvent(rest)
			record.Paths = []string{e.Path}
		}
	}
	if request.op == OpCloseSession && record.Err == 0 {
		delete(p.sessions, c.session)
	}
	record.Op, record.Session = request.op, c.session
	if p.tracing {
		k.record = &record
	}
	if f := request.drop; f != nil {
		return []proxyPacket{{end: true, due: k.due, fault: f}}
	}
	if f := c.whenIdle; f != nil && len(c.outstanding) == 0 {
		return []proxyPacket{k, {end: true, due: k.due, fault: f}}
	}
	return []proxyPacket{k}
}

// opened learns of a session from the answer to the handshake.
func (c *proxyConn) opened(data []byte) {
	p := c.proxy
	r, _ := wire.ParseConnectResponse(data[4:]) // the client refuses a malformed one
	if r.Session == 0 {                         // it has expired
		delete(p.sessions, c.session)
		return
	}
	c.session = r.Session
	p.sessions[r.Session] = proxySession{timeout: r.Timeout, password: slices.Clone(r.Password)}
	p.thawOrFreeze(c)
}

// answered removes the request that has been answered. Servers answer in order,
// with few exceptions.
func (c *proxyConn) answered(xid int32) outstandingRequest {
	i := slices.IndexFunc(c.outstanding, func(r outstandingRequest) bool { return r.xid == xid })
	if i < 0 {
		return outstandingRequest{}
	}
	request := c.outstanding[i]
	if i == 0 {
		c.outstanding = c.outstanding[1:]
	} else {
		c.outstanding = slices.Delete(c.outstanding, i, i+1)
	}
	return request
}
