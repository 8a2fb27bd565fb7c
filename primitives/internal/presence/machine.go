package presence

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
)

// This file keeps a node, as a pure function. After every input, advance compares the node that the
// caller wants with the node that was seen, and makes at most one request:
//
//	seen at the path             request                   leads to
//	----------------             -------                   --------
//	unknown (doubt)              look                      one of the lines below
//	nothing                      create                    ours
//	nothing, and no parent       makeParent                nothing
//	ours, with other data        store (setting)           ours, up to date
//	ours, up to date             none                      Joined, or Resumed, is emitted
//	an earlier session's         store (marking),          ours
//	  of this process            then takeOver (taking)
//	another session's, before    none: wait                another session's
//	  Joined
//	another session's, after     look after a sync         takeOver as above if the options
//	  the wait                   (confirming)              allow it, else Left
//	another session's, after     none                      Left
//	  Joined
//	anything, while leaving      withdraw if the node is   Left
//	                             ours or in doubt
//
// A request that fails for a reason that may pass sets doubt, which leads to the first line. No
// request is made without a session, or after one has failed because its session is over. While the
// session is suspended, withdraw alone is made. The performer of the effects is in presence.go.

// An asked is the request that is under way. There is at most one.
type asked int

const (
	nothing     asked = iota
	creating          // create: our node
	making            // makeParent
	looking           // look: read the path
	confirming        // look: read the path after a sync, as the leader knows it
	marking           // store: write the node's own data, so that the answer says whose version it is
	taking            // takeOver: delete the marked node and create ours
	setting           // store: write the newest data to our node
	withdrawing       // withdraw: delete our node, to leave
)

func (a asked) String() string {
	return [...]string{"idle", "creating", "making", "looking", "confirming", "marking", "taking", "setting", "withdrawing"}[a]
}

// birth is the version with which our nodes begin. Nodes of other clients begin with 0, so
// that a request for one of ours does not hit a new one of theirs.
const birth = 1

// A requestID identifies a request. An answer counts if it has the id of the request under way: an
// answer from an earlier session may come after its end.
type requestID struct {
	epoch int // set when a session is heard of, cleared when it expires; 0 without one
	n     int // counts the requests, and never goes back
}

// A Sight is the state of the path at the moment of a read or of an answer.
type Sight struct {
	Exists  bool
	Owner   int64 // the session that owns the node; 0 if none does
	Past    bool  // the owner is an earlier session of the same session.Session, whose node is a ghost
	Czxid   int64 // 0 if it is not known
	Version int32
	Data    string
}

// String names all fields, for transcripts.
func (s Sight) String() string {
	if !s.Exists {
		return "nothing"
	}
	text := fmt.Sprintf("owner=%d czxid=%d version=%d data=%s", s.Owner, s.Czxid, s.Version, s.Data)
	if s.Past {
		text += " past"
	}
	return text
}

// A ghost identifies a node that the machine waits for, whatever its data and version.
type ghost struct{ owner, czxid int64 }

// ghost returns which node it is.
func (s Sight) ghost() ghost { return ghost{s.Owner, s.Czxid} }

// An Input is an event that the machine reacts to.
//
//sumtype:decl
type Input interface{ input() }

type (
	// Leave is the command to remove the node. Why is the error of Left; nil if a caller asked.
	Leave struct{ Why error }
	// Update is the command to store other data.
	Update struct {
		Data  string
		Reply actors.Reply[error]
	}
	// Insist is the command to replace a node that stands at the path without a wait. It is ignored
	// once Joined was emitted: our own node stands then.
	Insist struct{}
	// heard is an event of the session.
	heard struct{ session.Event }
	saw   struct { // an answer to follow, whenever the path has changed
		epoch int
		Sight
	}
	blind struct { // the last answer to follow, when the path cannot be watched
		epoch int
		err   error
	}
	created struct { // answers create and takeOver
		requestID
		czxid   int64
		version int32
	}
	done struct { // answers makeParent and withdraw
		requestID
		other bool // of withdraw: a node of another session stood at the path
	}
	looked struct { // answers look
		requestID
		Sight
	}
	stored struct { // answers store
		requestID
		ghost   // of the node that was written to, which may not be the node that was meant
		version int32
	}
	failed struct { // answers any request
		requestID
		err error
	}
	patient struct{ n int } // answers wait
)

