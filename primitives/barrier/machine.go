package barrier

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// This file is the protocol of the double barrier, as a pure function. The performer of its
// effects is in double.go.
//
//	             Enter               the record lists us          Leave
//	  resting ──────────► gathering ─────────────────────► inside ──────► leaving
//	   ▲ ▲ ▲                  │                              │             │  │
//	   │ │ └── Withdrawn ─────┘ cancelled, or failed         │             │  │
//	   │ └──── Lost ─────────────────────────────────────────┴─────────────┘  │
//	   └────── Left ──────────────────────────────────────── the round is over┘
//
//	  any stage ── Close ► closing ── our node is gone ► ended
//
// In each stage at most one request is under way, the step. advance chooses it when the last
// one is answered:
//
//	gathering   no record, or none for our round    ensuring, opening
//	            nodes of other recipes, perhaps     inspecting
//	            a record of other parties           syncing, and then Withdrawn
//	            our node does not stand             entering
//	            we have the duty                    listing ► starting
//	            a round has begun without us        exiting, and then entering
//	            cancelled, or failed                retiring or exiting
//	leaving     our node stands                     exiting ► shutting, if we are the last
//	            time has passed                     looking ► shutting, if none is left
//	closing     our node may stand                  exiting
//
// # Nodes
//
//	<path>                  the record of the newest round: number, parties, members
//	<path>/<N>/in           the directory of round N
//	<path>/<N>/in/<name>    one party, ephemeral
//
// All but the parties are containers. The server removes them some time after the last party.
//
// # A round
//
// While the record says N, parties gather for round N+1. An entrant creates its node in a
// transaction that checks the version of the record. So no node appears in the directory of a
// round that has begun. The same transaction writes to the directory, and its reply says how many
// nodes stand there. An entrant that finds enough of them has a duty: it lists the directory
// once, and begins the round. The others send nothing more. A handle whose session has expired may be back before
// the server deletes its node: of the nodes of one handle, the newest counts, so no round lists a handle twice.
//
// Beginning a round is one transaction. It writes the record at its version, so a round begins
// once. It checks the node of every member, so no member is a ghost. It creates and deletes the
// node of round N, which fails while that stands, so rounds do not overlap. It makes the
// directory for round N+2.
//
// The server may remove the record between two rounds, while a request is under way that checks its version. A new
// record may have the same version by then. So an entrant begins no round with a directory that is younger than what it has read
// of the record; it leaves another record only if no round has begun there; and it opens no round if the directory of the next
// one stands.
//
// Every gathering party watches the record. An entrant is in when the record lists its name, and
// for no other reason. An entrant that is not listed deletes its node, and gathers for the next
// round. Its name keeps the round for which it came first: the oldest names are taken first.
//
// A member leaves in a transaction that deletes its node and writes to the directory. The reply
// says how many are left. At zero the round is removed, which the server refuses if the reply is
// wrong. The others wait until its node is gone. A member that crashes leaves no reply: so a party
// that waits for the end of a round lists the directory once per session timeout. No party removes
// a foreign node in it: that ends the wait of members, and is an error for entrants.
//
// # Why no party is stuck
//
// Suppose that enough nodes stand and the round does not begin. The newest entrant that
// completed the number found enough of them, as did any later one: all of these have the duty. If
// they have all crashed, there are too few again. A duty ends only when a list is too short that is
// newer than the own node.
//
// # Why no party is alone
//
// A member is in after the record has listed it. The record lists as many nodes as there are
// parties, all of which stood at that moment. The record is not written again before the round's
// directory is gone, which cannot be while a node of a member stands.
//
// # Other layouts
//
// The double barriers of Curator and kazoo count every child of the path, so they go wrong where ours
// are. While the record says N, the path has two children at most: the directories of rounds N and N+1.
// A gathering party that reads of more lists them. If one is not the directory of a round, the party
// does not go in, even if the record lists it: it deletes its node, and Enter ends with [ErrLayout].
//
// # Requests
//
// With n parties that know the record: n transactions to enter, n watches of the own node, n reads
// of the record, n transactions to leave, and n-1 watches of the round. With one list, one
// beginning and one removal these are 5n+2, and the first time n more to read the record. Each
// party wakes up twice.
//
// A party follows the record from Enter on, also inside and at rest. So its watch and its newest reading
// serve the next Enter. When others begin a round without it, it reads that, and follows no more.

// A stage is the progress of the handle: it says which commands and which requests are
// possible.
type stage int

const (
	resting   stage = iota // not in a round, and no Enter is to be answered
	gathering              // Enter is to be answered: our node stands, or is to stand
	inside                 // the record lists us, and our node stands as far as is known
	leaving                // Leave is to be answered: our node is deleted, and the end of the round awaited
	closing                // Close was called, and our node may stand
	ended
)

func (s stage) String() string {
	return [...]string{"resting", "gathering", "inside", "leaving", "closing", "ended"}[s]
}

