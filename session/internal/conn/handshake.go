package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/lease"
	"github.com/zkactors/zkactors/session/internal/servers"
	"github.com/zkactors/zkactors/session/internal/window"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// greet handles the server's answer to the connect request.
func (l *connection) greet() error {
	frame, err := l.reader.Next()
	if err != nil {
		return l.withGuess(err)
	}
	h, err := wire.ParseConnectResponse(frame)
	if err != nil {
		return refusedReadOnly(frame, err)
	}
	if err := l.epoch.accept(l, &h); err != nil {
		if errors.Is(err, errReplaced) {
			l.disown()
		}
		return err
	}
	h.Old = true // the client knows only the old form
	// The password is in the buffer of the reader, and the replies of SASL would overwrite it.
	hello := wire.AppendConnectResponse(nil, &h)
	if err := l.authenticate(); err != nil {
		return err
	}
	l.epoch.restore(l)
	l.hello = hello
	return nil
}

// withGuess adds to the error of a connection that has ended before the server's answer what it
// probably means.
func (l *connection) withGuess(err error) error {
	if !fault.HungUp(err) {
		return err
	}
	guess := "the server may have no quorum, or allow the host no more connections"
	if _, secure := l.socket.(*tls.Conn); !secure {
		guess = "the port may be for TLS, " + guess
	}
	l.epoch.turnedAway(l)
	return fmt.Errorf("%w: the server closed the connection before it answered: %s", err, guess)
}

// dismiss waits for the late answer to a connect request that was abandoned, and closes the session
// that the server has created for it. Otherwise that session would live for a whole timeout.
// dismiss gives up after such a time, and when the session of users is closed.
func (l *connection) dismiss() {
	s := l.epoch.session
	ctx, cancel := s.Workers.Until(s.Workers.Closing)
	defer cancel()
	stop := context.AfterFunc(ctx, l.hangUp) // unblocks the calls below
	defer func() {
		if stop() {
			l.hangUp()
		}
	}()
	select {
	case <-l.told: // no other goroutine reads any more
	case <-time.After(time.Second): // a user's own kind of socket, without deadlines
		return
	case <-ctx.Done():
		return
	}
	if err := l.socket.SetDeadline(time.Now().Add(s.Timeout)); err != nil {
		return
	}
	if !l.accepted { // otherwise SASL took too long, after the answer
		frame, err := l.reader.Next()
		if err != nil {
			return
		}
		if h, err := wire.ParseConnectResponse(frame); err != nil || h.Session == 0 {
			return
		}
	}
	_, err := l.socket.Write(wire.AppendRequest(nil, 1, &wire.Request{Op: wire.OpCloseSession}))
	for err == nil { // until the server hangs up
		_, err = l.reader.Next()
	}
}

// refusedReadOnly returns the error for a frame that does not parse as the answer to a connect
// request. A read-only server answers a client without a session with the header of an error,
// unless its configuration has localSessionsEnabled.
func refusedReadOnly(frame []byte, err error) error {
	h, rest, headerErr := wire.ParseHeader(frame)
	if headerErr == nil && len(rest) == 0 && h.Code == wire.CodeNotReadOnly {
		return errors.New("the server has no quorum, and creates no sessions (localSessionsEnabled)")
	}
	return err
}

// authenticate performs the exchange of Options.SASL before any other request, because a server
// that requires SASL closes the session after any other request. It runs on the goroutine that
// reads.
func (l *connection) authenticate() error {
	s := l.epoch.session
	if s.Authenticate == nil {
		return nil
	}
	if l.epoch.IsKeeper() {
		return errKeeperSASL
	}
	ctx, cancel := s.Workers.Until(l.failed)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, 2*s.Servers.Patience())
	defer cancel()
	_, err := servers.Outlive(func() (struct{}, error) { return struct{}{}, s.Authenticate(ctx, l.server, l.present) })
	if err != nil {
		return fmt.Errorf("SASL: %w", err)
	}
	return nil
}

// present sends a token, and returns the token in the reply.
func (l *connection) present(token []byte) ([]byte, error) {
	if token == nil {
		token = []byte{} // a null buffer is not a token
	}
	l.epoch.mu.Lock()
	l.xid++
	xid := l.xid
	l.write(wire.AppendRequest(nil, xid, &wire.Request{Op: wire.OpSASL, Data: token}))
	l.epoch.mu.Unlock()
	frame, err := l.reader.Next()
	if err != nil {
		return nil, err
	}
	h, rest, err := wire.ParseHeader(frame)
	switch {
	case err != nil:
		return nil, err
	case h.Xid != xid:
		return nil, wire.ErrMalformed
	case h.Code != wire.CodeOK:
		return nil, l.epoch.session.Owner.ErrorOf(h.Code)
	}
	var reply wire.Reply
	if err := wire.ParseReply(wire.OpSASL, nil, rest, &reply); err != nil {
		return nil, err
	}
	return append([]byte(nil), reply.Data...), nil
}

var errReplaced = errors.New("the server replaced the session by another")

// reject is called when the servers do not have the session any more. It ends the dialling, because
// the client would connect again before the session learns of it. Locked.
func (e *Epoch) reject() {
	e.gone()
	e.retire()
	e.session.Owner.Tell(Rejected{e.Number})
}

// accept takes the server's answer to the connect request. If it returns errReplaced, the caller
// must call disown.
func (e *Epoch) accept(l *connection, h *wire.ConnectResponse) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	const shortest = 60 * time.Millisecond // a shorter timeout leaves no time to act
	timeout := time.Duration(h.Timeout) * time.Millisecond
	switch {
	case l.phase != phaseGreeting:
		return l.why
	case l.greeted < 0:
		return wire.ErrMalformed // we have sent no connect request
	case h.ReadOnly:
		return e.acceptReadOnly(l, h)
	case l.guest:
		return errReplaced // disown ends it: the server has a quorum again
	case h.Session == 0 && e.id == 0:
		return errors.New("the server refused a new session")
	case h.Session == 0:
		e.reject()
		return fault.ErrExpired
	case e.id != 0 && e.id != h.Session && e.announced.Load():
		return errReplaced // rejected by disown
	case len(h.Password) > longestPassword:
		return wire.ErrMalformed
	case timeout < shortest:
		return fmt.Errorf("the server offers a session timeout of %v", timeout)
	case !lease.TermsOf(timeout, e.session.ServerTick).Holds():
		return fmt.Errorf("the server offers a session timeout of %v, in which no lease can be proven with Options.ServerTick %v", timeout, e.session.ServerTick)
	}
	l.accepted, e.dialect.keeper = true, h.Old
	e.shunned = shunning{}
	// Before a connection has opened, the session has no users, so another session may replace it.
	created := e.id != h.Session
	if created {
		e.id, e.password, e.timeout = h.Session, slices.Clone(h.Password), timeout
	}
	// If the timeout is shorter now, the leader counts the shorter one from this handshake, and not
	// from the last proof. A longer timeout is ignored, because servers may still send reports with
	// the shorter one.
	before := e.terms()
	e.timeout = min(e.timeout, timeout)
	terms := e.terms()
	if shorter := before.Timeout - terms.Timeout; shorter > 0 {
		e.stake.Shortened(shorter, l.greeted)
	}
	now := e.session.Clock.Now()
	l.usual, l.trip, e.steady = now-l.greeted, now-l.greeted, now-l.greeted
	l.prompt = now
	e.session.Servers.Took(l.trip)
	l.lease = lease.New(terms, l.greeted, created)
	l.window = window.New(e.timeout/20, l.trip, now, e.replies)
	if created {
		e.prove(l)
	}
	e.settle()
	return nil
}
