package semaphore

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
)

// The errors that callers can act on. The error of every [Lost] wraps [ErrLost] and the reason,
// and the error of every [Failed] the reason: one of these, or one of package session.
var (
	// ErrFull means that there was no room for a call that does not wait.
	ErrFull = errors.New("semaphore full")

	// ErrLimit means that the limit does not suit the contender: another limit is recorded, or the
	// record is not a limit, or the limit is less than the weight.
	ErrLimit = errors.New("limit")

	// ErrLayout means that contenders of another layout hold leases of the semaphore, or stand at
	// its path. A lease of this library is refused when it comes, and while it waits. So it is if
	// there is an ephemeral node whose name ends with a number of ten digits, as that of a
	// sequential node, and is of no known layout. Among leases of the weight 1 it is looked up only
	// if there are more nodes than the limit; until then each node counts as a lease. But other
	// libraries do not look for our leases. This was measured with Curator 5.4 and 5.9, and with
	// kazoo 2.8 and 2.11, for every weight of ours:
	//
	//	                                     while we hold all    while they do    our waiter
	//	Curator's InterProcessSemaphoreV2    waits *              refused          refused
	//	kazoo's Semaphore                    granted              refused          refused
	//	Curator's mutex, kazoo's Lock        granted              refused          refused
	//
	// (*) It counts nodes: it is granted a lease while there are fewer nodes of ours than the
	// limit, whatever their weights are. A path at which Curator's semaphore was is refused until
	// its node "locks" is gone, which the server removes some time after the last contender.
	ErrLayout = line.ErrLayout

	// ErrForeign means that the path belongs to another recipe, which the error names. The error
	// wraps [ErrLayout], too, or [ErrLimit] if the path has other data than a limit.
	ErrForeign = nodes.ErrForeign

	// ErrLost means that the lease is gone without a release.
	ErrLost = errors.New("lease lost")

	// ErrNodeDeleted means that the node of the lease is gone. Either another client has deleted
	// it, or the server has ended the session: then too it reports the deletion first. The loss is
	// reported at once, without waiting for the cause.
	ErrNodeDeleted = line.ErrNodeDeleted

	// ErrNotHeld means that a [Lease.Guard] has refused a transaction.
	ErrNotHeld = line.ErrNotHeld

	// ErrReentered means that a lease was requested in the context of leases that leave no room for
	// it: the call would wait for itself.
	ErrReentered = errors.New("held in the same context: it would wait for itself")

	// ErrReleased is the cause with which the contexts of a lease end at its release.
	ErrReleased = errors.New("lease released")
)

// An Event reports a change in the state of a lease. It is one of [Waiting], [Acquired],
// [Suspended], [Resumed], [Released], [Lost] and [Failed]; no other type implements it.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Waiting means that Ahead other contenders stand before this one in line, including those that
	// hold leases.
	Waiting struct{ Ahead int }

	// Acquired means that this handle holds the lease, with all of its weight.
	Acquired struct {
		// ID identifies the lease among all leases of the semaphore. Its order means nothing: it is
		// no fencing token.
		ID int64
		// Node is the name of the lease's node, under leases.
		Node string
	}

	// Suspended means that the connection is lost. The lease is still held. It will be lost at the
	// Deadline unless Resumed comes first.
	Suspended struct{ Deadline time.Time }

	// Resumed means that the connection is back and the lease is still held.
	Resumed struct{}

	// Released means that the lease, or the place in line, was given up on request. If Err is not
	// nil, the server has refused that for a session timeout: no other contender gets it until the
	// session ends, or an attempt succeeds, which go on.
	Released struct{ Err error }

	// Lost means that the lease is gone. Err wraps [ErrLost] and the reason.
	Lost struct{ Err error }

	// Failed means that the lease was not held, and will not be: there is no place in line, or it
	// is lost. Err wraps the reason.
	Failed struct{ Err error }
)

func (Waiting) event()   {}
func (Acquired) event()  {}
func (Suspended) event() {}
func (Resumed) event()   {}
func (Released) event()  {}
func (Lost) event()      {}
func (Failed) event()    {}

func (e Waiting) String() string   { return fmt.Sprintf("waiting ahead=%d", e.Ahead) }
func (e Acquired) String() string  { return fmt.Sprintf("acquired id=%d node=%s", e.ID, e.Node) }
func (e Suspended) String() string { return "suspended until " + e.Deadline.Format(time.StampMilli) }
func (Resumed) String() string     { return "resumed" }
func (e Released) String() string  { return client.Told("released", e.Err) }
func (e Lost) String() string      { return e.Err.Error() }
func (e Failed) String() string    { return e.Err.Error() }

// presentation converts the events of the line to those of a lease.
var presentation = contender.Presentation[Event]{ //nolint:gochecknoglobals // it is constant
	Tell: tell, Merge: recipe.Newest[Waiting, Event], Cancel: recipe.Undone[Suspended, Resumed, Event],
	Keep: recipe.Stays[Acquired, Lost, Event], Lost: ErrLost, Released: ErrReleased,
}

// tell converts an event of the line to its type here.
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
		if ev.Err == nil {
			return Released{} // which costs nothing
		}
		return Released(ev)
	case line.Lost:
		return Lost{contender.Loss(ErrLost, ev)}
	case line.NotGranted:
		return Failed(ev)
	case line.Revoked: // leases are not revoked
	case line.ConditionChanged: // never comes here: see [contender.Presentation.Changed]
	}
	panic(fmt.Sprintf("semaphore: %T is no event of a lease", ev))
}
