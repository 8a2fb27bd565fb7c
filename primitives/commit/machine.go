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
// effects is in transaction.go; the nodes are in docs/two-phase-commit.md.
//
//	          start               begun, or a look finds the record with our GUID
//	waiting ────────▶ beginning ───────────────────────────────────────────────┐
//	                   │  ▲  │ a reply is lost, or the id exists               │
//	                   │  │  └─▶ look ─┐                                       ▼
//	                   │  └────────────┘ no record: begin again    resumed ─▶ open ◀─┐ votes are missing: the
//	                   │                                                       │  └──┘ leader is asked
//	                   │                   it has recorded or read the outcome │
//	                   │                                                       ▼
//	                   │                                  no session       retiring
//	                   │                                ┌──────────────────────┤ its ballot is deleted
//	                   │                                │  a ballot is left    │
//	                   │                                ├──────────────────────┤ no ballot is left
//	                   │                                │                      ▼
//	                   │                                │                  removing
//	                   │ refused                        ▼                      │ the record is gone
//	                   └─────────────────────────────▶ ended ◀─────────────────┘
//
// A coordinator that leaves without an outcome goes from open through retiring to ended, and the
// transaction stays. The end of the session leads from retiring and removing to ended: the server
// deletes our ballot, and the sites remove the rest.
//
// The watch on the ballots goes on in each session. Servers may have come back with older data, and
// without votes that were there. So a decision rests on a list of the same session. If the watches
// on the ballots and the sites were ended for a decision in an earlier session, they begin again.
//
// In the phase open, at most one of three requests is under way: to record an outcome, to look at
// the record, or to confirm that votes are missing. The decider says which: see decider.go. An
// outcome is emitted only when a reply to the first or the second has confirmed it.

// A phase says how far the coordinator is. The phases follow each other in this order, but for
// resumed machines, which begin with open.
type phase int

const (
	waiting   phase = iota // for the command to begin; nothing was sent
	beginning              // the transaction is being created, or looked for after a lost reply
	open                   // the transaction exists, and the votes are followed
	retiring               // our ballot is being deleted; the last event was emitted
	removing               // the rest of the transaction is being removed, as we were the last
	ended
)

func (p phase) String() string {
	return [...]string{"waiting", "beginning", "open", "retiring", "removing", "ended"}[p]
}

// An input is an event that the machine reacts to. Each answer belongs to the one request of its
// kind that is under way.
//
//sumtype:decl
type input interface{ input() }

type (
	leave struct{} // commanded, or the actor was stopped
	start struct { // commanded by Begin; its reply gets one answer
		reply actors.Reply[error]
	}
	giveUp  struct{}                // commanded: the caller of Begin waits no longer
	heard   struct{ session.Event } // an event of the session
	begun   struct{ err error }     // answers begin
	ensured struct{ err error }     // answers ensure
	looked  struct {                // answers look
		found *record // the record at the path; nil if there is none
		err   error
	}
	counted struct { // answers followBallots, any number of times
		names []string // of the ballots
		err   error    // its last answer
	}
	voteRead struct { // answers readVote
		site string
		vote Vote
		data []byte
		err  error
	}
	attended struct { // answers followSites, any number of times
		names []string // of the sites that are present
		err   error    // its last answer
	}
	passed    struct{} // answers awaitDeadline: the votes are late
	lapsed    struct{} // answers awaitAbsence: missing sites are gone
	confirmed struct { // answers confirm
		names []string // of the ballots
		sites []string // that are present
		err   error
	}
	recorded struct{ err error } // answers decide
	appeared struct {            // answers appear
		epoch int
		err   error
	}
	retired struct { // answers retire
		left int // the number of ballots that are left
		err  error
	}
	removed struct{ err error } // answers remove
)

func (leave) input()     {}
func (start) input()     {}
func (giveUp) input()    {}
func (heard) input()     {}
func (begun) input()     {}
func (ensured) input()   {}
func (looked) input()    {}
func (counted) input()   {}
func (voteRead) input()  {}
func (attended) input()  {}
func (passed) input()    {}
func (lapsed) input()    {}
func (confirmed) input() {}
func (recorded) input()  {}
func (appeared) input()  {}
func (retired) input()   {}
func (removed) input()   {}

// An effect asks the performer for one action. Requests and follows are answered as their inputs
// say; unfollow and respond are not answered.
//
//sumtype:decl
type effect interface{ effect() }