// A step is the request that is under way. There is at most one.
type step int

const (
	idle       step = iota // no request is under way
	ensuring               // make the path
	inspecting             // list the children of the path
	opening                // make the directory for entrants, and write the first record
	entering               // create our node
	listing                // list the entrants
	starting               // begin the round
	retiring               // delete our node, unless the round has begun
	exiting                // delete our node
	looking                // list the parties of a round whose end we await
	syncing                // bring the server up to date, before the record is refused
	shutting               // remove a round that is over
)

func (s step) String() string {
	return [...]string{"idle", "ensuring", "inspecting", "opening", "entering", "listing", "starting", "retiring", "exiting", "looking", "syncing", "shutting"}[s]
}

// A turn names a request. An answer counts only for the newest: epoch and number are
// equal.
type turn struct{ epoch, n int }

// A culprit is the node because of which the server refused a transaction.
type culprit int

const (
	other     culprit = iota // none of these
	record                   // the path
	earlier                  // the node of the newest round that has begun
	directory                // a node of the round that is meant, but not the next directory
	above                    // the upper one of these, which is to be removed
	party                    // the node of a party
)

// A book is the content of the record.
type book struct {
	Round, Parties int      // the newest round that has begun, and its size
	Members        []string // the names of its nodes
}

// An input is an event that the machine reacts to.
//
//sumtype:decl
type input interface{ input() }

type (
	closeHandle struct{}                // commanded, or the actor was stopped
	heard       struct{ session.Event } // an event of the session
	enter       struct {                // commanded; the reply gets one answer
		reply actors.Reply[error]
	}
	cancel struct { // commanded: an Enter is not wanted any more
		what  actors.Reply[error]    // the reply of that Enter
		reply actors.Reply[struct{}] // given when Enter has its answer
	}
	leave struct { // commanded; the reply gets one answer
		reply actors.Reply[error]
	}
	saw struct { // answers follow, any number of times
		epoch   int
		zxid    int64 // of the read; 0 if a watch reported the deletion
		czxid   int64 // 0 if there is no node
		version int32
		fresh   bool // set if the node has no data
		book    book
		bad     error // why the data is not a record; nil if it is
		nodes   int   // the number of children of the path
	}
	blind struct { // the last answer to follow
		epoch int
		err   error
	}
	lost struct { // answers guard: our node is gone, or cannot be watched
		epoch int
		name  string
		err   error
	}
	over struct { // answers await: the directory that stands, or the error that says that it is gone
		epoch, round int
		czxid        int64
		err          error
	}
	tick     struct{ n int } // answers wait
	answered struct {        // answers a request
		turn
		err     error
		at      culprit  // the node because of which it was refused
		count   int      // of the nodes in the directory; after looking, of the parties in it
		czxid   int64    // after listing: that of the directory
		names   []string // of parties in the directory, or of all nodes at the path
		foreign string   // after looking and shutting: a node in the round that is not a party
	}
)

func (closeHandle) input() {}
func (heard) input()       {}
func (enter) input()       {}
func (cancel) input()      {}
func (leave) input()       {}
func (saw) input()         {}
func (blind) input()       {}
func (lost) input()        {}
func (over) input()        {}
func (tick) input()        {}
func (answered) input()    {}

// An effect asks the performer for one thing. request, guard, await and follow are
// answered as their inputs say.
//
//sumtype:decl
type effect interface{ effect() }

type (
	follow   struct{ epoch int } // watch the record
	unfollow struct{}            // end follow
	guard    struct {            // watch our node
		epoch, round int
		name         string
	}
	unguard struct{}                   // end guard
	await   struct{ epoch, round int } // watch the directory of a round, until it is removed
	unawait struct{}                   // end await
	wait    struct {                   // set the timer; replaces an earlier one
		n    int
		long time.Duration
	}
	request struct {
		turn
		step
		round   int    // the round whose nodes are meant
		name    string // our node
		version int32  // the version at which the record is checked or written
		book    book   // the record to be written, by opening and starting
		again   bool   // opening, shutting: half of the nodes are gone; starting: the next directory stands
	}
	abandon struct { // remove our node in the background, until that is confirmed or the session has ended
		epoch, round int
		name         string
	}
	answer struct {
		reply actors.Reply[error]
		err   error
	}
	confirm struct{ reply actors.Reply[struct{}] }
)

func (follow) effect()   {}
func (unfollow) effect() {}
func (guard) effect()    {}
func (unguard) effect()  {}
func (await) effect()    {}
func (unawait) effect()  {}
func (wait) effect()     {}
func (request) effect()  {}
func (abandon) effect()  {}
func (answer) effect()   {}
func (confirm) effect()  {}

// effects accumulates what one step asks for.
type effects = actors.Effects[effect, DoubleEvent]

