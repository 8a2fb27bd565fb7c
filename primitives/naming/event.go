package naming

import (
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/persistent"
	"github.com/zkactors/zkactors/primitives/internal/presence"
)

// The errors that callers can act on.
var (
	// ErrNotFound means that there is no such name.
	ErrNotFound = persistent.ErrNotFound

	// ErrTaken means that another client has registered the name, or this very session keeps it
	// already.
	ErrTaken = presence.ErrDuplicate

	// ErrForeign means that the name lives with another session, which would register it again.
	ErrForeign = persistent.ErrForeign

	// ErrNodeDeleted means that the node of the name was deleted: by another client, or by the
	// server at the end of the session, which is not known yet.
	ErrNodeDeleted = presence.ErrNodeDeleted

	// ErrUnregistered means that the name was unregistered on request.
	ErrUnregistered = presence.ErrLeft
)

// An Event reports a change of an ephemeral name. It is one of [Registered], [Suspended],
// [Resumed], [Gone] and [Unregistered]; no other type implements it.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Registered means that the name can be looked up.
	Registered struct{}

	// Suspended means that the connection is lost. The servers keep the name for as long as they
	// keep the session.
	Suspended struct{}

	// Resumed means that the connection is back, and that the name was seen to be registered still.
	Resumed struct{}

	// Gone means that the node of the name was deleted; the name is registered again by itself. Err
	// is [session.ErrExpired] or [ErrNodeDeleted].
	Gone struct{ Err error }

	// Unregistered is the last event. Err says why the name, or the attempt to register it, was
	// given up; it is nil if a caller has unregistered or closed it, unless the server refuses to
	// delete the node.
	Unregistered struct{ Err error }
)

func (Registered) event()   {}
func (Suspended) event()    {}
func (Resumed) event()      {}
func (Gone) event()         {}
func (Unregistered) event() {}

func (Registered) String() string { return "registered" }
func (Suspended) String() string  { return "suspended" }
func (Resumed) String() string    { return "resumed" }
func (e Gone) String() string     { return "gone: " + e.Err.Error() }

func (e Unregistered) String() string { return client.Told("unregistered", e.Err) }
