package watch

import (
	"fmt"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file is what a view of one node does, as a pure function. What feeds it is in
// watch.go; what becomes of readings is in node.go, children.go and value.go.

type phase int

const (
	syncing   phase = iota // the server is being brought up to date, before the first read
	following              // readings are told as they come
	ended
)

func (p phase) String() string { return [...]string{"syncing", "following", "ended"}[p] }

// An input is something that happened.
//
//sumtype:decl
type input interface{ input() }

type (
	// synced answers catchUp.
	synced struct{ err error }
	// read is one of the answers to follow.
	read struct{ session.Reading }
	// failed is the last of them.
	failed struct{ err error }
	// leave is the owner's command to end.
	leave struct{}
)

func (synced) input() {}
func (read) input()   {}
func (failed) input() {}
func (leave) input()  {}

// An effect is something to do about it.
//
//sumtype:decl
type effect interface{ effect() }

type (
	// catchUp has the server learn what the leader knows; answered by synced.
	catchUp struct{}
	// follow begins to watch, in the present epoch; answered by any number of read,
	// and one failed.
	follow struct{}
	// unfollow ends that.
	unfollow struct{}
)

func (catchUp) effect()  {}
func (follow) effect()   {}
func (unfollow) effect() {}

// A machine is one view: of the readings it makes the states that a reader is told.
type machine[S any] struct {
	phase phase
	zxid  int64 // of the newest reading that was taken
	told  bool
	state S // the newest that was told
	err   error

	// next returns the state that follows, and whether it differs from the last.
	next func(last S, told bool, r session.Reading) (S, bool)
}

func (m machine[S]) String() string {
	s := fmt.Sprintf("%v(zxid=%d", m.phase, m.zxid)
	if m.told {
		s += fmt.Sprintf(" state=%+v", m.state)
	}
	if m.err != nil {
		s += " err=" + m.err.Error()
	}
	return s + ")"
}

// newMachine returns a machine, and what is to be done first.
func newMachine[S any](sync bool, next func(S, bool, session.Reading) (S, bool)) (machine[S], []effect) {
	if sync {
		return machine[S]{phase: syncing, next: next}, []effect{catchUp{}}
	}
	return machine[S]{phase: following, next: next}, []effect{follow{}}
}

// Ended implements [actors.Machine].
func (m machine[S]) Ended() bool { return m.phase == ended }

// Step implements [actors.Machine].
func (m machine[S]) Step(in input, out *actors.Effects[effect, S]) machine[S] {
	switch in := in.(type) {
	case synced:
		switch {
		case m.phase != syncing:
		case in.err == nil:
			m.phase = following
			out.Do = append(out.Do, follow{})
		case session.Passing(in.err):
			out.Do = append(out.Do, catchUp{})
		default:
			m.phase, m.err = ended, in.err
		}
	case read:
		// A server that knows less than the last one has nothing new to tell; what it
		// learns later, it tells later.
		if m.phase != following || in.Zxid < m.zxid {
			break
		}
		m.zxid = in.Zxid
		if state, differs := m.next(m.state, m.told, in.Reading); differs {
			m.state, m.told = state, true
			out.Emit = append(out.Emit, state)
		}
	case failed:
		switch {
		case m.phase != following:
		case session.Passing(in.err):
			out.Do = append(out.Do, follow{})
		default:
			m.phase, m.err = ended, in.err
		}
	case leave:
		if m.phase == following {
			out.Do = append(out.Do, unfollow{})
		}
		m.phase = ended
	}
	return m
}
