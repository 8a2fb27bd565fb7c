package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// greet handles the server's answer to the connect request.
func (l *connection) greet() error {
	frame, err := l.reader.next()
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
	ctx, cancel = context.WithTimeout(ctx, 2*s.servers.patience())
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
	frame, err := l.reader.next()
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