// A sight is a reading of the record. The fields are those of saw.
type sight struct {
	n       int // counts the readings since follow; 0 before the first
	zxid    int64
	czxid   int64
	version int32
	fresh   bool
	book    book
	bad     error
	nodes   int
}

// crowded reports whether the path has more children than two rounds: then nodes of
// another recipe may be among them.
func (s sight) crowded() bool { return s.nodes > 2 || s.fresh && s.nodes > 0 }

// unfit returns why the record is not for so many parties; nil if it is, or if there is none.
func (s sight) unfit(parties int) error {
	if s.bad == nil && s.czxid != 0 && !s.fresh && s.book.Parties != parties {
		return fmt.Errorf("%w: it is for %d, not %d", ErrParties, s.book.Parties, parties)
	}
	return s.bad
}

// A machine is one handle. After every step:
//
//   - In the stage inside, our node is in the directory of round, as far as is known.
//   - entrant is answered once the stage is not gathering. leavers are answered once it is
//     not leaving.
//   - Without a session no request is under way, and no node of ours is assumed to stand.
type machine struct {
	// Constant.
	parties int    // how many make a round
	id      string // part of the names of our nodes
	label   string // the end of the names, for people: a hyphen and the name of the handle, or ""

	stage stage
	err   error // set when closing begins; nil if a caller asked

	// The session, and the request under way.
	epoch   int           // set by a session, 0 after its end
	timeout time.Duration // set with epoch
	halted  bool          // set when an answer says that the session is over; cleared when its end is heard. While set, nothing is requested
	step    step          // set by ask; idle again with the answer, and with the end of the session
	asked   request       // set by ask: the newest request. Its number never goes back
	based   int           // the number of the sight on which it is based

	// The record. A sight is never based on an older session.
	following bool  // set by Enter; cleared when that is withdrawn, by a round of others, and with the epoch
	synced    bool  // set by a sync; cleared by Enter and with the epoch. While set, the record may be refused
	sight     sight // the newest reading; zero after follow, before the first
	stale     int   // the number of the sight that an answer has shown to be old: nothing is based on it; 0 if none is
	newest    int   // the newest round that was read of; never falls
	inspected int   // the number of the sight at which all children of the path were rounds; 0 if none is

	// Our node. All but entries and since are cleared by rename, when the node is gone or given up.
	entries int    // counts the names, so that none is used twice
	name    string // set when it is created first; "" before that
	since   int    // set with the first name of an Enter, and kept by the next: the round for which the party came
	node    int    // set with the request that creates it: the round in whose directory it may stand; 0 while it cannot. In leaving, its deletion was confirmed then
	root    int64  // the Czxid of the record then: in another record it means nothing
	sure    bool   // set when it is known to stand; cleared when it is known to be gone
	doubted bool   // set when it may stand, or be listed, and that is not known; excludes sure
	again   bool   // set when the server has removed some nodes of a round: the request is repeated for the rest

	// Enter.
	aside   bool  // set when nodes of another recipe were found, cleared by Enter; while set, no round is entered
	duty    bool  // set when enough nodes were counted, cleared by a list that is too short; while set, we begin the round
	retire  bool  // set when Enter is to end without a round; cleared with its answer
	failure error // set with retire, unless the caller cancelled; nil again by Enter

	// The round.
	round   int   // set when the record lists us, 0 when the round is left or lost
	awaited int   // the round whose end is awaited; 0 if none is
	known   int64 // a zxid at which the directory of round, or awaited, stood: a younger one is of another record
	look    bool  // set when the directory of awaited is to be listed; cleared by that request
	ticks   int   // numbers the timers

	// The commands. Each reply is given once.
	why     error                    // why the last round was lost; nil after Enter, and after a round was left
	entrant actors.Reply[error]      // of Enter; set in gathering only
	acks    []actors.Reply[struct{}] // of those that cancelled it; given with its answer
	queued  []actors.Reply[error]    // of an Enter that waits until the round is left; at most one
	leavers []actors.Reply[error]    // of each Leave; set in leaving only
}

// A turning is a machine during a step, with the accumulator of its effects.
type turning struct {
	machine
	out *effects
}

// newMachine returns the machine of a handle that has not heard of a session.
func newMachine(id, name string, parties int) machine {
	m := machine{id: id, parties: parties}
	if name != "" {
		m.label = "-" + name
	}
	return m
}

// Ended implements [actors.Machine]. A machine that has ended has answered all commands
// so far.
func (m machine) Ended() bool { return m.stage == ended }

// relies reports whether other parties rely on the end of the session: our node may
// stand.
func (m machine) relies() bool { return m.stage != resting && m.stage != ended }

