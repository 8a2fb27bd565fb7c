package lock

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
	// ErrLost means that the lock is gone without a release.
	ErrLost = errors.New("lock lost")

	// ErrLayout means that contenders of another layout stand at the path, or of one that is not
	// known: see [Layout]. With priorities it also means that the path carries other data.
	ErrLayout = line.ErrLayout

	// ErrForeign means that the path belongs to another recipe, which the error names. The error
	// wraps [ErrLayout], too.
	ErrForeign = nodes.ErrForeign

	// ErrNodeDeleted means that the node of the lock is gone. Either another client has deleted it,
	// or the server has ended the session: then too it reports the deletion first. The loss is
	// reported at once, without waiting for the cause.
	ErrNodeDeleted = line.ErrNodeDeleted

	// ErrRevoked means that the node was deleted by force, after the holder was asked to release
	// the lock.
	ErrRevoked = line.ErrRevoked

	// ErrHeld means that the lock was not free for a call that does not wait.
	ErrHeld = errors.New("lock held by another")

	// ErrReentered means that the lock was requested in the context of a grant that excludes it, or
	// that a contender ahead of it waits for. The call would wait for itself.
	ErrReentered = errors.New("held in the same context: it would wait for itself")

	// ErrReleased is the cause with which the contexts of a lock end at its release.
	ErrReleased = errors.New("lock released")

	// ErrNotHeld means that no lock is held that could be downgraded or revoked, or that a
	// [Lock.Guard] has refused a transaction.
	ErrNotHeld = line.ErrNotHeld
)

// An Event reports a change in the state of a lock. It is one of [Waiting],
// [Acquired], [Suspended], [Resumed], [Revoked], [Released], [Lost] and [Failed]; no other type
// implements it.
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
		// Token grows with every grant of the lock, to any client.
		Token int64
		// Node is the name of the node of the grant, under the path of the lock. A downgrade
		// replaces it: see [Lock.Node].
		Node string
	}

	// Suspended means that the connection is lost. The lock is still held. It will be lost at the
	// Deadline unless Resumed comes first.
	Suspended struct{ Deadline time.Time }

	// Resumed means that the connection is back and the lock is still held.
	Resumed struct{}

	// Revoked means that another client asks for the lock. The lock is still held. It will be taken
	// away at about the Deadline, by the clock of this process, unless it is released before. If
	// the Deadline is zero, the first request has none, or none that the layout can express.
	// Revoked is emitted once: later requests emit no event, and may use force.
	Revoked struct{ Deadline time.Time }

	// Released means that the lock, or the place in line, was given up on request. If Err is not
	// nil, the server has refused that for a session timeout: no other contender gets it until the
	// session ends, or an attempt succeeds, which go on.
	Released struct{ Err error }

	// Lost means that the lock is gone. Err wraps [ErrLost] and the reason.
	Lost struct{ Err error }

	// Failed means that the lock was not held, and will not be: there is no place in line, or it
	// is lost. Err wraps the reason.
	Failed struct{ Err error }
)

func (Waiting) event()   {}
func (Acquired) event()  {}
func (Suspended) event() {}
func (Resumed) event()   {}
func (Revoked) event()   {}
func (Released) event()  {}
func (Lost) event()      {}
func (Failed) event()    {}

func (e Waiting) String() string  { return fmt.Sprintf("waiting ahead=%d", e.Ahead) }
func (e Acquired) String() string { return fmt.Sprintf("acquired token=%d node=%s", e.Token, e.Node) }

func (e Suspended) String() string { return "suspended until " + e.Deadline.Format(time.StampMilli) }
func (Resumed) String() string     { return "resumed" }
func (e Released) String() string  { return client.Told("released", e.Err) }

func (e Revoked) String() string {
	if e.Deadline.IsZero() {
		return "revoked"
	}
	return "revoked until " + e.Deadline.Format(time.StampMilli)
}

func (e Lost) String() string   { return e.Err.Error() }
func (e Failed) String() string { return e.Err.Error() }

// presentation converts the events of the line to those of a lock.
var presentation = contender.Presentation[Event]{ //nolint:gochecknoglobals // it is constant
	Tell: tell, Merge: recipe.Newest[Waiting, Event], Cancel: recipe.Undone[Suspended, Resumed, Event],
	Keep: keep, Lost: ErrLost, Released: ErrReleased,
}

// tell converts an event of the line to its type here.
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
		if ev.Err == nil {
			return Released{} // which costs nothing
		}
		return Released(ev)
	case line.ConditionChanged: // never comes here: see [contender.Presentation.Changed]
	case line.Lost:
		return Lost{contender.Loss(ErrLost, ev)}
	case line.NotGranted:
		return Failed(ev)
	}
	panic(fmt.Sprintf("lock: %T is no event of a line", ev))
}

// keep replays Acquired, Revoked and Suspended to a late reader while the lock is held.
func keep(earlier, next Event) bool {
	return recipe.Stays[Acquired, Lost](earlier, next) || recipe.Stays[Revoked, Lost](earlier, next) ||
		recipe.Stays[Suspended, Lost](earlier, next)
}