func (Leave) input()   {}
func (Update) input()  {}
func (Insist) input()  {}
func (heard) input()   {}
func (saw) input()     {}
func (blind) input()   {}
func (created) input() {}
func (done) input()    {}
func (looked) input()  {}
func (stored) input()  {}
func (failed) input()  {}
func (patient) input() {}

// An Effect is a request, a timer, or a reply to a command.
//
//sumtype:decl
type Effect interface{ effect() }

type (
	// create creates our node with version birth, and fails if any node stands.
	create struct {
		requestID
		data string
	}
	// makeParent creates the parent with all its ancestors. It succeeds if they exist.
	makeParent struct{ requestID }
	look       struct {
		requestID
		sync bool // read after a sync, to see what the leader has committed
	}
	takeOver struct { // delete the node at its version and create ours, in one transaction
		requestID
		version int32
		data    string
	}
	// store writes to the node that has the version, whosever it is: the server compares
	// nothing else.
	store struct {
		requestID
		version int32
		data    string
	}
	withdraw struct { // delete the node if the session owns it, and repeat that until it is gone
		requestID
		session int64
	}
	follow struct{ epoch int } // answered by any number of saw, and by blind
	wait   struct {            // replaces an earlier wait
		n    int
		long time.Duration
	}
	answer struct { // replies to commands; is not answered
		replies []actors.Reply[error]
		err     error
	}
)

func (create) effect()     {}
func (makeParent) effect() {}
func (look) effect()       {}
func (takeOver) effect()   {}
func (store) effect()      {}
func (withdraw) effect()   {}
func (follow) effect()     {}
func (wait) effect()       {}
func (answer) effect()     {}

// Effects are the requests and the events of a step.
type Effects = actors.Effects[Effect, Event]

// A waiter is an Update whose reply is due.
type waiter struct {
	rev   int // of its data; it is answered when this revision, or a newer one, is stored or refused
	reply actors.Reply[error]
}

// A Machine keeps one node.
type Machine struct {
	// How a conflict ends.
	conflictAfter time.Duration // the wait for another session's node; 0 is twice the session's timeout; constant
	takeOver      bool          // replace the node after the wait; set by options or Insist, cleared by Joined
	atOnce        bool          // do not wait, and replace a persistent node too; set and cleared with takeOver

	// The data that the caller wants. Revisions count the updates, from 1.
	data    string   // of the newest update; set back to the node's own data if the server refuses it
	rev     int      // of the newest update
	stored  int      // the newest revision that was stored or refused; at most rev
	waiters []waiter // the updates without a reply, oldest first; their revisions are above stored

	// The session.
	request requestID     // of the newest request
	session int64         // the id of the session; set with request.epoch, and kept until the next
	timeout time.Duration // set with session
	stalled bool          // set when a request failed because its session is over; cleared by the next session
	lapsed  bool          // set by Lapsed, cleared with offline: a node that is given up is not waited for
	offline bool          // set while the session is suspended; a request made then could arrive when it is wrong

	// The request under way. These are set by ask; only asked is cleared, by the answer and by the
	// expiry.
	asked   asked  // nothing if no request is under way
	sending int    // the value of rev when it was made: that revision is stored if it succeeds
	sent    string // the value of data when it was made, which it writes unless it marks: then the node's own data
	aim     Sight  // the value of seen when it was made: the node that it is meant for

	// The node that stands at the path.
	seen   Sight // set by the watch and by answers; cleared by the expiry, which deletes our node
	doubt  bool  // set when seen may be wrong: after Resumed, and after an unknown outcome; cleared by a look
	orphan bool  // set when create found no parent; cleared when its creation is answered, or by another failure

	// The events that were emitted.
	joined    bool // set by Joined, cleared by Gone; while set, our node stood when it was last seen
	suspended bool // set by Suspended, cleared by Resumed and Gone; implies joined

	// The wait for the node of another session. All but waits are cleared by Joined and by
	// the expiry, and when another ghost is found.
	waits     int   // counts the waits, and numbers them
	ghost     ghost // the node that is waited for
	waiting   int   // the number of the wait; 0 before it begins, and after Resumed, which begins it anew
	impatient bool  // set when that wait has ended and the ghost still stands; cleared with waiting
	barred    error // set when the server refused that the ghost is replaced

	// The end.
	leaving   bool  // set when the node is given up for good; never cleared
	stood     bool  // set with leaving if joined is; cleared if another node is found in its place
	why       error // set with leaving, or by the end of the sessions; nil if a caller asked
	undeleted error // set when the server refuses to delete the node; the session goes on trying
	ended     bool  // set when Left is emitted
}

