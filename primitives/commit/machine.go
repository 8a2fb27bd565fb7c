package commit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file is the coordinator's side of one transaction, as a pure function. The performer of its
// effects is in transaction.go; the states are in docs/two-phase-commit.md.

type phase int

const (
	waiting   phase = iota // for the command to begin
	beginning              // the transaction is being created, or what became of that looked up
	open                   // the votes are followed
	retiring               // our ballot is being deleted
	removing               // so is what is left of the transaction
	ended
)

func (p phase) String() string {
	return [...]string{"waiting", "beginning", "open", "retiring", "removing", "ended"}[p]
}

// An input is something that happened.
//
//sumtype:decl
type input interface{ input() }

type (
	leave struct{} // commanded, or the actor was stopped
	start struct { // commanded by Begin; its reply gets one answer
		reply actors.Reply[error]
	}
	giveUp  struct{}                // commanded: the caller of Begin has left
	heard   struct{ session.Event } // what became of the session
	begun   struct{ err error }     // answers begin
	ensured struct{ err error }     // answers ensure
	looked  struct {                // answers look
		found *record // nil if there is none
		err   error
	}
	counted struct { // answers followBallots, any number of times
		names []string
		err   error // its last answer
	}
	voteRead struct { // answers readVote
		site string
		vote Vote
		data []byte
		err  error
	}
	attended struct { // answers followSites, any number of times
		names []string
		err   error // its last answer
	}
	passed   struct{}            // answers awaitDeadline
	recorded struct{ err error } // answers decide
	appeared struct {            // answers appear
		epoch int
		err   error
	}
	retired struct { // answers retire
		left int // ballots
		err  error
	}
	removed struct{ err error } // answers remove
)

func (leave) input()    {}
func (start) input()    {}
func (giveUp) input()   {}
func (heard) input()    {}
func (begun) input()    {}
func (ensured) input()  {}
func (looked) input()   {}
func (counted) input()  {}
func (voteRead) input() {}
func (attended) input() {}
func (passed) input()   {}
func (recorded) input() {}
func (appeared) input() {}
func (retired) input()  {}
func (removed) input()  {}

// An effect is something to do about it.
//
//sumtype:decl
type effect interface{ effect() }

type (
	begin         struct{ epoch int } // create the transaction, with our ballot of the epoch
	ensure        struct{}            // that its parent is there
	look          struct{}            // at the record
	followBallots struct{}
	followSites   struct{} // their presence
	unfollow      struct{} // both, and the deadline
	awaitDeadline struct{}
	readVote      struct {
		site string
		vote Vote
	}
	decide struct{ Outcome }   // record it
	appear struct{ epoch int } // create our ballot of the epoch
	retire struct{ epoch int } // delete it, and count those that are left
	remove struct{ Outcome }   // what is left of the transaction
	// respond is an effect of all machines.
	respond struct {
		reply actors.Reply[error]
		err   error
	}
)

func (begin) effect()         {}
func (ensure) effect()        {}
func (look) effect()          {}
func (followBallots) effect() {}
func (followSites) effect()   {}
func (unfollow) effect()      {}
func (awaitDeadline) effect() {}
func (readVote) effect()      {}
func (decide) effect()        {}
func (appear) effect()        {}
func (retire) effect()        {}
func (remove) effect()        {}
func (respond) effect()       {}

type effects = actors.Effects[effect, Event]

// A machine is the coordinator of one transaction.
type machine struct {
	rec     *record
	phase   phase
	chair   chair
	reading []bool              // by site: its vote is counted, and its data is being read. While any is set, nothing is decided.
	asked   bool                // set by decide and look, cleared by their answers. While set, neither is asked again.
	moot    bool                // set when a request showed that another party decided. While set, the next question is look.
	doubt   bool                // set by begin, cleared by an answer that says whether the transaction is there
	gave    bool                // set when the caller of Begin left before the transaction was known to be there
	caller  actors.Reply[error] // of start, which waits for an answer in the phase beginning

	epoch   int     // of the present session; 0 if there is none
	stood   int     // the epoch for which our ballot was created last; 0 before the first
	outcome Outcome // set when it is asked to be recorded, and when it is known
	settled bool    // set when the last event was emitted
	err     error
}

