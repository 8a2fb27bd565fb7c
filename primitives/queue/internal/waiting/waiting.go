// Package waiting has calls stand in line, for items or for room.
package waiting

import (
	"errors"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/session"
)

// This file is the protocol of waiting, as a pure function; its performer is in
// waiter.go.
//
// Waiters stand in line, each with an ephemeral sequential node. Only the first watches
// the queue. Every other watches the node before its own. So a change of the queue wakes
// one waiter, however many there are. A waiter that was woken stays first until its owner
// has looked. Then it goes on waiting, or leaves, or goes to the end of the line.
//
//	           stand               joined
//	absent ───────────► joining ─────────► ranking ── others are before it ► behind
//	   ▲                 ▲ │ no directory   │ ▲  ▲                             │
//	   │                 │ ▼                │ │  └── the one before it is gone ┘
//	   │ depart       founding              │ │ stand, and it is to rotate
//	   │                                    ▼ │
//	   └────────────────────────────────── first ── the queue has changed: wake
//
// A waiter that cannot stand in line, as it has no right to, watches the queue like the
// first: this costs more, and nothing is missed.

// A rank is the place of a waiter, or the question whose answer decides it.
type rank int

const (
	absent   rank = iota // not in line
	joining              // its node is being created
	founding             // the directory of the line is being made
	ranking              // the line is being listed
	behind               // another waiter is before it, and is watched
	first                // it watches the queue
)

func (r rank) String() string {
	return [...]string{"absent", "joining", "founding", "ranking", "behind", "first"}[r]
}

// An input is an event that a waiter reacts to.
//
//sumtype:decl
type input interface{ input() }

type (
	// stand is commanded: wake the owner at the next change of the queue since its view.
	// With rotate the waiter goes to the end of the line first, if there are others.
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
	ahead struct { // answers watchAhead: the node is gone, or is no waiter's
		name    string
		foreign bool // set if it is persistent
	}
	stirred struct{} // answers watchQueue
)

func (stand) input()   {}
func (depart) input()  {}
func (joined) input()  {}
func (founded) input() {}
func (ranked) input()  {}
func (ahead) input()   {}
func (stirred) input() {}

// An effect asks the performer for one action.
//
//sumtype:decl
type effect interface{ effect() }

type (
	join       struct{}              // create a node with a new GUID
	landed     struct{}              // no node can appear unnoticed any more: join, or depart, is done with
	found      struct{}              // make the directory of the line
	rankAgain  struct{}              // list the line
	watchAhead struct{ name string } // answer when the node is gone, or is found to be persistent
	watchQueue struct{}              // answer when the queue is not as the owner has seen it
	wake       struct{}              // tell the owner to look
	retire     struct {              // delete the node; all nodes with the GUID if its name is ""
		id, name string
	}
)

func (join) effect()       {}
func (landed) effect()     {}
func (found) effect()      {}
func (rankAgain) effect()  {}
func (watchAhead) effect() {}
func (watchQueue) effect() {}
func (wake) effect()       {}
func (retire) effect()     {}

// A waiting is the state of a waiter.
type waiting struct {
	epoch int    // the session in which it stands; 0 if the next will do as well; constant
	rank  rank   // absent at first
	id    string // the GUID of its node; set when join is answered, cleared when it leaves the line
	name  string // the name of its node; "" while that is not known, as the reply to join was lost
	ahead string // a node before its own, at first the last one; counts while it is behind
	last  string // the last node of the others, set when it rotates; cleared when join is answered

	foreign []string // nodes that have the name of a waiter's, and are none; grows; replaced, never written to

	awake    bool // set with wake, cleared by stand; while set, its owner looks, and changes do not wake it
	rotates  bool // set by stand, cleared when the line was listed
	departed bool // set by depart, cleared by stand; while set, the node is deleted as soon as it is known
}

// Ended implements [actors.Machine]: it can wait again.
func (waiting) Ended() bool { return false }