func (m machine) String() string {
	s := fmt.Sprintf("%v(epoch=%d record=%d@%d", m.stage, m.epoch, m.sight.book.Round, m.sight.version)
	if m.node != 0 {
		s += fmt.Sprintf(" node=%d/%s sure=%v duty=%v", m.node, m.name, m.sure, m.duty)
	}
	if m.round != 0 {
		s += fmt.Sprintf(" round=%d", m.round)
	}
	if m.awaited != 0 {
		s += fmt.Sprintf(" awaits=%d", m.awaited)
	}
	if m.stale != 0 && m.stale == m.sight.n {
		s += " stale"
	}
	if m.retire {
		s += " retire"
	}
	return s + fmt.Sprintf(" %v)", m.step)
}

// Step implements [actors.Machine]. take enters the input into the state; advance then
// makes the request that follows from the state.
func (m machine) Step(in input, out *effects) machine {
	if m.Ended() {
		return m
	}
	t := turning{machine: m, out: out}
	t.take(in)
	t.advance()
	return t.machine
}

func (m *turning) do(e effect)         { m.out.Do = append(m.out.Do, e) }
func (m *turning) emit(ev DoubleEvent) { m.out.Emit = append(m.out.Emit, ev) }

// take enters an input. Inputs of another epoch, or for another node or request, are
// ignored.
func (m *turning) take(in input) {
	switch in := in.(type) {
	case closeHandle:
		m.close(nil)
	case heard:
		m.heard(in.Event)
	case enter:
		m.enter(in.reply)
	case cancel:
		m.cancel(in)
	case leave:
		m.leave(in.reply)
	case saw:
		m.saw(in)
	case blind:
		m.blind(in)
	case lost:
		m.lost(in)
	case over:
		m.over(in)
	case tick:
		m.look = m.look || in.n == m.ticks && m.awaited != 0
	case answered:
		if in.turn == m.asked.turn && m.step != idle {
			m.answered(in)
		}
	}
}

// --- commands

// enter begins to gather, or waits until the round is left. One Enter at a time is
// accepted.
func (m *turning) enter(reply actors.Reply[error]) {
	switch m.stage {
	case resting:
		m.gather(reply)
	case leaving:
		if len(m.queued) == 0 {
			m.queued = []actors.Reply[error]{reply}
			return
		}
		fallthrough
	case gathering, inside, closing, ended:
		m.do(answer{reply, m.refusal(ErrEntered)})
	}
}

// refusal returns why a command is refused: because the handle is closed, or for the
// reason.
func (m *turning) refusal(why error) error {
	if m.stage == closing {
		return ErrClosed
	}
	return why
}

// gather begins an Enter, with a new node.
func (m *turning) gather(reply actors.Reply[error]) {
	m.stage, m.entrant, m.failure, m.retire, m.aside, m.since, m.why = gathering, reply, nil, false, false, 0, nil
	m.synced, m.inspected = false, 0
	m.rename()
	m.watch()
}

// rename gives up our node, which is gone or may be: the next has another name.
func (m *turning) rename() {
	m.entries++
	m.name, m.node, m.sure, m.doubted, m.duty, m.again = "", 0, false, false, false, false
}

// watch follows the record, if there is a session. What was read before counts no more.
func (m *turning) watch() {
	if m.epoch != 0 && !m.following {
		m.following = true
		m.sight, m.stale, m.inspected = sight{}, 0, 0
		m.do(follow{m.epoch})
	}
}

// unwatch ends what watch has begun.
func (m *turning) unwatch() {
	if m.following {
		m.following = false
		m.do(unfollow{})
	}
}

// cancel ends an Enter that waits, or has it retire: whether the record lists us decides.
func (m *turning) cancel(in cancel) {
	switch {
	case len(m.queued) > 0 && m.queued[0] == in.what:
		m.queued = nil
		m.do(answer{in.what, errWithdrawn})
	case m.stage == gathering && m.entrant == in.what:
		m.retire = true // the answer is given with that to Enter
		m.acks = append(slices.Clip(m.acks), in.reply)
		return
	}
	m.do(confirm{in.reply})
}

// leave begins to leave. Every Leave is answered when the round is over.
func (m *turning) leave(reply actors.Reply[error]) {
	switch m.stage {
	case inside:
		// Our node goes by our own request from now on.
		m.stage = leaving
		m.do(unguard{})
		fallthrough
	case leaving:
		m.leavers = append(slices.Clip(m.leavers), reply)
	case resting, gathering, closing, ended:
		m.do(answer{reply, client.Because(m.refusal(ErrNotEntered), m.why)})
	}
}

// --- the session

// heard follows an event of the session.
func (m *turning) heard(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		m.epoch, m.timeout = ev.Epoch, ev.Timeout
		switch m.stage {
		case gathering:
			m.watch()
		case leaving:
			m.awaitEnd(m.round, true)
		case resting, inside, closing, ended:
		}
	case session.Expired:
		if ev.Epoch == m.epoch {
			m.expired(session.ErrExpired)
		}
	case session.Closed:
		m.expired(session.ErrClosed)
		m.close(session.ErrClosed)
	case session.Suspended, session.Resumed:
	}
}

