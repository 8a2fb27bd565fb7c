package watch

import (
	"fmt"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file is the machine of a view of one node, as a pure function. watch.go feeds
// it; node.go, children.go and value.go turn readings into states.
//
//	syncing ── the server has caught up ► following ── the watch has failed, or leave ► ended
//	(only with Options.Sync)                 ▲  │ readings: each new state is emitted
//	                                         └──┘

// A phase is the progress of a view. It only grows.
type phase int

const (
	syncing   phase = iota // the server is brought up to date, before the first read
	following              // readings become states as they come
	ended                  // no state is emitted any more
)

func (p phase) String() string { return [...]string{"syncing", "following", "ended"}[p] }

// An input is an event that the machine reacts to.
//
//sumtype:decl
type input interface{ input() }

type (
	// synced answers catchUp.
	synced struct{ err error }
	// read is an answer to follow. There may be many.
	read struct{ session.Reading }
	// failed is the last answer to follow.
	failed struct{ err error }
	// leave is the owner's command to end.
	leave struct{}
)

func (synced) input() {}
func (read) input()   {}
func (failed) input() {}
func (leave) input()  {}

// An effect is a request of the machine to its performer.
//
//sumtype:decl
type effect interface{ effect() }

type (
	// catchUp brings the server up to date with the leader; answered by synced.
	catchUp struct{}
	// follow begins to watch, through all sessions. It is answered by any number of read,
	// and by one failed.
	follow struct{}
	// unfollow ends the watch. It is not answered.
	unfollow struct{}
)

func (catchUp) effect()  {}
func (follow) effect()   {}
func (unfollow) effect() {}

// A machine is one view: it turns readings into states, and emits each state that differs from the
// last.
type machine[S any] struct {
	phase phase
	zxid  int64 // of the newest reading of the present follow; 0 before, and never falls meanwhile
	told  bool  // set when the first state is emitted
	state S     // the newest state that was emitted; zero before the first
	err   error // why the view has ended, set with ended; nil after leave

	// next returns the state that follows from a reading, and whether it differs from the
	// last. It is constant, and pure.
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

// newMachine returns a machine, and its first effects.
func newMachine[S any](sync bool, next func(S, bool, session.Reading) (S, bool)) (machine[S], []effect) {
	if sync {
		return machine[S]{phase: syncing, next: next}, []effect{catchUp{}}
	}
	return machine[S]{phase: following, next: next}, []effect{follow{}}
}

// Ended implements [actors.Machine].
func (m machine[S]) Ended() bool { return m.phase == ended }

// Step implements [actors.Machine]. Requests whose error passes are repeated.
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
			m.zxid = 0 // the next session may read older data: the servers may have been restored from a backup
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
