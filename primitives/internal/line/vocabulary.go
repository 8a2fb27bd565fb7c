package line

import (
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file has the inputs and the effects of a machine. An answer has the attempt of
// the effect that it answers: an answer for another attempt changes nothing.
//
//	Leave, Downgrade, Take, reevaluate, heard ──►┐         ┌──► effects, each of the present attempt
//	answers, and news of what is watched ───────►┴ Machine ┴──► events

// An attempt to stand in line lasts until its node or its session is gone. Every
// answer names the attempt for which the question was asked. The epoch is 0 while
// there is no session; n never decreases, so that no two attempts of a handle share a
// GUID.
type attempt struct {
	epoch int // of the session; 0 if there is none
	n     int // counts the attempts of this handle, from 1
}

func (a attempt) of() attempt { return a }

// attemptGUID returns the GUID of the n-th attempt of the handle whose GUID is id, a UUID in
// text form: that of the first is id, the others differ from it in their last eight digits.
func attemptGUID(id string, n int) string {
	if n == 1 {
		return id
	}
	var number [4]byte
	_, _ = hex.Decode(number[:], []byte(id[28:])) // they are digits
	binary.BigEndian.PutUint32(number[:], binary.BigEndian.Uint32(number[:])+uint32(n-1))
	return string(hex.AppendEncode(append(make([]byte, 0, 36), id[:28]...), number[:]))
}

// An Input is an event that the machine reacts to.
//
//sumtype:decl
type Input interface{ input() }

type (
	// Leave is the command to give up the place, or the grant.
	Leave struct{}
	// Downgrade is the command to exclude others that share no more. The reply
	// is nil when that is done.
	Downgrade struct{ Reply actors.Reply[error] }
	// reevaluate says that something has changed on which the rule depends: the limit of a
	// semaphore, or the members of the line.
	reevaluate struct{}
	// Take says that the claim is handed over to us, whichever contenders are ahead. It is
	// for rules that claim: the server decides whether that is true.
	Take      struct{}
	heard     struct{ session.Event } // what became of the session
	inspected struct {                // answers inspectParent
		attempt
		exists, empty bool
	}
	made   struct{ attempt } // answers makeParent: by us, so it is empty
	joined struct {          // answers createNode
		attempt
		node string
		// What the transaction says of the moment of the creation, both 0 if
		// it was none: our node's czxid, and how many children there were.
		czxid    int64
		children int
		data     string // as in [Sight]
	}
	listed struct { // answers listParent
		attempt
		Sight
	}
	seen struct { // what the watch on the members has read, in place of watched, and of look
		attempt
		Sight
	}
	watched struct { // answers watchTarget: it exists
		attempt
		target       Target
		czxid, owner int64
		announced    bool // of a target that is watched until [Changed]: it has been
		obstacle          // of another contender's node: for people
	}
	gone struct { // told once after watched: what was awaited has happened
		attempt
		target Target
	}
	marked struct { // a node that is watched carries the mark of revocation
		attempt
		target   Target
		deadline time.Time // by when we have to leave; zero if that is up to us
	}
	claimed struct { // answers claim: by us, at the zxid
		attempt
		zxid int64
	}
	occupied  struct{ attempt } // answers claim: another contender has it
	changed   struct{ attempt } // answers changeNode
	announced struct{ attempt } // answers announce
	asked     struct {          // answers ask
		attempt
		node    string
		overdue bool // it has had the time that it was given
	}
	withdrawn struct { // answers withdrawNode, and withdrawAll with an empty node
		attempt
		node string
	}
	failed struct { // answers any of them but withdrawNode and withdrawAll
		what Effect
		err  error
	}
)

func (f failed) of() attempt { return f.what.of() }

func (Leave) input()      {}
func (Downgrade) input()  {}
func (reevaluate) input() {}
func (Take) input()       {}
func (heard) input()      {}
func (inspected) input()  {}
func (made) input()       {}
func (joined) input()     {}
func (listed) input()     {}
func (seen) input()       {}
func (watched) input()    {}
func (gone) input()       {}
func (marked) input()     {}
func (claimed) input()    {}
func (occupied) input()   {}
func (changed) input()    {}
func (announced) input()  {}
func (asked) input()      {}
func (withdrawn) input()  {}
func (failed) input()     {}

// An Effect is a request of the machine to its performer. It belongs to the epoch of its
// attempt, must not be done in another, and is answered by exactly one input; unwatchTarget,
// complain and answer by none.
//
//sumtype:decl
type Effect interface {
	of() attempt
	effect()
}

type (
	inspectParent struct {
		attempt
		isNew bool // as in [Sight]
	}
	makeParent struct{ attempt } // with all its ancestors
	createNode struct {          // ephemeral and sequential
		attempt
		guid  string
		plain bool // not in one transaction with a write to the parent
	}
	listParent  struct{ attempt }
	watchTarget struct { // until the watch has fired
		attempt
		target Target
	}
	watchTogether struct { // our node, and others; each is answered as if there were a watchTarget for it
		attempt
		node string
		with string // the keys of the others, as in [place.beside]
	}
	unwatchTarget struct {
		attempt
		target Target
	}
	claim struct { // what the line is for
		attempt
		node  string
		again bool // an earlier one may have been done
	}
	changeNode struct { // delete the node and create another in its place, in one transaction
		attempt
		from, to string
	}
	announce struct { // to the contenders that watch our node until it is [Changed]
		attempt
		node string
	}
	ask struct { // the holder with the node to leave; by force if it has had its time
		attempt
		node string
	}
	complain struct { // to people
		attempt
		reason string
	}
	withdrawNode struct { // until it is confirmed, or the epoch has ended; first what it claims
		attempt
		node string
	}
	withdrawAll struct { // whatever was created with this GUID, likewise
		attempt
		guid string
	}
	answer struct {
		attempt
		reply actors.Reply[error]
		err   error
	}
)

func (inspectParent) effect() {}
func (makeParent) effect()    {}
func (createNode) effect()    {}
func (listParent) effect()    {}
func (watchTarget) effect()   {}
func (watchTogether) effect() {}
func (unwatchTarget) effect() {}
func (claim) effect()         {}
func (changeNode) effect()    {}
func (announce) effect()      {}
func (ask) effect()           {}
func (complain) effect()      {}
func (withdrawNode) effect()  {}
func (withdrawAll) effect()   {}
func (answer) effect()        {}

// Effects are the requests and the events of a step.
type Effects = actors.Effects[Effect, Event]

// Withdraws reports whether the effect is to give up what is held, or may be. An election
// delays it while the function works that leads.
func Withdraws(e Effect) bool {
	switch e.(type) {
	case withdrawNode, withdrawAll:
		return true
	case inspectParent, makeParent, createNode, listParent, watchTarget, watchTogether, unwatchTarget, claim, changeNode, announce, ask, complain, answer:
	}
	return false
}

// Closes reports whether the input says that there will not be another session. Then a
// machine that has ended does not stand in line again.
func Closes(in Input) bool {
	return in == Input(heard{session.Closed{}})
}
