package line

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file has the inputs, the effects and the events of a machine. An answer carries the attempt
// of the effect that it answers: an answer for another attempt changes nothing.
//
//	commands, and news of the session and the condition ──►┐         ┌──► effects, of the present attempt
//	answers, and news of nodes that are watched ──────────►┴ Machine ┴──► events

// An Attempt to stand in line lasts until its node or its session is gone. Every answer names the
// attempt of its request. No two attempts of a handle share a GUID, because N only grows.
type Attempt struct {
	Epoch int // of the session; 0 if there is none
	N     int // counts the attempts of this handle, from 1
}

// Of returns the attempt, which every effect and answer embeds.
func (a Attempt) Of() Attempt { return a }

// attemptGUID returns the GUID of the n-th attempt of a handle. id is the handle's GUID, a UUID in
// text form, and the GUID of its first attempt. Later ones differ from it in the last eight digits.
func attemptGUID(id string, n int) string {
	if n == 1 {
		return id
	}
	var number [4]byte
	_, _ = hex.Decode(number[:], []byte(id[28:])) // they are digits
	binary.BigEndian.PutUint32(number[:], binary.BigEndian.Uint32(number[:])+uint32(n-1))
	return string(hex.AppendEncode(append(make([]byte, 0, 36), id[:28]...), number[:]))
}

// An Input is a command, an answer or news.
//
//sumtype:decl
type Input interface{ input() }

// Commands.
type (
	// Leave gives up the place, or the grant.
	Leave struct{}
	// Downgrade replaces a writer's grant by a reader's, and then replies nil.
	Downgrade struct{ Reply actors.Reply[error] }
	// Promote says that the claim was handed over to us, although others may be ahead. It is for
	// rules that claim: the server decides whether it is true.
	Promote struct{}
	// Inherit says that the deletion of the only contender ahead is the grant, with this token,
	// although the rule claims: the claim follows the grant. A token of 0 takes that back.
	Inherit struct{ Token int64 }
)

// News.
type (
	// Heard is an event of the session.
	Heard struct{ session.Event }
	// ConditionRead is a new reading of the condition of the rule, such as the limit of a
	// semaphore.
	ConditionRead struct{ Data string }
	// Reevaluate says that the condition cannot be read, or that members have come or gone.
	Reevaluate struct{}
	// Seen is a reading of the members while they are watched. It replaces Watched, and a list.
	Seen struct {
		Attempt
		Snapshot
	}
	// Happened says that the awaited change of a target has occurred. It comes once, after Watched.
	Happened struct {
		Attempt
		Target Target
	}
	// RevokeRequested says that a watched node carries a revoke request.
	RevokeRequested struct {
		Attempt
		Target   Target
		Deadline time.Time // by which we have to leave; zero if there is none
	}
)

// Answers.
type (
	// Inspected answers InspectParent.
	Inspected struct {
		Attempt
		Exists, Empty bool
	}
	// Made answers MakeParent: we have created the parent, so it is empty.
	Made struct{ Attempt }
	// Joined answers CreateNode.
	Joined struct {
		Attempt
		Node string
		// The czxid of our node, and the number of children at that zxid, from the answer to the
		// transaction. Both are 0 if the node was created without a transaction.
		Czxid    int64
		Children int
		Data     string // as in [Snapshot]
	}
	// Listed answers ListParent.
	Listed struct {
		Attempt
		Snapshot
	}
	// ListDue answers ListLater.
	ListDue struct{ Attempt }
	// Watched answers WatchTarget: the target exists.
	Watched struct {
		Attempt
		Target       Target
		Czxid, Owner int64

		// The contender has announced its grant before; only of a target that is watched until
		// [Changed].
		GrantAnnounced bool

		Obstacle // of another contender's node: for error texts
	}
	// Claimed answers Claim: the claim is ours, since the zxid.
	Claimed struct {
		Attempt
		Zxid int64
	}
	// Occupied answers Claim: another contender has the claim.
	Occupied struct{ Attempt }
	// NodeChanged answers ChangeNode.
	NodeChanged struct{ Attempt }
	// GrantAnnounced answers AnnounceGrant.
	GrantAnnounced struct{ Attempt }
	// Asked answers Ask.
	Asked struct {
		Attempt
		Node    string
		Overdue bool // the holder has not left in time
	}
	// Withdrawn answers WithdrawNode, and with an empty Node WithdrawAll. Err is not nil if a
	// server has refused the deletion for a session timeout. The attempts go on.
	Withdrawn struct {
		Attempt
		Node string
		Err  error
	}
	// Failed answers any effect except WithdrawNode and WithdrawAll.
	Failed struct {
		What Effect
		Err  error
	}
)

