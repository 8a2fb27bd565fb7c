package line

import (
	"errors"
	"fmt"
	"time"
)

// Why a place in line was lost, beside the errors of package session. Recipes wrap them
// in their own.
var (
	// ErrNodeDeleted means that the node that stood for it is gone. Another client has
	// deleted it, or the server, which deletes it also when it ends the session, and tells
	// of the deletion first. The loss is reported at once, and not held back to find out
	// which.
	ErrNodeDeleted = errors.New("node deleted by another client, or with the session")

	// ErrRevoked means that it was deleted by force after it was asked for.
	ErrRevoked = errors.New("revoked by force")
)

// A PlaceError is a reason why a contender must not stand in line. Recipes declare their own as
// sentinels.
type PlaceError string

func (n PlaceError) Error() string { return string(n) }

// ErrLayout means that others contend for the same in another way, so that neither would
// respect the other.
var ErrLayout error = PlaceError("another layout")

// A refusal is why there is no place in line for a contender. It wraps what every loss wraps,
// and does not say that anything was lost.
type refusal struct{ lost, why error }

func (r refusal) Error() string   { return r.why.Error() }
func (r refusal) Unwrap() []error { return []error{r.lost, r.why} }

// Because returns the error of a recipe whose place in line is lost, or was refused.
func Because(lost, why error) error {
	if _, refused := errors.AsType[PlaceError](why); refused {
		return refusal{lost, why}
	}
	return fmt.Errorf("%w: %w", lost, why)
}

// Why a command was refused.
var (
	// ErrNotHeld means that there is nothing to downgrade.
	ErrNotHeld = errors.New("not held")

	// ErrNotWrite means that the holder cannot be downgraded: it is not a writer.
	ErrNotWrite = errors.New("no write lock")
)

// An Event reports a change of a place in line:
//
//	Waiting* (Acquired (Suspended | Resumed | Revoked)*)? (Released | Lost)
//
// with Suspended and Resumed in turn, and Revoked at most once. Packages lock and semaphore give each event a type of
// their own, in the function tell of their event.go; the machine of package election reads them.
//
//sumtype:decl
type Event interface{ event() }

type (
	// Waiting means that Ahead others come first.
	Waiting struct{ Ahead int }
	// Acquired means that it is our turn.
	Acquired struct {
		Token int64
		Node  string
	}
	// Suspended means that the connection is lost.
	Suspended struct{ Deadline time.Time }
	// Resumed means that the connection is back.
	Resumed struct{}
	// Revoked means that another client asks the contender to leave; by force at the Deadline,
	// if there is one.
	Revoked struct{ Deadline time.Time }
	// Released means that the place was given up on request.
	Released struct{}
	// Lost means that it is gone for another reason.
	Lost struct{ Err error }
)

func (Waiting) event()   {}
func (Acquired) event()  {}
func (Suspended) event() {}
func (Resumed) event()   {}
func (Revoked) event()   {}
func (Released) event()  {}
func (Lost) event()      {}
