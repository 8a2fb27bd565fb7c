package session

import (
	"fmt"
	"time"

	"github.com/zkactors/zkactors/actors"
)

// This file is the life of a session, as a pure function. session.go feeds it, and
// performs its effects.
//
//	            established                    severed
//	connecting ─────────────► connected ──────────────► suspended ──┐ overdue: Lapsed
//	  ▲   ▲ │ rejected, overdue:  │  ▲ └── established ◄──┘  │ ▲ ◄───┘
//	  │   └─┘ dial the next epoch │  └──────── overdue ──────│─┘
//	  └───────── rejected ────────┴──────────────────────────┘ Expired; dial the next epoch
//
//	any of these ── shut ► closing ── parted, overdue ► closed

// A state says whether there is a session, and a connection to its server.
type state int

const (
	stateConnecting state = iota // no session: the session of the epoch is being established
	stateConnected               // a session with a connection; requests are sent
	stateSuspended               // a session without a connection
	stateClosing                 // Closed was emitted: the server is asked to end the session
	stateClosed                  // every epoch is retired; inputs mean nothing
)

func (s state) String() string {
	return [...]string{"connecting", "connected", "suspended", "closing", "closed"}[s]
}

// An input is an event that the machine reacts to. All but shut and parted name their epoch: an
// input of an earlier epoch comes too late.
//
//sumtype:decl
type input interface{ input() }

type (
	// established says that a connection of the epoch is ready for requests.
	established struct {
		epoch   int
		id      int64
		timeout time.Duration
		server  string
		past    int64 // the newest zxid that earlier epochs have seen
	}
	// severed says that the connection is gone. The lease lasts until the deadline.
	severed struct {
		epoch    int
		deadline time.Time
	}
	// rejected says that the server does not know the session any more.
	rejected struct{ epoch int }
	// overdue says that the deadline has passed, by the clock of the session, and whether something
	// was held that excludes others.
	overdue struct {
		epoch    int
		deadline time.Time
		held     bool
	}
	// shut is the owner's command to close.
	shut struct{}
	// parted answers part, whether or not the server was reached.
	parted struct{}
)

func (established) input() {}
func (severed) input()     {}
func (rejected) input()    {}
func (overdue) input()     {}
func (shut) input()        {}
func (parted) input()      {}

// An effect asks the performer for one thing.
//
//sumtype:decl
type effect interface{ effect() }

type (
	// dial begins an epoch: it connects until a session is established.
	dial struct{ epoch int }
	// retire ends an epoch for good: no request of it may be executed any more.
	retire struct{ epoch int }
	// part asks the server to end the session; answered by parted.
	part struct{ epoch int }
)

func (dial) effect()   {}
func (retire) effect() {}
func (part) effect()   {}

// effects accumulates the effects of one step.
type effects = actors.Effects[effect, Event]

// A machine is the life of a session. It begins with the epoch 1, which is being dialled.
// After every step:
//
//   - Exactly one epoch is dialled and not retired, until the state is closed.
//   - Connected was emitted for the epoch if the state is connected or suspended.
type machine struct {
	state state
	epoch int   // numbers the sessions; grows by one when a session is lost
	id    int64 // of the session on the server; set with Connected, 0 while connecting
	// The deadline has passed while it is suspended; cleared by the next connection, and with id.
	lapsed bool
}

func (m machine) String() string { return fmt.Sprintf("%v(epoch=%d)", m.state, m.epoch) }

// Ended implements [actors.Machine].
func (m machine) Ended() bool { return m.state == stateClosed }

// Step implements [actors.Machine]. It ignores an input of another epoch.
func (m machine) Step(in input, out *effects) machine {
	t := turn{m, out}
	t.take(in)
	return t.machine
}

// A turn is a machine during a step, with the accumulator of its effects.
type turn struct {
	machine
	out *effects
}

func (m *turn) do(e effect)   { m.out.Do = append(m.out.Do, e) }
func (m *turn) emit(ev Event) { m.out.Emit = append(m.out.Emit, ev) }

// take enters an input. Inputs of an earlier epoch, and those that mean nothing in the
// present state, are ignored.
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
			m.finish() // the server has ended the session itself
			return
		}
		if in.epoch == m.epoch {
			m.lapse(in)
		}
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

// lapse follows the end of the lease. The session goes on, and lives or ends as the servers decide.
// One that is not established yet has no users: another takes its place.
func (m *turn) lapse(in overdue) {
	switch m.state {
	case stateConnecting:
		m.lose(in.epoch)
	case stateConnected:
		m.state = stateSuspended
		m.emit(Suspended{Deadline: in.deadline})
		fallthrough
	case stateSuspended:
		if !m.lapsed {
			m.lapsed = true
			m.emit(Lapsed{quiet: !in.held})
		}
	case stateClosing, stateClosed:
	}
}

// finish is the last step. The epoch is retired whether or not the server has ended the
// session.
func (m *turn) finish() {
	m.state = stateClosed
	m.do(retire{m.epoch})
}

// establish follows a new connection: it begins a session, or resumes one.
func (m *turn) establish(in established) {
	switch m.state {
	case stateConnecting:
		m.state, m.id = stateConnected, in.id
		m.emit(Connected{ID: in.id, Epoch: in.epoch, Timeout: in.timeout, Server: in.server, Past: in.past})
	case stateSuspended:
		m.state, m.lapsed = stateConnected, false
		m.emit(Resumed{Server: in.server})
	case stateConnected, stateClosing, stateClosed:
	}
}

// lose ends the epoch and begins the next. The old epoch is retired first, so that none of its
// requests is executed in the new epoch. Expired is emitted only for an epoch that was Connected.
func (m *turn) lose(epoch int) {
	if epoch != m.epoch || m.state == stateClosing || m.state == stateClosed {
		return
	}
	m.do(retire{m.epoch})
	m.do(dial{m.epoch + 1})
	if m.state != stateConnecting {
		m.emit(Expired{ID: m.id, Epoch: m.epoch})
	}
	m.state, m.epoch, m.id, m.lapsed = stateConnecting, m.epoch+1, 0, false
}
