package presence

import (
	"errors"
	"time"
)

// What callers can act on. Recipes give them their own names.
var (
	// ErrDuplicate means that another session holds the name.
	ErrDuplicate = errors.New("name held by another")

	// ErrNodeDeleted means that the node was deleted: by another client, or by the server with
	// the session, whose end is not known yet then.
	ErrNodeDeleted = errors.New("node deleted by another client, or with the session")

	// ErrLeft means that the node was given up on request.
	ErrLeft = errors.New("left on request")
)

// An Event is what becomes of the node.
//
//sumtype:decl
type Event interface{ event() }

type (
	// Joined means that the node stands.
	Joined struct{}
	// Suspended means that the connection is lost, and the node will be at the deadline.
	Suspended struct{ Deadline time.Time }
	// Resumed means that the connection is back, and that the node was seen to stand.
	Resumed struct{}
	// Gone means that the node is gone; it is made again.
	Gone struct{ Err error }
	// Left is the last event. Err is nil if it was asked for.
	Left struct{ Err error }
)

func (Joined) event()    {}
func (Suspended) event() {}
func (Resumed) event()   {}
func (Gone) event()      {}
func (Left) event()      {}