// expired forgets the session: our node goes with it. A member is lost; a party that
// gathers or leaves goes on in the next session.
func (m *turning) expired(why error) {
	m.epoch, m.step, m.halted, m.following, m.awaited = 0, idle, false, false, 0
	m.sight, m.stale, m.inspected, m.look, m.synced = sight{}, 0, 0, false, false
	m.rename()
	switch m.stage {
	case inside:
		m.drop(why)
	case resting, gathering, leaving, closing, ended:
	}
}

// drop ends a membership without a Leave.
func (m *turning) drop(why error) {
	m.stage, m.why, m.round = resting, why, 0
	m.rename()
	m.do(unguard{})
	m.emit(Lost{why})
}

// lost follows the end of our node. A member is in no longer. An entrant looks whether
// the record lists it, and creates another.
func (m *turning) lost(in lost) {
	if in.epoch != m.epoch || in.name != m.name || client.Over(in.err) {
		return
	}
	gone := errors.Is(in.err, session.ErrNoNode)
	switch {
	case m.stage == inside && gone:
		m.drop(fmt.Errorf("%w: %w", ErrNodeGone, in.err))
	case m.stage == inside:
		m.do(abandon{m.epoch, m.node, m.name})
		m.drop(in.err)
	case m.stage == gathering && m.sure:
		m.sure, m.doubted, m.duty = false, true, false // the record may list it all the same
		if !gone {
			m.fail(in.err)
		}
	}
}

// --- the record

// saw enters a reading of the record, unless an older one follows a newer. A handle that
// rests needs no record: it follows no more when a round of others begins.
func (m *turning) saw(in saw) {
	if in.epoch != m.epoch || !m.following || in.zxid != 0 && in.zxid < m.sight.zxid {
		return
	}
	changed := in.czxid != m.sight.czxid || in.version != m.sight.version
	m.sight = sight{m.sight.n + 1, max(in.zxid, m.sight.zxid), in.czxid, in.version, in.fresh, in.book, in.bad, in.nodes}
	m.newest = max(m.newest, in.book.Round)
	if changed && m.stage != gathering { // a round of others
		m.unwatch()
	}
}

// blind follows the end of the watch on the record.
func (m *turning) blind(in blind) {
	if in.epoch != m.epoch || !m.following || client.Over(in.err) {
		return
	}
	m.following = false
	switch {
	case m.stage != gathering:
	case session.Passing(in.err):
		m.watch()
	default:
		m.fail(in.err)
	}
}

// fail has Enter end with an error, once our node is gone. The first error counts.
func (m *turning) fail(err error) {
	if m.stage == gathering && !m.retire {
		m.retire, m.failure = true, err
	}
}

// --- requests

// ask makes a request, which is the one under way.
func (m *turning) ask(s step, round int) { m.write(s, round, book{}) }

// write is ask for a request that writes the record.
func (m *turning) write(s step, round int, b book) {
	m.step, m.based = s, m.sight.n
	m.asked = request{turn: turn{m.epoch, m.asked.n + 1}, step: s, round: round, name: m.name, version: m.sight.version, book: b, again: m.again}
	m.do(m.asked)
}

// outdated waits for a newer sight than that on which the request was based: the server
// has shown that it is old.
func (m *turning) outdated() { m.stale = m.based }

// advance makes the next request, if none is under way and the session allows one.
func (m *turning) advance() {
	if m.step != idle || m.halted || m.stage == ended {
		return
	}
	// With no node that may stand, nothing is left to do.
	if m.stage == closing && m.node == 0 {
		m.finish()
		return
	}
	if m.epoch == 0 {
		if m.stage == gathering && m.retire {
			m.withdraw()
		}
		return
	}
	switch m.stage {
	case gathering:
		m.advanceGathering()
	case leaving:
		m.advanceLeaving()
	case closing:
		m.ask(exiting, m.node)
	case resting, inside, ended:
	}
}

// advanceGathering makes the next request of an Enter. The order of its cases is the
// protocol: nothing is done on an old sight, and a party that is listed is in, even if it
// was to retire.
func (m *turning) advanceGathering() {
	r := m.sight
	next := r.book.Round + 1
	unfit := r.unfit(m.parties)
	switch {
	case m.retire && m.node == 0:
		m.withdraw()
	case m.retire && !m.following: // the record cannot be read
		m.ask(exiting, m.node)
	case r.n == 0 || m.stale == r.n: // a sight will come
	case r.crowded() && m.inspected != r.n && !m.aside:
		m.ask(inspecting, 0)
	case m.node != 0 && m.aside:
		m.ask(exiting, m.node)
	case m.node != 0 && r.book.Round == m.node && slices.Contains(r.book.Members, m.name):
		m.in()
	case m.node != 0 && r.book.Round >= m.node: // a round has begun without us
		m.ask(exiting, m.node)
	case m.node != 0 && (m.retire || r.czxid != m.root): // the record is another
		m.ask(retiring, m.node)
	case r.czxid == 0:
		m.ask(ensuring, 0)
	case unfit != nil && !m.synced:
		m.ask(syncing, 0) // the server may lag behind
	case unfit != nil:
		m.fail(unfit)
		m.advanceGathering()
	case r.fresh:
		m.open()
	case !m.sure:
		if m.since == 0 {
			m.since = next
		}
		if m.name == "" {
			m.name = fmt.Sprintf("%010d-%s-%d%s", m.since, m.id, m.entries, m.label)
		}
		// From the request on the node may stand.
		m.node, m.root = next, r.czxid
		m.ask(entering, next)
	case m.awaited != 0 && m.look:
		m.look = false
		m.ask(looking, m.awaited)
	case m.duty && m.awaited == 0:
		m.ask(listing, next)
	}
}

