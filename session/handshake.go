package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/session/internal/lease"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// greet handles the server's answer to the connect request.
func (l *connection) greet() error {
	frame, err := l.reader.Next()
	if err != nil {
		return err
	}
	h, err := wire.ParseConnectResponse(frame)
	if err != nil {
		return refusedReadOnly(frame, err)
	}
	if err := l.epoch.accept(l, &h); err != nil {
		return err
	}
	if err := l.authenticate(); err != nil {
		return err
	}
	l.epoch.restore(l)
	h.Old = true // the client knows no other
	l.hello = wire.AppendConnectResponse(nil, &h)
	return nil
}

// refusedReadOnly returns why a server has answered a connect request with this frame, which does
// not parse: a read-only server answers a client without a session with the header of an error, unless its
// configuration has localSessionsEnabled.
func refusedReadOnly(frame []byte, err error) error {
	h, rest, headerErr := wire.ParseHeader(frame)
	if headerErr == nil && len(rest) == 0 && h.Code == wire.CodeNotReadOnly {
		return errors.New("the server has no quorum, and creates no sessions (localSessionsEnabled)")
	}
	return err
}

// authenticate does the exchange of Options.SASL, before anything else is sent: a server that
// requires it closes the session after any other request. It runs on the goroutine that reads.
func (l *connection) authenticate() error {
	s := l.epoch.session
	if s.opts.SASL == nil {
		return nil
	}
	ctx, cancel := s.until(l.failed)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, 2*s.servers.Patience())
	defer cancel()
	exchange, token, err := s.opts.SASL.Start(ctx, l.server)
	for done := false; err == nil && !done; {
		var challenge []byte
		if challenge, err = l.present(token); err == nil {
			token, done, err = exchange.Step(challenge)
		}
	}
	if err != nil {
		return fmt.Errorf("SASL: %w", err)
	}
	return nil
}

// present sends a token and returns that of the reply.
func (l *connection) present(token []byte) ([]byte, error) {
	if token == nil {
		token = []byte{} // a null buffer is no token
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
		return nil, errOf(h.Code)
	}
	var reply wire.Reply
	if err := wire.ParseReply(wire.OpSASL, nil, rest, &reply); err != nil {
		return nil, err
	}
	return append([]byte(nil), reply.Data...), nil
}

var errReplaced = errors.New("the server replaced the session by another")

// accept takes the server's answer to the connect request.
func (e *epoch) accept(l *connection, h *wire.ConnectResponse) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	const shortest = 60 * time.Millisecond // less leaves no time to act
	timeout := time.Duration(h.Timeout) * time.Millisecond
	switch {
	case l.phase != phaseGreeting:
		return l.why
	case l.greeted < 0:
		return wire.ErrMalformed // there was no connect request
	case h.ReadOnly:
		return e.acceptReadOnly(l, h)
	case h.Session == 0 && e.id == 0:
		return errors.New("the server refused a new session")
	case h.Session == 0:
		e.gone()
		e.session.tell(rejected{e.number})
		return ErrExpired
	case e.id != 0 && e.id != h.Session && e.announced.Load():
		e.session.tell(rejected{e.number})
		return errReplaced
	case len(h.Password) > longestPassword:
		return wire.ErrMalformed
	case timeout < shortest:
		return fmt.Errorf("the server offers a session timeout of %v", timeout)
	}
	// A session that no connection has opened was used for nothing: another does as well.
	created := e.id != h.Session
	if created {
		e.id, e.timeout = h.Session, timeout
	}
	// The leader counts a shorter timeout from this handshake, not from what was proved
	// before it. A longer timeout counts for nothing: reports with the shorter one may be
	// on their way.
	before := e.terms()
	e.timeout = min(e.timeout, timeout)
	terms := e.terms()
	if shorter := before.Timeout - terms.Timeout; shorter > 0 {
		e.trusted, e.proved = min(e.trusted+shorter, l.greeted), min(e.proved+shorter, l.greeted)
	}
	l.lease = lease.New(terms.Report, terms.Heartbeat/16, l.greeted, created)
	if created {
		e.prove(l)
	}
	e.settle()
	return nil
}