// A turn is a waiting during a step, with the accumulator of its effects.
type turn struct {
	waiting
	*actors.Effects[effect, procedure.None]
}

func (s *turn) do(e effect) { s.Do = append(s.Do, e) }

// Step implements [actors.Machine]. An answer counts only in the rank that waits for it.
func (w waiting) Step(in input, out *actors.Effects[effect, procedure.None]) waiting {
	s := &turn{waiting: w, Effects: out}
	switch in := in.(type) {
	case stand:
		s.stand(in.rotate)
	case depart:
		s.departed = true
		if s.rank != joining && s.rank != founding { // else the answer decides what there is to delete
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
		case in.err == nil || procedure.Passes(s.epoch, in.err):
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
			if in.foreign {
				s.foreign = append(slices.Clip(s.foreign), in.name)
			}
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

// stand joins the line, or stays where it is. A waiter that is still behind keeps its
// place, and is not woken.
func (s *turn) stand(rotate bool) {
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

// join creates a node at the end of the line. Each has a GUID of its own, so that the
// answers to two attempts are not confused.
func (s *turn) join() {
	s.rank = joining
	s.do(join{})
}

// list finds out which nodes stand before its own.
func (s *turn) list() {
	s.rank = ranking
	s.do(rankAgain{})
}

// follow waits until a node before its own is gone.
func (s *turn) follow(name string) {
	s.rank, s.ahead = behind, name
	s.do(watchAhead{name})
}

// lead watches the queue: as the first, or because the waiter cannot stand in line.
func (s *turn) lead() {
	s.rank = first
	s.do(watchQueue{})
}

// quit leaves the line, and forgets its node.
func (s *turn) quit() {
	if s.id != "" {
		s.do(retire{s.id, s.name})
	}
	s.rank, s.id, s.name, s.ahead, s.last, s.rotates = absent, "", "", "", "", false
}

// joined follows the answer to join. After a lost reply the node may exist: the list
// shows it.
func (s *turn) joined(in joined) {
	last := s.last
	s.last = ""
	switch doubt := session.InDoubt(in.err); {
	case in.err == nil || doubt:
		s.id, s.name = in.id, in.name
		switch {
		case s.departed:
			s.quit()
		case in.err == nil && last != "": // what joined meanwhile is found when the last is gone
			s.follow(last)
		case in.err == nil || procedure.Passes(s.epoch, in.err):
			s.list()
		default:
			s.lead()
		}
	case s.departed:
		s.quit()
	case errors.Is(in.err, session.ErrNoNode):
		s.rank = founding
		s.do(found{})
	case procedure.Passes(s.epoch, in.err):
		s.join()
	default:
		s.lead()
	}
}

// ranked finds the place of its own node. Nodes that no waiter has made stand in no line. After a
// lost reply there may be two nodes with its GUID: the first counts, and retire deletes both.
func (s *turn) ranked(in ranked) {
	switch {
	case in.err == nil || errors.Is(in.err, session.ErrNoNode):
	case procedure.Passes(s.epoch, in.err):
		s.list()
		return
	default:
		s.lead()
		return
	}
	names := slices.DeleteFunc(slices.Clone(in.names), func(name string) bool { return !layout.IsWaiter(name) || slices.Contains(s.foreign, name) })
	layout.SortItems(names)
	i := slices.IndexFunc(names, func(name string) bool { return znode.HasGUID(name, s.id) })
	others := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return znode.HasGUID(name, s.id) })
	rotates := s.rotates
	s.rotates = false
	switch {
	case i < 0 && s.name == "": // the node may yet be created, and is no place then
		s.do(retire{s.id, ""})
		s.join()
	case i < 0: // its node was deleted
		s.join()
	case rotates && len(others) > 0:
		s.do(retire{s.id, s.name})
		s.last = others[len(others)-1]
		s.join()
	case i == 0:
		s.lead()
	default:
		s.follow(names[i-1])
	}
}