func (m Machine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v(epoch=%d", m.asked, m.request.epoch)
	if m.seen.Exists {
		fmt.Fprintf(&b, " %v", m.seen)
	}
	for _, f := range []struct {
		set  bool
		text string
	}{
		{m.doubt, "doubt"},
		{m.orphan, "orphan"},
		{m.stalled, "stalled"},
		{m.offline, "offline"},
		{m.joined, "joined"},
		{m.suspended, "suspended"},
		{m.waiting != 0, "waiting"},
		{m.impatient, "impatient"},
		{m.barred != nil, "barred"},
		{m.leaving, fmt.Sprintf("leaving=%v", m.why)},
		{len(m.waiters) > 0, fmt.Sprintf("waiters=%d", len(m.waiters))},
		{m.ended, "ended"},
	} {
		if f.set {
			b.WriteString(" " + f.text)
		}
	}
	return b.String() + ")"
}

// Ended implements [actors.Machine]. After the end no effect is asked for but answers to
// updates, which come too late.
func (m Machine) Ended() bool { return m.ended }

// Step implements [actors.Machine]. take changes the state by the input alone; advance then
// makes the request that follows from the state, whichever input has led to it.
func (m Machine) Step(in Input, out *Effects) Machine {
	if m.ended {
		if in, ok := in.(Update); ok {
			out.Do = append(out.Do, answer{[]actors.Reply[error]{in.Reply}, m.Reason()})
		}
		return m
	}
	s := turn{Machine: m, out: out}
	s.take(in)
	if !s.ended {
		s.advance()
	}
	return s.Machine
}

// A turn is a machine during a step, with the accumulator of its effects.
type turn struct {
	Machine
	out *Effects
}

func (m *turn) do(e Effect)      { m.out.Do = append(m.out.Do, e) }
func (m *turn) emit(event Event) { m.out.Emit = append(m.out.Emit, event) }

// take enters the input into the state. Answers to any but the request under way are
// ignored.
func (m *turn) take(in Input) {
	switch in := in.(type) {
	case Leave:
		m.leave(in.Why)
	case Update:
		m.rev++
		m.data = in.Data
		m.waiters = append(slices.Clone(m.waiters), waiter{m.rev, in.Reply})
	case Insist:
		if !m.joined {
			m.takeOver, m.atOnce = true, true
		}
	case heard:
		m.heard(in.Event)
	case saw:
		if in.epoch == m.request.epoch {
			m.seen = in.Sight
		}
	case blind:
		if in.epoch == m.request.epoch && !client.Over(in.err) {
			m.leave(in.err)
		}
	case patient:
		if in.n == m.waiting {
			m.impatient = true
		}
	case created:
		if m.answered(in.requestID) {
			m.asked = nothing
			m.seen = Sight{Exists: true, Owner: m.session, Czxid: in.czxid, Version: in.version, Data: m.sent}
			m.confirm(m.sending)
		}
	case done:
		if m.answered(in.requestID) {
			m.done(in.other)
		}
	case looked:
		if m.answered(in.requestID) {
			m.looked(in.Sight)
		}
	case stored:
		if m.answered(in.requestID) {
			m.wrote(in)
		}
	case failed:
		if m.answered(in.requestID) {
			m.fail(in.err)
		}
	}
}

// heard follows an event of the session. A session begins only when none is known: an Expired for
// the session before has come first.
func (m *turn) heard(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		if m.request.epoch == 0 {
			m.request.epoch, m.session, m.timeout = ev.Epoch, ev.ID, ev.Timeout
			m.stalled = false
		}
	case session.Suspended:
		m.offline = true
		if m.joined && !m.suspended {
			m.suspended = true
			m.emit(Suspended{ev.Deadline})
		}
	case session.Lapsed:
		m.lapsed = true
		m.abandon()
	case session.Resumed:
		m.offline, m.lapsed, m.doubt = false, false, true
		m.waiting, m.impatient = 0, false // the servers let ghosts live longer while they cannot be reached
	case session.Expired:
		if ev.Epoch == m.request.epoch {
			m.expire()
		}
	case session.Closed:
		if !m.leaving {
			m.why = session.ErrClosed
		}
		m.end()
	}
}

