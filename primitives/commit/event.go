package commit

import (
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// The conditions that callers can act on, beside the errors of package session.
var (
	// ErrExists means that there is a transaction with the id.
	ErrExists = errors.New("the transaction exists")

	// ErrNoTransaction means that the site does not know the transaction.
	ErrNoTransaction = errors.New("no such transaction")

	// ErrStale means that a vote, or Finish, is for an earlier transaction with the id. The call
	// did nothing.
	ErrStale = errors.New("another transaction has the id now")

	// ErrForeign means that the path belongs to another recipe. The error names it, as far as its
	// data or its children show that.
	ErrForeign = nodes.ErrForeign

	// ErrNotNamed means that the transaction does not name the site.
	ErrNotNamed = errors.New("the transaction does not name the site")

	// ErrVoted means that the site has voted, and a vote is not changed.
	ErrVoted = errors.New("the site has voted")

	// ErrDecided means that the outcome was recorded before the vote.
	ErrDecided = errors.New("the transaction is decided")

	// ErrUndecided means that a site cannot finish before it received the outcome.
	ErrUndecided = errors.New("the transaction is undecided")

	// ErrForgotten means that the transaction was removed before its outcome was read.
	ErrForgotten = errors.New("the transaction was removed; its outcome is unknown here")

	// ErrFinished means that the site has finished the transaction. Guards fail with it.
	ErrFinished = errors.New("the site has finished the transaction")

	// ErrPresent means that a process acts for the site that is to be retired.
	ErrPresent = errors.New("a process acts for the site")

	// ErrClosed means that the handle was closed, or has ended. The error also wraps the reason of
	// the end.
	ErrClosed = errors.New("commit handle closed")
)

// A Vote is the vote of a site.
type Vote int

// The votes. The zero Vote stands for none.
const (
	Yes Vote = 1
	No  Vote = 2
)

// String implements [fmt.Stringer].
func (v Vote) String() string {
	switch v {
	case Yes:
		return "yes"
	case No:
		return "no"
	}
	return "none"
}

// A Tx names one transaction: a later transaction with the same id has another Tx. The events of
// the transaction carry it. It is comparable. A site that stores its vote or an outcome stores both
// fields.
type Tx struct {
	ID   string // the last name of the path
	GUID string // no other transaction has it
}

// String returns the id.
func (tx Tx) String() string { return tx.ID }

// A Reason says why a transaction was aborted.
type Reason string

// The reasons.
const (
	VotedNo   Reason = "a site voted no"
	TimedOut  Reason = "the deadline passed"
	SiteGone  Reason = "a site was gone before it voted"
	Withdrawn Reason = "the caller of Begin gave up"
)

// An Outcome is the decision on a transaction. The zero Outcome is none.
type Outcome struct {
	Committed bool   `json:"committed"`
	Reason    Reason `json:"reason,omitempty"` // of an abort
	Site      string `json:"site,omitempty"`   // the site that is the reason, if one is
	By        string `json:"by"`               // the party that recorded the outcome: a site, or "coordinator"
}

// String implements [fmt.Stringer].
func (o Outcome) String() string {
	switch {
	case o == Outcome{}:
		return "undecided"
	case o.Committed:
		return "committed by " + o.By
	}
	s := "aborted by " + o.By + ": " + string(o.Reason)
	if o.Site != "" {
		s += ": " + o.Site
	}
	return s
}

// recipe is the name of the package in records of the log.
const recipe = "commit"

// An Event reports the progress, or the outcome, of a transaction. It is one of [Voted], [Prepare],
// [Committed], [Aborted], [Forgotten] and [Left]; no other type implements it.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Voted means that a site has voted. Only the coordinator receives it.
	Voted struct {
		Site string
		Vote Vote
		Data []byte
	}

	// Prepare asks the site for its vote. Only sites receive it.
	Prepare struct {
		Tx      Tx
		Payload []byte // must not be modified
	}

	// Committed means that the outcome is Commit, and is recorded.
	Committed struct {
		Tx      Tx
		Payload []byte // must not be modified
		By      string // the party that recorded it

		node string // of the site
	}

	// Aborted means that the outcome is Abort, and is recorded.
	Aborted struct {
		Tx     Tx
		Reason Reason
		Site   string // the site that is the reason, if one is
		By     string // the party that recorded it
	}

	// Forgotten means that the transaction vanished before its outcome was read, or that its record
	// was overwritten, so that there will be none. Package commit does not cause that: an operator
	// has. The outcome is unknown here.
	Forgotten struct{ Tx Tx }

	// Left is the last event of a [Participant], and of a [Transaction] that ends without an
	// outcome. Err is nil after Close.
	Left struct{ Err error }
)

func (Voted) event()     {}
func (Prepare) event()   {}
func (Committed) event() {}
func (Aborted) event()   {}
func (Forgotten) event() {}
func (Left) event()      {}

// String returns the event without the data of the vote, which may not be for logs.
func (e Voted) String() string { return fmt.Sprintf("voted %s %v", e.Site, e.Vote) }

// String returns the event without the payload, which may not be for logs.
func (e Prepare) String() string { return "prepare " + e.Tx.ID }

// String returns the event without the payload, which may not be for logs.
func (e Committed) String() string { return "committed " + e.Tx.ID }

func (e Aborted) String() string {
	o := Outcome{Reason: e.Reason, Site: e.Site, By: e.By}
	return e.Tx.ID + " " + o.String()
}

func (e Forgotten) String() string { return "forgotten " + e.Tx.ID }

func (e Left) String() string { return client.Told("left", e.Err) }

// Guard returns the operation that fails a ZooKeeper transaction, with [ErrFinished], unless the
// outcome is Commit and this site has not finished. A coordinator's event has no guard: the
// operation it returns fails.
func (e Committed) Guard() session.Op { return session.GuardOp(e.node, ErrFinished) }

// Once returns the operation that lets a ZooKeeper transaction succeed once: it deletes the site's
// ballot. Call [Participant.Finish] afterwards, also if the transaction fails with
// [session.ErrNoNode]. A coordinator's event has no ballot: the operation it returns fails.
func (e Committed) Once() session.Op { return session.DeleteOp(e.node, session.AnyVersion) }

// txOf returns the name of the transaction.
func txOf(r *record) Tx { return Tx{r.ID, r.GUID} }

// eventOf returns the event of an outcome.
func eventOf(r *record, o Outcome, node string) Event {
	if o.Committed {
		return Committed{Tx: txOf(r), Payload: r.Payload, By: o.By, node: node}
	}
	return Aborted{Tx: txOf(r), Reason: o.Reason, Site: o.Site, By: o.By}
}