// open makes the directory for the next round, and writes the first record. The server may
// have removed the record between two rounds. A party that knows of earlier rounds goes on
// with their numbers.
func (m *turning) open() {
	last := m.sight.book
	if m.sight.fresh {
		last.Round = m.newest
	}
	last.Parties = m.parties
	m.write(opening, last.Round+1, last)
}

// advanceLeaving makes the next request of a Leave: delete our node, and then look at
// times.
func (m *turning) advanceLeaving() {
	switch {
	case m.node != 0:
		m.ask(exiting, m.round)
	case m.look:
		m.look = false
		m.ask(looking, m.awaited)
	}
}

// answered goes on with the answer to the request. A handle that closes cares only
// whether its node stands.
func (m *turning) answered(in answered) {
	was := m.step
	m.step = idle
	if client.Over(in.err) {
		m.halted = true
		return
	}
	if m.stage == closing && was != exiting {
		if was == entering && in.err != nil && !session.InDoubt(in.err) && !errors.Is(in.err, session.ErrNodeExists) && !m.doubted {
			m.node = 0
		}
		return
	}
	switch was {
	case ensuring:
		if in.err == nil {
			m.outdated()
		} else if !session.Passing(in.err) {
			m.fail(in.err)
		}
	case inspecting:
		m.inspect(in)
	case syncing:
		switch {
		case in.err == nil:
			m.synced, m.following = true, false
			m.watch() // reads the record anew
		case !session.Passing(in.err):
			m.fail(in.err)
		}
	case opening:
		m.opened(in)
	case entering:
		m.entered(in)
	case listing:
		m.listed(in)
	case starting:
		m.started(in)
	case retiring:
		m.retired(in)
	case exiting:
		m.exitedWith(in)
	case looking:
		m.looked(in)
	case shutting:
		m.shut(in)
	case idle:
	}
}

// moved reports whether the record is another, or has another version, than the sight
// showed.
func moved(in answered) bool {
	return in.at == record && client.IsAny(in.err, session.ErrBadVersion, session.ErrNoNode)
}

// inspect follows the list of the children of the path. A child that is not a round is of
// another recipe: the party goes aside.
func (m *turning) inspect(in answered) {
	switch i := slices.IndexFunc(in.names, func(name string) bool { return !isRound(name) }); {
	case in.err == nil && i < 0:
		m.inspected = m.based
	case in.err == nil:
		m.aside, m.retire, m.failure = true, true, fmt.Errorf("%w: there is %s", ErrLayout, in.names[i])
	case errors.Is(in.err, session.ErrNoNode):
		m.outdated()
	case !session.Passing(in.err):
		m.fail(in.err)
	}
}

// isRound reports whether the directory of a round has the name.
func isRound(name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil
}

// opened follows the making of the directory. If some of its nodes stand, or are gone, it
// is tried once more for the rest.
func (m *turning) opened(in answered) {
	again := m.again
	m.again = false
	switch {
	case in.err == nil, moved(in): // by us, or by another party
		m.outdated()
	case session.Passing(in.err):
	case errors.Is(in.err, session.ErrNotEmpty), errors.Is(in.err, session.ErrNodeExists) && (m.sight.fresh || in.at == other):
		if !m.synced {
			m.ask(syncing, 0) // it may be another record
			return
		}
		m.fail(fmt.Errorf("%w: there is a node %d, or a node in it", ErrLayout, m.asked.round))
	case in.at == directory && errors.Is(in.err, session.ErrNodeExists) && !again, in.at == directory && errors.Is(in.err, session.ErrNoNode) && again:
		m.again = !again // the server has removed the directory only, or removed the rest since
		m.open()
	default:
		m.fail(in.err)
	}
}

// entered follows the creation of our node. The count in the reply says whether there are
// enough.
func (m *turning) entered(in answered) {
	if !m.doubted && in.err != nil && !session.InDoubt(in.err) {
		m.node = 0
	}
	switch {
	case in.err == nil:
		m.stand(in.count >= m.parties)
		m.emit(Waiting{min(in.count, m.parties)})
	case in.at == party && errors.Is(in.err, session.ErrNodeExists):
		m.node = m.asked.round
		m.stand(true)
	case session.InDoubt(in.err):
		m.doubted = true
	case moved(in):
		m.outdated()
	case session.Passing(in.err):
	case errors.Is(in.err, session.ErrNoNode): // the server has removed the empty directory
		m.node, m.doubted = 0, false
		m.open()
	default:
		m.fail(in.err)
	}
}

