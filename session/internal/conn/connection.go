package conn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/session/internal/direct"
	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/fifo"
	"github.com/zkactors/zkactors/session/internal/lease"
	"github.com/zkactors/zkactors/session/internal/window"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// A connection is one connection to a server. Encoded calls go out on it in the order in which the
// epoch submits them. The connection's own goroutine writes all waiting calls at once; but a lone
// call is written by its caller (see [connection.reserve]). The reading goroutine of the client
// below (see client.go) decodes the replies. It matches them with the calls in order, and brings
// them into the session's order.
//
// The session adds requests of its own: heartbeats, credentials, watches that are set again, and
// the end of the session.
type connection struct {
	epoch  *Epoch
	server string
	socket net.Conn
	direct func(frame []byte) (n int, err error) // see [direct.Writer]; nil if the socket is not the kernel's
	made   time.Duration
	wake   chan struct{} // holds a value while there is something to write
	failed chan struct{} // closed when the connection has failed

	// Ages of the session. Each is a sign that the server, or the network, is not silent.
	arrived atomic.Int64 // when bytes last arrived
	replied atomic.Int64 // when bytes of a reply last arrived
	taken   atomic.Int64 // when the socket last took bytes that had to wait for it

	told chan struct{} // closed when the session has received the report of the failure

	// Guarded by the lock of the epoch.
	phase     phase
	proven    bool          // it was open for some time
	why       error         // why it failed
	greeted   time.Duration // when the connect request was sent; -1 before that
	lease     lease.Lease
	window    window.Window     // the requests in flight
	preceded  time.Duration     // when a heartbeat was last sent ahead of a request
	tended    time.Duration     // when the next heartbeat was due, by the last calculation
	usual     time.Duration     // a low estimate of answer times of heartbeats in an empty window
	trip      time.Duration     // a high estimate of answer times of own requests: rises at once, falls slowly
	late      int               // how many of these in a row came near to what the lease can bear
	prompt    time.Duration     // when one of these was last on time
	long      time.Duration     // the newest answer time of a caller's request
	longs     int               // how many of these in a row came near to what the lease can bear
	creates   bool              // its connect request asks for a new session
	accepted  bool              // the server has granted a session
	orphaned  bool              // it has asked for a new session, and does not wait for the answer any more: see dismiss
	xid       int32             // the newest xid
	pending   fifo.Queue[*Call] // calls without an answer, the oldest first
	unwritten int               // how many of pending, from the newest, are still in out
	pinged    []time.Duration   // when the pings without an answer were sent
	nudger    *time.Timer       // looks for a forgotten answer, see nudge.go; nil before the first request
	expecting bool              // set while it runs
	nudged    int32             // the xid of the oldest request when the newest nudge went out; 0 before
	out       [][]byte          // frames that must still be written
	writing   bool              // a goroutine is writing, or the socket is reserved for one
	syncing   bool              // a sync was sent so that writes may go out
	synced    bool              // the leader has answered: newest covers all earlier writes, and writes may go out
	missing   int               // watches and credentials without an answer: the connection opens when there are none
	resetting []*wire.Request   // requests that set watches again, for which the window has no room yet
	restored  time.Duration     // when the last of these answers came
	parting   bool              // the request to close the session was sent
	guest     bool              // it asks for a session of its own, see readonly.go
	readOnly  bool              // set by the handshake of a server without a quorum, see readonly.go
	timeout   time.Duration     // the timeout that a read-only server grants
	returns   time.Duration     // when to check whether the session belongs to another server; 0: never
	lapsed    bool              // the lease has ended on it
	held      bool              // something was held then
	leaving   bool              // set when the session moves to another server: no more calls go out
	asks      time.Duration     // when to ask what the server does; 0: never
	foreign   bool              // the server is not known by its address
	said      lease.Role        // what it has said, until a later answer confirms it
	learned   time.Duration     // when it has said that
	beats     lease.Beats       // when heartbeats are due, and which are transactions
	stale     bool              // the next heartbeat must be a transaction
	seeking   bool              // nodes of the session are looked for, and calls wait: see ghosts.go

	// Used only by the goroutine that reads.
	reader   wire.Reader
	credited int  // how many of Options.Auth the server has accepted: it answers them in their order
	drained  bool // set when the connection is leaving and every call is answered
	reply    wire.Reply
	results  []wire.Result // memory for the results of the next reply
	hello    []byte        // the unread rest of the connect request's answer, for the client below
}

type phase int

const (
	phaseGreeting  phase = iota // waiting for the server to accept the session
	phaseRestoring              // watches and credentials are being set again
	phaseOpen
	phaseFailed
)