type (
	begin         struct{ epoch int } // create the record and all ballots, with our own of the epoch, in one transaction
	ensure        struct{}            // make the parent
	look          struct{}            // read the record
	followBallots struct{}            // list the ballots now and after each change
	followSites   struct{}            // list the present sites now and after each change
	unfollow      struct{}            // end both, and the timers
	awaitDeadline struct{}            // set the timer for late votes
	awaitAbsence  struct{}            // set the timer for missing sites; replaces an earlier one
	confirm       struct{}            // list the ballots and the present sites, as the leader knows them
	readVote      struct {            // read the data of a vote
		site string
		vote Vote
	}
	decide struct { // record the outcome in the epoch, unless there is one, or a vote is not there
		verdict
		epoch int
	}
	appear  struct{ epoch int } // create our ballot of the epoch
	retire  struct{ epoch int } // delete our ballot, and count those that are left
	forsake struct{ epoch int } // delete our ballot in the background
	remove  struct{ Outcome }   // remove what is left of the transaction
	// respond gives a command its reply. It is an effect of the sites' machines too.
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
func (awaitAbsence) effect()  {}
func (confirm) effect()       {}
func (readVote) effect()      {}
func (decide) effect()        {}
func (appear) effect()        {}
func (retire) effect()        {}
func (forsake) effect()       {}
func (remove) effect()        {}
func (respond) effect()       {}

// effects accumulates the effects of one step.
type effects = actors.Effects[effect, Event]

// A machine is the coordinator of one transaction. After every step:
//
//   - An outcome that was emitted is in the record on the server.
//   - In the phase open with a session, our ballot of its epoch exists, or was requested.
//   - At most one of decide, look and confirm is under way.
//   - The caller of Begin has its reply, once the phase beginning is over.
type machine struct {
	// rec is the record as it was begun or found. It is not modified. It has an outcome only if it
	// was resumed with one.
	rec   *record
	phase phase

	// decider is the knowledge that the rule needs. It is used in the phase open only.
	decider decider

	// reading is set by site when its vote is counted and has data, and cleared when the data was
	// read. While any is set, nothing is decided, so that all Voted precede the outcome. The slice
	// is replaced, not modified.
	reading []bool

	// asked is set with a decide, a look or a confirm in the phase open, and cleared by its answer.
	// While it is set, none is requested again.
	asked bool

	// void is set when an answer shows that no outcome can be recorded any more, and cleared with
	// the session: the ballots are gone, or the record was written. If the record still has no
	// outcome, an operator caused that, and there will be no outcome.
	void bool

	// deaf is set when the follows are ended before an outcome is recorded, and cleared when they
	// are begun anew. While it is not set, the phase open has them.
	deaf bool

	// doubt is set with begin, and cleared by an answer that says whether the transaction is there.
	// While it is set, a caller that is refused learns that the outcome is unknown.
	doubt bool

	// gave is set when the caller of Begin left, and never cleared. No caller has the handle then:
	// the transaction is aborted.
	gave bool

	// caller is set by start. It is answered once, when the phase beginning ends.
	caller actors.Reply[error]

	// epoch is the epoch of the present session; 0 while there is no session, and before the
	// machine learns of the first.
	epoch int

	// lapsed is set while the servers are out of reach for so long that nothing is waited for.
	lapsed bool

	// stood is the epoch for which our ballot was created last; 0 before the first. In the phase
	// open it equals epoch while there is a session.
	stood int

	// outcome is set when it is asked to be recorded, and again when it is known. It is cleared by
	// leave.
	outcome Outcome

	// settled is set when the last event was emitted. err says why it was Left, if it was.
	settled bool
	err     error
}

// coordinator is the party of an outcome that the coordinator has recorded.
const coordinator = "coordinator"

// newMachine returns a coordinator that begins the transaction.
func newMachine(r *record) machine {
	return machine{rec: r, decider: newDecider(r, coordinator), reading: make([]bool, len(r.Sites))}
}

// resumed returns the coordinator of a transaction that exists. It has no ballot yet: the
// ballot is created when the machine hears of its session. If the record has an outcome,
// the machine first looks whether the record still exists.
func resumed(r *record) machine {
	m := newMachine(r)
	m.phase, m.decider.beaten = open, r.Outcome != nil
	return m
}

// resumption returns the first effects of a resumed machine.
func resumption() []effect { return []effect{followBallots{}, followSites{}, awaitDeadline{}} }

// String is canonical: machines with equal strings do the same.
func (m machine) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%v(epoch %d/%d%v", m.phase, m.epoch, m.stood, m.decider.describe())
	for i, site := range m.rec.Sites {
		s.WriteString(flagged(" reading:"+site, m.reading[i]))
	}
	s.WriteString(flagged(" asked", m.asked) + flagged(" void", m.void) + flagged(" deaf", m.deaf) + flagged(" doubt", m.doubt) + flagged(" gave", m.gave) + flagged(" away", m.lapsed) +
		flagged(" "+m.outcome.String(), m.outcome != Outcome{}) + flagged(" settled", m.settled))
	if m.err != nil {
		s.WriteString(": " + m.err.Error())
	}
	return s.String() + ")"
}

// flagged returns name if the flag is set.
func flagged(name string, set bool) string {
	if set {
		return name
	}
	return ""
}

// Ended implements [actors.Machine]. The last event was emitted by then.
func (m machine) Ended() bool { return m.phase == ended }

// A turn is a machine during a step, with the accumulator of its effects.
type turn struct {
	machine
	out *effects
}

// do asks for effects, emit emits an event, and in compares the phase.
func (m *turn) do(e ...effect)  { m.out.Do = append(m.out.Do, e...) }
func (m *turn) emit(ev Event)   { m.out.Emit = append(m.out.Emit, ev) }
func (m *turn) in(p phase) bool { return m.phase == p }

// Step implements [actors.Machine]. take enters the input into the state; advance then
// asks for the outcome, or records it. Inputs that mean nothing in the present phase are
// ignored: their question is no longer open.
func (m machine) Step(in input, out *effects) machine {
	if m.Ended() {
		return m
	}
	t := turn{machine: m, out: out}
	t.take(in)
	t.advance()
	return t.machine
}

// take enters an input into the state. An answer that belongs to another phase is
// ignored.
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
			m.decides(toWait, in.names, nil, in.err)
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
		m.decider = m.decider.expire()
	case lapsed:
		m.decider = m.decider.lapse()
	case confirmed:
		if m.in(open) {
			m.decides(toConfirm, in.names, in.sites, in.err)
		}
	case recorded:
		if m.in(open) {
			m.decides(toDecide, nil, nil, in.err)
		}
	case appeared:
		m.appeared(in)
	case retired:
		if m.in(retiring) {
			m.retired(in)
		}
	case removed:
		switch {
		case !m.in(removing): // ended with its session
		case session.Passing(in.err):
			m.do(remove{m.outcome})
		default:
			m.end()
		}
	}
}

