package session

import (
	"context"
	"errors"
	"fmt"
)

// Open establishes a session with one of the servers, each host:port, or a host, whose port is
// 2181. It returns when the session is established. If ctx ends before, or every server refuses the
// credentials in opts, no goroutine is left behind. Each server is asked once: the credentials may
// have reached only some of them. The error names the servers and the last failure of each.
//
// If opts is nil, the default options are used. With [Options.Resolve], the list may be empty. If
// recipes hold exclusive grants, the list must not have observers that are connected to followers:
// see the package comment.
func Open(ctx context.Context, addresses []string, opts *Options) (*Session, error) {
	if ctx == nil {
		return nil, fmt.Errorf("open session: %w", errNilContext)
	}
	s, err := Start(addresses, opts)
	if err != nil {
		return nil, err
	}
	if err := s.reach(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("open session: %w", err)
	}
	return s, nil
}

// Start is [Open] without waiting: it returns at once, and the session is established as soon
// as a server can be reached. So a service can start while ZooKeeper is down. The error is about
// the arguments.
//
// Until the first [Connected], [Session.State] returns nil, [Session.ID] returns 0, and a
// subscription delivers no event. Requests wait for the connection, or until their context ends.
// Recipes join when the session is connected. Requests fail with [ErrAuthFailed] if every server
// has refused the credentials, until one accepts them. [Session.Await] waits for the connection,
// and Close may be called at any time.
func Start(addresses []string, opts *Options) (*Session, error) {
	o := opts.withDefaults()
	err := o.validate()
	if len(addresses) > 0 || o.Resolve == nil {
		var invalid error
		addresses, invalid = checkServers(addresses)
		err = errors.Join(invalid, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	s := newSession(addresses, o)
	if o.Resolve != nil {
		s.conn.Workers.Go(s.resolve)
	}
	go s.loop()
	return s, nil
}

// Await waits until the session is connected: before the first connection, and while it is
// suspended or expired. With [Options.ReadOnly], a read-only server suffices. If every server has
// refused the credentials, and none has accepted them since, the error is [ErrAuthFailed]. That
// error, and the error if ctx ends before, names the servers and the last failure of each. The
// session goes on.
func (s *Session) Await(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("await session: %w", errNilContext)
	}
	if err := s.reach(ctx); err != nil {
		return fmt.Errorf("await session: %w", err)
	}
	return nil
}

// reach waits for a connection that answers reads.
func (s *Session) reach(ctx context.Context) error {
	reached := make(chan error, 1)
	report := func(err error) {
		select {
		case reached <- err:
		default: // the state is known
		}
	}
	look := func() {
		switch {
		case s.ReadOnly():
			report(nil)
		case s.refused():
			report(fmt.Errorf("%w (%s)", ErrAuthFailed, s.conn.Servers.Troubles()))
		}
	}
	sub := &subscriber{session: s, look: look, tell: func(Event) <-chan struct{} {
		switch s.machine.state {
		case stateConnecting, stateSuspended:
		case stateConnected:
			report(nil)
		case stateClosing, stateClosed:
			report(ErrClosed)
		}
		return nil
	}}
	sub.begin()
	defer sub.cancel()
	select {
	case err := <-reached:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w (%s)", context.Cause(ctx), s.conn.Servers.Troubles())
	}
}

// refused reports whether every server has refused the credentials.
func (s *Session) refused() bool {
	e := s.newestEpoch()
	return e != nil && e.Access().Refused
}
