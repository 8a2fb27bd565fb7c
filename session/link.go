package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
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
//   - watches are the session's: it sets the flag in reads that plant one, sets them
//     again after a reconnect, and reads what they tell. The client knows of none, and
//     keeps nothing for them;
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

	mu          sync.Mutex
	arrived     *sync.Cond // something for the client, or eof
	inbound     []byte     // whole frames for the client
	interrupted bool       // the socket's read deadline has been used to wake the client
	eof         bool
	phase       phase
	proven      bool      // it was open for a while
	why         error     // of the failure
	greeted     time.Time // when the connect request was sent
	unset       [][]byte  // frames that set watches again, one after the other
	resetting   bool      // one of them is not answered yet
	auths       int       // auth replies that are missing
	expected    *call     // the request that the client is about to write
	sent        map[int32]*sentRequest
	unread      []*sentRequest // in the order of sending; answered ones are dropped lazily
	ownXid      int32
	leaderHeard time.Time     // when the newest request was sent that the leader has answered, or a sync
	known       time.Time     // what the leader counts from, at the least, until the link is open
	signs       []sign        // of life, that the leader may not know of
	restored    time.Time     // when a watch was set again last
	parting     int32         // xid of the request to close the session
	failed      chan struct{} // closed when the link has failed

	// These belong to the goroutine of the client that reads.
	buffer   []byte
	unparsed []byte // of buffer
	excess   int    // what is left of a frame over the limit, and is to be dropped
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
	call     *call // nil for the session's own and the client's own requests
}

func newLink(e *epoch, server string, socket net.Conn) *link {
	l := &link{
		epoch: e, server: server, socket: socket, made: time.Now(),
		sent: make(map[int32]*sentRequest), ownXid: xidOwn,
		failed: make(chan struct{}),
	}
	l.arrived = sync.NewCond(&l.mu)
	return l
}

// Read gives the client whole frames. It is the client's goroutine that reads from
// the socket, so that a reply needs no other one to arrive.
func (l *link) Read(p []byte) (int, error) {
	for {
		l.mu.Lock()
		for l.socket == nil && len(l.inbound) == 0 && !l.eof {
			l.arrived.Wait()
		}
		if len(l.inbound) > 0 {
			n := copy(p, l.inbound)
			l.inbound = l.inbound[n:]
			l.mu.Unlock()
			return n, nil
		}
		if l.eof {
			l.mu.Unlock()
			return 0, io.EOF
		}
		if l.interrupted {
			l.interrupted = false
			_ = l.socket.SetReadDeadline(time.Time{}) // a broken socket shows when it is read
		}
		l.mu.Unlock()
		if err := l.receive(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			l.fail(err)
		}
	}
}

// interject hands the client a frame that was made here, which may have to wake it.
func (l *link) interject(frame []byte) {
	l.inbound = append(l.inbound, frame...)
	l.arrived.Signal()
	if l.socket != nil {
		l.interrupted = true
		_ = l.socket.SetReadDeadline(time.Unix(1, 0)) // a broken socket wakes it as well
	}
}

// Write takes one frame from the client: it writes each with one call. It never
// returns an error, which the client cannot bear while it authenticates: the link
// fails, and the client learns of it when it reads.
func (l *link) Write(p []byte) (int, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	out, ours := l.admit(p)
	if ours {
		l.epoch.pipeline.wrote() // the next can be on its way to us meanwhile
	}
	if out != nil {
		if _, err := l.socket.Write(out); err != nil {
			l.fail(err)
		}
	}
	return len(p), nil
}

