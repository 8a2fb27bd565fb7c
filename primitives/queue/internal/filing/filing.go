// Package filing puts items: it finds where they belong, and waits for room.
package filing

import (
	"errors"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/once"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

// This file is the protocol of putting items, as a pure function; its performer is in
// producer.go.
//
// All items go in one transaction, into one bucket; delayed items go into the buckets of their
// times. The server refuses it if a bucket is not as the filing believed: sealed, missing, or there
// already. The filing then learns more, and tries again:
//
//	starting ► checking ► proceed ── no time yet ──► timing ───┐
//	                      ▲  │  │ no count, or full ► counting ┤ no room ► queueing ► counting
//	                      │  │  └ no bucket known ──► finding ──┤
//	                      │  ▼                                  │
//	                      │  putting ── no directory ► basing ──┤
//	                      └───┴ refused ────────────────────────┘
//	                          └ done, or failed: confirm
//
// In a bounded queue the transaction also writes to the directory of the receipts, at the version
// at which the items were counted. If it succeeds, no item was put since the count: the bound
// holds, whatever other producers do. The directory is deleted when it is empty, and the version of
// the next directory begins anew. So the transaction has a receipt that existed before the count,
// and that has kept the directory since. It belongs to the session of the count: older data may
// have more items at the same version.
//
// The data of that directory are the number of the items, at most, so that a producer that comes
// later need not count them while there is room.
//
// Producers that wait for room stand in line, and as long as one does, no other puts. A producer
// that has become the first writes to the data that there is a line: so all that have seen none are
// refused, and join it. So does a producer that was refused often because others were faster.

// A bucket that does not seal the one before it could be made by a transaction that comes late:
// others may have made it meanwhile, sealed it, emptied and deleted it. Later items would come
// before theirs. So a seal is written to the directory of the items too, and the transaction checks
// the version at which that was listed: no bucket was sealed since. If the bucket before it is
// there, and sealed, the transaction also checks that it still is.

// mostLost is how often a producer tries to be faster than others before it stands in line.
const mostLost = 8

// A phase is the question whose answer a filing waits for. There is one at a time.
type phase int

const (
	starting phase = iota // file
	checking              // checked: whether the path is a queue
	timing                // timed: the time by the server's clock
	counting              // counted: how many items there are
	queueing              // room: items may be gone; the filing stands in line
	finding               // newest, or assigned: the buckets that the items go into
	basing                // based: a directory is being made
	putting               // filed: the transaction is on its way
)

// A target is a bucket that a transaction puts items into.
type target struct {
	bucket layout.Bucket
	fresh  bool // set if the transaction creates it
	seals  bool // set if the transaction seals the bucket before it; implies fresh

	// Of a fresh bucket of items that are not delayed, which seals no other:
	seen   int32 // the version of the directory of the items when it was to be the newest
	behind int32 // the version of the bucket before it; 0 if there was none
}

// A bound is an upper limit of the number of items, as of a version of the directory of
// the receipts. Every put into a bounded queue changes that version. While it stands, the
// count can only have fallen.
type bound struct {
	known   bool  // set by a count, and after each put by its result
	epoch   int   // in which the items were counted: older data may have other items at the same version
	before  int   // the number of the next receipt when the count began: those before it were there
	version int32 // of the directory of the receipts
	count   int   // of the items, at most, at that version
	lined   bool  // whether others stand in line
}

// Knowledge is the state of the queue as a call has learnt it, for later calls of the handle.
type knowledge struct {
	target target // where the next items go; means something while known is set
	known  bool
	bound  bound
	lost   int // how many transactions were refused because another producer was faster; fewer after a call
}

// ErrFull means that there is no room for the items.
var ErrFull = errors.New("queue is full")

// An input is an event that a filing reacts to.
//
//sumtype:decl
type input interface{ input() }

type (
	file struct { // begins, with what earlier calls of the handle have learnt
		checked bool
		knowledge
	}
	replied struct{ err error } // answers check and makeDir
	timed   struct {            // answers readClock
		high int64 // no earlier than the call, by the server's clock
		err  error
	}
	counted struct { // answers count
		bound
		stands bool // the call stands in line, and has become the first
		wanted int  // how many places the others in line want, together
		err    error
	}
	room   struct{} // answers awaitRoom
	newest struct { // answers findNewest
		bucket  layout.Bucket // its number is -1 if there is none
		version int32         // of the bucket: not 0 if it is sealed
		full    bool          // whether it is to be sealed
		seen    int32         // the version of the directory of the items
		err     error
	}
	assigned struct { // answers assign
		to  []target // of each item
		err error
	}
	filed struct { // answers transact
		results []session.OpResult
		err     error
	}
	stop struct{} // commanded: the caller waits no longer
	shut struct{} // commanded: the handle is closed
)

func (file) input()     {}
func (replied) input()  {}
func (timed) input()    {}
func (counted) input()  {}
func (room) input()     {}
func (newest) input()   {}
func (assigned) input() {}
func (filed) input()    {}
func (stop) input()     {}
func (shut) input()     {}

// An effect asks the performer for one thing. Questions are answered by one input
// each; forgo, learn and confirm are not.
//
//sumtype:decl
type effect interface{ effect() }

type (
	check      struct{} // whether the path is that of a queue
	readClock  struct{} // read the server's clock, and find out when the call was
	count      struct{} // count the items
	awaitRoom  struct{} // answer when items may be gone
	findNewest struct{} // look for the newest bucket of the priority
	assign     struct { // choose the buckets of delayed items, as the handle knows them
		due     []int64
		refused []target // not these, which were refused: look for the buckets if the handle knows no others
	}
	makeDir  struct{}            // make the directory of the items, and what is above it
	transact struct{ plan plan } // send the transaction
	forgo    struct{}            // stop waiting for the transaction under way; filed follows at once
	learn    struct {            // report to the handle, for later calls
		knowledge
		went, next []target // where delayed items went, and where the next of their times go
	}
	confirm struct { // answer the caller, once: with the nodes that were created, none if the reply was lost
		created []session.OpResult
		err     error
	}
)

func (check) effect()      {}
func (readClock) effect()  {}
func (count) effect()      {}
func (awaitRoom) effect()  {}
func (findNewest) effect() {}
func (assign) effect()     {}
func (makeDir) effect()    {}
func (transact) effect()   {}
func (forgo) effect()      {}
func (learn) effect()      {}
func (confirm) effect()    {}

// A plan is the content of a transaction.
type plan struct {
	to    []target // of each delayed item, or one for all
	due   []int64  // of each delayed item
	bound bound    // of the queue; not known if it has none
}

// A Machine is the state of a call that puts items.
type Machine struct {
	// The call, and the options; constant.
	Epoch    int // the session in which the items are to be put; 0 if the next will do as well
	items    int // how many
	first    int // how many operations of the caller are done before, in the same transaction
	Priority int32
	delays   []int64 // of each item, in ms; nil if the items are not delayed
	size     int     // of a full bucket
	Most     int     // how many items the queue may have; 0 if it is not bounded
	refuse   bool    // set if the call fails when there is no room, and does not wait

	phase   phase
	due     []int64  // when each delayed item is due; set by the server's clock, once
	lined   bool     // set with awaitRoom: the call stands in line, or has tried to; never cleared
	to      []target // of each delayed item; set by assigned, cleared when a transaction was refused because one is another
	refused []target // what to was when it was last cleared

	// Set at the start. The target, which is that of the next transaction, is set anew when the
	// newest bucket was found. Known is cleared when a transaction was refused because the target
	// is another. The bound is set by each count, and cleared when a transaction was refused
	// because the version is another.
	knowledge

	ended bool // set with confirm
}

// Ended implements [actors.Machine].
func (f Machine) Ended() bool { return f.ended }

// A turn is a filing during a step, with the accumulator of its effects.
type turn struct {
	Machine
	*actors.Effects[effect, procedure.None]
}

func (s *turn) do(e effect) { s.Do = append(s.Do, e) }

// Step implements [actors.Machine]. Every question but the transaction may be asked again at will.
// The write (primitives/internal/once) finds out whether the transaction was done.
func (f Machine) Step(in input, out *actors.Effects[effect, procedure.None]) Machine {
	if f.ended {
		return f
	}
	s := &turn{Machine: f, Effects: out}
	switch in := in.(type) {
	case file:
		if s.knowledge = in.knowledge; s.Most == 0 {
			s.bound = bound{} // a rejected item that moves is counted already
		}
		if in.checked {
			s.proceed()
		} else {
			s.ask(checking, check{})
		}
	case replied:
		question := effect(check{})
		if s.phase == basing {
			question = makeDir{}
		}
		if s.goes(in.err, question) {
			s.proceed()
		}
	case timed:
		if s.goes(in.err, readClock{}) {
			for _, delay := range s.delays {
				s.due = append(s.due, in.high+delay)
			}
			s.proceed()
		}
	case counted:
		s.counted(in)
	case room:
		if s.phase == queueing {
			s.ask(counting, count{})
		}
	case newest:
		if s.goes(in.err, findNewest{}) {
			s.target, s.known = in.target(), true
			s.proceed()
		}
	case assigned:
		if s.goes(in.err, assign{s.due, s.refused}) {
			s.to = in.to
			s.proceed()
		}
	case filed:
		s.filed(in.results, in.err)
	case shut:
		if s.phase != putting { // else the items may have been put
			s.end(nil, receipt.ErrClosed)
		}
	case stop:
		if s.phase == putting {
			s.do(forgo{}) // the items may have been put
		} else {
			s.end(nil, procedure.Abandoned(false))
		}
	}
	return s.Machine
}

// target returns where the next items go.
func (in newest) target() target {
	next := layout.Bucket{Priority: in.bucket.Priority, Number: in.bucket.Number + 1}
	switch {
	case in.bucket.Number < 0 || in.version > 0:
		return target{bucket: next, fresh: true, seen: in.seen, behind: in.version}
	case in.full:
		return target{bucket: next, fresh: true, seals: true}
	}
	return target{bucket: in.bucket}
}

// ask asks a question, and waits for its answer in phase p.
func (s *turn) ask(p phase, e effect) {
	s.phase = p
	s.do(e)
}

// end answers the caller, which is the last effect.
func (s *turn) end(created []session.OpResult, err error) {
	s.ended = true
	s.do(confirm{created, err})
}

// goes reports whether to go on after a question. The questions change no items: one
// whose error passes is asked again, and none leaves the outcome of the call unknown.
func (s *turn) goes(err error, question effect) bool {
	switch {
	case err == nil:
		return true
	case procedure.Passes(s.Epoch, err):
		s.do(question)
	case session.InDoubt(err):
		s.end(nil, session.ErrExpired)
	default:
		s.end(nil, err)
	}
	return false
}

// proceed asks for the first thing that is not known yet, and puts the items when all is
// known. The count comes before the bucket: in line it may get old.
func (s *turn) proceed() {
	switch {
	case s.items > s.Most && s.Most > 0:
		s.end(nil, ErrFull)
	case len(s.delays) > 0 && len(s.due) == 0:
		s.ask(timing, readClock{})
	case s.Most > 0 && (!s.bound.known || s.bound.count+s.items > s.Most):
		s.ask(counting, count{})
	case len(s.delays) > 0 && len(s.to) == 0:
		s.ask(finding, assign{s.due, s.refused})
	case len(s.delays) > 0:
		s.ask(putting, transact{plan{s.to, s.due, s.bound}})
	case !s.known:
		s.ask(finding, findNewest{})
	default:
		s.ask(putting, transact{plan{to: []target{s.target}, bound: s.bound}})
	}
}

// counted follows a count. If it is the turn of others, or there is no room, the call fails or
// waits in line.
func (s *turn) counted(in counted) {
	if !s.goes(in.err, count{}) {
		return
	}
	switch isTurn := in.stands || in.wanted == 0; {
	case isTurn && in.count+s.items <= s.Most:
		s.bound = in.bound
		s.proceed()
	case s.refuse && (isTurn || in.count+in.wanted+s.items > s.Most):
		s.end(nil, ErrFull)
	default:
		s.queue()
	}
}

// queue waits in line until there may be room.
func (s *turn) queue() {
	s.bound, s.lined = bound{}, true
	s.ask(queueing, awaitRoom{})
}

// filed follows the answer to the transaction. A refusal names an operation. The operations are, in
// order: the write to the directory of the receipts (in a bounded queue), the caller's operations,
// the operations on the bucket, and the items. That and the error say which belief was wrong.
func (s *turn) filed(results []session.OpResult, err error) {
	at := -1 // the operation that was refused
	if err != nil && !session.InDoubt(err) {
		at = slices.IndexFunc(results, func(r session.OpResult) bool { return r.Err != nil })
	}
	bounded := 0
	if s.Most > 0 {
		bounded = 1
	}
	placed := len(results) - s.items // where the items begin
	switch {
	case err == nil:
		s.placed(results[max(0, placed):])
	// It was not sent, with a receipt or in a session in which nothing is known of the count.
	case errors.Is(err, once.ErrYounger), bounded > 0 && procedure.Passes(0, err) && !session.InDoubt(err):
		s.bound = bound{}
		s.proceed()
	// Refused as a whole, in doubt, or refused because of the caller's operations.
	case at < 0 || at >= bounded && at < bounded+s.first:
		s.fail(results, err)
	case at < bounded && client.IsAny(err, session.ErrBadVersion, session.ErrNoNode):
		s.bound = bound{} // another producer has put items, or waits in line
		if s.lost++; s.lost >= mostLost && !s.lined {
			s.queue()
			return
		}
		s.proceed()
	// The bucket of a delayed item was deleted meanwhile.
	case len(s.delays) > 0 && at >= placed && errors.Is(err, session.ErrNoNode):
		s.assignAnew()
	case at >= placed || !client.IsAny(err, session.ErrNoNode, session.ErrBadVersion, session.ErrNodeExists):
		s.fail(results, err)
	// The bucket could not be created: the directory above it is missing.
	case (len(s.delays) > 0 || s.target.fresh && !s.target.seals && s.target.behind == 0) && errors.Is(err, session.ErrNoNode):
		s.ask(basing, makeDir{})
	// It was made meanwhile.
	case len(s.delays) > 0:
		s.assignAnew()
	default:
		s.known = false
		s.proceed()
	}
}

// assignAnew chooses other buckets for delayed items after a refusal, which shows but one of those
// that are not as the handle believed.
func (s *turn) assignAnew() {
	s.to, s.refused = nil, s.to
	s.proceed()
}

// fail ends the call with an error. Do not rely on the count of a bounded queue after an unknown
// outcome.
func (s *turn) fail(results []session.OpResult, err error) {
	if s.Most > 0 {
		s.do(learn{})
	}
	s.end(nil, stock.Refused(results, err))
}

// placed ends the call with success, and tells the handle where the next items go: into
// the same bucket, or if that is full into the next one, which the next transaction
// creates.
func (s *turn) placed(created []session.OpResult) {
	next := learn{went: s.to}
	next.lost = max(0, s.lost-1)
	if !s.bound.lined { // else it is not the turn of the next call
		next.bound = s.bound
		next.bound.version++
		next.bound.count += s.items
	}
	isFull := func(i int) bool { return i < len(created) && int(layout.SequenceOf(created[i].Path)) >= s.size-1 }
	for i, to := range s.to {
		after := target{bucket: to.bucket}
		if isFull(i) {
			after = target{bucket: to.bucket.Overflow(s.due[i]), fresh: true}
		}
		next.next = append(next.next, after)
	}
	if n := len(created); n > 0 && len(s.delays) == 0 {
		next.target, next.known = target{bucket: s.target.bucket}, true
		if isFull(n - 1) {
			next.target = target{bucket: layout.Bucket{Priority: s.Priority, Number: s.target.bucket.Number + 1}, fresh: true, seals: true}
		}
	}
	s.do(next)
	s.end(created, nil)
}
