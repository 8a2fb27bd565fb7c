package session

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// A link is one connection to a server. The client below sees it as its net.Conn;
// between the two it reads every frame, and adds and withholds some:
//
//   - the session's own requests (sync, auth, the closing of the session) are
//     written here, and their replies end here;
//   - a request of the client goes out only if the session has just asked for it
//     on this very link, so that nothing that was queued in an earlier connection,
//     or an earlier session, is executed in a later one;
//   - the client's deadlines are ignored: the session has better ones;
//   - zxids are kept here and not shown to the client, which would read and write
//     its own record of them at once.
//
// A link without a socket is a grave: it lets the client below end in peace.
type link struct {
	epoch  *epoch
	server string
	socket net.Conn // nil in a grave
	made   time.Time

	writing sync.Mutex // held while a frame is written; taken before mu

	mu       sync.Mutex
	arrived  *sync.Cond // something for the client, or eof
	inbound  []byte     // whole frames for the client
	eof      bool
	phase    phase
	why      error          // of the failure
	greeted  time.Time      // when the connect request was sent
	since    int64          // the newest zxid that had been seen by then
	unset    map[watchKey]struct{} // watches that the client must set again first
	auths    int            // auth replies that are missing
	expected *call          // the request that the client is about to write
	sent     map[int32]*sentRequest
	unread   []*sentRequest // in the order of sending; answered ones are dropped lazily
	ownXid   int32
	quorum   time.Time     // when the newest request that the leader must answer was sent
	parting  int32         // xid of the request to close the session
	parted   chan struct{} // closed when that is answered, or the link has failed
	failed   chan struct{} // closed when the link has failed
}

type phase int

const (
	greeting  phase = iota // waiting for the server to accept the session
	restoring              // watches and credentials are being set again
	open
	failed
)

// A sentRequest waits for its reply.
type sentRequest struct {
	at       time.Time
	opcode   int32
	answered bool
	call     *call      // nil for the session's own and the client's own requests
	watch    string     // path to be watched
	resets   []watchKey // watches set again
}

func newLink(e *epoch, server string, socket net.Conn) *link {
	l := &link{
		epoch: e, server: server, socket: socket, made: time.Now(),
		sent: make(map[int32]*sentRequest), ownXid: xidOwn,
		parted: make(chan struct{}), failed: make(chan struct{}),
	}
	l.arrived = sync.NewCond(&l.mu)
	return l
}

// Read gives the client whole frames.
func (l *link) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.inbound) == 0 {
		if l.eof {
			return 0, io.EOF
		}
		l.arrived.Wait()
	}
	n := copy(p, l.inbound)
	l.inbound = l.inbound[n:]
	if len(l.inbound) == 0 {
		l.inbound = nil
	}
	return n, nil
}

// forward hands the client a frame, with its length before it.
func (l *link) forward(frame []byte) {
	l.inbound = append(l.inbound, frame...)
	l.arrived.Signal()
}

// Write takes one frame from the client: it writes each with one call. It never
// returns an error, which the client cannot bear while it authenticates: the link
// fails, and the client learns of it when it reads.
func (l *link) Write(p []byte) (int, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.admit(p) {
		if _, err := l.socket.Write(p); err != nil {
			l.fail(err)
		}
	}
	return len(p), nil
}

// admit decides whether a frame of the client goes out.
func (l *link) admit(p []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	frame := p[4:]
	if l.phase == greeting {
		if l.socket == nil {
			l.phase = failed
			l.forward(handshakeFrame(handshake{timeout: time.Minute, id: 1}))
			return false
		}
		l.greeted = time.Now()
		l.since = l.epoch.newest.Load()
		binary.BigEndian.PutUint64(frame[4:], uint64(l.since))
		return true
	}
	xid, opcode := int32At(frame, 0), int32At(frame, 4)
	switch {
	case opcode == opPing:
		return l.phase != failed
	case opcode == opClose:
		// Only graves see it: the session closes itself. See [link.part].
		l.forward(replyFrame(xid, codeOK))
		return false
	case opcode == opSetWatches && (l.phase == restoring || l.phase == open):
		binary.BigEndian.PutUint64(frame[requestHeader:], uint64(l.since))
		resets, err := parseSetWatches(frame)
		if err != nil {
			l.failLocked(err)
			return false
		}
		l.await(xid, &sentRequest{opcode: opcode, resets: resets})
		return true
	case l.phase == open && l.expected != nil:
		c := l.expected
		l.expected = nil
		c.bound = true
		c.opcode = opcode
		l.await(xid, &sentRequest{opcode: opcode, call: c, watch: watchRequested(opcode, frame)})
		c.epoch.pipeline.written <- struct{}{}
		return true
	case l.phase != failed || l.socket == nil:
		l.forward(replyFrame(xid, codeRefused))
	}
	return false
}

// await notes a request that has been, or is just being, sent.
func (l *link) await(xid int32, r *sentRequest) {
	r.at = time.Now()
	l.sent[xid] = r
	l.unread = append(l.unread, r)
	if isWrite(r.opcode) {
		l.quorum = r.at
	}
}