// stand watches our node, which is known to stand.
func (m *turning) stand(duty bool) {
	m.sure, m.doubted, m.duty = true, false, duty
	m.do(guard{m.epoch, m.node, m.name})
}

// listed follows the list of the entrants. With enough of them the round is begun, if the
// record is still as it was.
func (m *turning) listed(in answered) {
	switch {
	case session.Passing(in.err):
		return
	case errors.Is(in.err, session.ErrNoNode): // the directory is gone, and our node with it
		m.sure, m.doubted, m.duty = false, true, false
		return
	case in.err != nil:
		m.fail(in.err)
		return
	case in.czxid > m.sight.zxid: // the directory is of another record
		m.ask(syncing, 0)
		return
	}
	names := present(in.names)
	m.emit(Waiting{min(len(names), m.parties)})
	if len(names) < m.parties {
		m.duty = false // the entrant that completes the number has it
		return
	}
	if m.retire || m.stale == m.sight.n || m.sight.book.Round+1 != m.node {
		return
	}
	m.write(starting, m.node, book{m.node, m.parties, names[:m.parties]}) // with the oldest
}

// present returns the newest name of each handle. An older one is of a session that the handle has lost.
func present(names []string) []string {
	newest := make(map[string]int, len(names))
	for _, name := range names {
		id, entry := nodes.PartyEntry(name)
		newest[id] = max(newest[id], entry)
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		id, entry := nodes.PartyEntry(name)
		return entry < newest[id]
	})
}

// started follows the beginning of a round, by us or by another party. Only a sight of
// the record says which parties are in.
func (m *turning) started(in answered) {
	again := m.again
	m.again = false
	switch {
	case in.err == nil, moved(in):
		m.outdated()
	case session.Passing(in.err):
	case in.at == party && errors.Is(in.err, session.ErrNoNode): // an entrant is gone: list again
	// The last round is not over.
	case in.at == earlier && errors.Is(in.err, session.ErrNodeExists):
		m.known = m.sight.zxid
		m.awaitEnd(m.node-1, true)
	case in.at == other && errors.Is(in.err, session.ErrNodeExists) && !again:
		m.again = true
	default:
		m.fail(in.err)
	}
}

// retired follows the deletion of our node in a round that has not begun. If the record
// has moved, it may list us.
func (m *turning) retired(in answered) {
	switch {
	case in.err == nil, client.IsAny(in.err, session.ErrNoNode): // without the record there is no node below it
		m.rename()
	case moved(in):
		m.outdated()
	case session.Passing(in.err):
	default:
		m.do(abandon{m.epoch, m.node, m.name})
		m.rename()
	}
}

// exitedWith follows the deletion of our node. The count in the reply says whether we
// were the last.
func (m *turning) exitedWith(in answered) {
	round := m.asked.round
	gone := errors.Is(in.err, session.ErrNoNode)
	switch {
	case session.Passing(in.err):
		return
	// The server refuses the deletion: the party is still in.
	case in.err != nil && !gone && m.stage == leaving:
		m.stage = inside
		m.release(in.err)
		m.do(guard{m.epoch, m.node, m.name})
		return
	case in.err != nil && !gone:
		m.fail(in.err)
		m.do(abandon{m.epoch, m.node, m.name})
	}
	m.rename()
	last := in.err == nil && in.count == 0
	if m.stage == leaving {
		if !last {
			if !gone {
				m.emit(Leaving{in.count})
			}
			m.awaitEnd(round, gone)
			return
		}
	}
	if last {
		m.ask(shutting, round)
	}
}

// --- the end of a round

// awaitEnd waits until a round is removed. It looks at once if a party may have crashed
// meanwhile, else after a timeout.
func (m *turning) awaitEnd(round int, look bool) {
	m.awaited, m.look = round, look
	m.do(await{m.epoch, round})
	if !look {
		m.rest()
	}
}

// rest sets the timer for the next look.
func (m *turning) rest() {
	m.ticks++
	m.do(wait{m.ticks, m.timeout})
}

// over follows the watch on the directory of the awaited round.
func (m *turning) over(in over) {
	switch {
	case in.epoch != m.epoch || in.round != m.awaited || client.Over(in.err): // of another round, or the session's end follows
	case in.err == nil && in.czxid > m.known, errors.Is(in.err, session.ErrNoNode): // a directory that was made later belongs to another record
		m.removed()
	case in.err == nil:
	case session.Passing(in.err):
		m.do(await{m.epoch, in.round})
	default:
		m.unwatched(in.err)
	}
}

