package queue

import (
	"errors"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

// This file has the protocols of calls on a queue that is shared with other libraries, as pure
// functions; their performer is in flat.go. A call that puts items:
//
//	checking ► putting ── done, or failed ► the caller is answered
//	              ▲ │ there is no path
//	              └─ making
//
// A call that takes an item, or only looks at it:
//
//	picking ── none, and the call waits ► idling ── changed ► picking
//	 │   ▲
//	 ▼   │ gone
//	reading ◄── not sent ── removing ── done ► the caller has it
//	 └── there ────────────────▲ └─ gone ► picking
//
// The transaction deletes the item at the version at which it was read. Names are numbers: servers
// that come back with older data give them again, at the same versions. So the transaction belongs
// to the epoch, and the lease, under which the item was read. If it was not done before the lease
// ended, the item is read anew; if it is in doubt when the epoch ends, the outcome is unknown.

// A flatPhase is the question whose answer a call waits for. There is one at a time.
type flatPhase int

const (
	flatBeginning flatPhase = iota // flatBegun
	flatChecking                   // flatDone: whether the path is a queue of this layout
	flatMaking                     // flatDone: the path is being made
	flatPutting                    // flatSent: the transaction is on its way
	flatPicking                    // flatPicked: the first item that no other call of the handle tries
	flatIdling                     // flatChanged: the queue has changed
	flatReading                    // flatRead: an item is being read
	flatRemoving                   // flatSent: the transaction is on its way
)

// A flatInput is an event that a call reacts to.
//
//sumtype:decl
type flatInput interface{ flatInput() }

type (
	flatBegun  struct{ checked bool } // begins; checked is set if the path was seen to be a queue of this layout
	flatDone   struct{ err error }    // answers flatCheck and flatMake
	flatPicked struct {               // answers flatPick
		name string // "" if there is none
		err  error
	}
	flatChanged struct{} // answers flatIdle
	flatRead    struct { // answers flatFetch
		item flatItem
		err  error
	}
	flatSent struct { // answers flatSend
		results []session.OpResult
		err     error // a [stock.RefusalError] if the server refused one operation
	}
	flatDrop   struct{} // commanded: the caller waits no longer
	flatShut   struct{} // commanded: the handle is closed
	flatLapsed struct{} // answers flatLinger: the session is over
)

func (flatBegun) flatInput()   {}
func (flatDone) flatInput()    {}
func (flatPicked) flatInput()  {}
func (flatChanged) flatInput() {}
func (flatRead) flatInput()    {}
func (flatSent) flatInput()    {}
func (flatDrop) flatInput()    {}
func (flatShut) flatInput()    {}
func (flatLapsed) flatInput()  {}

// A flatItem is an item as it was read.
type flatItem struct {
	name    string
	data    []byte
	version int32
	since   int64 // when it was put, in ms by the server's clock
	epoch   int   // in which it was read
	lease   int64 // under which it was read
}

// A flatEffect asks the performer for one action. Questions are answered by one input each;
// flatLinger, flatForgo and flatGive are not.
//
//sumtype:decl
type flatEffect interface{ flatEffect() }

type (
	flatCheck  struct{}
	flatMake   struct{}
	flatPick   struct{}
	flatIdle   struct{}                // answer when the queue is not as it was listed last
	flatFetch  struct{ name string }   // read an item
	flatSend   struct{ item flatItem } // put the items, or delete this one
	flatLinger struct{}                // do not begin the transaction if it waits yet, else answer when the session is over
	flatForgo  struct{}                // stop waiting for the transaction; flatSent follows at once
	flatGive   struct {                // answer the caller, once
		created []session.OpResult
		item    flatItem // none if it stays where it is, and was not only looked at
		err     error
	}
)

func (flatCheck) flatEffect()  {}
func (flatMake) flatEffect()   {}
func (flatPick) flatEffect()   {}
func (flatIdle) flatEffect()   {}
func (flatFetch) flatEffect()  {}
func (flatSend) flatEffect()   {}
func (flatLinger) flatEffect() {}
func (flatForgo) flatEffect()  {}
func (flatGive) flatEffect()   {}

// A flatCall is the state of a call.
type flatCall struct {
	// Constant.
	puts  bool // set if it puts items; the others mean nothing then
	peeks bool // set if the item stays
	waits bool // set if it waits for an item

	phase flatPhase
	item  flatItem // that was read last; the transaction is for it
	left  bool     // set by stop while the transaction is under way. While set, nothing is asked for any more
	ended bool     // set with flatGive
}

// Ended implements [actors.Machine].
func (c flatCall) Ended() bool { return c.ended }

// A flatTurn is a call during a step, with the accumulator of its effects.
type flatTurn struct {
	flatCall
	*actors.Effects[flatEffect, procedure.None]
}

func (s *flatTurn) do(e flatEffect) { s.Do = append(s.Do, e) }

// Step implements [actors.Machine]. Only the transaction changes anything: all other questions are
// asked again if their error passes.
func (c flatCall) Step(in flatInput, out *actors.Effects[flatEffect, procedure.None]) flatCall {
	if c.ended {
		return c
	}
	s := &flatTurn{flatCall: c, Effects: out}
	switch in := in.(type) {
	case flatBegun:
		switch {
		case !s.puts:
			s.ask(flatPicking, flatPick{})
		case in.checked:
			s.send()
		default:
			s.ask(flatChecking, flatCheck{})
		}
	case flatDone:
		question := flatEffect(flatCheck{})
		if s.phase == flatMaking {
			question = flatMake{}
		}
		if s.goes(in.err, question) {
			s.send()
		}
	case flatPicked:
		if s.goes(in.err, flatPick{}) {
			s.picked(in.name)
		}
	case flatChanged:
		if s.phase == flatIdling {
			s.ask(flatPicking, flatPick{})
		}
	case flatRead:
		s.read(in)
	case flatSent:
		s.sent(in)
	case flatShut:
		if s.phase != flatPutting && s.phase != flatRemoving { // else it may have been done
			s.fail(ErrClosed)
		}
	case flatDrop:
		s.leave()
	case flatLapsed:
		if s.left && !s.puts {
			s.do(flatForgo{})
		}
	}
	return s.flatCall
}

// leave ends the call as soon as that loses nothing.
func (s *flatTurn) leave() {
	if s.phase != flatPutting && s.phase != flatRemoving {
		s.fail(procedure.Abandoned(false))
		return
	}
	if s.left = true; s.puts { // the items may have been put
		s.do(flatForgo{})
	} else { // the item would be lost, if the transaction is done
		s.do(flatLinger{})
	}
}

// ask asks a question, and waits for its answer in phase p.
func (s *flatTurn) ask(p flatPhase, e flatEffect) {
	s.phase = p
	s.do(e)
}

// give answers the caller, which is the last effect.
func (s *flatTurn) give(g flatGive) {
	s.ended = true
	s.do(g)
}

func (s *flatTurn) fail(err error) { s.give(flatGive{err: err}) }

// goes reports whether to go on after a question. None changes an item: one whose error passes is
// asked again, and none leaves the outcome of the call unknown.
func (s *flatTurn) goes(err error, question flatEffect) bool {
	switch {
	case err == nil:
		return true
	case procedure.Passes(0, err):
		s.do(question)
	case session.InDoubt(err):
		s.fail(session.ErrClosed)
	default:
		s.fail(err)
	}
	return false
}

// send sends the transaction.
func (s *flatTurn) send() {
	if s.puts {
		s.ask(flatPutting, flatSend{})
	} else {
		s.ask(flatRemoving, flatSend{s.item})
	}
}

// picked reads the item that was picked. Without any, the call waits or ends.
func (s *flatTurn) picked(name string) {
	switch {
	case name != "":
		s.ask(flatReading, flatFetch{name})
	case s.waits:
		s.ask(flatIdling, flatIdle{})
	default:
		s.fail(ErrEmpty)
	}
}

// read follows the reading of an item.
func (s *flatTurn) read(in flatRead) {
	s.item = in.item
	switch {
	case errors.Is(in.err, session.ErrNoNode):
		s.ask(flatPicking, flatPick{})
	case !s.goes(in.err, flatFetch{in.item.name}):
	case s.peeks:
		s.give(flatGive{item: in.item})
	default:
		s.send()
	}
}

// sent follows the answer to the transaction. With an unknown outcome the caller gets the data
// beside the error: the item may be gone.
func (s *flatTurn) sent(in flatSent) {
	no, refused := errors.AsType[*stock.RefusalError](in.err)
	switch {
	case in.err == nil:
		s.give(flatGive{created: in.results, item: s.item})
	case !refused && session.InDoubt(in.err):
		s.give(flatGive{item: s.item, err: in.err})
	case s.left: // and nothing was done
		s.fail(procedure.Abandoned(false))
	case s.puts && refused && errors.Is(in.err, session.ErrNoNode):
		s.ask(flatMaking, flatMake{})
	case s.puts:
		s.fail(in.err)
	case !refused && procedure.Passes(0, in.err), errors.Is(in.err, session.ErrBadVersion):
		s.ask(flatReading, flatFetch{s.item.name}) // its epoch is over, and it was not sent; or it was written to
	case !refused:
		s.fail(in.err)
	case errors.Is(in.err, session.ErrNoNode):
		s.ask(flatPicking, flatPick{})
	default:
		s.fail(no.Err)
	}
}