// expect announces the next request of the client. It reports whether the link
// can take it.
func (l *link) expect(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase != open {
		return false
	}
	l.expected = c
	return true
}

// unexpect ends that. It reports whether the request has gone out meanwhile.
func (l *link) unexpect(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expected == c {
		l.expected = nil
	}
	return c.bound
}

// send writes a request of the session's own. It does nothing, and says so, while
// a frame of the client is being written, which may take long.
func (l *link) send(opcode int32, build func(xid int32) []byte) (xid int32, sent bool) {
	if !l.writing.TryLock() {
		return 0, false
	}
	defer l.writing.Unlock()
	l.mu.Lock()
	if l.phase == failed {
		l.mu.Unlock()
		return 0, false
	}
	xid = l.ownXid
	if l.ownXid--; l.ownXid > xidOwn {
		l.ownXid = xidOwn // it has wrapped
	}
	l.await(xid, &sentRequest{opcode: opcode})
	l.mu.Unlock()
	if _, err := l.socket.Write(build(xid)); err != nil {
		l.fail(err)
		return 0, false
	}
	return xid, true
}

func (l *link) sync() {
	l.send(opSync, func(xid int32) []byte { return syncFrame(xid, "/") })
}

// part tells the server that the session ends. The channel is closed when the
// server has answered, or cannot any more.
func (l *link) part() <-chan struct{} {
	l.writing.Lock() // a client that writes for long is ended by the caller's patience
	defer l.writing.Unlock()
	l.mu.Lock()
	if l.phase == greeting || l.phase == failed {
		l.failLocked(errParted)
		l.mu.Unlock()
		return l.parted
	}
	l.parting = l.ownXid
	l.ownXid--
	frame := requestFrame(l.parting, opClose, nil)
	l.mu.Unlock()
	if _, err := l.socket.Write(frame); err != nil {
		l.fail(err)
	}
	return l.parted
}

// bequeath tells the server, if that can be done at once, that the session ends, so
// that what it held need not wait for the server to notice.
func (l *link) bequeath() {
	if l.socket == nil || !l.writing.TryLock() {
		return
	}
	defer l.writing.Unlock()
	l.mu.Lock()
	usable := (l.phase == restoring || l.phase == open) && l.parting == 0
	xid := l.ownXid
	l.ownXid--
	l.mu.Unlock()
	if usable && l.socket.SetWriteDeadline(time.Now().Add(5*time.Millisecond)) == nil {
		_, _ = l.socket.Write(requestFrame(xid, opClose, nil)) // else the server notices by itself
	}
}

// receive reads frames until the link fails.
func (l *link) receive() {
	r := bufio.NewReaderSize(l.socket, 16<<10)
	l.fail(l.receiveFrom(r))
}

func (l *link) receiveFrom(r *bufio.Reader) error {
	var buf []byte
	limit := l.epoch.session.opts.MaxReply
	for first := true; ; first = false {
		if cap(buf) < 4 || cap(buf) > 64<<10 {
			buf = make([]byte, 4<<10)
		}
		if _, err := io.ReadFull(r, buf[:4]); err != nil {
			return err
		}
		n := int(int32At(buf, 0))
		whole := n
		switch {
		case n < replyHeader:
			return errMalformed
		case first && n > 4<<10:
			return errMalformed
		case n > limit:
			whole = replyHeader
		}
		if cap(buf) < 4+whole {
			grown := make([]byte, 4+whole)
			copy(grown, buf[:4])
			buf = grown
		}
		buf = buf[:4+whole]
		if _, err := io.ReadFull(r, buf[4:]); err != nil {
			return err
		}
		if whole < n {
			if _, err := io.CopyN(io.Discard, r, int64(n-whole)); err != nil {
				return err
			}
			if int32At(buf, 4) < 0 {
				return errMalformed
			}
			copy(buf, replyFrame(int32At(buf, 4), codeTooLarge))
		}
		var err error
		if first {
			err = l.greet(buf)
		} else {
			err = l.handle(buf)
		}
		if err != nil {
			return err
		}
	}
}

// greet handles the server's answer to the connect request. The session's own
// requests go out before the client can write any.
func (l *link) greet(frame []byte) error {
	h, err := parseHandshake(frame[4:])
	if err != nil {
		return err
	}
	l.mu.Lock()
	at := l.greeted
	l.mu.Unlock()
	if at.IsZero() {
		return errMalformed
	}
	watches, err := l.epoch.accept(h, at)
	if err != nil {
		return err
	}
	for _, a := range l.epoch.session.opts.Auth {
		if _, err := l.socket.Write(authFrame(a)); err != nil {
			return err
		}
	}
	l.mu.Lock()
	if l.phase != greeting {
		l.mu.Unlock()
		return l.why
	}
	l.phase = restoring
	l.unset = watches
	l.auths = len(l.epoch.session.opts.Auth)
	l.quorum = at
	l.mu.Unlock()
	l.sync()
	l.mu.Lock()
	l.forward(frame)
	l.mu.Unlock()
	l.openIfRestored()
	return nil
}

