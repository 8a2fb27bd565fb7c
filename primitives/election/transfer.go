package election

import (
	"fmt"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// This file has the transfer of the leadership to another candidate:
//
//	seeking ── there is none ► refused, and we lead on
//	   │ found: Deposed
//	   ▼
//	ceasing ── our function has returned
//	   │
//	   ▼
//	offered ── the successor is gone, or cannot be notified ► we resign
//	   │ it, or another, has taken our place
//	   ▼
//	settled ── the newer term is seen ► answered
//
// From ceasing on we no longer lead, but keep our node until the successor's claim deletes it. So
// no other candidate can be elected in between.

// A handing is a transfer under way. It is cleared when it fails, and when a newer term than ours
// is seen after the end of our place.
type handing struct {
	tenure        // our own, which ends with the phase seeking
	to     string // "" if there is none
	data   string // of the successor's node; set when it is found
	phase  phase
	reply  actors.Reply[error] // cleared by the answer, which may precede the end
}

type phase int8

const (
	seeking phase = iota // the successor's node is being read
	ceasing              // we no longer lead; our function may still work
	offered              // the successor is to take over
	settled              // the successor, or another candidate, has
)

// transfer begins a transfer. Nothing is given up before the successor is found.
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

// hands reports whether a transfer of the term is under way, in the phase. Other answers are too
// late.
func (t *turn) hands(of tenure, p phase) bool {
	return t.handing.to != "" && t.handing.tenure == of && t.handing.phase == p
}

// sought handles the answer to the search. If there is such a candidate, we no longer lead; we hand
// over our place when our function has returned.
func (t *turn) sought(in sought) {
	switch {
	case !t.hands(in.of.tenure, seeking):
	case client.Over(in.err): // we will be deposed
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

// handed handles the answer to the write of the successor's name. The successor then claims by
// itself; we watch its node, which may be deleted before that.
func (t *turn) handed(in handed) {
	switch {
	// the place learns of its end by itself
	case !t.hands(in.of.tenure, offered), !t.place.Holding(), client.Over(in.err), in.gone:
	case in.err == nil:
		t.do(expect{in.of.tenure, in.of.to})
		if in.untold {
			t.do(lapse{in.of.tenure})
		}
	case in.nobody:
		t.fallBack(ErrNoCandidate)
	case session.Passing(in.err): // a repetition does no harm
		t.do(in.of)
	default:
		t.fallBack(in.err)
	}
}

// fallBack resigns instead of handing over. Then the first in line leads.
func (t *turn) fallBack(why error) {
	t.do(answer{t.handing.reply, fmt.Errorf("%w, so the leader has resigned", why)})
	t.handing = handing{}
	if t.place.Holding() {
		t.advance(line.Leave{})
	}
}
