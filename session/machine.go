package session

import (
	"fmt"
	"time"

	"github.com/zkactors/zkactors/actors"
)

// This file is the life of a session, as a pure function. What feeds it is in
// session.go.

type state int

const (
	stateConnecting state = iota // no session: the next epoch is being established
	stateConnected
	stateSuspended // a session without a connection
	stateClosing   // the owner has closed it; the server is being told
	stateClosed    // terminal
)

func (s state) String() string {
	return [...]string{"connecting", "connected", "suspended", "closing", "closed"}[s]
}

// An input is something that happened.
//
//sumtype:decl
type input interface{ input() }

type (
	// established: a connection of the epoch is ready for requests.
	established struct {
		epoch   int
		id      int64
		timeout time.Duration
		server  string
	}
	// severed: the connection is gone.
	severed struct {
		epoch    int
		deadline time.Time
	}
	// rejected: the server no longer knows the session.
	rejected struct{ epoch int }
	// overdue: the session's deadline has passed.
	overdue struct{ epoch int }
	// shut: commanded by the owner.
	shut struct{}
	// parted answers part.
	parted struct{}
)

func (established) input() {}
func (severed) input()     {}
func (rejected) input()    {}
func (overdue) input()     {}
func (shut) input()        {}
func (parted) input()      {}

// An effect is something to do about it.
//
//sumtype:decl
type effect interface{ effect() }

type (
	// dial begins an epoch.
	dial struct{ epoch int }
	// retire ends an epoch for good: nothing of it may be done any more.
	retire struct{ epoch int }
	// part tells the server that the session ends; answered by parted.
	part struct{ epoch int }
)

func (dial) effect()   {}
func (retire) effect() {}
func (part) effect()   {}

type effects = actors.Effects[effect, Event]

// machine is the life of a session. Its zero value is about to begin the first
// epoch.
type machine struct {
	state state
	epoch int
	id    int64
}

func (m machine) String() string { return fmt.Sprintf("%v(epoch=%d)", m.state, m.epoch) }

// Ended implements [actors.Machine].
func (m machine) Ended() bool { return m.state == stateClosed }

// Step implements [actors.Machine]. News of another epoch than the present one
// is old news.
func (m machine) Step(in input, out *effects) machine {
	t := turn{m, out}
	t.take(in)
	return t.machine
}

// A turn is one step of a machine: what it becomes, and what it asks for.
type turn struct {
	machine
	out *effects
}

func (m *turn) do(e effect)   { m.out.Do = append(m.out.Do, e) }
func (m *turn) emit(ev Event) { m.out.Emit = append(m.out.Emit, ev) }

func (m *turn) take(in input) {
	switch in := in.(type) {
	case established:
		if in.epoch == m.epoch {
			m.establish(in)
		}
	case severed:
		if in.epoch == m.epoch && m.state == stateConnected {
			m.state = stateSuspended
			m.emit(Suspended{Deadline: in.deadline})
		}
	case rejected:
		m.lose(in.epoch)
	case overdue:
		if in.epoch == m.epoch && m.state == stateClosing {
			m.finish() // there is nothing left to end on the server
			return
		}
		m.lose(in.epoch)
	case shut:
		if m.state == stateConnecting || m.state == stateConnected || m.state == stateSuspended {
			m.state = stateClosing
			m.emit(Closed{})
			m.do(part{m.epoch})
		}
	case parted:
		if m.state == stateClosing {
			m.finish()
		}
	}
}

func (m *turn) finish() {
	m.state = stateClosed
	m.do(retire{m.epoch})
}

func (m *turn) establish(in established) {
	switch m.state {
	case stateConnecting:
		m.state, m.id = stateConnected, in.id
		m.emit(Connected{ID: in.id, Epoch: in.epoch, Timeout: in.timeout, Server: in.server})
	case stateSuspended:
		m.state = stateConnected
		m.emit(Resumed{Server: in.server})
	case stateConnected, stateClosing, stateClosed:
	}
}

// lose ends the epoch and begins the next. Expired is emitted only for an epoch that was
// Connected.
func (m *turn) lose(epoch int) {
	if epoch != m.epoch || m.state == stateClosing || m.state == stateClosed {
		return
	}
	m.do(retire{m.epoch})
	m.do(dial{m.epoch + 1})
	if m.state != stateConnecting {
		m.emit(Expired{ID: m.id, Epoch: m.epoch})
	}
	m.state, m.epoch, m.id = stateConnecting, m.epoch+1, 0
}