// handle looks at a frame of the server, and hands it on if it is for the client.
func (l *link) handle(frame []byte) error {
	body := frame[4:]
	xid, zxid, code := int32At(body, 0), int64At(body, 4), int32At(body, 12)
	if xid > 0 || xid <= xidOwn {
		l.epoch.seen(zxid)
		clear(body[4:12])
	}
	switch {
	case xid == xidNotification:
		ev, err := parseNotification(body)
		if err != nil {
			return err
		}
		l.epoch.notified(ev)
		l.mu.Lock()
		l.forward(frame)
		l.mu.Unlock()
		return nil
	case xid == xidAuth:
		if code != codeOK {
			return ErrAuthFailed
		}
		l.mu.Lock()
		l.auths--
		l.mu.Unlock()
		l.openIfRestored()
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if xid != 0 && xid == l.parting {
		l.failLocked(errParted)
		return errParted
	}
	r, ok := l.sent[xid]
	if !ok {
		return nil // a ping
	}
	delete(l.sent, xid)
	r.answered = true
	for len(l.unread) > 0 && l.unread[0].answered {
		l.unread[0] = nil
		l.unread = l.unread[1:]
	}
	if isWrite(r.opcode) && byLeader(code) {
		l.epoch.extend(r.at)
	}
	switch {
	case r.opcode == opSetWatches:
		if code != codeOK {
			return fmt.Errorf("setting watches again: %w", errOf(code))
		}
		for _, key := range r.resets {
			delete(l.unset, key)
		}
		l.forward(frame)
		l.mu.Unlock()
		l.openIfRestored()
		l.mu.Lock()
	case r.call != nil:
		if kind, set := watchSet(r.opcode, code); set && r.watch != "" {
			l.epoch.watched(watchKey{r.watch, kind})
		}
		r.call.code = code
		r.call.place = l.epoch.session.order.reserve()
		l.forward(frame)
	}
	return nil
}

// openIfRestored lets requests through as soon as the watches stand again and the
// credentials are accepted.
func (l *link) openIfRestored() {
	l.mu.Lock()
	if l.phase != restoring || len(l.unset) > 0 || l.auths > 0 {
		l.mu.Unlock()
		return
	}
	l.phase = open
	l.unset = nil
	l.mu.Unlock()
	l.epoch.opened(l)
}

// keep fails the link when the server is silent for too long, and sends a sync
// when there was no other reason for the leader to hear from the session.
func (l *link) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.failed:
			return
		case <-timer.C:
		}
		timer.Reset(max(l.check(), time.Millisecond))
	}
}

// check returns when to check again.
func (l *link) check() time.Duration {
	now := time.Now()
	l.mu.Lock()
	if l.phase == greeting || l.phase == failed {
		left := l.made.Add(l.epoch.session.servers.patience()).Sub(now)
		if left <= 0 {
			l.failLocked(errors.New("the server does not answer the connect request"))
		}
		l.mu.Unlock()
		return left
	}
	terms := l.epoch.terms()
	next := terms.silence
	if len(l.unread) > 0 {
		next = l.unread[0].at.Add(terms.silence).Sub(now)
	}
	if next <= 0 || l.phase == restoring && now.Sub(l.greeted) > 2*terms.silence && len(l.unread) == 0 {
		l.failLocked(errSilent)
		l.mu.Unlock()
		return 0
	}
	heartbeat := l.quorum.Add(terms.heartbeat).Sub(now)
	l.mu.Unlock()
	if heartbeat <= 0 {
		l.sync()
		heartbeat = terms.heartbeat
	}
	return min(next, heartbeat)
}

var (
	errSilent = errors.New("the server does not answer")
	errParted = errors.New("the session was closed")
)

// fail ends the link, for the first reason given. What has arrived is still
// delivered.
func (l *link) fail(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failLocked(why)
}

func (l *link) failLocked(why error) {
	if l.socket == nil || l.phase == failed {
		return
	}
	early := l.phase != open
	l.phase, l.why, l.eof = failed, why, true
	l.expected = nil
	l.arrived.Broadcast()
	close(l.failed)
	close(l.parted)
	_ = l.socket.Close() // there is nothing to be done about a failure
	l.epoch.severed(l, why, early)
}

// Close is called by the client when it gives the connection up.
func (l *link) Close() error {
	if l.socket == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.eof = true
		l.arrived.Broadcast()
		return nil
	}
	l.fail(net.ErrClosed)
	return nil
}

// LocalAddr implements [net.Conn].
func (l *link) LocalAddr() net.Addr { return linkAddr(l.server) }

// RemoteAddr implements [net.Conn].
func (l *link) RemoteAddr() net.Addr { return linkAddr(l.server) }

// SetDeadline does nothing.
func (l *link) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (l *link) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (l *link) SetWriteDeadline(time.Time) error { return nil }

type linkAddr string

func (linkAddr) Network() string  { return "tcp" }
func (a linkAddr) String() string { return string(a) }