// newMachine returns a coordinator that begins the transaction.
func newMachine(r *record) machine {
	return machine{rec: r, chair: newChair(r), reading: make([]bool, len(r.Sites))}
}

// resumed returns a coordinator of a transaction that is there.
func resumed(r *record) machine {
	m := newMachine(r)
	m.phase = open
	if r.Outcome != nil {
		m.moot = true
	}
	return m
}

// resumption are its first effects.
func resumption() []effect { return []effect{followBallots{}, followSites{}, awaitDeadline{}} }

// String is canonical: machines with equal strings do the same.
func (m machine) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%v(epoch %d/%d%v", m.phase, m.epoch, m.stood, m.chair.describe(m.rec))
	for i, site := range m.rec.Sites {
		s.WriteString(flagged(" reading:"+site, m.reading[i]))
	}
	s.WriteString(flagged(" asked", m.asked) + flagged(" moot", m.moot) + flagged(" doubt", m.doubt) + flagged(" gave", m.gave) +
		flagged(" "+m.outcome.String(), m.outcome != Outcome{}) + flagged(" settled", m.settled))
	if m.err != nil {
		s.WriteString(": " + m.err.Error())
	}
	return s.String() + ")"
}

// flagged returns what is said of a flag that is set.
func flagged(name string, set bool) string {
	if set {
		return name
	}
	return ""
}

// Ended implements [actors.Machine].
func (m machine) Ended() bool { return m.phase == ended }

// A turn is one step of a machine: what it becomes, and what it asks for.
type turn struct {
	machine
	out *effects
}

func (m *turn) do(e ...effect)  { m.out.Do = append(m.out.Do, e...) }
func (m *turn) emit(ev Event)   { m.out.Emit = append(m.out.Emit, ev) }
func (m *turn) in(p phase) bool { return m.phase == p }

// Step implements [actors.Machine]. Inputs that mean nothing in the current state are ignored:
// they answer a question that is no longer open.
func (m machine) Step(in input, out *effects) machine {
	if m.Ended() {
		return m
	}
	t := turn{machine: m, out: out}
	t.take(in)
	t.advance()
	return t.machine
}

func (m *turn) take(in input) {
	switch in := in.(type) {
	case leave:
		m.leave(nil)
	case start:
		if m.in(waiting) {
			m.phase, m.caller = beginning, in.reply
			m.first()
		}
	case giveUp:
		if m.gave = true; m.in(beginning) && m.stood == 0 {
			m.leave(nil)
		}
	case heard:
		m.heard(in.Event)
	case begun:
		if m.in(beginning) {
			m.begun(in.err)
		}
	case ensured:
		if m.in(beginning) {
			m.ensured(in.err)
		}
	case looked:
		m.looked(in)
	case counted:
		if m.in(open) {
			m.counted(in)
		}
	case voteRead:
		if m.in(open) {
			m.voteRead(in)
		}
	case attended:
		if m.in(open) {
			m.attended(in)
		}
	case passed:
		m.chair.late = true
	case recorded:
		if m.in(open) {
			m.recorded(in.err)
		}
	case appeared:
		m.appeared(in)
	case retired:
		if m.in(retiring) {
			m.retired(in)
		}
	case removed:
		if m.in(removing) {
			m.retryOr(in.err, remove{m.outcome}, m.end)
		}
	}
}

// --- the session

func (m *turn) heard(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		m.epoch = ev.Epoch
		m.first()
		m.appear()
	case session.Expired:
		m.epoch = 0
		if m.in(retiring) || m.in(removing) {
			m.end() // our ballot is gone with its session, the rest is left to the sites
		}
	case session.Closed:
		m.epoch = 0
		m.leave(session.ErrClosed)
		m.end()
	case session.Suspended, session.Resumed:
	}
}