// answered reports whether id belongs to the request under way.
func (m *turn) answered(id requestID) bool { return id == m.request && m.asked != nothing }

// done follows makeParent, or withdraw, which is the last request.
func (m *turn) done(other bool) {
	if m.asked == withdrawing {
		m.seen, m.stood = Sight{}, m.stood && !other
		m.end()
	}
	m.asked, m.orphan = nothing, false
}

// looked follows a read. Only a read after a sync decides a conflict: a server that lags
// behind could show a node that is gone. The conflict is decided if the read shows the very
// ghost that was waited for.
func (m *turn) looked(s Sight) {
	confirmed := m.asked == confirming
	m.asked, m.doubt = nothing, false
	m.seen = s
	if m.own() && s.Data == m.sent { // the newest data arrived, though its answer was lost
		m.confirm(m.sending)
	}
	switch {
	case !confirmed || !m.foreign() || m.leaving || m.offline || s.ghost() != m.ghost || !m.waited():
	case m.takeOver && m.barred == nil && (s.Owner != 0 || m.atOnce):
		m.mark(s.Data)
	default:
		m.leave(m.duplicate()) // the wait is over, and the options, or the server, forbid more
	}
}

// duplicate returns the error of a conflict that is not, or cannot be, resolved.
func (m Machine) duplicate() error {
	err := fmt.Errorf("%w: held by session %s", ErrDuplicate, znode.SessionID(m.seen.Owner))
	if m.seen.Owner == 0 {
		err = fmt.Errorf("%w: held by a node of no session", ErrDuplicate)
	}
	if m.barred != nil {
		err = fmt.Errorf("%w, and it could not be taken over: %w", err, m.barred)
	}
	return err
}

// wrote follows a write to the node at the path. The version says only that the node was changed as
// often as the node that was meant: if it is another node, the machine looks again.
func (m *turn) wrote(in stored) {
	was := m.asked
	m.asked = nothing
	if in.owner != m.aim.Owner || m.aim.Czxid != 0 && in.czxid != m.aim.Czxid {
		m.doubt = true
		return
	}
	m.seen = m.aim // newer than a sight that the watch reported meanwhile
	m.seen.Czxid, m.seen.Version, m.seen.Data = in.czxid, in.version, m.sent
	switch {
	case was == setting:
		m.confirm(m.sending)
	case m.offline || m.doubt: // marked again after the next look, if it still stands
	case m.leaving: // a node that is not ours is not deleted any more
	case in.version <= birth: // a node created meanwhile could have this version: mark once more
		m.mark(m.sent)
	default:
		m.ask(taking)
		m.do(takeOver{m.request, in.version, m.data})
	}
}

// confirm answers the updates up to rev, whose data is known to have been stored.
func (m *turn) confirm(rev int) {
	m.stored = max(m.stored, rev)
	m.give(m.stored, nil)
}

// give answers the updates up to rev, which are the oldest, with err.
func (m *turn) give(rev int, err error) {
	var replies []actors.Reply[error]
	for len(m.waiters) > 0 && m.waiters[0].rev <= rev {
		replies = append(replies, m.waiters[0].reply)
		m.waiters = m.waiters[1:]
	}
	if replies != nil {
		m.do(answer{replies, err})
	}
}

