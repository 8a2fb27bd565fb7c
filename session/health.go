package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// An UnhealthyError says why, and since when, a session is not connected to a quorum. It wraps Err
// and the errors of the failures.
type UnhealthyError struct {
	// Err is [ErrDisconnected] while the session is suspended, [ErrExpired] while the next session
	// is being established, [ErrReadOnly], [ErrAuthFailed], or [ErrClosed]. Before the first
	// connection it says that there was none.
	Err error

	// Since is when the connection was lost, or the session was started.
	Since time.Time

	// Failures are the newest failure of each server that has failed, the newest of all first.
	Failures []Failure
}

// A Failure is the end of a connection to a server, or of an attempt to make one.
type Failure struct {
	Server string // host:port; "Options.Resolve" if there was no list of servers
	Err    error
	At     time.Time
}

// Error implements error.
func (e *UnhealthyError) Error() string {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "session unhealthy since %s: %v", e.Since.Format(time.RFC3339), e.Err)
	for _, f := range e.Failures {
		_, _ = fmt.Fprintf(&b, "; %s at %s: %v", f.Server, f.At.Format(time.RFC3339), f.Err)
	}
	return b.String()
}

// Unwrap returns Err and the errors of the failures.
func (e *UnhealthyError) Unwrap() []error {
	all := []error{e.Err}
	for _, f := range e.Failures {
		all = append(all, f.Err)
	}
	return all
}

// Healthy returns nil while the session is connected to a server with a quorum, and otherwise an
// [*UnhealthyError]. It is for readiness probes: it sends nothing and returns at once. A server
// that stops to answer is noticed within two thirds of the session timeout. If ctx has ended, the
// error is its cause.
//
// With [Options.ReadOnly], a session that can only read is unhealthy, and the error wraps
// [ErrReadOnly]: a service that writes nothing may count that as ready. A liveness probe must not
// depend on Healthy, because a restart of the process does not bring ZooKeeper back.
func (s *Session) Healthy(ctx context.Context) error {
	if err := checkContext(ctx); err != nil {
		return fmt.Errorf("session: %w", err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now := s.present.Load()
	if now.lost.IsZero() {
		return nil
	}
	unhealthy := &UnhealthyError{Err: s.unhealthy(now.event), Since: now.lost}
	for _, f := range s.conn.Servers.Failures() {
		unhealthy.Failures = append(unhealthy.Failures, Failure(f))
	}
	return unhealthy
}

// unhealthy returns why the session is not connected to a quorum.
func (s *Session) unhealthy(newest Event) error {
	e := s.newestEpoch()
	if _, over := newest.(Closed); !over && e != nil {
		switch now := e.Access(); {
		case now.Refused:
			return ErrAuthFailed
		case now.Reading:
			return ErrReadOnly
		}
	}
	switch newest.(type) {
	case Closed:
		return ErrClosed
	case Expired:
		return ErrExpired
	case Suspended, Lapsed, Connected, Resumed: // the last two have been followed by another event since
		return ErrDisconnected
	}
	return errNeverConnected
}

var errNeverConnected = errors.New("not connected yet")