// admit returns what goes out in place of a frame of the client, if anything does, and
// says whether it is the request that was expected.
func (l *link) admit(p []byte) (out []byte, ours bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out = p
	frame := p[4:]
	if l.phase == greeting {
		if l.socket == nil {
			l.phase = failed
			l.interject(handshakeFrame(handshake{timeout: time.Minute, id: 1}))
			return nil, false
		}
		l.greeted = time.Now()
		binary.BigEndian.PutUint64(frame[4:], uint64(l.epoch.newest.Load()))
		return out, false
	}
	xid, opcode := int32At(frame, 0), int32At(frame, 4)
	switch {
	case opcode == opPing:
		if l.phase != failed {
			return out, false
		}
	case opcode == opClose:
		// Only graves see it: the session closes itself. See [link.part].
		l.interject(replyFrame(xid, codeOK))
	case l.phase == open && l.expected != nil:
		c := l.expected
		l.expected = nil
		c.bound = true
		c.since = l.epoch.newest.Load()
		switch {
		case c.watch != "":
			setWatchFlag(frame)
		case c.forget != removeNothing:
			opcode = opRemoveWatches
			out = removeWatchesFrame(xid, l.epoch.session.absolute(c.path), c.forget)
		}
		l.await(xid, &sentRequest{opcode: opcode, call: c})
		return out, true
	case l.phase != failed || l.socket == nil:
		l.interject(replyFrame(xid, codeRefused))
	}
	return nil, false
}

// await notes a request that has been, or is just being, sent.
func (l *link) await(xid int32, r *sentRequest) {
	r.at = time.Now()
	l.sent[xid] = r
	l.unread = append(l.unread, r)
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

// sync asks the leader for a sign of life. It does nothing, and says so, while a frame of
// the client is being written, which may take long.
func (l *link) sync() bool {
	if !l.writing.TryLock() {
		return false
	}
	defer l.writing.Unlock()
	l.mu.Lock()
	if l.phase == failed {
		l.mu.Unlock()
		return false
	}
	xid := l.nextOwn()
	l.await(xid, &sentRequest{opcode: opSync})
	l.leaderHeard = time.Now()
	l.mu.Unlock()
	if _, err := l.socket.Write(syncFrame(xid, "/")); err != nil {
		l.fail(err)
	}
	return true
}

// part tells the server that the session ends.
func (l *link) part() {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	if l.phase == greeting || l.phase == failed || l.parting != 0 {
		l.mu.Unlock()
		return
	}
	l.parting = l.ownXid
	l.ownXid--
	frame := requestFrame(l.parting, opClose, nil)
	l.mu.Unlock()
	if _, err := l.socket.Write(frame); err != nil {
		l.fail(err)
	}
}

// receive reads from the socket until there is a frame for the client, or something
// has gone wrong.
func (l *link) receive() error {
	for {
		frame, err := l.nextFrame()
		if err != nil {
			return err
		}
		l.mu.Lock()
		phase := l.phase
		l.mu.Unlock()
		switch phase {
		case greeting:
			err = l.greet(frame)
		case failed: // it may be the answer to the connect request: it tells nothing any more
			err = net.ErrClosed
		case restoring, open:
			err = l.handle(frame)
		}
		if err != nil {
			return err
		}
		l.mu.Lock()
		some := len(l.inbound) > 0
		l.mu.Unlock()
		if some {
			return nil
		}
	}
}

// nextFrame returns a frame with its length before it, which is good until the next
// call. Of a frame over the limit it makes one that says so.
func (l *link) nextFrame() ([]byte, error) {
	for l.excess > 0 {
		n := min(l.excess, len(l.unparsed))
		l.unparsed, l.excess = l.unparsed[n:], l.excess-n
		if l.excess > 0 {
			if err := l.fill(1); err != nil {
				return nil, err
			}
		}
	}
	if err := l.fill(4); err != nil {
		return nil, err
	}
	n := int(int32At(l.unparsed, 0))
	if n < replyHeader {
		return nil, errMalformed
	}
	if n <= l.epoch.session.opts.MaxReply {
		if err := l.fill(4 + n); err != nil {
			return nil, err
		}
		frame := l.unparsed[: 4+n : 4+n]
		l.unparsed = l.unparsed[4+n:]
		return frame, nil
	}
	if err := l.fill(4 + replyHeader); err != nil {
		return nil, err
	}
	xid := int32At(l.unparsed, 4)
	if xid < 0 {
		return nil, errMalformed
	}
	l.unparsed, l.excess = l.unparsed[4+replyHeader:], n-replyHeader
	return replyFrame(xid, codeTooLarge), nil
}

// fill reads until at least n bytes are there to be parsed.
func (l *link) fill(n int) error {
	const usual = 16 << 10
	for len(l.unparsed) < n {
		if room := cap(l.unparsed); room < n || len(l.unparsed) == room || len(l.unparsed) == 0 {
			size := max(n, usual)
			if cap(l.buffer) < size || cap(l.buffer) > 4*usual && size == usual {
				l.buffer = make([]byte, size)
			}
			l.unparsed = append(l.buffer[:0], l.unparsed...)
		}
		have := len(l.unparsed)
		read, err := l.socket.Read(l.unparsed[have:cap(l.unparsed)])
		l.unparsed = l.unparsed[:have+read]
		if err != nil && len(l.unparsed) < n {
			return err
		}
	}
	return nil
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
	for _, a := range l.epoch.session.opts.Auth { // nobody else writes yet
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
	l.restored = time.Now()
	l.unset = setWatchesFrames(l.epoch.told.Load(), watches)
	l.auths = len(l.epoch.session.opts.Auth)
	l.leaderHeard, l.known = at, at // the leader has to agree to a handshake
	l.mu.Unlock()
	if l.epoch.isParting() {
		l.part()
		return nil
	}
	l.sync()
	l.forward(frame)
	return l.restore()
}

// restore sets the next watches again. That is done step by step, so that the server
// never has to be read from and written to at once.
func (l *link) restore() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	if l.phase != restoring || len(l.unset) == 0 || l.resetting {
		l.mu.Unlock()
		l.openIfRestored()
		return nil
	}
	frame := l.unset[0]
	l.unset = l.unset[1:]
	l.resetting = true
	xid := l.nextOwn()
	binary.BigEndian.PutUint32(frame[4:], uint32(xid))
	l.await(xid, &sentRequest{opcode: opSetWatches})
	l.mu.Unlock()
	_, err := l.socket.Write(frame)
	return err
}

// nextOwn returns a transaction id for a request of the session's own.
func (l *link) nextOwn() int32 {
	xid := l.ownXid
	if l.ownXid--; l.ownXid > xidOwn {
		l.ownXid = xidOwn // it has wrapped
	}
	return xid
}

// forward hands the client a frame, with its length before it. It is called by the
// client's own goroutine, when it has had everything else.
func (l *link) forward(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.inbound) == 0 {
		l.inbound = frame // not to be copied: it stays until the client has had it
	} else {
		l.inbound = append(l.inbound, frame...)
	}
}