func newConnection(e *Epoch, server string, socket net.Conn) *connection {
	l := &connection{
		epoch: e, server: server, socket: socket, direct: direct.Writer(socket), made: e.session.Clock.Now(), greeted: -1,
		wake: make(chan struct{}, 1), failed: make(chan struct{}), told: make(chan struct{}),
	}
	l.window = window.New(e.session.Timeout/20, 0, l.made, e.replies) // until the handshake
	l.reader = wire.Reader{Socket: socket, Limit: e.session.MaxReply, Arrived: l.noteArrival, Larger: l.limit}
	return l
}

// noteArrival is called on the goroutine that reads, when bytes have arrived.
func (l *connection) noteArrival(reply bool) {
	now := int64(l.epoch.session.Clock.Now())
	l.arrived.Store(now)
	if reply {
		l.replied.Store(now)
	}
}

// mostRoom is the limit for the reply to a call that is Roomy.
const mostRoom = 64 << 20

// limit returns the limit for the reply to a call.
func (l *connection) limit(xid int32) int {
	l.epoch.mu.Lock()
	defer l.epoch.mu.Unlock()
	if l.pending.Len() > 0 && l.pending.All()[0].xid == xid && l.pending.All()[0].Roomy {
		return mostRoom
	}
	return l.epoch.session.MaxReply
}

// Methods whose comment says "locked" are called with the lock of the epoch held.

// write appends a frame to the frames that wait to be written. Locked.
func (l *connection) write(frame []byte) {
	l.out = append(l.out, frame)
	l.wakeWriter()
}

// wakeWriter wakes the goroutine that writes. If another goroutine is writing, it wakes the writer
// later. Locked.
func (l *connection) wakeWriter() {
	if l.writing || len(l.out) == 0 {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// A caller writes its own call if the call is small and few calls are in flight. If there are many,
// the writer is better, because it writes several at once.
const (
	directCalls = 8
	directBytes = 4 << 10
)

// reserve reserves the socket for the calling goroutine, which is about to submit a call, and must
// then call lone. It reports whether the socket is reserved. Locked.
func (l *connection) reserve() bool {
	if l == nil || l.direct == nil || l.phase != phaseOpen || l.writing || l.pending.Len() >= directCalls {
		return false
	}
	l.writing = true
	return true
}

// lone returns the frame that the goroutine with the reservation must write. If it returns nil, the
// writer writes the waiting frames, and the reservation has ended. Locked.
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

// writeLone writes a frame that lone has returned. It does not wait for the socket, because its
// caller may be the goroutine that watches the deadline: the writer writes the rest. The epoch must
// not be locked.
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

// send numbers a call, and writes it or leaves it to the writer. Locked.
func (l *connection) send(c *Call) {
	if c.own == nil {
		l.precede(c)
	}
	if l.xid++; l.xid <= 0 {
		l.xid = 1 // it has wrapped
	}
	c.xid, c.sent, c.Since, c.lapses = l.xid, l.epoch.session.Clock.Now(), l.epoch.newest, l.epoch.lapses.Load()
	wire.SetXid(c.Frame, c.xid)
	if c.counts = c.counts || c.own == nil; c.counts {
		c.flight = l.window.Send(c.Opcode, len(c.Frame), c.sent)
	} else {
		c.ahead = l.window.Empty()
	}
	l.pending.Push(c)
	l.unwritten++
	l.write(c.Frame)
	if c.own == nil {
		l.expect()
	}
}

// ask sends a request of the session itself, and returns when it was sent. The goroutine that reads
// calls answered. Locked.
func (l *connection) ask(r *wire.Request, answered func(wire.Code) error) (sent time.Duration) {
	c := newOwn(r, answered)
	l.send(c)
	return c.sent
}

func newOwn(r *wire.Request, answered func(wire.Code) error) *Call {
	return &Call{Opcode: r.Op, own: answered, Frame: wire.AppendRequest(nil, 0, r)}
}

// admits reports whether there is room in the window for a call. Locked.
func (l *connection) admits(c *Call) bool {
	return !l.pauses() && l.window.Admits(l.window.Cost(c.Opcode, len(c.Frame)))
}

// room returns the largest size of one more request, in bytes. Locked.
func (l *connection) room() int {
	if l.pauses() {
		return 0
	}
	return l.window.Room()
}

// pauses reports whether callers' requests wait for the answers to the heartbeats behind a long
// reply. The proof goes on with these answers. Without the pause, they would be behind the next
// long reply. Locked.
func (l *connection) pauses() bool {
	pauses := l.pausesUntil() > 0
	if pauses {
		l.epoch.session.Poke() // to look again at the end of the pause
	}
	return pauses
}

// pausesUntil returns when the pause ends; 0 without a pause. Locked.
func (l *connection) pausesUntil() time.Duration {
	if l.phase != phaseOpen {
		return 0
	}
	usual := l.usual
	until := l.window.Pause(usual)
	if until == 0 || until <= l.epoch.session.Clock.Now() {
		return 0
	}
	if slices.ContainsFunc(l.pending.All(), func(c *Call) bool { return c.sent+usual <= until }) {
		return until
	}
	return 0
}

// writeAll writes all waiting frames, again and again, until the connection fails.
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
		if spare = frames[:0]; cap(spare) > window.MostRequests {
			spare = nil
		}
	}
}

