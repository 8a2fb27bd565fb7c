package semaphore

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/primitives/internal/line"
)

// The errors that callers can act on. The error of every [Lost] wraps [ErrLost] and the
// reason: [ErrNodeDeleted], [ErrLimit], or one of package session.
var (
	// ErrFull means that there was not room at once when a lease was tried for.
	ErrFull = errors.New("semaphore full")

	// ErrLimit means that there is no agreement about the limit: another limit is
	// recorded, or the record is not a limit, or it is less than the weight.
	ErrLimit error = line.PlaceError("limit")

	// ErrLayout means that others have leases of the semaphore, or contend at its path, in
	// another layout. A lease of ours is refused when it comes, and while it waits. But others do not
	// look for ours. This was measured with Curator 5.4 and kazoo 2.8, for every weight of ours:
	//
	//	                                     while we hold all    while they do    our waiter
	//	Curator's InterProcessSemaphoreV2    waits *              refused          refused
	//	kazoo's Semaphore                    granted              refused          refused
	//	Curator's mutex, kazoo's Lock        granted              refused          refused
	//
	// (*) It counts nodes: it is granted a lease while there are fewer of ours than places, whatever
	// their weights are. Where Curator's semaphore was, the path is refused until its node "locks" is
	// gone, which the server removes some time after the last contender.
	ErrLayout = line.ErrLayout

	// ErrLost means that the lease, or the place in line for it, is gone without having
	// been released.
	ErrLost = errors.New("lease lost")

	// ErrNodeDeleted means that the node that stood for the lease is gone. Another client has
	// deleted it, or the server, which deletes it also when it ends the session, and tells of
	// the deletion first. The loss is reported at once, and not held back to find out which.
	ErrNodeDeleted = line.ErrNodeDeleted

	// ErrNotHeld means that a [Lease.Guard] has refused a transaction.
	ErrNotHeld = line.ErrNotHeld

	// ErrReentered means that a lease was asked for within the context of leases with which
	// there cannot be room for it: it would wait for itself.
	ErrReentered error = line.PlaceError("held in the same context: it would wait for itself")

	// ErrReleased is the cause with which the contexts of a lease end when it is released.
	ErrReleased = errors.New("lease released")
)

// An Event reports a change in the state of a lease. It is one of [Waiting], [Acquired],
// [Suspended], [Resumed], [Released] and [Lost]; no other type implements it.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Waiting means that Ahead other contenders stand before this one in line, with
	// those that hold leases.
	Waiting struct{ Ahead int }

	// Acquired means that this handle holds the lease, with all of its weight.
	Acquired struct {
		// ID is that of no other lease of the semaphore. It has no order that means
		// anything: it is no fencing token.
		ID int64
		// Node is the name, under leases, of the node that stands for it.
		Node string
	}

	// Suspended means that the connection is lost. The lease is still held, and will be
	// lost at the Deadline unless Resumed comes first.
	Suspended struct{ Deadline time.Time }

	// Resumed means that the connection is back and the lease is still held.
	Resumed struct{}

	// Released means that the lease, or the place in line for it, was given up on
	// request.
	Released struct{}

	// Lost means that the lease, or the place in line for it, is gone. Err wraps
	// [ErrLost] and says why.
	Lost struct{ Err error }
)

func (Waiting) event()   {}
func (Acquired) event()  {}
func (Suspended) event() {}
func (Resumed) event()   {}
func (Released) event()  {}
func (Lost) event()      {}

func (e Waiting) String() string   { return fmt.Sprintf("waiting ahead=%d", e.Ahead) }
func (e Acquired) String() string  { return fmt.Sprintf("acquired id=%d node=%s", e.ID, e.Node) }
func (e Suspended) String() string { return "suspended until " + e.Deadline.Format(time.StampMilli) }
func (Resumed) String() string     { return "resumed" }
func (Released) String() string    { return "released" }
func (e Lost) String() string      { return e.Err.Error() }

// tell gives an event of the line its type here.
func tell(ev line.Event) Event {
	switch ev := ev.(type) {
	case line.Waiting:
		return Waiting(ev)
	case line.Acquired:
		return Acquired{ID: ev.Token, Node: ev.Node}
	case line.Suspended:
		return Suspended(ev)
	case line.Resumed:
		return Resumed(ev)
	case line.Released:
		return Released(ev)
	case line.Lost:
		return Lost{line.Because(ErrLost, ev.Err)}
	case line.Revoked: // leases are not asked for
	}
	panic(fmt.Sprintf("semaphore: %T is no event of a lease", ev))
}
