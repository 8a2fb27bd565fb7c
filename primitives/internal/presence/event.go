package presence

import (
	"errors"
	"time"
)

// Errors that callers can act on. Recipes give them their own names.
var (
	// ErrDuplicate means that another session holds the name.
	ErrDuplicate = errors.New("name held by another")

	// ErrNodeDeleted means that another client deleted the node, or the server did at the end of
	// the session, which is not known yet.
	ErrNodeDeleted = errors.New("node deleted by another client, or with the session")

	// ErrLeft means that the node was given up on request.
	ErrLeft = errors.New("left on request")
)

// An Event reports a change in the state of the node.
//
//sumtype:decl
type Event interface{ event() }

type (
	// Joined means that the node stands, in the session with that epoch.
	Joined struct{ Epoch int }
	// Suspended means that the connection is lost. At the deadline the node counts as lost too.
	Suspended struct{ Deadline time.Time }
	// Resumed means that the connection is back, and that the node was seen to stand.
	Resumed struct{}
	// Gone means that the node was deleted. It is created again.
	Gone struct{ Err error }
	// Left is the last event. Err is nil if a caller gave the node up. Stands says that the server
	// has refused to delete the node since, and why.
	Left struct{ Err, Stands error }
)

func (Joined) event()    {}
func (Suspended) event() {}
func (Resumed) event()   {}
func (Gone) event()      {}
func (Left) event()      {}
