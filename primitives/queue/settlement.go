package queue

import (
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/session"
)

// A settlement is the fate of an item that is claimed, but for the last two.
type settlement int

const (
	acknowledge settlement = iota // the item is deleted
	reject                        // it goes back
	takeBack                      // it goes back as if it had not been claimed
	retreat                       // it moves into a delayed bucket
	bury                          // it moves to the dead letters
	strand                        // it could not move there, and goes back
	discard                       // it is not claimed, and moves to the dead letters
	note                          // it is not claimed, could not move there, and has the reason in its record
)

func (s settlement) String() string {
	return [...]string{"acknowledge", "reject", "take back", "retreat", "bury", "strand", "discard", "note"}[s]
}

// A settling is a claimed item that is to be acknowledged, rejected, or taken back; or an item that
// is not claimed, and whose attempts are used up.
type settling struct {
	*layout.Claimed
	how   settlement
	delay time.Duration // of a rejected item; 0 if it goes back to its place
	cause string        // of a rejection; "" if there is none
	ops   []session.Op  // the caller's, in the same transaction

	// Of the command; empty if the consumer itself gives the item back.
	reply    actors.Reply[error]
	delivery *delivery
}

// settleOps returns the operations that settle an item: two before those of a caller, of those that
// do not go alone.
func (b *base) settleOps(q settling) []session.Op {
	unclaim := session.DeleteOp(b.at.Claim(q.Place.ID()), session.AnyVersion)
	write := func(r layout.Record) session.Op { return session.SetOp(b.at.Node(q.Place), q.Written(r), q.Version) }
	switch q.how {
	case reject, strand:
		return []session.Op{unclaim, write(q.Rejected(q.cause))} // a stranded one has the reason
	case takeBack:
		return []session.Op{unclaim, write(q.Record)}
	case note:
		take := b.at.TakeOps(q.Place, q.Version) // refused if a consumer has claimed it
		return append(take[:len(take)-1], write(q.Record))
	case discard:
		return b.at.TakeOps(q.Place, q.Version)
	case acknowledge, bury, retreat:
	}
	return append([]session.Op{unclaim, session.DeleteOp(b.at.Node(q.Place), q.Version)}, q.ops...)
}
