package lock

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
)

// The errors that callers can act on. The error of every [Lost] wraps [ErrLost] and the
// reason: one of these, or one of package session.
var (
	// ErrLost means that the lock, or the place in line for it, is gone
	// without having been released.
	ErrLost = errors.New("lock lost")

	// ErrLayout means that others contend for the same path in another layout. With
	// priorities it means too that the path carries other data.
	ErrLayout = line.ErrLayout

	// ErrNodeDeleted means that the node that stood for the lock is gone. Another client has
	// deleted it, or the server, which deletes it also when it ends the session, and tells
	// of the deletion first. The loss is reported at once, and not held back to find out
	// which.
	ErrNodeDeleted = line.ErrNodeDeleted

	// ErrRevoked means that the node was deleted by force, after the holder had been
	// asked to release the lock.
	ErrRevoked = line.ErrRevoked

	// ErrHeld means that the lock was not free when it was tried.
	ErrHeld = errors.New("lock held by another")

	// ErrReentered means that the lock was requested in the context of a grant that
	// excludes it, or for which a contender ahead of it waits. It would wait for itself.
	ErrReentered = errors.New("held in the same context: it would wait for itself")

	// ErrReleased is the cause with which the contexts of a lock end when it is released.
	ErrReleased = errors.New("lock released")

	// ErrNotHeld means that there is nothing to downgrade, or to revoke, or that a [Lock.Guard] has
	// refused a transaction.
	ErrNotHeld = line.ErrNotHeld
)

// An Event reports a change in the state of a lock. It is one of [Waiting],
// [Acquired], [Suspended], [Resumed], [Revoked], [Released] and [Lost]; no other
// type implements it.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Waiting means that Ahead other contenders come first.
	Waiting struct{ Ahead int }

	// Acquired means that this handle holds the lock.
	Acquired struct {
		// Token grows with every grant of the lock, to whatever client.
		Token int64
		// Node is the name, under the path of the lock, of the node that stands
		// for the grant. A downgrade exchanges it: see [Lock.Node].
		Node string
	}

	// Suspended means that the connection is lost. The lock is still held, and
	// will be lost at the Deadline unless Resumed comes first.
	Suspended struct{ Deadline time.Time }

	// Resumed means that the connection is back and the lock is still held.
	Resumed struct{}

	// Revoked means that another client asks for the lock. It is emitted once. The lock is
	// still held. It will be taken away at about the Deadline, by the clock of this
	// process, unless it is released before. If that is zero, the first request has no
	// deadline, or none that the layout can express. Later requests emit no event, and may
	// use force.
	Revoked struct{ Deadline time.Time }

	// Released means that the lock, or the place in line for it, was given up
	// on request.
	Released struct{}

	// Lost means that the lock, or the place in line for it, is gone. Err
	// wraps [ErrLost] and says why.
	Lost struct{ Err error }
)

func (Waiting) event()   {}
func (Acquired) event()  {}
func (Suspended) event() {}
func (Resumed) event()   {}
func (Revoked) event()   {}
func (Released) event()  {}
func (Lost) event()      {}

func (e Waiting) String() string  { return fmt.Sprintf("waiting ahead=%d", e.Ahead) }
func (e Acquired) String() string { return fmt.Sprintf("acquired token=%d node=%s", e.Token, e.Node) }

func (e Suspended) String() string { return "suspended until " + e.Deadline.Format(time.StampMilli) }
func (Resumed) String() string     { return "resumed" }
func (Released) String() string    { return "released" }

func (e Revoked) String() string {
	if e.Deadline.IsZero() {
		return "revoked"
	}
	return "revoked until " + e.Deadline.Format(time.StampMilli)
}

func (e Lost) String() string { return e.Err.Error() }

// tell gives an event of the line its type here.
func tell(ev line.Event) Event {
	switch ev := ev.(type) {
	case line.Waiting:
		return Waiting(ev)
	case line.Acquired:
		return Acquired(ev)
	case line.Suspended:
		return Suspended(ev)
	case line.Resumed:
		return Resumed(ev)
	case line.Revoked:
		return Revoked(ev)
	case line.Released:
		return Released(ev)
	case line.Lost:
		return Lost{line.Because(ErrLost, ev.Err)}
	}
	panic(fmt.Sprintf("lock: %T is no event of a line", ev))
}

// keep has a reader that comes late know of the grant, and that another client asks for the lock.
func keep(earlier, next Event) bool {
	return recipe.Stays[Acquired, Lost](earlier, next) || recipe.Stays[Revoked, Lost](earlier, next) ||
		recipe.Stays[Suspended, Lost](earlier, next)
}
