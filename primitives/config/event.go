package config

import (
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
)

// The errors that callers can act on, beside the errors of package session. A value that is not
// there is [session.ErrNoNode].
var (
	// ErrInvalid means that the data of the node does not decode. The error of the
	// codec is wrapped too.
	ErrInvalid = errors.New("value does not decode")

	// ErrForeign means that the node has the record of another recipe, such as a lock's. It is not
	// overwritten.
	ErrForeign = nodes.ErrForeign

	// ErrClosed means that the handle was closed, or has ended for the reason that is
	// wrapped too, before anything was written.
	ErrClosed = errors.New("config handle closed")
)

// An Event reports the state of the node at the path of a [Value]. It is one of [Changed],
// [Deleted], [Invalid] and [Closed]; no other type implements it.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Changed means that there is a new value.
	Changed[T any] struct {
		// Value belongs to all its receivers, and must not be modified.
		Value T
		// Version is the node's version. It begins anew when the node is made again.
		Version int32
	}

	// Deleted means that there is no node: it was deleted, or has never existed. [Value.Last] still
	// has the last good value.
	Deleted struct{}

	// Invalid means that there is data which does not decode. The last good value stays; a slow
	// reader may not have received it, but [Value.Last] has it.
	Invalid struct {
		Err     error // wraps [ErrInvalid], and the error of the codec or [ErrForeign]
		Version int32
	}

	// Closed is the last event. Err is nil after [Value.Close], and else says why the
	// value is watched no more.
	Closed struct{ Err error }
)

func (Changed[T]) event() {}
func (Deleted) event()    {}
func (Invalid) event()    {}
func (Closed) event()     {}

// String returns the event without the value, which may not be for logs.
func (e Changed[T]) String() string { return fmt.Sprintf("changed version=%d", e.Version) }
func (Deleted) String() string      { return "deleted" }
func (e Invalid) String() string    { return fmt.Sprintf("invalid version=%d: %v", e.Version, e.Err) }

func (e Closed) String() string { return client.Told("closed", e.Err) }

// merge keeps the newest: all of them are levels.
func merge(_, next Event) (Event, bool) { return next, true }