// --- the session

// heard follows an event of the session. Requests of an earlier session are refused, and
// repeated in the next one.
func (m *turn) heard(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		m.lapsed = false
		m.epoch = ev.Epoch // whichever phase it is in: at most one of the two applies
		m.first()
		m.appear()
	case session.Expired:
		m.epoch = 0 // answers from that session may yet come
		if m.in(retiring) || m.in(removing) {
			m.end() // the server deletes our ballot with its session; the sites remove the rest
		}
		m.forget()
	case session.Closed:
		m.epoch = 0
		m.leave(session.ErrClosed)
		m.end()
	case session.Lapsed:
		m.lapsed = true
		m.abandon()
	case session.Resumed:
		m.lapsed = false
	case session.Suspended:
	}
}

// abandon ends a coordinator that has to delete its ballot while the servers are out of reach. The
// session deletes it when it has a connection, and the sites remove the rest.
func (m *turn) abandon() {
	if m.lapsed && (m.in(retiring) || m.in(removing)) {
		if m.in(retiring) {
			m.do(forsake{m.stood})
		}
		m.end()
	}
}

// forget follows the end of a session: votes, and the records of other parties, may have been
// undone when the next session begins. So nothing is decided before a list of the next session.
func (m *turn) forget() {
	if !m.in(open) {
		return
	}
	m.decider, m.void = m.decider.forget(), false
	m.hearAgain()
}

// hearAgain begins the watches again that were ended for a decision.
func (m *turn) hearAgain() {
	if m.deaf {
		m.deaf = false
		m.do(followBallots{}, followSites{}, awaitDeadline{})
	}
}

