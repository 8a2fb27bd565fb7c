package barrier

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zkactors/zkactors/internal/client"
)

// The errors that callers can act on, beside those of package session.
var (
	// ErrClosed means that the handle was closed, or has ended for the reason that is
	// wrapped too.
	ErrClosed = errors.New("barrier handle closed")

	// ErrEntered means that the handle is in a round, or about to enter one, already.
	ErrEntered = errors.New("already entered or entering")

	// ErrNotEntered means that the handle is in no round. If a membership was lost, the reason is
	// wrapped too.
	ErrNotEntered = errors.New("not entered")

	// ErrParties means that the double barrier is recorded with another number of
	// parties. The record goes when the path has been empty for a while.
	ErrParties = errors.New("another number of parties")

	// ErrLayout means that a node at the path, or below it, is not of such a barrier, and is in the
	// way. Nothing was changed. With the
	// double barriers of Curator 5.4 and kazoo 2.8 this was measured: a party of ours that comes where
	// theirs are is refused. A party of theirs that comes where ours are counts our nodes, and enters at
	// once. Ours are told when their next round begins, and do not enter it.
	ErrLayout = errors.New("not a barrier's node")

	// ErrNodeGone means that another client has deleted the node of the handle, or of the gate.
	ErrNodeGone = errors.New("the node was deleted")

	// ErrRaised means that a barrier stands that is not of this [Barrier.TryRaise].
	ErrRaised = errors.New("barrier is raised")
)

// errWithdrawn answers an Enter or a TryRaise whose context ended, and which came to nothing.
var errWithdrawn = errors.New("withdrawn")

// errBelow refuses a node that cannot be lifted, and is not that of a double barrier.
var errBelow = fmt.Errorf("%w: the node has children, and is of another recipe", ErrLayout)

// recipe is the name of the package in records of the log.
const recipe = "barrier"

// A DoubleEvent reports what has become of a [Double]. It is one of [Waiting], [Entered],
// [Leaving], [Left], [Lost], [Withdrawn] and [Closed]; no other type implements it.
//
//sumtype:decl
type DoubleEvent interface {
	fmt.Stringer
	doubleEvent()
}

// A GateEvent reports what has become of a [Gate]. It is one of [Raised], [Released] and [Lost];
// no other type implements it.
//
//sumtype:decl
type GateEvent interface {
	fmt.Stringer
	gateEvent()
}

// An Event reports what is at the path of a [Barrier]. It is one of [Raised],
// [Released] and [Closed]; no other type implements it.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Waiting means that the node of the handle stands. Present counts the parties that were present
	// when it was created, or when they were last listed. It is never more than the parties of a round.
	Waiting struct{ Present int }

	// Entered means that the round has begun and lists the handle.
	Entered struct {
		Round   int      // counts the rounds of the path, from 1
		Members []string // the names of all members, which are [DoubleOptions.Name]
	}

	// Leaving means that the handle has left the round, in which others were at that
	// moment, or when they were last counted.
	Leaving struct{ Remaining int }

	// Left means that all members have left the round, or crashed.
	Left struct{ Round int }

	// Lost means that a [Double] is in the round no more, and has not left it: its session has
	// expired, its node was deleted, or the nodes of the round cannot be read. From a [Gate]
	// it means the same of the gate, or that it cannot be lifted.
	Lost struct{ Err error }

	// Withdrawn means that Enter ended without a round. Err is nil if its context ended.
	Withdrawn struct{ Err error }

	// Raised means that the barrier stands. If it follows another Raised, that barrier was
	// lifted and this one raised before the session noticed, or the reader. From a [Gate] it
	// means that the gate is held.
	Raised struct {
		Token int64 // grows with each barrier that is raised at the path
	}

	// Released means that no barrier stands. From a [Gate] it means that this one was lifted.
	Released struct{}

	// Closed is the last event. Err is nil after Close, and else says why the handle has
	// ended.
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

// merge keeps the newest: all of them are levels.
func merge(_, next Event) (Event, bool) { return next, true }

// keepDouble has a reader that comes late know of the round that is being left.
func keepDouble(earlier, next DoubleEvent) bool {
	_, entered := earlier.(Entered)
	_, leaving := next.(Leaving)
	return entered && leaving
}

// mergeDouble merges levels: how many are waited for.
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
