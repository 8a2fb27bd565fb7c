package queue

import (
	"errors"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file is the protocol of waiting, as a pure function; its performer is in waiter.go.
//
// Waiters stand in line, each with an ephemeral sequential node. Only the first watches the queue. Every other watches
// the node before its own. So a change of the queue wakes one waiter, however many there are. A waiter that was
// woken stays first until it has looked. Then it goes on waiting, or leaves, or goes to the end of the line.

// A rank is where a waiter stands.
type rank int

const (
	absent   rank = iota // not in line
	joining              // its node is on its way
	founding             // the directory of the line is on its way
	ranking              // the line is being listed
	behind               // another waiter
	first                // it watches the queue
)

func (r rank) String() string {
	return [...]string{"absent", "joining", "founding", "ranking", "behind", "first"}[r]
}

// A waitInput is something that happened to a waiter.
//
//sumtype:decl
type waitInput interface{ waitInput() }

type (
	// stand is commanded: wake the owner at the next change of what it has seen. With rotate it goes to the
	// end of the line, if there are others.
	stand  struct{ rotate bool }
	depart struct{} // commanded: leave the line
	joined struct { // answers join
		id, name string
		err      error
	}
	founded struct{ err error } // answers found
	ranked  struct {            // answers rankAgain
		names []string
		err   error
	}
	ahead   struct{ name string } // answers watchAhead: the node is gone
	stirred struct{}              // answers watchQueue
)

func (stand) waitInput()   {}
func (depart) waitInput()  {}
func (joined) waitInput()  {}
func (founded) waitInput() {}
func (ranked) waitInput()  {}
func (ahead) waitInput()   {}
func (stirred) waitInput() {}

// A waitEffect is something to do about it.
//
//sumtype:decl
type waitEffect interface{ waitEffect() }

type (
	join       struct{}              // create a node with a new ID
	landed     struct{}              // the answer to join, or depart, is dealt with
	found      struct{}              // make the directory of the line
	rankAgain  struct{}              // list the line
	watchAhead struct{ name string } // answer when the node is gone
	watchQueue struct{}              // answer when the queue is not as it was seen
	wake       struct{}              // the owner
	retire     struct {              // remove the node: any with the ID if the name is ""
		id, name string
	}
)

func (join) waitEffect()       {}
func (landed) waitEffect()     {}
func (found) waitEffect()      {}
func (rankAgain) waitEffect()  {}
func (watchAhead) waitEffect() {}
func (watchQueue) waitEffect() {}
func (wake) waitEffect()       {}
func (retire) waitEffect()     {}

// waiting is the state of a waiter.
type waiting struct {
	epoch int // 0 if it goes on in the next session
	rank  rank
	id    string // of the node; "" before join was answered
	name  string // of the node; "" while a reply to join is lost
	ahead string // the node before its own, while it is behind

	awake    bool // set with wake, cleared by stand. While set, the owner looks
	rotates  bool // set by stand, cleared when the line is listed
	departed bool // set by depart, cleared by stand. While set, the node goes as soon as it is known
}

// Ended implements [actors.Machine]: it can wait again.
func (waiting) Ended() bool { return false }

type waitStep struct {
	waiting
	*actors.Effects[waitEffect, none]
}

func (s *waitStep) do(e waitEffect) { s.Do = append(s.Do, e) }

// Step implements [actors.Machine].
func (w waiting) Step(in waitInput, out *actors.Effects[waitEffect, none]) waiting {
	s := &waitStep{waiting: w, Effects: out}
	switch in := in.(type) {
	case stand:
		s.stand(in.rotate)
	case depart:
		s.departed = true
		if s.rank != joining && s.rank != founding {
			s.quit()
		}
		s.do(landed{})
	case joined:
		if s.rank == joining {
			s.joined(in)
		}
		s.do(landed{})
	case founded:
		switch {
		case s.rank != founding:
		case s.departed:
			s.quit()
		case in.err == nil || passes(s.epoch, in.err):
			s.join()
		default:
			s.lead()
		}
	case ranked:
		if s.rank == ranking {
			s.ranked(in)
		}
	case ahead:
		if s.rank == behind && s.ahead == in.name {
			s.list()
		}
	case stirred:
		if s.rank == first && !s.awake {
			s.awake = true
			s.do(wake{})
		}
	}
	return s.waiting
}

func (s *waitStep) stand(rotate bool) {
	s.awake, s.departed = false, false
	switch {
	case s.rank == absent:
		s.join()
	case s.rank == first && rotate && s.id != "":
		s.rotates = true
		s.list()
	case s.rank == first:
		s.do(watchQueue{})
	}
}

func (s *waitStep) join() {
	s.rank = joining
	s.do(join{})
}

func (s *waitStep) list() {
	s.rank = ranking
	s.do(rankAgain{})
}

// lead watches the queue: as the first, or because it cannot stand in line.
func (s *waitStep) lead() {
	s.rank = first
	s.do(watchQueue{})
}

// quit leaves the line.
func (s *waitStep) quit() {
	if s.id != "" {
		s.do(retire{s.id, s.name})
	}
	s.rank, s.id, s.name, s.ahead, s.rotates = absent, "", "", "", false
}

func (s *waitStep) joined(in joined) {
	switch doubt := session.InDoubt(in.err); {
	case in.err == nil || doubt:
		s.id, s.name = in.id, in.name
		switch {
		case s.departed:
			s.quit()
		case in.err == nil || passes(s.epoch, in.err):
			s.list()
		default:
			s.lead()
		}
	case s.departed:
		s.quit()
	case errors.Is(in.err, session.ErrNoNode):
		s.rank = founding
		s.do(found{})
	case passes(s.epoch, in.err):
		s.join()
	default:
		s.lead()
	}
}

// ranked finds its place. Of two nodes after a lost reply the first counts, and both go in the end.
func (s *waitStep) ranked(in ranked) {
	switch {
	case in.err == nil || errors.Is(in.err, session.ErrNoNode):
	case passes(s.epoch, in.err):
		s.list()
		return
	default:
		s.lead()
		return
	}
	names := slices.Clone(in.names)
	sortItems(names)
	i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, session.GUIDName(s.id, "")) })
	rotates := s.rotates
	s.rotates = false
	switch {
	case i < 0 && s.name == "": // an attempt in doubt may still come, and is no place then
		s.do(retire{s.id, ""})
		s.join()
	case i < 0:
		s.join()
	case rotates && len(names) > 1:
		s.do(retire{s.id, s.name})
		s.join()
	case i == 0:
		s.lead()
	default:
		s.rank, s.ahead = behind, names[i-1]
		s.do(watchAhead{s.ahead})
	}
}
