package election

import (
	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// This file has the inputs and the effects of a candidate.

// An input is an event that the machine reacts to. An answer carries the effect that it answers,
// so that one for another term or epoch is known, and means nothing.
//
//sumtype:decl
type input interface{ input() }

type (
	// placed is for the place in line.
	placed struct{ line.Input }
	// sighted tells what was read of the leader, in the epoch.
	sighted struct {
		epoch int
		sighting
	}
	// blinded tells that it cannot be read any more.
	blinded struct {
		epoch int
		err   error
	}

	// touched says that our node was written to: a leader that hands over to us does
	// so.
	touched struct{ epoch int }
	// overlooked answers glance, if there was nothing to see; sighted does otherwise.
	overlooked struct {
		of  glance
		err error
	}

	// heard tells an observer what became of the session.
	heard struct{ session.Event }

	// leave is the command to end: to give up the place, whatever it is, and not to stand
	// again.
	leave struct{}
	// resign is the command to give up the leadership of the term; 0 for any.
	resign struct {
		term   int64
		prompt bool // the reply does not wait until the place is given up
		reply  actors.Reply[error]
	}
	// acknowledge is the command to write down that the leader has done its procedure.
	acknowledge struct{ reply actors.Reply[error] }
	// transfer is the command to hand over to another candidate.
	transfer struct {
		node  string
		reply actors.Reply[error]
	}
	// lead is the command to say when there is a term to lead in.
	lead struct{ reply actors.Reply[termOrError] }
	// returned tells that the function that led has returned, or does not want to any more,
	// on whose behalf lead was told.
	returned struct{ of actors.Reply[termOrError] }

	noted struct { // answers note
		of   note
		zxid int64
		err  error
	}
	restored struct { // answers restore
		of  restore
		err error
	}
	sought struct { // answers seek
		of     seek
		exists bool
		data   string // of its node
		err    error
	}
	handed struct { // answers hand
		of     hand
		err    error
		nobody bool // there is no such candidate
		gone   bool // our own node is gone: whatever happened to it is told otherwise
	}
	refused struct{ of expect } // answers expect: the successor's node is gone, or cannot be watched
	overdue struct{ term int64 }
)

func (placed) input()      {}
func (sighted) input()     {}
func (blinded) input()     {}
func (touched) input()     {}
func (overlooked) input()  {}
func (heard) input()       {}
func (leave) input()       {}
func (resign) input()      {}
func (acknowledge) input() {}
func (transfer) input()    {}
func (lead) input()        {}
func (returned) input()    {}
func (noted) input()       {}
func (restored) input()    {}
func (sought) input()      {}
func (handed) input()      {}
func (refused) input()     {}
func (overdue) input()     {}

type termOrError struct {
	term int64
	err  error
}

// An effect is a request of the machine to its performer. Those that name an epoch must not be done in
// another.
//
//sumtype:decl
type effect interface{ effect() }

type (
	// inPlace is an effect of the place in line.
	inPlace struct{ line.Effect }
	// follow has us told of the leader.
	follow struct{ epoch int }
	// unfollow ends that.
	unfollow struct{}
	// glance reads the leader's node once.
	glance struct{ epoch int }
	// note writes down that the leader has acknowledged.
	note struct {
		tenure
		reply actors.Reply[error]
	}
	// restore writes the record of our term again, where another candidate has
	// overwritten it.
	restore struct {
		tenure
		acknowledged bool
	}
	// seek asks whether there is a candidate.
	seek struct {
		tenure
		to string
	}
	// hand writes down who is to lead next, if there is such a candidate.
	hand struct {
		tenure
		to           string
		toData       string // what the node of that carries
		acknowledged bool
	}
	// expect has us told when the successor's node is gone.
	expect struct {
		tenure
		to string
	}
	// bear lets the function of a term go on for a while. It is answered by overdue, also
	// when the function has returned by then.
	bear struct{ term int64 }
	// answer replies to a command.
	answer struct {
		reply actors.Reply[error]
		err   error
	}
	// engage tells the function of Lead the term.
	engage struct {
		reply actors.Reply[termOrError]
		termOrError
	}
)

func (inPlace) effect()  {}
func (follow) effect()   {}
func (unfollow) effect() {}
func (glance) effect()   {}
func (note) effect()     {}
func (restore) effect()  {}
func (seek) effect()     {}
func (hand) effect()     {}
func (expect) effect()   {}
func (bear) effect()     {}
func (answer) effect()   {}
func (engage) effect()   {}

type effects = actors.Effects[effect, Event]

// A tenure is one term of our own. What is asked for in one has no consequence in
// another: its epoch, term and node are compared.
type tenure struct {
	epoch int
	term  int64
	node  string // of the candidate
}
