package queue

import (
	"errors"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file is the protocol of putting items, as a pure function; its performer is in put.go.
//
// All items of a call go into one bucket, in one transaction, which is refused if the bucket is not as it was thought
// to be: sealed, missing, or there already. Then the newest bucket is looked for.
//
// In a bounded queue the transaction also writes to the directory of the items at the version at which they were
// counted. So no item was put since, and there are at most as many as were counted.

// A filingPhase is what a filing waits for.
type filingPhase int

const (
	starting filingPhase = iota
	checking             // what the path is
	timing               // the server's clock
	counting             // the items
	queueing             // room, in line
	finding              // the newest bucket
	basing               // a directory
	putting              // the transaction
)

// A target is a bucket that items are put into.
type target struct {
	bucket bucket
	fresh  bool // it is made in the same transaction
	seals  bool // and the one before it is sealed
}

// A bound is what is known of how full a queue is.
type bound struct {
	known   bool
	version int32 // of the directory of the items
	count   int   // of the items, at most, while it has the version
}

// A filingInput is something that happened to a filing.
//
//sumtype:decl
type filingInput interface{ filingInput() }

type (
	file struct { // begins, with what is known
		checked bool
		tail    target
		known   bool   // whether the tail is
		after   bucket // of delayed items that is there; zero if none is known
		bound   bound
	}
	checked struct{ err error } // answers check
	timed   struct {            // answers readClock
		high int64
		err  error
	}
	counted struct { // answers count
		bound // not known if there is no directory
		err   error
	}
	room   struct{} // answers awaitRoom
	newest struct { // answers findNewest
		bucket bucket // its number is -1 if there is none
		full   bool   // whether it is to be sealed
		err    error
	}
	based struct{ err error } // answers makeDir
	filed struct {            // answers transact
		results []session.OpResult
		err     error
	}
	stop struct{} // commanded
)

func (file) filingInput()    {}
func (checked) filingInput() {}
func (timed) filingInput()   {}
func (counted) filingInput() {}
func (room) filingInput()    {}
func (newest) filingInput()  {}
func (based) filingInput()   {}
func (filed) filingInput()   {}
func (stop) filingInput()    {}

// A filingEffect is something to do about it.
//
//sumtype:decl
type filingEffect interface{ filingEffect() }

type (
	check      struct{} // whether the path is that of a queue
	readClock  struct{}
	count      struct{}               // the items
	awaitRoom  struct{}               // answer when items may be gone
	findNewest struct{}               // bucket of the priority
	makeDir    struct{ ofItems bool } // that of the items, or the path
	transact   struct{ plan filingPlan }
	forgo      struct{} // the transaction that is under way
	learn      struct { // what is known from now on
		tail  target
		known bool   // whether the tail is
		after bucket // of delayed items that is there; zero if none is known
		bound bound
	}
	confirm struct { // the answer to the caller: the nodes that were created, none if the reply was lost
		created []session.OpResult
		err     error
	}
)

func (check) filingEffect()      {}
func (readClock) filingEffect()  {}
func (count) filingEffect()      {}
func (awaitRoom) filingEffect()  {}
func (findNewest) filingEffect() {}
func (makeDir) filingEffect()    {}
func (transact) filingEffect()   {}
func (forgo) filingEffect()      {}
func (learn) filingEffect()      {}
func (confirm) filingEffect()    {}

// A filingPlan is what a transaction does.
type filingPlan struct {
	target  target
	due     int64 // 0 if the items are not delayed
	bounded bool  // whether the directory of the items is written to, which has the version
	version int32
}

// filing is the state of a call that puts items.
type filing struct {
	epoch    int // 0 if it goes on in the next session
	items    int
	first    int // operations that are done in the same transaction
	priority int32
	delay    int64 // ms
	flat     bool
	most     int  // items in the queue; 0 if there is no bound
	refuse   bool // when there is no room

	phase  filingPhase
	due    int64  // by the server's clock; 0 before it is known, and of items that are not delayed
	target target // of the newest transaction
	known  bool   // whether the target is; cleared when a transaction was refused because of it
	sealed bucket // the newest that was seen to be sealed
	seals  bool   // whether there is one
	after  bucket // of delayed items that was there at the start; zero if none is known
	bound  bound  // of the newest count, cleared when a transaction was refused because of it
	ended  bool
}

// Ended implements [actors.Machine].
func (f filing) Ended() bool { return f.ended }

type filingStep struct {
	filing
	*actors.Effects[filingEffect, none]
}

func (s *filingStep) do(e filingEffect) { s.Do = append(s.Do, e) }

// Step implements [actors.Machine].
func (f filing) Step(in filingInput, out *actors.Effects[filingEffect, none]) filing {
	if f.ended {
		return f
	}
	s := &filingStep{filing: f, Effects: out}
	switch in := in.(type) {
	case file:
		s.bound, s.after = in.bound, in.after
		if s.delay == 0 {
			s.target, s.known = in.tail, in.known
		}
		if in.checked {
			s.proceed()
		} else {
			s.ask(checking, check{})
		}
	case checked:
		if s.goes(in.err, check{}) {
			s.proceed()
		}
	case timed:
		if s.goes(in.err, readClock{}) {
			s.due = in.high + s.delay
			to := delayed(s.priority, s.due)
			s.target, s.known = target{bucket: to, fresh: to != s.after}, true
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
			s.target, s.known = target{bucket: in.bucket}, true
			sealed := s.seals && s.sealed == in.bucket
			if in.bucket.number < 0 || in.full || sealed {
				s.target = target{bucket{priority: s.priority, number: in.bucket.number + 1}, true, in.full && !sealed}
			}
			s.proceed()
		}
	case based:
		if s.goes(in.err, makeDir{!s.flat}) {
			s.proceed()
		}
	case filed:
		s.filed(in.results, in.err)
	case stop:
		if s.phase == putting {
			s.do(forgo{})
		} else {
			s.end(nil, abandoned(false))
		}
	}
	return s.filing
}

func (s *filingStep) ask(p filingPhase, e filingEffect) {
	s.phase = p
	s.do(e)
}

func (s *filingStep) end(created []session.OpResult, err error) {
	s.ended = true
	s.do(confirm{created, err})
}

// goes reports whether to go on after a question without an effect on the items. What passes is asked again.
func (s *filingStep) goes(err error, question filingEffect) bool {
	switch {
	case err == nil:
		return true
	case passes(s.epoch, err):
		s.do(question)
	case session.InDoubt(err):
		s.end(nil, session.ErrExpired)
	default:
		s.end(nil, err)
	}
	return false
}

// proceed asks for what is not known yet, and puts the items when all is.
func (s *filingStep) proceed() {
	switch {
	case s.items > s.most && s.most > 0:
		s.end(nil, ErrFull)
	case s.delay > 0 && s.due == 0:
		s.ask(timing, readClock{})
	case s.most > 0 && (!s.bound.known || s.bound.count+s.items > s.most):
		s.ask(counting, count{})
	case !s.flat && !s.known:
		s.ask(finding, findNewest{})
	default:
		s.ask(putting, transact{filingPlan{s.target, s.due, s.most > 0, s.bound.version}})
	}
}

func (s *filingStep) counted(in counted) {
	if !s.goes(in.err, count{}) {
		return
	}
	switch s.bound = in.bound; {
	case !in.known:
		s.ask(basing, makeDir{true})
	case in.count+s.items <= s.most:
		s.proceed()
	case s.refuse:
		s.end(nil, ErrFull)
	default:
		s.ask(queueing, awaitRoom{})
	}
}

// filed judges an answer.
func (s *filingStep) filed(results []session.OpResult, err error) {
	at := -1 // the operation that was refused
	if err != nil && !session.InDoubt(err) {
		at = slices.IndexFunc(results, func(r session.OpResult) bool { return r.Err != nil })
	}
	bounded := 0
	if s.most > 0 {
		bounded = 1
	}
	placed := len(results) - s.items // where the items begin
	switch {
	case err == nil:
		s.placed(results[max(0, placed):])
	case at < 0 || at >= bounded && at < bounded+s.first:
		s.fail(results, err)
	case at < bounded && isAny(err, session.ErrBadVersion, session.ErrNoNode):
		s.bound = bound{} // another has put items, or the directory is another
		s.proceed()
	case s.flat && errors.Is(err, session.ErrNoNode):
		s.ask(basing, makeDir{false})
	case s.flat || at >= placed || !isAny(err, session.ErrNoNode, session.ErrBadVersion, session.ErrNodeExists):
		s.fail(results, err)
	case s.target.fresh && !s.target.seals && errors.Is(err, session.ErrNoNode):
		s.ask(basing, makeDir{true})
	case s.delay > 0 && errors.Is(err, session.ErrBadVersion):
		s.fail(results, err)
	case s.delay > 0:
		s.target.fresh = errors.Is(err, session.ErrNoNode)
		s.proceed()
	default:
		if errors.Is(err, session.ErrBadVersion) {
			s.sealed, s.seals = s.target.bucket, true
			if s.target.seals {
				s.sealed.number--
			}
		}
		s.known = false
		s.proceed()
	}
}

func (s *filingStep) fail(results []session.OpResult, err error) {
	if s.most > 0 {
		s.do(learn{})
	}
	s.end(nil, refused(results, err))
}

// placed notes where the next items go: behind a full bucket into the next one, which is made with them.
func (s *filingStep) placed(created []session.OpResult) {
	known := learn{bound: bound{s.most > 0, s.bound.version + 1, s.bound.count + s.items}}
	if n := len(created); n > 0 && !s.flat && s.delay == 0 {
		known.tail, known.known = target{bucket: s.target.bucket}, true
		if sequenceOf(created[n-1].Path) >= bucketSize-1 {
			known.tail = target{bucket: bucket{priority: s.priority, number: s.target.bucket.number + 1}, fresh: true, seals: true}
		}
	}
	if s.delay > 0 {
		known.after = s.target.bucket
	}
	s.do(known)
	s.end(created, nil)
}
