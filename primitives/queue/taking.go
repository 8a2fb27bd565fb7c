package queue

import (
	"errors"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file is the protocol of taking one item, as a pure function; its performer is in take.go.
//
// The transaction deletes the item at the version at which it was read. If the item was written to, a consumer has claimed
// it and may have it: then the transaction creates the claim and deletes it again before, so that it is refused if there
// is one.

// A takingPhase is what a taking waits for.
type takingPhase int

const (
	picking  takingPhase = iota
	listing              // the queue
	idling               // a change of the queue, in line
	fetching             // the data of an item
	removing             // the transaction
	readying             // the directory of the claims
)

// A takingInput is something that happened to a taking.
//
//sumtype:decl
type takingInput interface{ takingInput() }

type (
	// picked begins, and answers pick. There is a place if any is known from an earlier list.
	picked struct {
		place place
		ok    bool
	}
	surveyed struct { // answers survey
		view view
		err  error
	}
	roused  struct{} // answers idle
	fetched struct { // answers fetch
		item claimed
		err  error
	}
	removed struct{ err error } // answers remove: a [refusal] if it is that of an operation
	readied struct{ err error } // answers ready
	drop    struct{}            // commanded
)

func (picked) takingInput()   {}
func (surveyed) takingInput() {}
func (roused) takingInput()   {}
func (fetched) takingInput()  {}
func (removed) takingInput()  {}
func (readied) takingInput()  {}
func (drop) takingInput()     {}

// A takingEffect is something to do about it.
//
//sumtype:decl
type takingEffect interface{ takingEffect() }

type (
	pick   struct{}              // the next place that was listed
	forget struct{}              // the places that were listed, also those for other calls
	survey struct{ claims bool } // list the queue, and the claims, to pick from that
	idle   struct{ view view }   // answer when the view may not be true any more
	fetch  struct{ place place }
	remove struct{ item claimed }
	ready  struct{} // make the directory of the claims
	disown struct{} // leave the transaction that is under way
	give   struct { // the answer to the caller
		data []byte
		err  error
	}
)

func (pick) takingEffect()   {}
func (forget) takingEffect() {}
func (survey) takingEffect() {}
func (idle) takingEffect()   {}
func (fetch) takingEffect()  {}
func (remove) takingEffect() {}
func (ready) takingEffect()  {}
func (disown) takingEffect() {}
func (give) takingEffect()   {}

// taking is the state of a call that takes an item.
type taking struct {
	wait bool // for an item
	flat bool

	phase  takingPhase
	claims bool    // set when an item was claimed by a consumer. While set, the claims are listed too
	item   claimed // that was read last
	ended  bool
}

// Ended implements [actors.Machine].
func (t taking) Ended() bool { return t.ended }

type takingStep struct {
	taking
	*actors.Effects[takingEffect, none]
}

func (s *takingStep) do(e takingEffect) { s.Do = append(s.Do, e) }

// Step implements [actors.Machine].
func (t taking) Step(in takingInput, out *actors.Effects[takingEffect, none]) taking {
	if t.ended {
		return t
	}
	s := &takingStep{taking: t, Effects: out}
	switch in := in.(type) {
	case picked:
		if in.ok {
			s.ask(fetching, fetch{in.place})
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
		s.item = in.item
		switch {
		case in.err == nil:
			s.ask(removing, remove{in.item})
		case errors.Is(in.err, session.ErrNoNode):
			s.ask(picking, pick{})
		case passes(0, in.err):
			s.do(fetch{in.item.place})
		default:
			s.fail(in.err)
		}
	case removed:
		s.removed(in.err)
	case readied:
		switch {
		case in.err == nil:
			s.ask(removing, remove{s.item})
		case passes(0, in.err):
			s.do(ready{})
		case session.InDoubt(in.err): // about a directory, not about an item
			s.fail(session.ErrClosed)
		default:
			s.fail(in.err)
		}
	case drop:
		if s.phase == removing {
			s.do(disown{})
		} else {
			s.fail(abandoned(false))
		}
	}
	return s.taking
}

func (s *takingStep) ask(p takingPhase, e takingEffect) {
	s.phase = p
	s.do(e)
}

func (s *takingStep) end(data []byte, err error) {
	s.ended = true
	s.do(give{data, err})
}

// fail ends without an item. What was listed is forgotten: the item that failed may still be the first.
func (s *takingStep) fail(err error) {
	s.do(forget{})
	s.end(nil, err)
}

func (s *takingStep) surveyed(in surveyed) {
	switch {
	case passes(0, in.err):
		s.do(survey{s.claims})
	case in.err != nil:
		s.fail(in.err)
	case len(in.view.places) > 0:
		s.ask(picking, pick{})
	case s.wait:
		s.ask(idling, idle{in.view})
	default:
		s.end(nil, ErrEmpty)
	}
}

func (s *takingStep) removed(err error) {
	no, refused := errors.AsType[*refusal](err)
	switch {
	case err == nil:
		s.end(s.item.data, nil)
	case !refused && session.InDoubt(err):
		s.do(forget{})
		s.end(s.item.data, err)
	case !refused:
		s.fail(err)
	case !s.flat && s.item.version > 0 && no.index == 0 && errors.Is(err, session.ErrNoNode): // there is no directory of claims
		s.ask(readying, ready{})
	case errors.Is(err, session.ErrNodeExists): // a consumer has claimed it
		s.claims = true
		s.do(forget{})
		s.ask(listing, survey{true})
	case errors.Is(err, session.ErrNoNode):
		s.ask(picking, pick{})
	case errors.Is(err, session.ErrBadVersion): // it is the same item, claimed and given back meanwhile
		s.ask(fetching, fetch{s.item.place})
	default:
		s.fail(no.err)
	}
}