// fail follows a request that was not done, or may not have been. An error that says
// nothing about the node sets doubt, so that a look comes next. The node is given up only
// for an error that would come again.
func (m *turn) fail(err error) {
	was := m.asked
	m.asked, m.orphan = nothing, false
	switch {
	case was == withdrawing:
		m.undeleted = err
		m.end()
	case client.Over(err):
		m.stalled = true // the event of its end follows
	case client.IsAny(err, session.ErrUnknownOutcome, session.ErrDisconnected):
		m.doubt = true
	case was == creating && client.IsAny(err, session.ErrNoNode):
		m.orphan = true
	case was == looking && client.IsAny(err, session.ErrNoNode), was == confirming && client.IsAny(err, session.ErrNoNode):
		m.looked(Sight{})
	case client.IsAny(err, session.ErrNodeExists, session.ErrBadVersion, session.ErrNoNode):
		m.doubt = true
	case errors.Is(err, session.ErrBusy): // a busy server may have done it
		m.doubt = true
	case was == setting:
		m.refuse(err)
	case was == marking, was == taking && client.IsAny(err, session.ErrNoAuth):
		m.barred = err
	default:
		m.leave(err)
	}
}

// refuse answers an update that the server does not accept, and stops to try it. A newer
// update is tried next.
func (m *turn) refuse(err error) {
	if m.rev == m.sending {
		m.data, m.stored = m.aim.Data, m.rev
	}
	m.give(m.sending, err)
}

// leave gives the node up. The first reason counts.
func (m *turn) leave(why error) {
	if !m.leaving {
		m.leaving, m.stood, m.why = true, m.joined, why
		m.abandon()
	}
}

// abandon ends a machine that leaves while the servers are out of reach: the session deletes its
// node when it has a connection.
func (m *turn) abandon() {
	if !m.leaving || !m.lapsed || m.ended {
		return
	}
	if m.asked != withdrawing && (m.doubt || m.own() || m.asked != nothing) {
		m.ask(withdrawing)
		m.do(withdraw{m.request, m.session})
	}
	m.end()
}

// expire forgets the session, and all that was known of the path through it. The server
// has deleted our node.
func (m *turn) expire() {
	m.request.epoch, m.asked, m.seen, m.doubt, m.orphan, m.offline, m.lapsed = 0, nothing, Sight{}, false, false, false, false
	m.forget()
	m.gone(session.ErrExpired)
}

// forget ends the wait for a ghost, and forgets which it was.
func (m *turn) forget() { m.ghost, m.waiting, m.impatient, m.barred = ghost{}, 0, false, nil }

// gone emits Gone if Joined was emitted. While the node is given up, Left says it all.
func (m *turn) gone(why error) {
	if m.joined {
		m.joined, m.suspended = false, false
		if !m.leaving {
			m.emit(Gone{why})
		}
	}
}

// own reports whether our node was seen to stand. A node that this session owns is ours:
// the registry allows one handle for each path and session.
func (m Machine) own() bool { return m.seen.Exists && m.seen.Owner == m.session }

// foreign reports whether a node stands that is not ours and must not be replaced at once.
// The node of an earlier session of ours may be, unless the server has refused it.
func (m Machine) foreign() bool {
	return m.seen.Exists && m.seen.Owner != m.session && (!m.seen.Past || m.barred != nil)
}

// ask enters a request as the request under way, with the state that its answer is compared with.
func (m *turn) ask(a asked) {
	m.asked = a
	m.request.n++
	m.sending, m.sent, m.aim = m.rev, m.data, m.seen
}

