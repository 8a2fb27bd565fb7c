package session

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/zkactors/zkactors/session/internal/direct"
	"github.com/zkactors/zkactors/session/internal/fifo"
	"github.com/zkactors/zkactors/session/internal/lease"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// A connection is one connection to a server. Calls go out on it, encoded, in the order in which the
// epoch submits them; a goroutine of its own writes all that wait at a moment at once. A lone
// call is written by its caller (see [connection.reserve]). The goroutine of the client below that
// reads (see client.go) decodes the replies. It matches them with the calls in order, and brings
// them into the session's order.
//
// The session adds requests of its own: heartbeats, credentials, watches that are set
// again, and the end of the session.
type connection struct {
	epoch  *epoch
	server string
	socket net.Conn
	direct func(frame []byte) (n int, err error) // see [direct.Writer]; nil if the socket is not the kernel's
	made   time.Duration
	wake   chan struct{} // holds a value while there is something to write
	failed chan struct{} // closed when the connection has failed
	told   chan struct{} // closed when the failure has been reported to the session

	// Guarded by the lock of the epoch.
	phase     phase
	proven    bool          // it was open for a while
	why       error         // it failed
	greeted   time.Duration // when the connect request was sent; -1 before
	lease     lease.Lease
	xid       int32             // the newest that was used
	pending   fifo.Queue[*call] // sent, and not answered
	unwritten int               // how many of pending, the newest, are in out
	out       [][]byte          // frames that are still to be written
	writing   bool              // a goroutine is writing, or the socket is reserved for one
	synced    bool              // the first sync was answered: newest is what all had done before, and writes may go out
	missing   int               // watches and credentials without an answer: it opens when there is none
	restored  time.Duration     // when such an answer came last
	parting   bool              // the request to close the session has gone out
	readOnly  bool              // set by the handshake of a server without a quorum, see readonly.go
	timeout   time.Duration     // that such a server grants
	leaving   bool              // set when the session moves to another server: no call goes out any more
	asked     time.Duration     // when the newest request was sent that keeps the session alive
	commits   bool              // the newest heartbeat is a transaction

	// These belong to the goroutine that reads.
	reader  wire.Reader
	drained bool // set when the connection is leaving and every call is answered
	reply   wire.Reply
	results []wire.Result // memory for those of the next reply
	hello   []byte        // what the client below has not read of the answer to its connect request
}

type phase int

const (
	phaseGreeting  phase = iota // waiting for the server to accept the session
	phaseRestoring              // watches and credentials are being set again
	phaseOpen
	phaseFailed
)

func newConnection(e *epoch, server string, socket net.Conn) *connection {
	return &connection{
		epoch: e, server: server, socket: socket, direct: direct.Writer(socket), made: e.session.clock.now(), greeted: -1,
		wake: make(chan struct{}, 1), failed: make(chan struct{}), told: make(chan struct{}),
		reader: wire.Reader{Socket: socket, Limit: e.session.opts.MaxReply},
	}
}

// Methods whose comment says "locked" are called with the lock of the epoch.

// write puts a frame behind those that wait to be written. Locked.
func (l *connection) write(frame []byte) {
	l.out = append(l.out, frame)
	l.wakeWriter()
}

