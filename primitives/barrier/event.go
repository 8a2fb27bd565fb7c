package barrier

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
)

// The errors that callers can act on, beside the errors of package session.
var (
	// ErrClosed means that the handle was closed, or has ended. In the latter case the error also
	// wraps the reason.
	ErrClosed = errors.New("barrier handle closed")

	// ErrEntered means that the handle is in a round already, or that another Enter waits.
	ErrEntered = errors.New("already entered or entering")

	// ErrNotEntered means that the handle is in no round. It also wraps the reason if a membership
	// was lost.
	ErrNotEntered = errors.New("not entered")

	// ErrParties means that the double barrier is recorded with another number of parties. A few
	// minutes after the last party has left, the server deletes the directories of the rounds. From
	// then on another number may use the path.
	ErrParties = errors.New("another number of parties")

	// ErrLayout means that a node at the path, or below it, belongs to another recipe, and is in
	// the way. Nothing was changed.
	//
	// The following was measured with the double barriers of Curator 5.4 and 5.9, and of kazoo 2.8
	// and 2.11. A party of ours that comes to a path of theirs is refused. A party of theirs that
	// comes to a path of ours counts our nodes, and enters at once. Our parties get the error when
	// their next round begins, and do not enter it.
	ErrLayout = errors.New("not a barrier's node")

	// ErrForeign means that the path belongs to another recipe. The error names it, as far as its
	// data or its children show that, and wraps [ErrLayout], too.
	ErrForeign = nodes.ErrForeign

	// ErrNodeGone means that another client has deleted the node of the handle, or of the gate.
	ErrNodeGone = errors.New("the node was deleted")

	// ErrRaised means that another barrier stands: not that of this [Barrier.TryRaise].
	ErrRaised = errors.New("barrier is raised")
)

// errWithdrawn is the outcome of an Enter or a TryRaise that was cancelled and has changed nothing.
var errWithdrawn = errors.New("withdrawn")

// recipe is the name of the package in records of the log.
const recipe = "barrier"

// A DoubleEvent reports a change of a [Double]. It is one of [Waiting], [Entered], [Leaving],
// [Left], [Lost], [Withdrawn] and [Closed]; no other type implements it.
//
//sumtype:decl
type DoubleEvent interface {
	fmt.Stringer
	doubleEvent()
}

// A GateEvent reports a change of a [Gate]. It is one of [Raised], [Released] and [Lost]; no other
// type implements it.
//
//sumtype:decl
type GateEvent interface {
	fmt.Stringer
	gateEvent()
}

// An Event reports whether a [Barrier] stands. It is one of [Raised], [Released] and [Closed]; no
// other type implements it.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Waiting means that the node of the handle stands. Present counts the parties that were
	// present when the node was created, or when they were last listed. It is at most the number of
	// a round.
	Waiting struct{ Present int }

	// Entered means that the round has begun and lists the handle.
	Entered struct {
		Round   int      // counts the rounds of the path, from 1
		Members []string // the names of all members, which are [DoubleOptions.Name]
	}

	// Leaving means that the handle has left the round, and waits for the others. Remaining counts
	// the parties that were still in the round when the handle left, or when they were last listed.
	Leaving struct{ Remaining int }

	// Left means that all members have left the round, or crashed.
	Left struct{ Round int }

	// Lost means, of a [Double], that it is not in the round any more, although it has not left:
	// its session has expired, its node was deleted, or the nodes of the round cannot be read. Of a
	// [Gate] it means that its session has expired, or that its node was deleted, cannot be read,
	// or cannot be deleted.
	Lost struct{ Err error }

	// Withdrawn means that Enter ended without a round. Err is nil if the caller's context ended.
	Withdrawn struct{ Err error }

	// Raised means that the barrier stands. If it follows another Raised, the earlier barrier was
	// lifted and this one raised before the session, or the reader, noticed. Of a [Gate] it means
	// that the gate is held.
	Raised struct {
		// Token grows with each barrier that is raised at the path, unless the servers come back
		// with older data.
		Token int64
	}

	// Released means that no barrier stands. Of a [Gate] it means that the gate was lifted.
	Released struct{}

	// Closed is the last event. Err says why the handle has ended; it is nil after Close.
	Closed struct{ Err error }
)

func (Waiting) doubleEvent()   {}
func (Entered) doubleEvent()   {}
func (Leaving) doubleEvent()   {}
func (Left) doubleEvent()      {}
func (Lost) doubleEvent()      {}
func (Withdrawn) doubleEvent() {}
func (Closed) doubleEvent()    {}

func (Raised) gateEvent()   {}
func (Released) gateEvent() {}
func (Lost) gateEvent()     {}

func (Raised) event()   {}
func (Released) event() {}
func (Closed) event()   {}

func (e Waiting) String() string { return fmt.Sprintf("waiting present=%d", e.Present) }
func (e Entered) String() string {
	return fmt.Sprintf("entered round=%d members=%s", e.Round, strings.Join(e.Members, ","))
}
func (e Leaving) String() string { return fmt.Sprintf("leaving remaining=%d", e.Remaining) }
func (e Left) String() string    { return fmt.Sprintf("left round=%d", e.Round) }
func (e Lost) String() string    { return fmt.Sprintf("lost: %v", e.Err) }

func (e Withdrawn) String() string { return client.Told("withdrawn", e.Err) }

func (e Raised) String() string { return fmt.Sprintf("raised token=%d", e.Token) }

func (Released) String() string { return "released" }

func (e Closed) String() string { return client.Told("closed", e.Err) }

// merge keeps only the newest event, because all events are levels.
func merge(_, next Event) (Event, bool) { return next, true }

// keepDouble keeps Entered for a late reader whose first event is a Leaving: it names the round
// that is being left.
func keepDouble(earlier, next DoubleEvent) bool {
	_, entered := earlier.(Entered)
	_, leaving := next.(Leaving)
	return entered && leaving
}

// mergeDouble merges the events that count parties, which are levels.
func mergeDouble(last, next DoubleEvent) (DoubleEvent, bool) {
	switch last.(type) {
	case Waiting:
		_, ok := next.(Waiting)
		return next, ok
	case Leaving:
		_, ok := next.(Leaving)
		return next, ok
	case Entered, Left, Lost, Withdrawn, Closed:
	}
	return nil, false
}