// flush writes frames, small ones together. It returns the buffer that it used.
func (l *connection) flush(frames [][]byte, buffer []byte) (_ []byte, err error) {
	for i, frame := range frames {
		switch {
		case len(frames) == 1 || len(frame) > wire.LargeBuffer/2 && len(buffer) == 0:
			err = l.writeParts(frame)
		default:
			buffer = append(buffer, frame...)
			if len(buffer) >= wire.LargeBuffer/2 || i == len(frames)-1 || len(frames[i+1]) > wire.LargeBuffer/2 {
				err = l.writeParts(buffer)
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

// writeParts writes to the socket in parts. If a part had to wait, and was taken at last, the peer
// takes the bytes that were sent before.
func (l *connection) writeParts(rest []byte) error {
	const waited = 5 * time.Millisecond
	for len(rest) > 0 {
		part := rest[:min(len(rest), wire.LargeBuffer)]
		begun := l.epoch.session.Clock.Now()
		if _, err := l.socket.Write(part); err != nil {
			return err
		}
		if now := l.epoch.session.Clock.Now(); now-begun >= waited {
			l.taken.Store(int64(now))
		}
		rest = rest[len(part):]
	}
	return nil
}

// part asks the server to close the session. The confirmation ends the dialling: the client would
// connect again before the session learns of the confirmation, and ClickHouse Keeper would create
// another session. Locked.
func (l *connection) part() {
	if l.phase == phaseGreeting || l.phase == phaseFailed || l.parting || l.readOnly {
		return
	}
	l.parting = true
	l.ask(&wire.Request{Op: wire.OpCloseSession}, func(wire.Code) error {
		l.epoch.retire()
		l.epoch.gone()
		return errParted
	})
}

// leave makes the connection fail as soon as every call of a caller is answered, so that no answer
// is lost. It reports whether the connection can fail at once. Locked.
func (l *connection) leave() (now bool) {
	l.leaving = true
	return l.phase != phaseOpen || !l.owes()
}

// owes reports whether an answer is awaited that must not be lost. Answers to heartbeats may be
// lost: on a slow server, one is awaited all the time. Locked.
func (l *connection) owes() bool {
	return slices.ContainsFunc(l.pending.All(), func(c *Call) bool { return c.own == nil || c.Opcode == wire.OpCloseSession })
}

// serve reads and handles frames until the connection fails.
func (l *connection) serve() {
	order := l.epoch.session.Order
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
			order.RunAnswers()
		}
	}
}

// unauthorized returns the error of a connection that has answered a credential with a refusal.
func (l *connection) unauthorized() error {
	auth := l.epoch.session.Auth
	if l.credited >= len(auth) {
		return fault.ErrAuthFailed
	}
	return fmt.Errorf("%w: the server does not know the scheme %q of Options.Auth[%d], or refuses its secret", fault.ErrAuthFailed, auth[l.credited].Scheme, l.credited)
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
		if h.Code == wire.CodeOK {
			l.ponged(h.Zxid)
		}
		return nil
	case wire.XidAuth:
		switch {
		case h.Code != wire.CodeOK:
			return l.unauthorized()
		case len(rest) > 0:
			return wire.ErrMalformed
		}
		l.credited++
		return l.answeredMissing()
	}
	if h.Code == wire.CodeTooLarge && l.expects(h.Xid) {
		if err := l.reader.Drop(); err != nil { // skip the reply that is too large
			return err
		}
	}
	c, err := l.answered(h, l.reader.Size)
	if err != nil {
		return err
	}
	l.reply.Results = l.results
	switch {
	case c.own != nil:
		if h.Code == wire.CodeOK {
			err = wire.ParseReply(c.Opcode, nil, rest, &l.reply)
		}
		if err == nil {
			err = c.own(h.Code)
		}
	case c.members != nil:
		err = l.epoch.shared(c, h, rest, &l.reply)
	default:
		err = c.settle(h, rest, &l.reply)
		l.epoch.session.Order.Add(c)
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
		return fault.ErrExpired // the next handshake confirms it
	}
	return nil
}

// expects reports whether the next reply may have that xid: replies come in the order of requests.
func (l *connection) expects(xid int32) bool {
	l.epoch.mu.Lock()
	defer l.epoch.mu.Unlock()
	return l.pending.Len() > l.unwritten && l.pending.All()[0].xid == xid
}

// answered returns the call that a reply is for, and counts what the reply proves.
func (l *connection) answered(h wire.Header, size int) (*Call, error) {
	e := l.epoch
	now := e.session.Clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.phase == phaseFailed {
		return nil, net.ErrClosed
	}
	if l.pending.Len() == l.unwritten || l.pending.All()[0].xid != h.Xid {
		return nil, wire.ErrMalformed // replies come in the order of requests
	}
	c := l.pending.Pop()
	c.Frame = nil
	l.replied.Store(int64(now))
	if c.counts {
		l.window.Answered(c.flight, size, now)
		l.stretched(now - c.sent)
	} else {
		l.timed(now - c.sent)
		if c.ahead {
			l.usual = min(now-c.sent, l.usual+l.usual/8+time.Millisecond)
			l.window.Beat(now-c.sent, now)
		}
	}
	if l.pending.Len() > 0 {
		l.expect()
	}
	l.drained = l.leaving && !l.owes()
	if l.readOnly {
		c.Target = "" // a missing node may exist on other servers
		return c, nil // the answer proves nothing
	}
	l.saw(h.Zxid)
	if l.phase == phaseOpen {
		e.told = e.newest
	}
	if c.counted {
		c.counted = false
		e.coalescer.inFlight--
	}
	if c.Plants {
		e.standing.Planted(c.Target, c.Opcode, h.Code)
	}
	l.confirm(c.sent)
	by := c.vouches(h.Code)
	if by == lease.ByLeader && l.lease.Settles() {
		by = lease.ByQuorum
	}
	if e.stake.Pings() || by != lease.ByServer && (by == lease.ByQuorum || !e.session.strict()) {
		l.beats.Served(c.sent)
	}
	l.synced = l.synced || by != lease.ByServer
	if by == lease.ByQuorum {
		l.beats.Committed()
		l.stale, e.owing = false, false
	}
	l.lease.Answered(c.sent, now, by)
	l.share(h.Zxid, by == lease.ByLeader, c.sent)
	if l.hastens() || l.dueEarlier() {
		e.session.Poke() // a proof may begin now, or earlier than expected
	}
	if l.phase == phaseOpen {
		e.prove(l)
	}
	e.advance()
	l.bears(now)
	return c, nil
}

var (
	errSilent     = errors.New("the server does not answer")
	errUnanswered = errors.New("the server does not answer the connect request")
	errLeaving    = errors.New("the session moves to another server")
	errParted     = errors.New("the session was closed")
	errLapsed     = errors.New("the lease of the session has ended on this connection")
	errMoved      = errors.New("the server says that the session is connected to another")
)

// fail ends the connection, for the first reason given. The goroutine that reads then reports the
// failure to the session, after everything that it has read.
func (l *connection) fail(why error) {
	l.epoch.mu.Lock()
	first := l.condemn(why)
	l.epoch.mu.Unlock()
	if first {
		l.cut()
	}
}

// condemn records why the connection fails. It reports whether this is the first reason: then the
// caller must call cut, without the lock. Locked.
func (l *connection) condemn(why error) (first bool) {
	if l.phase == phaseFailed {
		return false
	}
	l.orphaned = l.creates && l.phase == phaseGreeting && errors.Is(why, errUnanswered) && !l.writing && len(l.out) == 0
	l.phase, l.why = phaseFailed, why
	if l.nudger != nil {
		l.nudger.Stop()
	}
	return true
}

// cut closes the socket of a connection that has failed.
func (l *connection) cut() {
	if l.orphaned {
		l.epoch.session.Workers.Go(l.dismiss)
	}
	close(l.failed) // from here on the session may learn of the failure, and end
	if l.orphaned {
		_ = l.socket.SetReadDeadline(time.Unix(1, 0)) // ends the reading, but not the connection
		return
	}
	l.hangUp()
}

// hangUp closes the socket.
func (l *connection) hangUp() {
	socket := l.socket
	if secure, ok := socket.(*tls.Conn); ok {
		socket = secure.NetConn() // an orderly end of TLS may take seconds
	}
	_ = socket.Close() // a failure does not matter
}

// longestPassword is well below the length that the client can present. ZooKeeper's passwords have
// 16 bytes.
const longestPassword = 128
