package election

import (
	"fmt"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// This file hands leadership over to another candidate:
//
//	seeking ── there is none ► refused, and we lead on
//	   │ found: Deposed
//	   ▼
//	ceasing ── our function has returned
//	   │
//	   ▼
//	offered ── the successor is gone, or cannot be told ► we resign
//	   │ it, or another, has taken our place
//	   ▼
//	settled ── the newer term is seen ► answered
//
// From ceasing on we lead no more, but keep our node: the successor's claim deletes it.
// So no other candidate can be elected in between.

// A handing is a transfer under way. It is cleared when a newer term than ours is seen
// after our place has ended, and when it fails.
type handing struct {
	tenure        // of ours, which ends with the phase seeking
	to     string // "" if there is none
	data   string // of the node of that; set when it was found
	phase  phase
	reply  actors.Reply[error] // cleared when it is answered, which may be before the end
}

type phase int8

const (
	seeking phase = iota // is there such a candidate
	ceasing              // we lead no more; our function may still be running
	offered              // the successor is to take over
	settled              // it, or another, does
)

// transfer hands over to another candidate. Nothing is given up before that candidate
// is found.
func (t *turn) transfer(in transfer) {
	switch {
	case t.term == 0:
		t.do(answer{in.reply, ErrNotLeading})
	case t.handing.to != "" && t.handing.phase != settled:
		t.do(answer{in.reply, ErrBusy})
	case in.node == t.node:
		t.do(answer{in.reply, fmt.Errorf("%w: it leads already", session.ErrInvalidArgument)})
	default:
		t.handing = handing{tenure: t.tenure, to: in.node, reply: in.reply}
		t.do(seek{t.tenure, in.node})
	}
}

// hands reports whether the transfer of that term is in that phase. Answers for others
// are too late.
func (t *turn) hands(of tenure, p phase) bool {
	return t.handing.to != "" && t.handing.tenure == of && t.handing.phase == p
}

// sought follows the search. When there is such a candidate, we lead no more from here
// on; what we hold is handed over when our function has returned.
func (t *turn) sought(in sought) {
	switch {
	case !t.hands(in.of.tenure, seeking):
	case client.Over(in.err): // we shall be deposed
	case session.Passing(in.err):
		t.do(in.of)
	case in.err != nil || !in.exists:
		err := in.err
		if err == nil {
			err = ErrNoCandidate
		}
		t.do(answer{t.handing.reply, err})
		t.handing = handing{}
	default:
		t.handing.phase, t.handing.data = ceasing, in.data
		t.depose(ErrTransferred)
	}
}

// handed follows the write of the successor's name. The successor claims by itself; we
// watch that it does not vanish before.
func (t *turn) handed(in handed) {
	switch {
	case !t.hands(in.of.tenure, offered), !t.place.Holding(), client.Over(in.err), in.gone: // the place is told of its end
	case in.err == nil:
		t.do(expect{in.of.tenure, in.of.to})
	case in.nobody:
		t.fallBack(ErrNoCandidate)
	case session.Passing(in.err): // to do it twice does no harm
		t.do(in.of)
	default:
		t.fallBack(in.err)
	}
}

// fallBack resigns instead of handing over. The first in line leads then.
func (t *turn) fallBack(why error) {
	t.do(answer{t.handing.reply, fmt.Errorf("%w, so the leader has resigned", why)})
	t.handing = handing{}
	if t.place.Holding() {
		t.advance(line.Leave{})
	}
}