// appear creates our ballot again, if it went with its session. Each has another name: the last
// may be there still.
func (m *turn) appear() {
	if m.in(open) && m.epoch != 0 && m.stood != m.epoch {
		m.stood = m.epoch
		m.do(appear{m.epoch})
	}
}

func (m *turn) appeared(in appeared) {
	switch {
	case !m.in(open) || in.epoch != m.stood || in.err == nil:
	case errors.Is(in.err, session.ErrNoNode):
		m.moot = true // the transaction is gone
	case session.Passing(in.err) && in.epoch == m.epoch:
		m.do(appear{in.epoch})
	}
}

// --- the beginning

// first begins, once, when there is a session.
func (m *turn) first() {
	if m.in(beginning) && m.stood == 0 && m.epoch != 0 {
		m.begin()
	}
}

// begin creates the transaction in the present epoch, or in the next one.
func (m *turn) begin() {
	m.stood = m.epoch
	switch {
	case m.gave:
		m.leave(nil)
	case m.epoch != 0:
		m.doubt = true
		m.do(begin{m.epoch})
	}
}

func (m *turn) begun(err error) {
	m.doubt = session.InDoubt(err)
	switch {
	case err == nil:
		m.there()
	case errors.Is(err, session.ErrNoNode):
		m.do(ensure{})
	case errors.Is(err, session.ErrNodeExists), session.InDoubt(err):
		m.do(look{})
	case session.Passing(err):
		m.begin()
	default:
		m.fail(err)
	}
}

func (m *turn) ensured(err error) {
	switch {
	case err == nil:
		m.begin()
	case session.Passing(err):
		m.do(ensure{})
	default:
		m.fail(err)
	}
}

// there follows the votes of a transaction that is there.
func (m *turn) there() {
	m.phase = open
	m.do(respond{m.caller, nil}, followBallots{}, followSites{}, awaitDeadline{})
	m.appear()
}

// looked takes what is at the path of the record.
func (m *turn) looked(in looked) {
	m.asked = false
	switch {
	case session.Passing(in.err):
		if m.in(beginning) {
			m.do(look{})
		} else {
			m.moot = true
		}
	case errors.Is(in.err, errForeign) && m.in(beginning):
		m.doubt = m.doubt && m.stood != m.epoch
		m.fail(fmt.Errorf("%w: %w", ErrExists, in.err))
	case in.err != nil:
		m.fail(in.err)
	case m.in(beginning):
		m.doubt = m.doubt && m.stood != m.epoch // our ballot would have kept it in place
		switch {
		case in.found == nil && m.stood == m.epoch:
			m.begin()
		case in.found == nil:
			m.fail(fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrExpired))
		case in.found.GUID == m.rec.GUID:
			m.there()
		default:
			m.fail(ErrExists)
		}
	case !m.in(open):
	case in.found == nil || in.found.GUID != m.rec.GUID:
		if m.rec.Outcome == nil {
			m.fail(ErrForgotten)
		} else {
			m.settle(*m.rec.Outcome) // it was resumed after the decision
		}
	case in.found.Outcome != nil:
		m.settle(*in.found.Outcome)
	}
}

// --- the votes

func (m *turn) counted(in counted) {
	if in.err != nil {
		switch {
		case errors.Is(in.err, session.ErrNoNode):
			m.moot = true // the transaction is gone: look makes sure
		case session.Passing(in.err):
			m.do(followBallots{})
		default:
			m.fail(in.err)
		}
		return
	}
	b := parse(in.names)
	if b.finished(m.rec) {
		m.moot = true
	}
	m.reading = append([]bool(nil), m.reading...)
	for i, site := range m.rec.Sites {
		at := b.of[site]
		switch {
		case at.vote == 0 || m.chair.votes[i] != 0:
		case at.data:
			m.reading[i] = true
			m.do(readVote{site, at.vote})
		default:
			m.emit(Voted{Site: site, Vote: at.vote})
		}
	}
	m.chair = m.chair.count(m.rec, b)
}