// advance makes the next request, unless one is under way. The order of its cases is the
// protocol: leaving comes before everything that would keep the node, and doubt before
// everything that trusts the last sight.
func (m *turn) advance() {
	switch {
	case m.asked != nothing:
	case m.request.epoch == 0 && m.leaving:
		m.end()
	case m.request.epoch == 0 || m.stalled: // until a session is heard of
	case m.leaving && (m.doubt || m.own()):
		m.ask(withdrawing)
		m.do(withdraw{m.request, m.session})
	case m.leaving:
		m.stood = m.stood && !m.seen.Exists
		m.end()
	case m.offline: // and goes on after Resumed, which sets doubt
	case m.doubt:
		m.ask(looking)
		m.do(look{m.request, false})
	case !m.seen.Exists:
		m.gone(ErrNodeDeleted)
		if m.orphan {
			m.ask(making)
			m.do(makeParent{m.request})
			break
		}
		m.ask(creating)
		m.do(create{m.request, m.data})
		m.do(follow{m.request.epoch})
	case m.own():
		m.keep()
	case !m.foreign(): // our own ghost is replaced at once
		m.gone(ErrNodeDeleted)
		m.mark(m.seen.Data)
	case m.joined:
		m.leave(fmt.Errorf("%w: taken over by session %s", ErrDuplicate, znode.SessionID(m.seen.Owner)))
		m.end()
	default:
		m.conflict()
	}
}

// keep emits the events that our node's sight implies, and stores newer data in it.
func (m *turn) keep() {
	if !m.joined {
		m.joined = true
		m.forget()
		m.takeOver, m.atOnce = false, false // a later owner of the name has come after us, and keeps it
		m.emit(Joined{m.request.epoch})
	}
	if m.suspended {
		m.suspended = false
		m.emit(Resumed{})
	}
	// Equal data is written again for an update: another session may have taken the name since
	// the sight, and the update must not be answered as if our node had it.
	if m.seen.Data == m.data && m.stored == m.rev {
		return
	}
	m.ask(setting)
	m.do(store{m.request, m.seen.Version, m.data})
}

// mark begins to take over the node that was seen. Its version does not identify it: a newer
// node may have the same. So the machine first writes to it, with the data that it has. The
// answer says which node was written to. The version that the deletion names then is above
// birth, and no node that is created in between begins with it.
func (m *turn) mark(data string) {
	m.ask(marking)
	m.sent = data
	m.do(store{m.request, m.seen.Version, data})
}

// conflict waits for the node of another session to go. When the wait is over, it makes
// sure that the node still stands, before looked decides.
func (m *turn) conflict() {
	if m.seen.ghost() != m.ghost {
		m.forget()
		m.ghost = m.seen.ghost()
	}
	switch {
	case m.takeOver && m.atOnce && m.barred == nil:
		m.mark(m.seen.Data)
	case m.waited():
		m.ask(confirming)
		m.do(look{m.request, true})
	case m.waiting == 0:
		m.wait()
	}
}

// waited reports whether the wait is over. A persistent node is not waited for: no
// session's end deletes it.
func (m Machine) waited() bool { return m.impatient || m.atOnce || m.seen.Owner == 0 }

// wait starts the timer that ends the wait for a ghost.
func (m *turn) wait() {
	m.waits++
	m.waiting = m.waits
	long := m.conflictAfter
	if long == 0 {
		long = 2 * m.timeout
	}
	m.do(wait{m.waiting, long})
}

// Joined reports whether the node stood when it was last seen.
func (m Machine) Joined() bool { return m.joined }

// Suspended reports whether Suspended was emitted, and neither Resumed nor Gone after it.
func (m Machine) Suspended() bool { return m.suspended }

// Stood reports, after the end, whether the node stood when the machine began to leave. It is false
// if another session's node was found in its place.
func (m Machine) Stood() bool { return m.stood }

// Err returns why the node was given up; nil before the end, and after [Leave].
func (m Machine) Err() error {
	if !m.ended {
		return nil
	}
	return m.why
}

// Undeleted returns why the server refused to delete the node; nil if it is deleted.
func (m Machine) Undeleted() error { return m.undeleted }

// Reason returns the error for a command that comes too late: [Machine.Err], or [ErrLeft].
func (m Machine) Reason() error {
	if m.why != nil {
		return m.why
	}
	return ErrLeft
}

// end emits the last event, and answers every update that is not stored.
func (m *turn) end() {
	m.ended = true
	m.give(m.rev, m.Reason())
	left := Left{Err: m.why}
	if m.undeleted != nil {
		left.Stands = fmt.Errorf("not given up, as the server refuses that: %w", m.undeleted)
	}
	m.emit(left)
}
