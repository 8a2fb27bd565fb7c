// Package taking takes items, each at most once.
package taking

import (
	"errors"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

// This file is the protocol of taking items, as a pure function; its performer is in
// taker.go:
//
//	          ┌────────────── nothing listed ── listing ◄── changed ── idling (in line)
//	          │                                  │   │ none, and the call waits ▲
//	          ▼                                  │   └──────────────────────────┘
//	       picking ◄────────── listed ───────────┘
//	          │ ▲ gone
//	          ▼ │
//	       fetching ──► removing ── done ► the caller has them
//	          ▲  └ peeks    │ ▲
//	          ├─ written ───┤ └── readying (no directory of claims)
//	          └─ expired ───┘
//	                        │
//	                        └── claimed ► listing, with the claims
//
// The transaction deletes the items at the versions at which they were read. An item of version 0
// was never claimed. An item of a higher version may be claimed: then the transaction also creates
// the claim and deletes it again, so that the server refuses the transaction while a consumer has
// the claim. If an item is refused, the transaction goes again with the items before it: the others
// are a rival's, mostly.

// A phase is the question whose answer a taking waits for. There is one at a time.
type phase int

const (
	picking  phase = iota // picked: the next item of an earlier list
	listing               // surveyed: the queue is being listed
	idling                // roused: the queue has changed; the call stands in line
	fetching              // fetched: the items are being read
	removing              // removed: the transaction is on its way
	readying              // readied: the directory of the claims is being made
)

// ErrEmpty means that there is no item that could be taken.
var ErrEmpty = errors.New("queue is empty")

// An input is an event that a taking reacts to.
//
//sumtype:decl
type input interface{ input() }

type (
	// picked begins, and answers pick. Without places nothing of a list is left.
	picked   struct{ places []layout.Place }
	surveyed struct { // answers survey
		view stock.View
		own  bool // set if the list was begun after the call
		err  error
	}
	roused  struct{} // answers idle
	fetched struct { // answers fetch
		items []layout.Claimed // those that exist
		old   bool             // set if something may have come before them since they were listed
		err   error
	}
	removed struct{ err error } // answers remove; a [stock.RefusalError] if the server refused one operation
	readied struct{ err error } // answers ready
	drop    struct{}            // commanded: the caller waits no longer
	lapsed  struct{}            // answers linger: the session is over
	shut    struct{}            // commanded: the handle is closed
)

func (picked) input()   {}
func (surveyed) input() {}
func (roused) input()   {}
func (fetched) input()  {}
func (removed) input()  {}
func (readied) input()  {}
func (drop) input()     {}
func (lapsed) input()   {}
func (shut) input()     {}

// An effect asks the performer for one action. Questions are answered by one input each;
// forget, disown and give are not.
//
//sumtype:decl
type effect interface{ effect() }

type (
	pick   struct{ own bool }        // the next items that were listed; own is that of surveyed
	forget struct{ rivals bool }     // the rest of the list, for all calls of the handle: it is old; rivals is set if another client has an item of it
	survey struct{ claims bool }     // list the queue, and the claims if claims is set, to pick from it
	idle   struct{ view stock.View } // answer when the queue is not as the view shows it
	fetch  struct{ places []layout.Place }
	remove struct{ items []layout.Claimed } // send the transaction
	ready  struct{}                         // make the directory of the claims
	linger struct{}                         // do not begin the transaction if it waits yet, else answer when the session is over
	disown struct{}                         // stop waiting for the transaction under way; removed follows at once
	give   struct {                         // answer the caller, once
		items []layout.Claimed
		stays bool // set if the items stay where they are
		err   error
	}
)

func (pick) effect()   {}
func (forget) effect() {}
func (survey) effect() {}
func (idle) effect()   {}
func (fetch) effect()  {}
func (remove) effect() {}
func (ready) effect()  {}
func (linger) effect() {}
func (disown) effect() {}
func (give) effect()   {}

// A Machine is the state of a call that takes items, or only reads the first.
type Machine struct {
	Wait  bool // set if the call waits for an item; constant
	Peeks bool // set if the items stay where they are; constant

	phase  phase
	claims bool             // set when an item had a claim; while set, lists leave out what is claimed
	own    bool             // set if the items were picked from a list that was begun after the call
	places []layout.Place   // that were picked last
	items  []layout.Claimed // that were read last; the transaction is for them
	left   bool             // set by drop while removing. While set, nothing is asked for any more
	ended  bool             // set with give
}

// Ended implements [actors.Machine].
func (t Machine) Ended() bool { return t.ended }

// A turn is a taking during a step, with the accumulator of its effects.
type turn struct {
	Machine
	*actors.Effects[effect, procedure.None]
}

func (s *turn) do(e effect) { s.Do = append(s.Do, e) }

// Step implements [actors.Machine]. Only the transaction changes anything: all other
// questions are asked again if their error passes.
func (t Machine) Step(in input, out *actors.Effects[effect, procedure.None]) Machine {
	if t.ended {
		return t
	}
	s := &turn{Machine: t, Effects: out}
	switch in := in.(type) {
	case picked:
		if len(in.places) > 0 {
			s.fetch(in.places)
		} else {
			s.ask(listing, survey{s.claims})
		}
	case surveyed:
		s.surveyed(in)
	case roused:
		if s.phase == idling {
			s.ask(listing, survey{s.claims})
		}
	case fetched:
		s.fetched(in)
	case removed:
		s.removed(in.err)
	case readied:
		switch {
		case in.err == nil:
			s.remove()
		case procedure.Passes(0, in.err):
			s.do(ready{})
		case session.InDoubt(in.err): // about a directory, not about an item
			s.fail(session.ErrClosed)
		default:
			s.fail(in.err)
		}
	case shut:
		if s.phase != removing { // else the item may have been taken
			s.fail(receipt.ErrClosed)
		}
	case drop:
		if s.phase == removing { // the item would be lost, if the transaction is done
			s.left = true
			s.do(linger{})
		} else {
			s.fail(procedure.Abandoned(false))
		}
	case lapsed:
		if s.left {
			s.do(disown{})
		}
	}
	return s.Machine
}

// ask asks a question, and waits for its answer in phase p.
func (s *turn) ask(p phase, e effect) {
	s.phase = p
	s.do(e)
}

func (s *turn) pick(own bool) {
	s.own = own
	s.ask(picking, pick{own})
}

func (s *turn) fetch(places []layout.Place) {
	s.places = places
	s.ask(fetching, fetch{places})
}

func (s *turn) remove() { s.ask(removing, remove{s.items}) }

// end answers the caller, which is the last effect.
func (s *turn) end(items []layout.Claimed, err error) {
	s.ended = true
	s.do(give{items, s.Peeks, err})
}

// fail ends without an item. The list is forgotten: the items that failed are no longer in it, and
// may still be the first.
func (s *turn) fail(err error) {
	s.do(forget{})
	s.end(nil, err)
}

// surveyed follows a list. Its items are picked in turns, as other calls of the handle pick from it
// too.
func (s *turn) surveyed(in surveyed) {
	switch {
	case procedure.Passes(0, in.err):
		s.do(survey{s.claims})
	case in.err != nil:
		s.fail(in.err)
	case len(in.view.Places) > 0:
		s.pick(in.own)
	case s.Wait:
		s.ask(idling, idle{in.view})
	default:
		s.end(nil, ErrEmpty)
	}
}

// again lists the queue, as the list is old.
func (s *turn) again(rivals bool) {
	s.do(forget{rivals})
	s.ask(listing, survey{s.claims})
}

// fetched follows the read of the items.
func (s *turn) fetched(in fetched) {
	s.items = in.items
	gone := len(in.items) < len(s.places)
	switch {
	case procedure.Passes(0, in.err):
		s.fetch(s.places)
	case in.err != nil:
		s.fail(in.err)
	case in.old && !s.own, gone && len(in.items) == 0:
		s.again(gone)
	case len(in.items) == 0:
		s.pick(false)
	case s.Peeks && !s.claims && in.items[0].Version > 0: // a consumer may have it
		s.claims = true
		s.again(false)
	case s.Peeks:
		s.end(in.items[:1], nil)
	default:
		if gone {
			s.do(forget{true})
		}
		s.remove()
	}
}

// refusedAt returns which item an operation of the transaction is for, and which of its operations
// that is.
func (s *turn) refusedAt(index int) (item, op int) {
	for item, c := range s.items {
		n := 1
		if s.claimable(c) {
			n = stock.ClaimableOps
		}
		if index < n {
			return item, index
		}
		index -= n
	}
	return 0, 0
}

// claimable reports whether a consumer may have a claim of the item: a claim writes to it.
func (Machine) claimable(c layout.Claimed) bool { return c.Version > 0 }

// removed follows the answer to the transaction. With an unknown outcome the caller gets
// the data beside the error: the items may be gone.
func (s *turn) removed(err error) {
	no, refused := errors.AsType[*stock.RefusalError](err)
	if !refused {
		no = new(stock.RefusalError)
	}
	item, op := s.refusedAt(no.Index)
	switch {
	case err == nil:
		s.end(s.items, nil)
	case !refused && session.InDoubt(err):
		s.do(forget{})
		s.end(s.items, err)
	case s.left: // and the items stay where they were
		s.fail(procedure.Abandoned(false))
	case !refused && procedure.Passes(0, err): // its epoch is over, and it was not sent
		s.fetch(s.places)
	case !refused && errors.Is(err, session.ErrTooLarge) && len(s.items) > 1:
		s.do(forget{})
		s.items = s.items[:len(s.items)/2]
		s.remove()
	case !refused:
		s.fail(err)
	case op == 0 && s.claimable(s.items[item]) && errors.Is(err, session.ErrNoNode): // there is no directory of claims
		s.ask(readying, ready{})
	case !client.IsAny(err, session.ErrNodeExists, session.ErrNoNode, session.ErrBadVersion):
		s.fail(no.Err)
	case item > 0:
		s.do(forget{true})
		s.items = s.items[:item]
		s.remove()
	case errors.Is(err, session.ErrNodeExists): // a consumer has claimed it
		s.claims = true
		s.again(false)
	case errors.Is(err, session.ErrBadVersion): // it is the same item, claimed and given back meanwhile
		s.fetch(s.places)
	default:
		s.again(true)
	}
}