func (m *turn) voteRead(in voteRead) {
	for i, site := range m.rec.Sites {
		if site != in.site || !m.reading[i] {
			continue
		}
		switch {
		case errors.Is(in.err, session.ErrNoNode):
			m.moot = true // the site has finished
		case in.err != nil && session.Passing(in.err):
			m.do(readVote{site, in.vote})
		case in.err != nil:
			m.fail(in.err)
		default:
			m.emit(Voted{Site: site, Vote: in.vote, Data: in.data})
			m.reading = append([]bool(nil), m.reading...)
			m.reading[i] = false
		}
	}
}

func (m *turn) attended(in attended) {
	switch {
	case in.err == nil:
		var died bool
		if m.chair, died = m.chair.attend(m.rec, in.names); died {
			m.do(followBallots{})
		}
	case session.Passing(in.err):
		m.do(followSites{})
	default:
		m.fail(in.err)
	}
}

// --- the outcome

// advance asks for the outcome, or records it. A coordinator that resumes has asked for its ballot before: the ballot keeps
// the record in place, and what is left can be counted.
func (m *turn) advance() {
	if !m.in(open) || m.asked || m.stood == 0 {
		return
	}
	m.chair.given = m.chair.given || m.gave
	switch o, ok := m.chair.verdict(m.rec, "coordinator"); {
	case m.moot:
		m.asked, m.moot = true, false
		m.do(look{})
	case ok && (m.chair.given || !slices.Contains(m.reading, true)):
		m.asked, m.outcome = true, o
		m.do(unfollow{}, decide{o}) // nothing that is followed could change it
	}
}

func (m *turn) recorded(err error) {
	m.asked = false
	switch {
	case err == nil:
		m.settle(m.outcome)
	case session.Passing(err), errors.Is(err, session.ErrBadVersion), errors.Is(err, session.ErrNoNode):
		m.moot = true
	default:
		m.fail(err)
	}
}

// settle reports the outcome, which is recorded, and takes our ballot away.
func (m *turn) settle(o Outcome) {
	m.outcome = o
	m.last(eventOf(m.rec, o, ""))
	m.retire()
}

// --- the end

func (m *turn) last(ev Event) {
	if !m.settled {
		m.settled = true
		m.emit(ev)
	}
}

// retire deletes our ballot. Without a session there is none, or the server deletes it.
func (m *turn) retire() {
	m.phase = retiring
	if m.do(unfollow{}); m.epoch == 0 {
		m.end()
		return
	}
	m.do(retire{m.stood})
}

func (m *turn) retired(in retired) {
	switch {
	case session.Passing(in.err):
		m.do(retire{m.stood})
	case m.outcome != (Outcome{}) && (in.err == nil && in.left == 0 || errors.Is(in.err, session.ErrNoNode)):
		m.phase = removing
		m.do(remove{m.outcome})
	default:
		m.end()
	}
}

// leave ends without an outcome. A transaction that is there stays.
func (m *turn) leave(why error) {
	if m.settled {
		return
	}
	m.err = why
	m.last(Left{why})
	m.outcome = Outcome{}
	switch m.phase {
	case open:
		m.retire()
	case beginning:
		refused := cmp.Or(why, ErrClosed)
		if m.doubt && !errors.Is(refused, session.ErrUnknownOutcome) {
			refused = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, refused)
		}
		m.do(respond{m.caller, refused})
		m.end()
	case waiting:
		m.end()
	case retiring, removing, ended:
	}
}

func (m *turn) fail(err error) { m.leave(err) }

// retryOr asks again after an error that passes, and goes on after any other answer.
func (m *turn) retryOr(err error, again effect, then func()) {
	if session.Passing(err) {
		m.do(again)
		return
	}
	then()
}

func (m *turn) end() { m.phase = ended }
