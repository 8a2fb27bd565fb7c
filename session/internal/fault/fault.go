// Package fault has the errors that the packages below a session return, and that package session
// documents and hands on under the same names.
package fault

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

// The sentinels, which package session documents.
var (
	ErrNoNode         = errors.New("no such node")
	ErrBadVersion     = errors.New("version does not match")
	ErrNoAuth         = errors.New("not authorized")
	ErrAuthFailed     = errors.New("authentication failed")
	ErrUnimplemented  = errors.New("not implemented by the server")
	ErrExpired        = errors.New("session expired")
	ErrClosed         = errors.New("session closed")
	ErrDisconnected   = errors.New("connection lost")
	ErrLapsed         = fmt.Errorf("%w for so long that others may have what was held", ErrDisconnected)
	ErrReadOnly       = errors.New("the server is read-only: it has no quorum")
	ErrBusy           = errors.New("server busy")
	ErrUnknownOutcome = errors.New("outcome unknown")
	ErrTooLarge       = errors.New("too large")
	ErrSessionFull    = errors.New("session full: too many bytes of ephemeral paths; use another session")
)

// ErrAlone is in the error of a request whose reply was malformed, or that was the only one sent
// when its connection broke. If that happens again and again, the request may be the reason, and
// repeating it at once keeps the session from working.
var ErrAlone = errors.New("the request was alone")

// ErrBlamed is in the error of such a request if its connection had worked before. Where networks
// break connections as soon as they are made, a request may be alone on each of them, and is not
// the reason.
var ErrBlamed = errors.New("the request may be the reason")

// ErrHopeless ends a call that has broken too many connections.
var ErrHopeless = errors.New("given up: the connection broke each time")

// Blame returns err as one that is ErrAlone too, and ErrBlamed if the connection had worked,
// without a word of it: once is no reason to suspect a request.
func Blame(err error, worked bool) error { return blamedError{err, worked} }

type blamedError struct {
	error

	worked bool
}

func (e blamedError) Unwrap() error { return e.error }
func (e blamedError) Is(target error) bool {
	return target == ErrAlone || target == ErrBlamed && e.worked
}

// A Record has how many connections in a row a request has broken.
type Record struct{ alone, blamed int }

// The numbers of connections after which a request is given up: of those that had worked, and of
// any.
const (
	mostBlamed = 5
	mostAlone  = 10
)

// Note enters the end of a try; err may be nil.
func (r *Record) Note(err error) {
	switch {
	case !errors.Is(err, ErrAlone):
		*r = Record{}
	case errors.Is(err, ErrBlamed):
		r.blamed++
		r.alone++
	default:
		r.alone++
	}
}

// Suspicious reports whether the request should only be made on a connection that has worked for
// some time.
func (r *Record) Suspicious() bool { return r.alone >= 4 }

// Alone returns how many connections in a row broke when the request was the only one.
func (r *Record) Alone() int { return r.alone }

// Guilty reports whether the request is the reason, as far as can be known.
func (r *Record) Guilty() bool { return r.blamed >= mostBlamed }

// Hopeless reports whether there is no sense in another try now. A call should fail then, with an
// error that wraps ErrHopeless.
func (r *Record) Hopeless() bool { return r.Guilty() || r.alone >= mostAlone }

// HungUp reports whether err means that the other side has closed the connection.
func HungUp(err error) bool { return IsAny(err, io.EOF, syscall.ECONNRESET) }

// IsAny reports whether err is one of the targets.
func IsAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