// appear creates our ballot again, if it was deleted with its session. The name has the epoch in
// it: the ballot of the last session may still exist.
func (m *turn) appear() {
	if m.in(open) && m.epoch != 0 && m.stood != m.epoch {
		m.stood = m.epoch
		m.do(appear{m.epoch})
	}
}

// appeared follows the creation of a ballot. The creation is not repeated if it belongs to an
// earlier session.
func (m *turn) appeared(in appeared) {
	switch {
	case !m.in(open) || in.epoch != m.stood || in.err == nil:
	case errors.Is(in.err, session.ErrNoNode):
		m.decider.beaten, m.void = true, true
	case session.Passing(in.err) && in.epoch == m.epoch:
		m.do(appear{in.epoch})
	}
}

// --- the beginning

// first creates the transaction, once, when there is a session. The command to begin and
// the session come in either order.
func (m *turn) first() {
	if m.in(beginning) && m.stood == 0 && m.epoch != 0 {
		m.begin()
	}
}

// begin creates the transaction in the present epoch, or in the next one. The creation is bound to
// the epoch, since it has our ephemeral ballot: it cannot be executed in a later session.
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

// begun follows the creation of the transaction. A look resolves an error that leaves it in doubt.
// A look also resolves an id that exists: it may be ours, created by a request whose reply was
// lost.
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
		m.leave(err)
	}
}

// ensured follows the creation of the parent.
func (m *turn) ensured(err error) {
	switch {
	case err == nil:
		m.begin()
	case session.Passing(err):
		m.do(ensure{})
	default:
		m.leave(err)
	}
}

// there answers the caller of Begin, and follows the votes: the transaction exists.
func (m *turn) there() {
	m.phase = open
	m.do(respond{m.caller, nil}, followBallots{}, followSites{}, awaitDeadline{})
	m.appear()
}

// looked follows a read of the record. While our session lives and has a ballot, a record
// of ours cannot vanish: if it does not exist, it never has.
func (m *turn) looked(in looked) {
	m.asked = false
	switch {
	case session.Passing(in.err):
		if m.in(beginning) {
			m.do(look{})
		} else {
			m.decider.beaten = true
		}
	case errors.Is(in.err, ErrForeign) && m.in(beginning):
		m.doubt = m.doubt && m.stood != m.epoch
		m.leave(fmt.Errorf("%w: %w", ErrExists, in.err))
	case in.err != nil:
		m.leave(in.err)
	case m.in(beginning):
		m.doubt = m.doubt && m.stood != m.epoch // our ballot would have kept the record
		switch {
		// Not created: the request in doubt belongs to this session, and came before the
		// look.
		case in.found == nil && m.stood == m.epoch:
			m.begin()
		// With another session, the transaction may have come and gone.
		case in.found == nil:
			m.leave(fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrExpired))
		case in.found.GUID == m.rec.GUID:
			m.there()
		default:
			m.leave(ErrExists)
		}
	case !m.in(open): // an answer from before the end
	case in.found == nil || in.found.GUID != m.rec.GUID:
		if m.rec.Outcome == nil {
			m.leave(ErrForgotten)
		} else {
			m.settle(*m.rec.Outcome) // it was resumed after the decision
		}
	case in.found.Outcome != nil:
		m.settle(*in.found.Outcome)
	case m.void:
		m.leave(ErrForgotten)
	}
}

// --- the votes

// emitVotes emits the votes that are new, each once: the decider has those that were counted
// before.
func (m *turn) emitVotes(b ballots) {
	m.reading = append([]bool(nil), m.reading...)
	for i, site := range m.rec.Sites {
		at := b.of[site]
		switch {
		case at.vote == 0: // its data is of no use if it was undone
			m.reading[i] = m.reading[i] && !b.has(site)
		case m.decider.votes[i].vote != 0:
		case at.data:
			m.reading[i] = true
			m.do(readVote{site, at.vote})
		default:
			m.emit(Voted{Site: site, Vote: at.vote})
		}
	}
}

// voteRead emits a vote with its data, now that it is read. An outcome waits for it.
func (m *turn) voteRead(in voteRead) {
	for i, site := range m.rec.Sites {
		if site != in.site || !m.reading[i] {
			continue
		}
		switch {
		case errors.Is(in.err, session.ErrNoNode):
			m.decider.beaten = true // the site has finished, or has never voted in this history
			m.wasRead(i)
		case in.err != nil && session.Passing(in.err):
			m.do(readVote{site, in.vote})
		case in.err != nil:
			m.leave(in.err)
		default:
			m.emit(Voted{Site: site, Vote: in.vote, Data: in.data})
			m.wasRead(i)
		}
	}
}

