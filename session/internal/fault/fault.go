// Package fault has the errors that the packages below a session return, and that package session
// documents and hands on under the same names.
package fault

import "errors"

// The sentinels, which package session documents.
var (
	ErrNoNode         = errors.New("no such node")
	ErrNoAuth         = errors.New("not authorized")
	ErrAuthFailed     = errors.New("authentication failed")
	ErrUnimplemented  = errors.New("not implemented by the server")
	ErrExpired        = errors.New("session expired")
	ErrClosed         = errors.New("session closed")
	ErrDisconnected   = errors.New("connection lost")
	ErrReadOnly       = errors.New("the server is read-only: it has no quorum")
	ErrBusy           = errors.New("server busy")
	ErrUnknownOutcome = errors.New("outcome unknown")
	ErrTooLarge       = errors.New("too large")
	ErrSessionFull    = errors.New("session full: too many bytes of ephemeral paths; use another session")
)

// ErrBlamed is in the error of a request whose reply was malformed, or that was the only one sent
// when its connection broke. If that happens again and again, the request is the reason, and
// repeating it keeps the session from working.
var ErrBlamed = errors.New("the request may be the reason")

// MostBlamed is the number of connections in a row that a request may break before it fails for
// good, with an error that wraps ErrHopeless.
const MostBlamed = 5

// ErrHopeless ends a request that has broken too many connections.
var ErrHopeless = errors.New("given up after five connections")

// Blame returns err as one that is ErrBlamed too, without a word of it: once is no reason to
// suspect a request.
func Blame(err error) error { return blamedError{err} }

type blamedError struct{ error }

func (e blamedError) Unwrap() error      { return e.error }
func (blamedError) Is(target error) bool { return target == ErrBlamed }

// IsAny reports whether err is one of the targets.
func IsAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