// handle looks at a frame of the server, and hands it on if it is for the client.
func (l *link) handle(frame []byte) error {
	body := frame[4:]
	xid, zxid, code := int32At(body, 0), int64At(body, 4), int32At(body, 12)
	switch xid {
	case xidNotification:
		ev, err := parseNotification(body)
		if err != nil {
			return err
		}
		l.epoch.notified(ev)
		return nil
	case xidAuth:
		if code != codeOK {
			return ErrAuthFailed
		}
		l.mu.Lock()
		l.auths--
		l.mu.Unlock()
		l.openIfRestored()
		return nil
	}
	l.epoch.seen(zxid)
	l.mu.Lock()
	if l.phase == open {
		l.epoch.told.Store(l.epoch.newest.Load())
	}
	l.mu.Unlock()
	clear(body[4:12])
	r, err := l.answered(xid)
	if r == nil || err != nil {
		return err // nil for a ping
	}
	l.heard(r, isWrite(r.opcode) && byLeader(code))
	switch {
	case r.opcode == opSetWatches:
		if code != codeOK {
			return fmt.Errorf("setting watches again: %w", errOf(code))
		}
		l.mu.Lock()
		l.resetting = false
		l.restored = time.Now()
		l.mu.Unlock()
		return l.restore()
	case r.call != nil:
		if kind, set := watchSet(r.opcode, code); set && r.call.watch != "" {
			l.epoch.watched(watchKey{r.call.watch, kind})
		}
		r.call.code, r.call.zxid = code, zxid
		r.call.place = l.epoch.session.order.reserve()
		l.forward(frame)
	}
	if code == codeMoved {
		return errMoved
	}
	return nil
}

