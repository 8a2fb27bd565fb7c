package election

import (
	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// This file has the inputs and the effects of a candidate.

// An input is an event that the machine reacts to. An answer carries the effect that it answers, so
// that an answer for another term or epoch is recognised, and ignored.
//
//sumtype:decl
type input interface{ input() }

type (
	// placed is an input of the place in line.
	placed struct{ line.Input }
	// sighted has a sighting of the leader, in the epoch.
	sighted struct {
		epoch int
		sighting
	}
	// blinded says that the leader's node cannot be read any more.
	blinded struct {
		epoch int
		err   error
	}

	// touched says that our node was written to. A leader that hands over to us does that.
	touched struct{ epoch int }
	// overlooked answers glance if the leader's node could not be read; otherwise sighted does.
	overlooked struct {
		of  glance
		err error
	}

	// heard is an event of the session, for an observer.
	heard struct{ session.Event }

	// leave is the command to give up the place, whatever its state, and not to stand again.
	leave struct{}
	// resign is the command to give up the leadership of the term; 0 means any.
	resign struct {
		term   int64
		prompt bool // the reply does not wait until the place is given up
		reply  actors.Reply[error]
	}
	// acknowledge is the command to write that the leader has finished its preparations.
	acknowledge struct{ reply actors.Reply[error] }
	// transfer is the command to hand over to another candidate.
	transfer struct {
		node  string
		reply actors.Reply[error]
	}
	// lead is the command to reply when there is a term to lead in.
	lead struct{ reply actors.Reply[termOrError] }
	// returned says that the function of a lead command has returned, or that its call has given
	// up.
	returned struct{ of actors.Reply[termOrError] }

	noted struct { // answers note
		of   note
		zxid int64
		err  error
	}
	sought struct { // answers seek
		of     seek
		exists bool
		data   string // of the candidate's node
		err    error
	}
	handed struct { // answers hand
		of     hand
		err    error
		nobody bool // there is no such candidate
		gone   bool // our own node is gone, which the place also learns
		untold bool // the candidate's node could not be written to
	}

	// heeded answers heed, with each reading of the leader's record.
	heeded struct {
		of heed
		sighting
	}
	// disturbed answers heed: the record has changed since the newest reading, or is gone.
	disturbed struct {
		of      heed
		deleted bool
	}
	prepared struct { // answers prepare
		of   prepare
		zxid int64
		err  error
	}

	// refused answers expect: the successor's node is gone, or cannot be watched.
	refused struct{ of expect }

	overdue struct{ term int64 }
	lapsed  struct{ of lapse } // answers lapse
)

func (heeded) input()      {}
func (disturbed) input()   {}
func (prepared) input()    {}
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
func (sought) input()      {}
func (handed) input()      {}
func (refused) input()     {}
func (overdue) input()     {}
func (lapsed) input()      {}

type termOrError struct {
	term int64
	err  error
}

// An effect is a request of the machine to its performer. An effect that names an epoch must not be
// performed in another.
//
//sumtype:decl
type effect interface{ effect() }

type (
	// inPlace is an effect of the place in line.
	inPlace struct{ line.Effect }
	// follow reports the leader, until unfollow.
	follow struct{ epoch int }
	// unfollow ends follow.
	unfollow struct{}
	// glance reads the leader's node once.
	glance struct{ epoch int }
	// heed reports the leader's record, and each of its ends as it is heard of, until unheed.
	heed struct {
		epoch int
		next  string // the only candidate ahead
	}
	// unheed ends heed.
	unheed struct{}
	// prepare has the servers number a term that our candidate with the node may inherit.
	prepare struct {
		heed
		node string
	}
	// postpone keeps a command until proceed.
	postpone struct{ command acknowledge }
	// proceed hands the commands that are kept to the machine again.
	proceed struct{}
	// note writes that the leader has acknowledged.
	note struct {
		tenure
		reply actors.Reply[error]
	}
	// seek reads whether there is such a candidate.
	seek struct {
		tenure
		to string
	}
	// hand writes the successor's name into the record, if there is such a candidate.
	hand struct {
		tenure
		to           string
		toData       string // the data of the successor's node
		acknowledged bool
	}
	// expect reports when the successor's node is gone.
	expect struct {
		tenure
		to string
	}
	// lapse waits for some time, in which a successor that could not be notified may find out by
	// itself.
	lapse struct{ tenure }
	// bear waits for the grace period of the function of a term. overdue answers it, even if the
	// function has returned by then.
	bear struct{ term int64 }
	// answer replies to a command.
	answer struct {
		reply actors.Reply[error]
		err   error
	}
	// engage gives the term to a call of Lead.
	engage struct {
		reply actors.Reply[termOrError]
		termOrError
	}
)

func (heed) effect()     {}
func (unheed) effect()   {}
func (prepare) effect()  {}
func (inPlace) effect()  {}
func (follow) effect()   {}
func (unfollow) effect() {}
func (glance) effect()   {}
func (postpone) effect() {}
func (proceed) effect()  {}
func (note) effect()     {}
func (seek) effect()     {}
func (hand) effect()     {}
func (expect) effect()   {}
func (lapse) effect()    {}
func (bear) effect()     {}
func (answer) effect()   {}
func (engage) effect()   {}

type effects = actors.Effects[effect, Event]

// A tenure is one term of our own. Answers carry it and are compared with it, so that a request of
// one tenure has no consequence in another.
type tenure struct {
	epoch int
	term  int64
	node  string // of the candidate
}