// wakeWriter has the writer write what waits. If another goroutine is writing, it is woken later. Locked.
func (l *connection) wakeWriter() {
	if l.writing || len(l.out) == 0 {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// A call is written by its caller if it has few bytes, and few calls are unanswered: of many, the writer
// writes several at once.
const (
	directCalls = 8
	directBytes = 4 << 10
)

// reserve reserves the socket for the calling goroutine, which is about to submit a call, and is
// to ask for it with lone then. It reports whether it has. Locked.
func (l *connection) reserve() bool {
	if l == nil || l.direct == nil || l.phase != phaseOpen || l.writing || l.pending.Len() >= directCalls {
		return false
	}
	l.writing = true
	return true
}

// lone returns the frame that is to be written by the goroutine for which the socket is reserved. It
// is nil, and the socket is free again, if what waits is left to the writer. Locked.
func (l *connection) lone() []byte {
	if len(l.out) != 1 || len(l.out[0]) > directBytes {
		l.free()
		return nil
	}
	frame := l.out[0]
	l.out[0] = nil
	l.out, l.unwritten = l.out[:0], 0
	return frame
}

// free ends the reservation of the socket. Locked.
func (l *connection) free() {
	l.writing = false
	l.wakeWriter()
}

// writeLone writes a frame that lone has returned. It leaves to the writer what the kernel does not take at
// once: its caller may be the goroutine that looks after the deadline. The epoch must not be locked.
func (l *connection) writeLone(frame []byte) {
	n, err := l.direct(frame)
	if err != nil {
		l.fail(err)
	}
	l.epoch.mu.Lock()
	defer l.epoch.mu.Unlock()
	if n < len(frame) {
		l.out = slices.Insert(l.out, 0, frame[n:])
	}
	l.free()
}

// send puts a call on its way. Locked.
func (l *connection) send(c *call) {
	if l.xid++; l.xid <= 0 {
		l.xid = 1 // it has wrapped
	}
	c.xid, c.sent, c.since = l.xid, l.epoch.session.clock.now(), l.epoch.newest
	wire.SetXid(c.frame, c.xid)
	l.pending.Push(c)
	l.unwritten++
	l.write(c.frame)
}

// ask sends a request of the session's own, whose answer the reader gives. Locked.
func (l *connection) ask(r *wire.Request, answered func(wire.Code) error) {
	c := &call{opcode: r.Op, own: answered}
	c.frame = wire.AppendRequest(nil, 0, r)
	l.send(c)
}

// writeAll writes what waits, all at once, until the connection fails.
func (l *connection) writeAll() {
	var buffer []byte
	var spare [][]byte // empty: memory for the next frames
	wrote := false
	for {
		var frames [][]byte
		l.epoch.mu.Lock()
		if wrote {
			l.writing = false
		}
		if wrote = !l.writing && l.phase != phaseFailed && len(l.out) > 0; wrote {
			frames, l.out, l.unwritten, l.writing = l.out, spare, 0, true
		}
		l.epoch.mu.Unlock()
		if len(frames) == 0 {
			select {
			case <-l.wake:
				continue
			case <-l.failed:
				return
			}
		}
		var err error
		if buffer, err = l.flush(frames, buffer[:0]); err != nil {
			l.fail(err)
			return
		}
		clear(frames)
		if spare = frames[:0]; cap(spare) > maxInFlight {
			spare = nil
		}
	}
}

// flush writes frames, small ones together. It returns the buffer that it used.
func (l *connection) flush(frames [][]byte, buffer []byte) (_ []byte, err error) {
	for i, frame := range frames {
		switch {
		case len(frames) == 1 || len(frame) > wire.LargeBuffer/2 && len(buffer) == 0:
			_, err = l.socket.Write(frame)
		default:
			buffer = append(buffer, frame...)
			if len(buffer) >= wire.LargeBuffer/2 || i == len(frames)-1 || len(frames[i+1]) > wire.LargeBuffer/2 {
				_, err = l.socket.Write(buffer)
				buffer = buffer[:0]
			}
		}
		if err != nil {
			return buffer, err
		}
	}
	if cap(buffer) > wire.LargeBuffer {
		buffer = nil
	}
	return buffer, nil
}

// restore asks for what every connection begins with. Locked.
func (l *connection) restore(watches []watchKey) {
	opts := &l.epoch.session.opts
	l.phase, l.restored = phaseRestoring, l.epoch.session.clock.now()
	l.asked = l.restored
	for _, a := range opts.Auth {
		l.missing++
		l.write(wire.AppendRequest(nil, wire.XidAuth, &wire.Request{Op: wire.OpAuth, Scheme: a.Scheme, Data: a.Secret}))
	}
	if l.readOnly {
		l.openIfRestored()
		return
	}
	if l.epoch.parting {
		l.part()
		return
	}
	l.ask(&wire.Request{Op: wire.OpSync, Path: "/"}, func(code wire.Code) error {
		if code != wire.CodeOK {
			return fmt.Errorf("the first sync: %w", errOf(code))
		}
		l.epoch.mu.Lock()
		defer l.epoch.mu.Unlock()
		l.synced = true
		l.epoch.advance()
		return nil
	})
	for _, r := range setWatches(l.epoch.told, watches) {
		l.missing++
		l.ask(r, func(code wire.Code) error {
			if code != wire.CodeOK {
				return fmt.Errorf("setting watches again: %w", errOf(code))
			}
			return l.answeredMissing()
		})
	}
	if l.epoch.session.strict() {
		l.heartbeat() // a transaction: the handshake does not count without it, and the deadline may be near
	}
	l.openIfRestored()
}

// answeredMissing notes one more answer that the connection waited for.
func (l *connection) answeredMissing() error {
	l.epoch.mu.Lock()
	defer l.epoch.mu.Unlock()
	if l.missing--; l.missing < 0 {
		return wire.ErrMalformed // the session has no such request
	}
	l.restored = l.epoch.session.clock.now()
	l.openIfRestored()
	return nil
}

// openIfRestored lets calls out as soon as the watches stand again and the credentials
// are accepted. Locked.
func (l *connection) openIfRestored() {
	if l.phase == phaseRestoring && l.missing == 0 {
		l.phase = phaseOpen
		l.epoch.opened(l)
	}
}

// heartbeat has the leader hear from the session. While a recipe relies on the session, every
// second heartbeat is a transaction that changes nothing: only that proves that a
// quorum follows the leader. Locked.
func (l *connection) heartbeat() {
	l.asked = l.epoch.session.clock.now()
	r := &wire.Request{Op: wire.OpSync, Path: "/"}
	switch {
	case l.readOnly:
		r.Op = wire.OpExists
	case !l.commits && l.epoch.session.strict():
		l.commits = true
		r = &wire.Request{Op: wire.OpMulti, Ops: []wire.Request{{Op: wire.OpCheck, Path: "/", Version: AnyVersion}}}
	default:
		l.commits = false
	}
	l.ask(r, func(wire.Code) error { return nil })
}

// part tells the server that the session ends. Locked.
func (l *connection) part() {
	if l.phase == phaseGreeting || l.phase == phaseFailed || l.parting || l.readOnly {
		return
	}
	l.parting = true
	l.ask(&wire.Request{Op: wire.OpCloseSession}, func(wire.Code) error {
		l.epoch.gone()
		return errParted
	})
}

// leave has the connection fail when every call that was sent is answered, so that nothing is
// lost. It reports whether it can fail at once. Locked.
func (l *connection) leave() (now bool) {
	l.leaving = true
	return l.phase != phaseOpen || l.pending.Len() == 0
}

// serve reads and handles frames until the connection fails.
func (l *connection) serve() {
	order := l.epoch.session.order
	for {
		frame, err := l.reader.Next()
		if err == nil {
			err = l.receive(frame)
		}
		if err == nil && l.drained {
			err = errLeaving
		}
		if err != nil {
			l.fail(err)
			return
		}
		if !l.reader.More() {
			order.Run()
		}
	}
}

// receive handles a frame.
func (l *connection) receive(frame []byte) error {
	h, rest, err := wire.ParseHeader(frame)
	if err != nil {
		return err
	}
	switch h.Xid {
	case wire.XidNotification:
		ev, err := wire.ParseEvent(rest)
		if err != nil {
			return err
		}
		l.epoch.notified(ev)
		return nil
	case wire.XidPing:
		return nil
	case wire.XidAuth:
		switch {
		case h.Code != wire.CodeOK:
			return ErrAuthFailed
		case len(rest) > 0:
			return wire.ErrMalformed
		}
		return l.answeredMissing()
	}
	c, err := l.answered(h)
	if err != nil {
		return err
	}
	l.reply.Results = l.results
	switch {
	case c.own != nil:
		if h.Code == wire.CodeOK {
			err = wire.ParseReply(c.opcode, nil, rest, &l.reply)
		}
		if err == nil {
			err = c.own(h.Code)
		}
	case c.members != nil:
		err = l.epoch.shared(c, h, rest, &l.reply)
	default:
		err = c.settle(h, rest, &l.reply)
		l.epoch.session.order.Add(c)
	}
	if l.reply.Results != nil {
		l.results = l.reply.Results
	}
	switch {
	case err != nil:
		return err
	case h.Code == wire.CodeSessionMoved:
		return errMoved
	case h.Code == wire.CodeSessionExpired:
		return ErrExpired // the next handshake confirms it
	}
	return nil
}

// answered returns the call that a reply is for, and counts what the reply proves.
func (l *connection) answered(h wire.Header) (*call, error) {
	e := l.epoch
	now := e.session.clock.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.phase == phaseFailed {
		return nil, net.ErrClosed
	}
	if l.pending.Len() == l.unwritten || l.pending.All()[0].xid != h.Xid {
		return nil, wire.ErrMalformed // replies come in the order of requests
	}
	c := l.pending.Pop()
	c.frame = nil
	l.drained = l.leaving && l.pending.Len() == 0
	if l.readOnly {
		c.target = "" // what the server does not know may be there all the same
		return c, nil // it proves nothing
	}
	e.newest = max(e.newest, h.Zxid)
	if l.phase == phaseOpen {
		e.told = e.newest
	}
	if c.counted {
		c.counted = false
		e.coalescer.inFlight--
	}
	if c.plants {
		if kind, planted := planted(c.opcode, h.Code); planted {
			e.watches[watchKey{c.target, kind}] = struct{}{}
		}
	}
	by := c.vouches(h.Code)
	if by != lease.ByServer && (by == lease.ByQuorum || !e.session.strict()) {
		l.asked = max(l.asked, c.sent)
	}
	l.lease.Answered(c.sent, now, by)
	if l.phase == phaseOpen {
		e.prove(l)
	}
	e.advance()
	return c, nil
}

// check fails the connection when the server is silent for too long, sends a heartbeat
// when one is due, and returns when to check again. Locked.
func (l *connection) check(now time.Duration) (next time.Duration, silent error) {
	if l.phase == phaseGreeting {
		left := l.made + l.epoch.session.servers.Patience() - now
		if left <= 0 {
			return 0, errUnanswered
		}
		return left, nil
	}
	terms := l.terms()
	next = terms.Silence
	if l.pending.Len() > 0 {
		next = l.pending.All()[0].sent + terms.Silence - now
	}
	if next <= 0 || l.phase == phaseRestoring && now-l.restored > 2*terms.Silence {
		return 0, errSilent
	}
	if !l.proven && l.phase == phaseOpen && now-l.made > terms.Heartbeat/2 {
		l.proven = true
		l.epoch.coalescer.broken = 0
		l.epoch.session.servers.Succeeded(l.server)
	}
	if l.asked+terms.Heartbeat <= now {
		l.heartbeat()
	}
	return min(next, l.asked+terms.Heartbeat-now), nil
}

// terms are those of the epoch, or of the server's own if that is read-only. Locked.
func (l *connection) terms() lease.Terms {
	if l.readOnly {
		return lease.TermsOf(l.timeout, 0)
	}
	return l.epoch.terms()
}

var (
	errSilent     = errors.New("the server does not answer")
	errUnanswered = errors.New("the server does not answer the connect request")
	errLeaving    = errors.New("the session moves to another server")
	errParted     = errors.New("the session was closed")
	errMoved      = errors.New("the server says that the session is connected to another")
)

// fail ends the connection, for the first reason given. The goroutine that reads tells
// the session, behind everything that it has read.
func (l *connection) fail(why error) {
	l.epoch.mu.Lock()
	first := l.condemn(why)
	l.epoch.mu.Unlock()
	if first {
		l.cut()
	}
}

// condemn notes why the connection fails, and reports whether that is the first reason: cut is to follow then,
// without the lock. Locked.
func (l *connection) condemn(why error) (first bool) {
	if l.phase == phaseFailed {
		return false
	}
	l.phase, l.why = phaseFailed, why
	return true
}

// cut closes the socket of a connection that has failed.
func (l *connection) cut() {
	close(l.failed)
	socket := l.socket
	if secure, ok := socket.(*tls.Conn); ok {
		socket = secure.NetConn() // to end TLS in form may take seconds
	}
	_ = socket.Close() // there is nothing to be done about a failure
}

// longestPassword is well below what the client can present. Those of ZooKeeper have 16 bytes.
const longestPassword = 128