// A sign is a sign of life that the server has seen: a request, and when it was known to
// have been served.
type sign struct{ sent, served time.Time }

// heard follows the reply to a request. If the leader had a part in it, the server was
// in touch with the leader after the request was sent. It had reported by then, as it
// does once in half a tick, whom it had heard that much earlier: the newest of these
// signs of life is what the leader counts from, or a later one.
func (l *link) heard(r *sentRequest, byLeader bool) {
	now, terms := time.Now(), l.epoch.terms()
	l.mu.Lock()
	known := time.Time{}
	if byLeader {
		if r.at.After(l.leaderHeard) {
			l.leaderHeard = r.at
		}
		n := 0
		for n < len(l.signs) && !l.signs[n].served.After(r.at.Add(-terms.report)) {
			n++
		}
		if n > 0 {
			known = l.signs[n-1].sent
			l.signs = slices.Delete(l.signs, 0, n)
		}
	}
	// Signs that are close together count as one: the older.
	if n := len(l.signs); n == 0 || r.at.Sub(l.signs[n-1].sent) > terms.heartbeat/16 {
		l.signs = append(l.signs, sign{sent: r.at, served: now})
	}
	extendable := l.phase == open
	if !extendable && known.After(l.known) {
		l.known = known
	}
	l.mu.Unlock()
	if extendable && !known.IsZero() {
		l.epoch.extend(known)
	}
}

// answered returns the request that a reply is for.
func (l *link) answered(xid int32) (*sentRequest, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if xid != 0 && xid == l.parting {
		l.epoch.gone()
		return nil, errParted
	}
	r, ok := l.sent[xid]
	if !ok {
		return nil, nil
	}
	delete(l.sent, xid)
	r.answered = true
	for len(l.unread) > 0 && l.unread[0].answered {
		l.unread[0] = nil
		l.unread = l.unread[1:]
	}
	return r, nil
}

// takes reports whether the link takes requests.
func (l *link) takes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.phase == open
}

// openIfRestored lets requests through as soon as the watches stand again and the
// credentials are accepted.
func (l *link) openIfRestored() {
	l.mu.Lock()
	if l.phase != restoring || len(l.unset) > 0 || l.resetting || l.auths > 0 {
		l.mu.Unlock()
		return
	}
	l.phase = open
	l.epoch.told.Store(l.epoch.newest.Load()) // not before: the next link must ask again
	known := l.known
	l.mu.Unlock()
	// Only now: a session that can be reached, but not restored, comes to an end.
	l.epoch.extend(known)
	l.epoch.pipeline.open(l)
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
		l.mu.Unlock()
		if left <= 0 {
			l.fail(errUnanswered)
		}
		return left
	}
	terms := l.epoch.terms()
	next := terms.silence
	if len(l.unread) > 0 {
		next = l.unread[0].at.Add(terms.silence).Sub(now)
	}
	if next <= 0 || l.phase == restoring && now.Sub(l.restored) > 2*terms.silence && len(l.unread) == 0 {
		l.mu.Unlock()
		l.fail(errSilent)
		return 0
	}
	heartbeat := l.leaderHeard.Add(terms.heartbeat).Sub(now)
	proven := !l.proven && l.phase == open && now.Sub(l.made) > terms.heartbeat/2
	l.proven = l.proven || proven
	l.mu.Unlock()
	if proven {
		l.epoch.session.servers.succeeded(l.server)
	}
	if heartbeat <= 0 {
		heartbeat = terms.heartbeat
		if !l.sync() {
			heartbeat /= 50
		}
	}
	return min(next, heartbeat)
}

var (
	errSilent     = errors.New("the server does not answer")
	errUnanswered = errors.New("the server does not answer the connect request")
	errParted     = errors.New("the session was closed")
	errMoved      = errors.New("the server says that the session is connected to another")
)

// fail ends the link, for the first reason given.
func (l *link) fail(why error) {
	l.mu.Lock()
	if l.socket == nil || l.phase == failed {
		l.mu.Unlock()
		return
	}
	early := !l.proven
	l.phase, l.why, l.eof = failed, why, true
	l.expected = nil
	l.mu.Unlock()
	close(l.failed)
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