// An Obstacle describes a contender ahead, by the reading that came with its watch.
type Obstacle struct {
	Identity string // the beginning of its data; "" if it has none, or was not read
	Since    int64  // when its node was created, in milliseconds by the server's clock

	// NoSession says that no session owns its node, so that none takes it away: a copy of a tree,
	// or a snapshot of other servers, has brought it.
	NoSession bool
}

// Of returns the attempt of the effect that failed.
func (f Failed) Of() Attempt { return f.What.Of() }

func (Leave) input()           {}
func (Downgrade) input()       {}
func (Promote) input()         {}
func (Inherit) input()         {}
func (Heard) input()           {}
func (ConditionRead) input()   {}
func (Reevaluate) input()      {}
func (Seen) input()            {}
func (Happened) input()        {}
func (RevokeRequested) input() {}
func (Inspected) input()       {}
func (Made) input()            {}
func (Joined) input()          {}
func (Listed) input()          {}
func (ListDue) input()         {}
func (Watched) input()         {}
func (Claimed) input()         {}
func (Occupied) input()        {}
func (NodeChanged) input()     {}
func (GrantAnnounced) input()  {}
func (Asked) input()           {}
func (Withdrawn) input()       {}
func (Failed) input()          {}

// An Effect is a request of the machine to its performer. It belongs to the epoch of its attempt,
// and must not be performed in another. Exactly one input answers it. There are exceptions:
// UnwatchTarget, Complain and Answer have no answer, and ListLater has one only if the connection
// lasts.
//
//sumtype:decl
type Effect interface {
	Of() Attempt
	effect()
}

type (
	// InspectParent reads whether there is a parent, and whether it has data.
	InspectParent struct {
		Attempt
		IsNew bool // see [Snapshot.New]
	}
	// MakeParent creates the parent, with all its ancestors.
	MakeParent struct{ Attempt }
	// CreateNode creates our node, ephemeral and sequential.
	CreateNode struct {
		Attempt
		GUID  string
		Plain bool // not in one transaction with a write to the parent
	}
	// ListParent reads the names of the contenders, and the condition.
	ListParent struct{ Attempt }
	// ListLater is answered after the given time.
	ListLater struct {
		Attempt
		After time.Duration
	}
	// WatchTarget watches the target until the awaited change.
	WatchTarget struct {
		Attempt
		Target Target
	}
	// WatchTogether watches our node and others by one request. Each is answered like a
	// WatchTarget.
	WatchTogether struct {
		Attempt
		Node string
		With string // the keys of the others, as in [attemptState.beside]
	}
	// UnwatchTarget ends a watch.
	UnwatchTarget struct {
		Attempt
		Target Target
	}
	// Claim claims on behalf of our node.
	Claim struct {
		Attempt
		Node  string
		Again bool  // an earlier claim may have been executed
		Token int64 // of the grant, if that has preceded the claim; else 0
	}
	// ChangeNode deletes a node and creates another in its place, in one transaction.
	ChangeNode struct {
		Attempt
		From, To string
	}
	// AnnounceGrant writes to our node, which notifies the contenders that watch it until
	// [Changed].
	AnnounceGrant struct {
		Attempt
		Node string
	}
	// Ask asks the holder with the node to leave, and removes it by force when its time is over.
	Ask struct {
		Attempt
		Node string
	}
	// Complain logs a warning.
	Complain struct {
		Attempt
		Reason string
	}
	// WithdrawNode deletes our claim and the node. It repeats the deletion until it is confirmed,
	// or the epoch has ended.
	WithdrawNode struct {
		Attempt
		Node string
	}
	// WithdrawAll is WithdrawNode for all nodes with the GUID.
	WithdrawAll struct {
		Attempt
		GUID string
	}
	// Answer replies to a command.
	Answer struct {
		Attempt
		Reply actors.Reply[error]
		Err   error
	}
)