// unwatched gives up a round whose end cannot be observed.
func (m *turning) unwatched(err error) {
	m.awaited, m.look = 0, false
	m.do(unawait{})
	if m.stage == leaving {
		m.stage, m.why, m.round = resting, err, 0
		m.emit(Lost{err})
		m.release(err)
		m.resume()
		return
	}
	m.fail(err)
}

// removed goes on when the awaited round is over: a member has left, and an entrant may
// begin the next.
func (m *turning) removed() {
	m.awaited, m.look = 0, false
	m.do(unawait{})
	if m.stage == leaving {
		m.left()
	}
}

// looked follows a list of the awaited round. The party that finds it empty removes it.
func (m *turning) looked(in answered) {
	switch {
	case m.asked.round != m.awaited: // it is over already
	case session.Passing(in.err):
		m.look = true
	case in.err != nil:
		m.unwatched(in.err)
	case in.count == 0 && in.foreign != "":
		m.blocked(in.foreign)
	case in.count == 0:
		m.ask(shutting, m.awaited)
	default:
		if m.stage == leaving {
			m.emit(Leaving{in.count})
		}
		m.rest()
	}
}

// blocked goes on when no party is in the round any more, and a foreign node keeps it
// from being removed. For members it is over. The next one cannot begin.
func (m *turning) blocked(by string) {
	if m.stage != leaving {
		m.fail(fmt.Errorf("%w: %s keeps the round from being removed", ErrLayout, by))
	}
	m.removed()
}

// shut follows the removal of a round. Without success, a party that awaits its end goes
// on to wait.
func (m *turning) shut(in answered) {
	again, round := m.again, m.asked.round
	m.again = false
	mine := m.stage == leaving || m.awaited == round
	switch {
	case session.Passing(in.err) && mine:
		m.ask(shutting, round)
	case in.at == directory && errors.Is(in.err, session.ErrNoNode) && !again:
		m.again = true // the server has removed the directory, and perhaps the node above it
		m.ask(shutting, round)
	case !mine:
	case in.err == nil, errors.Is(in.err, session.ErrNoNode):
		m.removed()
	case in.at == above && errors.Is(in.err, session.ErrNotEmpty):
		m.blocked(in.foreign)
	case m.awaited == 0:
		m.awaitEnd(round, false)
	default:
		m.rest()
	}
}

// --- results

// in begins a membership: the record lists us. The reading proves that our node stood
// when the round began.
func (m *turning) in() {
	m.stage, m.round, m.known = inside, m.node, m.sight.zxid
	if !m.sure {
		m.stand(false)
	}
	members := make([]string, len(m.sight.book.Members))
	for i, name := range m.sight.book.Members {
		members[i] = nodes.PartyName(name)
	}
	m.emit(Entered{m.round, members})
	m.settle(nil)
}

// withdraw ends an Enter without a round. Our node is gone.
func (m *turning) withdraw() {
	m.stage = resting
	err := m.failure
	if err == nil {
		err = errWithdrawn
	}
	m.emit(Withdrawn{m.failure})
	m.do(unguard{})
	m.unwatch()
	m.settle(err)
}

// settle answers Enter, and each cancel.
func (m *turning) settle(err error) {
	if m.awaited != 0 {
		m.awaited, m.look = 0, false
		m.do(unawait{})
	}
	m.retire, m.duty = false, false
	m.do(answer{m.entrant, err})
	for _, ack := range m.acks {
		m.do(confirm{ack})
	}
	m.entrant, m.acks = actors.Reply[error]{}, nil
}

// left ends a membership: every party has left the round.
func (m *turning) left() {
	m.emit(Left{m.round})
	m.stage, m.round, m.why = resting, 0, nil
	m.release(nil)
	m.resume()
}

// release answers every Leave.
func (m *turning) release(err error) {
	for _, reply := range m.leavers {
		m.do(answer{reply, err})
	}
	m.leavers = nil
}

// resume begins the Enter that has waited for the end of the round.
func (m *turning) resume() {
	if len(m.queued) > 0 {
		reply := m.queued[0]
		m.queued = nil
		m.gather(reply)
	}
}

// close begins to end: all commands are answered at once, and our node is deleted. At the
// end of the sessions it is gone.
func (m *turning) close(err error) {
	if m.stage == closing {
		if err != nil {
			m.node = 0
		}
		return
	}
	m.err = err
	refused := client.Because(ErrClosed, err)
	if m.stage == gathering {
		m.settle(refused)
	}
	m.release(refused)
	for _, reply := range m.queued {
		m.do(answer{reply, refused})
	}
	if m.awaited != 0 {
		m.do(unawait{})
	}
	m.do(unguard{})
	m.queued, m.awaited, m.look = nil, 0, false
	m.stage = closing
}

// finish emits the last event.
func (m *turning) finish() {
	m.stage = ended
	m.emit(Closed{m.err})
}
