package shard

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/presence"
)

// The errors that callers can act on, beside the errors of package session.
var (
	// ErrLost is wrapped by every reason of a [Lost], and by the error of a guard that refuses.
	ErrLost = errors.New("shard lost")

	// ErrOverdue is the reason of a Lost: the shard was not given by the time of its [Revoke].
	ErrOverdue = errors.New("not given in time")

	// ErrGiven is the cause with which the contexts of a shard end when it is given.
	ErrGiven = errors.New("shard given")

	// ErrDuplicate is the reason of a [Left]: another session is a member with this ID.
	ErrDuplicate = presence.ErrDuplicate

	// ErrNodeDeleted is the reason of a [Gone]: the node of the member was deleted, by another
	// client, or by the server at the end of the session, which is not known yet.
	ErrNodeDeleted = presence.ErrNodeDeleted

	// ErrShards is the reason of a [Left]: the members that are there have another number of
	// shards.
	ErrShards = errShards

	// ErrForeign is the reason of a [Left]: the path belongs to another recipe, which the error
	// names, or has a plan that this library has not written.
	ErrForeign = nodes.ErrForeign

	// ErrLeft means that the member has left.
	ErrLeft = errors.New("member has left")
)

// An Event reports a change of a member, or of one of its shards. It is one of [Joined],
// [Suspended], [Resumed], [Gone], [Assigned], [Revoke], [Lost] and [Left]; no other type implements
// it.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	event()
}

type (
	// Joined means that the others see this member. Shards follow.
	Joined struct{}

	// Suspended means that the connection is lost. All shards are lost at the Deadline, unless
	// Resumed comes first.
	Suspended struct{ Deadline time.Time }

	// Resumed means that the connection is back.
	Resumed struct{}

	// Gone means that the others do not see this member any more. It joins again by itself. A Lost
	// comes for each shard that is lost with it. Err is [session.ErrExpired] or [ErrNodeDeleted].
	Gone struct{ Err error }

	// Assigned means that the member owns the shard, alone. The Token grows with each grant of this
	// shard, to any member; tokens of different shards cannot be compared.
	Assigned struct {
		Shard int
		Token int64
	}

	// Revoke means that the shard is to go to another member, when this one has finished with it
	// and called [Member.Give]. At the time By it is lost without that. The Token is that of the
	// grant.
	Revoke struct {
		Shard int
		Token int64
		By    time.Time
	}

	// Lost means that the member does not own the shard any more. Err wraps [ErrLost] and the
	// reason.
	Lost struct {
		Shard int
		Err   error
	}

	// Left is the last event. Err says why the membership, or the attempt at it, was given up; it
	// is nil after a Leave or Close, unless the server refuses to delete a node of the member.
	Left struct{ Err error }
)

func (Joined) event()    {}
func (Suspended) event() {}
func (Resumed) event()   {}
func (Gone) event()      {}
func (Assigned) event()  {}
func (Revoke) event()    {}
func (Lost) event()      {}
func (Left) event()      {}

func (Joined) String() string     { return "joined" }
func (Resumed) String() string    { return "resumed" }
func (e Gone) String() string     { return "gone: " + e.Err.Error() }
func (e Assigned) String() string { return fmt.Sprintf("assigned shard=%d token=%d", e.Shard, e.Token) }

func (e Suspended) String() string {
	if e.Deadline.IsZero() {
		return "suspended"
	}
	return "suspended until " + e.Deadline.Format(time.StampMilli)
}

func (e Revoke) String() string {
	return fmt.Sprintf("revoke shard=%d by %s", e.Shard, e.By.Format(time.StampMilli))
}

func (e Lost) String() string { return fmt.Sprintf("lost shard=%d: %v", e.Shard, e.Err) }
func (e Left) String() string { return client.Told("left", e.Err) }