// wasRead notes that the read of a vote's data is answered.
func (m *turn) wasRead(i int) {
	m.reading = slices.Clone(m.reading)
	m.reading[i] = false
}

// attended follows a list of the present sites.
func (m *turn) attended(in attended) {
	switch {
	case in.err == nil:
		var missing bool
		if m.decider, missing = m.decider.attend(in.names); missing {
			m.do(awaitAbsence{})
		}
	case session.Passing(in.err):
		m.do(followSites{})
	default:
		m.leave(in.err)
	}
}

// --- the outcome

// decides hands the decider an answer: to a request of advance, or a list of the ballots, for which
// it waits. Votes are emitted before they are counted, those of the leader's list too. If a reply
// to decide was lost, or another party was first, a look finds the outcome that counts. If the
// server refused the request, the caller learns of the refusal, and the sites take over.
func (m *turn) decides(to step, names, sites []string, err error) {
	if err == nil && to != toDecide {
		m.emitVotes(parse(names))
	}
	m.asked = m.asked && to == toWait
	var means meaning
	switch m.decider, means = m.decider.answered(to, names, sites, err); means {
	case learned:
	case passes:
		if m.decider.beaten = m.decider.beaten || to == toDecide; to == toWait {
			m.do(followBallots{})
		}
	case forbidden:
		m.leave(err)
	case noBallots, tooLate:
		m.decider.beaten, m.void = true, true
	case isOutcome:
		m.settle(m.outcome)
	case unfounded:
		m.hearAgain()
	}
}

// advance makes the request that the decider names. An abort for a missing vote is no final
// verdict: if the request is lost, the votes are confirmed again, and the watches go on. A
// coordinator that resumes has asked for its ballot before: the ballot keeps the record in place,
// and the remaining ballots can be counted.
func (m *turn) advance() {
	if !m.in(open) || m.asked || m.stood == 0 {
		return
	}
	v, next := m.decider.next()
	// Without a caller no vote is waited for. The sites may still have recorded another outcome:
	// decide fails then, and a look finds it.
	if m.gave && next != toRead {
		v, next = verdict{Outcome: Outcome{Reason: Withdrawn, By: coordinator}}, toDecide
	}
	switch {
	case next == toRead:
		m.asked, m.decider.beaten = true, false
		m.do(look{})
	case next == toConfirm:
		m.asked, m.decider = true, m.decider.ask()
		m.do(confirm{})
	case next == toDecide && m.epoch != 0 && (m.gave || !slices.Contains(m.reading, true)): // a verdict waits for the votes whose data is being read
		m.asked, m.outcome = true, v.Outcome
		if v.Committed || v.Reason == VotedNo || m.gave {
			m.deaf = true
			m.do(unfollow{}) // nothing that is followed could change it, but for another session
		}
		m.do(decide{v, m.epoch})
	}
}

// settle emits the outcome, which is recorded, and deletes our ballot. The ballot has
// kept the record until now, so that the outcome could be read. The sites may remove it
// from now on.
func (m *turn) settle(o Outcome) {
	m.outcome = o
	m.last(eventOf(m.rec, o, ""))
	m.retire()
}

// --- the end

// last emits the last event, once: an outcome, or Left.
func (m *turn) last(ev Event) {
	if !m.settled {
		m.settled = true
		m.emit(ev)
	}
}

// retire ends the follows, and deletes our ballot. Without a session there is none, or
// the server deletes it.
func (m *turn) retire() {
	m.phase = retiring
	if m.do(unfollow{}); m.epoch == 0 {
		m.end()
		return
	}
	m.do(retire{m.stood})
	m.abandon()
}

// retired follows the deletion of our ballot. The party that leaves no ballot removes the
// rest, if there is an outcome.
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

// leave ends without an outcome. A transaction that exists stays: another coordinator
// resumes it, or the sites take over. In the phase beginning the caller is refused; its
// error says whether the transaction may exist.
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
	case waiting: // no caller has to be answered
		m.end()
	case retiring, removing, ended:
	}
}

// end ends the machine. The handle and its remaining watches end with it.
func (m *turn) end() { m.phase = ended }