func (InspectParent) effect() {}
func (MakeParent) effect()    {}
func (CreateNode) effect()    {}
func (ListParent) effect()    {}
func (ListLater) effect()     {}
func (WatchTarget) effect()   {}
func (WatchTogether) effect() {}
func (UnwatchTarget) effect() {}
func (Claim) effect()         {}
func (ChangeNode) effect()    {}
func (AnnounceGrant) effect() {}
func (Ask) effect()           {}
func (Complain) effect()      {}
func (WithdrawNode) effect()  {}
func (WithdrawAll) effect()   {}
func (Answer) effect()        {}

// Effects are the effects and the events of a step.
type Effects = actors.Effects[Effect, Event]

// Withdraws reports whether the effect gives up a grant, or a node that may get one. An election
// delays such an effect until the function that leads has returned.
func Withdraws(e Effect) bool {
	_, one := e.(WithdrawNode)
	_, all := e.(WithdrawAll)
	return one || all
}

// Closes reports whether the input says that no session will follow. Then a machine that has ended
// does not join the line again.
func Closes(in Input) bool {
	return in == Input(Heard{session.Closed{}})
}

// An Event reports a change of a place in line:
//
//	Waiting* (Acquired (Suspended | Resumed | Revoked)* (Released | Lost) | Released | NotGranted)
//
// Suspended and Resumed alternate, Revoked comes at most once, and ConditionChanged anywhere before
// the last event. Packages lock and semaphore convert each event to a type of their own, in the
// function tell of their event.go; the machine of package election reads them. A recipe may convert
// ConditionChanged to an event that only it has: see [contender.Presentation].
//
//sumtype:decl
type Event interface{ event() }

type (
	// Waiting means that Ahead others come first.
	Waiting struct{ Ahead int }
	// Acquired means that the grant is ours.
	Acquired struct {
		Token int64
		Node  string
	}
	// Suspended means that the connection is lost.
	Suspended struct{ Deadline time.Time }
	// Resumed means that the connection is back.
	Resumed struct{}
	// Revoked means that another client asks the contender to leave. At the Deadline, if there is
	// one, it uses force.
	Revoked struct{ Deadline time.Time }
	// ConditionChanged means that the condition of the rule has changed, by a new reading.
	ConditionChanged struct{ Before, Now string }
	// Released means that the place was given up on request. If Err is not nil, its node stands
	// yet, because a server refuses to delete it.
	Released struct{ Err error }
	// Lost means that the grant is gone for another reason.
	Lost struct{ Err error }
	// NotGranted means that there was no grant, and will be none: there is no place, or it is gone.
	NotGranted struct{ Err error }
)

func (Waiting) event()          {}
func (Acquired) event()         {}
func (Suspended) event()        {}
func (Resumed) event()          {}
func (Revoked) event()          {}
func (ConditionChanged) event() {}
func (Released) event()         {}
func (Lost) event()             {}
func (NotGranted) event()       {}

// Reasons of a Lost or a NotGranted, beside the errors of package session. Recipes wrap them in
// their own.
var (
	// ErrNodeDeleted means that the node of the place is gone. Either another client has deleted
	// it, or the server has ended the session: then too it reports the deletion first. The loss is
	// reported at once, without waiting for the cause.
	ErrNodeDeleted = errors.New("node deleted by another client, or with the session")

	// ErrRevoked means that the node was deleted by force after a revoke request.
	ErrRevoked = errors.New("revoked by force")
)

// Reasons for which a command is refused.
var (
	// ErrNotHeld means that there is nothing to downgrade.
	ErrNotHeld = errors.New("not held")

	// ErrNotWrite means that the holder cannot be downgraded: it is not a writer.
	ErrNotWrite = errors.New("no write lock")
)
