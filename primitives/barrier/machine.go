package barrier

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// This file is the protocol of the double barrier, as a pure function. The performer of its effects
// is in double.go.
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
// In each stage at most one request is under way, the step. advance chooses it when the last one is
// answered:
//
//	gathering   no record, or none for our round    ensuring, opening
//	            nodes of other recipes, perhaps     inspecting
//	            a record of other parties           syncing ► rereading, and then Withdrawn
//	            the server has another record       rereading, if no reading of that is under way
//	            our node does not stand             entering
//	            we have the duty                    listing ► starting
//	            a round has begun without us        exiting, and then entering
//	            cancelled, or failed                retiring or exiting
//	leaving     our node stands                     exiting ► shutting, if we are the last
//	            time has passed                     checking ► looking ► shutting, if none is left
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
// transaction that checks the version of the record. So no node appears in the directory of a round
// that has begun. The same transaction writes to the directory, and its reply has the number of
// nodes there. The entrant that completes the number, and the next one, have the duty: they list
// the directory once, and begin the round. Entrants before these two send no further request. An
// entrant behind these two takes the duty when a session timeout has passed without a round. A
// handle whose session has expired may enter again before the server has deleted its old node. Of
// several nodes of one handle only the newest counts, so no round lists a handle twice.
//
// Beginning a round is one transaction. It writes the record on the condition that the version is
// unchanged, so a round begins once. It checks the node of every member, so all members are
// present. It creates and deletes the node of round N, which fails while that node stands, so
// rounds do not overlap. It creates the directory for round N+2.
//
// The server may delete the record between two rounds, while a request is under way that checks its
// version. Another party may then create a new record, which may have the same version. So an
// entrant begins no round whose directory is younger than its sight of the record. It first reads
// the record again, because the directory may also be younger for another reason: an operator may
// have deleted and created it. If the record was replaced, an entrant deletes its node only on the
// condition that no round has begun in the new record. It opens no round if the directory of the
// round after it stands. A record that says what it is to say stays as it is when the directory of
// the next round is made: the request may be so late that the record is another with rounds of its
// own, whose members it would put out. A directory that is made beside these is empty, and goes.
//
// Every gathering party watches the record. An entrant is in when the record lists its name.
// Nothing else brings it in. An entrant that is not listed deletes its node, and gathers for the
// next round. Its new name keeps the number of the round for which it came first. A round takes the
// oldest names first.
//
// A member leaves in a transaction that deletes its node and writes to the directory. The reply has
// the number of members that are left. At zero the member deletes the directory of the round, which
// the server refuses if a node stands there. The others wait until that directory is deleted. A
// member that crashes receives no reply, and deletes no directory. So a party that waits for the
// end of a round lists the directory once per session timeout. A member reads the record before it
// lists. If the record does not list the member any more, the member has left: servers with older
// data may have another round of the same number. No party deletes a foreign node in the directory.
// A foreign node that is left alone there ends the wait of members, and is an error for entrants.
//
// # Nodes of no session
//
// A copied tree has persistent nodes with the names of parties. No session deletes them, so they
// are no parties. A name does not show that. So before an entrant begins a round, it reads the
// nodes of the handles that it has not met. It has met the members of its own rounds, whose nodes
// were read before, and those whose nodes it has read itself: parties that go on together read no
// node. A party that waits for the end of a round reads the nodes that are left, up to the first
// that a session owns. If there is none, the round is over, and the nodes are deleted with its
// directory.
//
// # Why no party is stuck
//
// Suppose that enough nodes stand and the round does not begin. The newest entrant that completed
// the number counted enough nodes, and so did every later entrant. The first two of these entrants
// have the duty, and the others take it after a session timeout. If all of them have crashed, there
// are too few nodes again. A duty ends only when the directory's list, read after the entrant's own
// node was created, is too short. While the last round goes on, a duty that was taken after a
// timeout is put off: its entrant lists the last round's directory once, and deletes it if all
// members have crashed.
//
// # Why no party is alone
//
// A member is in after the record has listed it. The record lists one node for each party, and all
// of these nodes stood at that moment. The record is not written again before the round's directory
// is deleted. The directory stands as long as the node of any member.
//
// # Other layouts
//
// The double barriers of Curator and kazoo count every child of the path, so they go wrong on a
// path with our nodes. While the record says N, the path has two children at most: the directories
// of rounds N and N+1. If a gathering party's sight counts more children, the party lists them. If
// one of them is not the directory of a round, the party does not go in, even if the record lists
// it. It deletes its node, and Enter ends with [ErrLayout].
//
// # Requests
//
// A round of n parties that know the record takes n transactions to enter, n watches of the own
// node, n reads of the record, n transactions to leave, and n-1 watches of the round. One list, one
// beginning and one removal make 5n+2 requests. The first round takes n more, to read the record,
// and each of the two with the duty reads the nodes of the others.
// Each party wakes up twice.
//
// A party follows the record from Enter on, also inside and at rest. So its watch and its newest
// reading serve the next Enter. When other parties begin a round while this one is not gathering,
// it reads the record once more, and stops following it.
//
// A request that is refused because the record has another version leads to no further request: the
// watch reads the record anyway. But servers that have come back with older data may know the
// session, and send no event for a record that is older. So a party reads the record itself if the
// watch had nothing to deliver when the request was refused. In Enter it also does so after each
// reconnect, unless the watch delivers a reading first. Parties that reconnect together read one
// after the other, within a third of the timeout. A reading is newer than another if it was read
// later, whatever its version.

// A stage is the progress of the handle: it says which commands and which requests are
// possible.
type stage int

const (
	resting   stage = iota // not in a round, and no Enter is to be answered
	gathering              // Enter awaits its answer: our node stands, or will be created
	inside                 // the record lists us, and our node stands, as far as is known
	leaving                // Leave awaits its answer: our node is deleted, then the end of the round is awaited
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
	inspecting             // list the children of the path, to find nodes of other recipes
	opening                // make the directory for entrants, and write the first record
	entering               // create our node
	listing                // list the entrants
	starting               // begin the round
	retiring               // delete our node, unless the round has begun
	exiting                // delete our node
	checking               // read whether the record still lists us, before looking
	looking                // list the parties that are left in the awaited round
	syncing                // bring the server up to date, before an unfit record is refused
	rereading              // read the record, because the watch delivers nothing
	shutting               // remove a round that is over
)

func (s step) String() string {
	return [...]string{"idle", "ensuring", "inspecting", "opening", "entering", "listing", "starting", "retiring", "exiting", "checking", "looking", "syncing", "rereading", "shutting"}[s]
}

// A requestID identifies a request. An answer counts only if it has the id of the newest.
type requestID struct{ epoch, n int }

// A culprit is the node that made the server refuse a transaction.
type culprit int

const (
	other     culprit = iota // none of the following
	record                   // the node at the path
	earlier                  // the node of the newest round that has begun
	directory                // the upper or the lower node of the request's round
	above                    // the upper node of the request's round, which shutting removes
	party                    // the node of a party in the request's round
)

// A book is the content of the record.
type book struct {
	Round, Parties int      // the newest round that has begun, and its size
	Members        []string // the names of the nodes that it lists
}

// An input is an event that the machine reacts to.
//
//sumtype:decl
type input interface{ input() }

type (
	closeHandle struct{}                // commanded, or the actor was stopped
	heard       struct{ session.Event } // an event of the session
	enter       struct {                // commanded; reply receives one answer
		reply actors.Reply[error]
	}
	cancel struct { // commanded: the caller of Enter gives up
		what  actors.Reply[error]    // identifies that Enter
		reply actors.Reply[struct{}] // given after Enter has its answer
	}
	leave struct { // commanded; reply receives one answer
		reply actors.Reply[error]
	}
	saw struct { // answers follow, any number of times
		epoch int
		sight // without n
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
	over struct { // answers await: the czxid of the directory that stands, or an error; ErrNoNode if it is gone
		epoch, round int
		czxid        int64
		err          error
	}
	tick     struct{ n int }            // answers wait
	due      struct{ epoch, sight int } // answers readLater
	answered struct {                   // answers a request
		requestID
		err     error
		settled bool     // when the answer came, the watch on the record had delivered all that the session knew
		read    sight    // after rereading: the record, without n
		at      culprit  // the node that made the server refuse it
		count   int      // of the nodes in the directory; after looking, of the parties in it
		czxid   int64    // after listing: of the directory
		bad     error    // after checking: why the data is not a record; nil if it is
		names   []string // of parties; after inspecting, of the children of the path; after checking, of the members
		met     []string // after listing: the IDs of the handles whose nodes were read, and have a session
		foreign string   // after looking and shutting: a node in the round that is not a party

		ownerless []string // after looking: the names of parties whose nodes no session owns, which are not among names
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
func (due) input()         {}
func (answered) input()    {}

// An effect asks the performer for one thing. Comments at the inputs name the effects that they
// answer.
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
	readLater struct { // set another timer: read the record then, unless a newer sight comes before
		epoch, sight int
		after        time.Duration
	}
	request struct {
		requestID
		step
		round   int    // the round of the directory that the request uses
		name    string // our node
		version int32  // the version of the record that the request checks or replaces
		book    book   // opening, starting: the new record
		keeps   bool   // opening: the record stays as it is
		again   bool   // opening, shutting: only the upper node is left; starting: the next directory stands already

		parties   int      // listing: if there are fewer names, no node is read
		met       []string // listing: the IDs of handles whose nodes are not read; sorted
		ownerless []string // shutting: nodes to delete in the directory
	}
	abandon struct { // delete our node in the background, until that is confirmed or the session has ended
		epoch, round int
		name         string
	}
	answer struct {
		reply actors.Reply[error]
		err   error
	}
	confirm struct{ reply actors.Reply[struct{}] }
)

func (follow) effect()    {}
func (unfollow) effect()  {}
func (guard) effect()     {}
func (unguard) effect()   {}
func (await) effect()     {}
func (unawait) effect()   {}
func (wait) effect()      {}
func (readLater) effect() {}
func (request) effect()   {}
func (abandon) effect()   {}
func (answer) effect()    {}
func (confirm) effect()   {}

// effects accumulates the effects of one step.
type effects = actors.Effects[effect, DoubleEvent]

// A sight is a reading of the record.
type sight struct {
	n       int   // numbers the readings since follow; 0 before the first
	zxid    int64 // a lower bound of the zxid of the read; 0 if a watch reported the deletion
	czxid   int64 // of the record; 0 if it does not exist
	version int32
	fresh   bool // set if the record exists and has no data
	book    book
	bad     error // why the data is not a record; nil if it is
	nodes   int   // the number of children of the path
}

// crowded reports whether the path has more children than the directories of two rounds: then nodes
// of another recipe may be among them.
func (s sight) crowded() bool { return s.nodes > 2 || s.fresh && s.nodes > 0 }

// unfit returns an error if the record is not one, or is for another number of parties.
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
	parties int    // how many parties a round has
	id      string // part of the names of our nodes
	label   string // the end of the names, for readers: a hyphen and the name of the handle, or ""

	stage stage
	err   error // set when closing begins: the reason; nil after Close

	// The session, and the request under way.
	epoch   int           // set by a session, 0 after its end
	timeout time.Duration // set with epoch
	lapsed  bool          // set by Lapsed, cleared by a connection: a party that is closed waits for nothing
	halted  bool          // set when an answer says that the session is over, until its end: nothing is requested
	step    step          // set by ask; idle again with the answer, or with the end of the session
	asked   request       // set by ask: the newest request. Its number only grows
	based   int           // set with asked: the number of the sight on which the request is based

	// The record. A sight always belongs to the present session.
	following bool  // set by Enter; cleared by unwatch, by blind, and with epoch
	synced    bool  // set by a sync; cleared by Enter and with epoch. While set, an unfit record may be refused
	sight     sight // the newest reading; zero after follow, before the first
	stale     int   // set by outdated: the number of a sight that is old. No request is based on it; 0 if there is none
	untold    bool  // set when no reading would come by itself: we read the record. Cleared by that, and with sight
	younger   int64 // set by a list: the czxid of a directory that is younger than sight; cleared by the next sight
	newest    int   // the newest round in any reading; never falls
	inspected int   // the number of the sight at which all children of the path were rounds; 0 if there is none
	deserted  bool  // set with inspected: the path had no children

	// Our node. Its fields, except entries and since, are cleared by rename, when the node is gone
	// or given up.
	entries int    // counts our names, so that none is used twice
	name    string // set before the node is first created; "" before that
	since   int    // set with the first name of an Enter, kept for its next names: the round for which the party came
	node    int    // set with the request that creates the node: the round in whose directory it may stand; otherwise 0
	root    int64  // set with node: the czxid of the record. Under another record, node has no meaning
	sure    bool   // set when the node is known to stand; cleared when it may not stand any more
	doubted bool   // set when it is unknown whether the node stands, or is listed; excludes sure
	again   bool   // set when the server has removed a part of a round's nodes: the request is repeated for the rest
	filled  bool   // set when the next directory has children, so that it may have been made; cleared by our entry, by Enter and with epoch

	// Enter.
	aside   bool  // set when nodes of another recipe were found; cleared by Enter. While set, we enter no round
	duty    bool  // set when we count enough nodes, cleared when a list is too short. While set, we begin the round
	spare   bool  // set when others have the duty, cleared by rename. While set, we take the duty after each timeout
	retire  bool  // set when Enter will end without a round; cleared with its answer
	failure error // set with retire, unless the caller cancelled; cleared by Enter

	// The round.
	round   int    // set when the record lists us; 0 when the round is left or lost
	member  string // set with round, and kept: our name in the record. No other round has it
	awaited int    // the round whose end we await; 0 if there is none
	known   int64  // a zxid at which the directory of round, or of awaited, stood: a younger one is of another record
	look    bool   // set when the awaited round must be listed; cleared when that is requested
	ticks   int    // numbers the timers

	// met has the IDs of handles that are known to have a session, or to have had one; sorted. It
	// grows by our own rounds, and by what we read of entrants.
	met []string

	// ownerless is set by each look at the awaited round: the nodes that keep it from being removed
	// although no session owns them. Cleared when another round is awaited, or none.
	ownerless []string

	// The commands. Each reply is given once.
	why     error                    // why the last membership was lost; cleared by Enter, and when a round is left
	entrant actors.Reply[error]      // of Enter; set only in gathering
	acks    []actors.Reply[struct{}] // of each cancel of that Enter; given after its answer
	queued  []actors.Reply[error]    // of an Enter that waits for the end of the round; at most one
	leavers []actors.Reply[error]    // of each Leave; set only in leaving
}

// A turn is a machine during a step, with the accumulator of its effects.
type turn struct {
	machine
	out *effects
}

// newMachine returns the machine of a handle that has not heard of a session.
func newMachine(id, name string, parties int) machine {
	m := machine{id: id, parties: parties, met: []string{id}}
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
	t := turn{machine: m, out: out}
	t.take(in)
	t.advance()
	return t.machine
}

func (m *turn) do(e effect)         { m.out.Do = append(m.out.Do, e) }
func (m *turn) emit(ev DoubleEvent) { m.out.Emit = append(m.out.Emit, ev) }

// take enters an input. Inputs of another epoch, or for another node or request, are
// ignored.
func (m *turn) take(in input) {
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
		due := in.n == m.ticks
		m.look = m.look || due && m.awaited != 0
		m.duty = m.duty || due && m.spare && m.sure
	case due:
		m.untold = m.untold || in.epoch == m.epoch && m.reads(in.sight)
	case answered:
		if in.requestID == m.asked.requestID && m.step != idle {
			m.answered(in)
		}
	}
}

// --- commands

// enter begins to gather, or waits until the round is left. One Enter at a time is
// accepted.
func (m *turn) enter(reply actors.Reply[error]) {
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
func (m *turn) refusal(why error) error {
	if m.stage == closing {
		return ErrClosed
	}
	return why
}

// gather begins an Enter, with a new node.
func (m *turn) gather(reply actors.Reply[error]) {
	m.stage, m.entrant, m.failure, m.retire, m.aside, m.since, m.why = gathering, reply, nil, false, false, 0, nil
	m.synced, m.filled, m.untold, m.inspected = false, false, false, 0
	m.rename()
	m.watch()
}

// rename gives up our node, which is gone or may be: the next has another name.
func (m *turn) rename() {
	if m.stage == gathering && m.awaited != 0 { // the next node is for another round
		m.unawait()
	}
	m.entries++
	m.name, m.node, m.sure, m.doubted, m.duty, m.spare, m.again = "", 0, false, false, false, false, false
}

// watch follows the record, if there is a session. It forgets earlier readings.
func (m *turn) watch() {
	if m.epoch != 0 && !m.following {
		m.following = true
		m.sight, m.stale, m.untold, m.inspected = sight{}, 0, false, 0
		m.do(follow{m.epoch})
	}
}

// unwatch ends the watch that watch has begun.
func (m *turn) unwatch() {
	if m.following {
		m.following = false
		m.do(unfollow{})
	}
}

// cancel ends an Enter that waits, or makes it retire. Then the record decides: if it lists us,
// Enter succeeds.
func (m *turn) cancel(in cancel) {
	switch {
	case len(m.queued) > 0 && m.queued[0] == in.what:
		m.queued = nil
		m.do(answer{in.what, errWithdrawn})
	case m.stage == gathering && m.entrant == in.what:
		m.retire = true // Enter and cancel are answered when the node is gone
		m.acks = append(slices.Clip(m.acks), in.reply)
		return
	}
	m.do(confirm{in.reply})
}

// leave begins to leave. Every Leave is answered when the round is over.
func (m *turn) leave(reply actors.Reply[error]) {
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
func (m *turn) heard(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		m.epoch, m.timeout, m.lapsed = ev.Epoch, ev.Timeout, false
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
	case session.Resumed:
		m.lapsed = false
		if m.reads(m.sight.n) {
			m.do(readLater{m.epoch, m.sight.n, znode.Spread(m.id, m.timeout/3)})
		}
	case session.Lapsed:
		m.lapse()
	case session.Suspended:
	}
}

// lapse follows the end of the lease. The session lives on, and so does our node: a member, whose
// round others may end now, gives it up. So does a party that is closed, and does not wait for it.
func (m *turn) lapse() {
	if m.lapsed = true; m.stage == inside {
		m.do(abandon{m.epoch, m.node, m.name})
		m.drop(session.ErrLapsed)
	}
}

// reads reports whether an entrant goes by a sight, which is still the newest.
func (m *turn) reads(n int) bool {
	return m.stage == gathering && m.following && n > 0 && n == m.sight.n
}

// expired forgets the session: our node goes with it. A member is lost; a party that
// gathers or leaves goes on in the next session.
func (m *turn) expired(why error) {
	m.epoch, m.step, m.halted, m.following, m.awaited = 0, idle, false, false, 0
	m.sight, m.stale, m.untold, m.younger, m.inspected, m.look, m.synced, m.filled = sight{}, 0, false, 0, 0, false, false, false
	m.rename()
	switch m.stage {
	case inside:
		m.drop(why)
	case resting, gathering, leaving, closing, ended:
	}
}

// drop ends a membership without a Leave.
func (m *turn) drop(why error) {
	m.stage, m.why, m.round = resting, why, 0
	m.rename()
	m.do(unguard{})
	m.emit(Lost{why})
}

// lost follows the end of our node. A member is in no longer. An entrant waits for the record: if
// that does not list it, it creates a node again.
func (m *turn) lost(in lost) {
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
		m.sure, m.doubted, m.duty = false, true, false // the record may list it nevertheless
		if !gone {
			m.fail(in.err)
		}
	}
}

// --- the record

// saw enters a reading of the record, unless an older one follows a newer. A handle that is not
// gathering needs no record: it stops following when a round of other parties begins.
func (m *turn) saw(in saw) {
	if in.epoch != m.epoch || !m.following || in.zxid != 0 && in.zxid < m.sight.zxid {
		return
	}
	changed := in.czxid != m.sight.czxid || in.version != m.sight.version
	m.enterSight(in.sight)
	if changed && m.stage != gathering { // a round of other parties
		m.unwatch()
	}
}

// enterSight enters a reading that is newer than all before.
func (m *turn) enterSight(s sight) {
	s.n, s.zxid = m.sight.n+1, max(m.sight.zxid, s.zxid, m.younger)
	m.sight, m.newest, m.younger = s, max(m.newest, s.book.Round), 0
}

// reread enters a reading that was made because the watch had nothing to deliver.
func (m *turn) reread(in answered) {
	switch {
	case in.err == nil, errors.Is(in.err, session.ErrNoNode):
		m.untold = false
		m.enterSight(in.read)
	case !session.Passing(in.err):
		m.untold = false // otherwise the record would be read again and again until our node is deleted
		m.unwatch()
		m.fail(in.err)
	}
}

// blind follows the end of the watch on the record.
func (m *turn) blind(in blind) {
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
func (m *turn) fail(err error) {
	if m.stage == gathering && !m.retire {
		m.retire, m.failure = true, err
	}
}

// --- requests

// ask makes a request, which is then the request under way.
func (m *turn) ask(s step, round int) { m.write(s, round, book{}) }

// write is ask for a request that writes the record.
func (m *turn) write(s step, round int, b book) {
	m.step, m.based = s, m.sight.n
	m.asked = request{
		requestID: requestID{m.epoch, m.asked.n + 1}, step: s, round: round, name: m.name, version: m.sight.version, book: b,
		keeps: b.Parties == m.sight.book.Parties, again: m.again, // no record without data has a number of parties
	}
	if s == listing {
		m.asked.parties, m.asked.met = m.parties, m.met
	}
	if s == shutting {
		m.asked.ownerless = m.ownerless
	}
	m.do(m.asked)
}

// outdated waits for a newer sight, because the server has shown that the sight of the request is
// old. If the watch has nothing to deliver, the record is read.
func (m *turn) outdated(in answered) {
	m.stale = m.based
	m.untold = in.settled && m.stale == m.sight.n
}

// advance makes the next request, if none is under way and the session allows one.
func (m *turn) advance() {
	if m.stage == closing && m.lapsed {
		if m.node != 0 {
			m.do(abandon{m.epoch, m.node, m.name})
		}
		m.finish()
	}
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
func (m *turn) advanceGathering() {
	r := m.sight
	next := r.book.Round + 1
	unfit := r.unfit(m.parties)
	switch {
	case m.retire && m.node == 0:
		m.withdraw()
	case m.retire && !m.following: // the record cannot be read
		m.ask(exiting, m.node)
	case m.untold:
		m.ask(rereading, 0)
	case r.n == 0 || m.stale == r.n: // a newer sight will come
	case r.crowded() && m.inspected != r.n && !m.aside:
		m.ask(inspecting, 0)
	case m.node != 0 && m.aside:
		m.ask(exiting, m.node)
	case m.node != 0 && r.book.Round == m.node && slices.Contains(r.book.Members, m.name):
		m.in()
	case m.node != 0 && r.book.Round >= m.node: // a round has begun without us
		m.ask(exiting, m.node)
	case m.node != 0 && (m.retire || r.czxid != m.root): // the record was replaced
		m.ask(retiring, m.node)
	case r.czxid == 0:
		m.ask(ensuring, 0)
	case unfit != nil && !m.synced:
		m.ask(syncing, 0) // the server may lag behind
	case unfit != nil && r.bad == nil && m.inspected != r.n:
		m.ask(inspecting, 0)
	case unfit != nil && r.bad == nil && m.deserted: // no party is there, or can come at this version of the record
		m.open()
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
func (m *turn) open() {
	last := m.sight.book
	if m.sight.fresh {
		last.Round = m.newest
	}
	last.Parties = m.parties
	m.write(opening, last.Round+1, last)
}

// advanceLeaving makes the next request of a Leave: delete our node, and then look at
// times. Before it looks, it checks that the round is its own.
func (m *turn) advanceLeaving() {
	switch {
	case m.node != 0:
		m.ask(exiting, m.round)
	case m.look:
		m.look = false
		m.ask(checking, m.awaited)
	}
}

// answered goes on with the answer to the request. A handle that closes cares only
// whether its node stands.
func (m *turn) answered(in answered) {
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
			m.outdated(in)
		} else if !session.Passing(in.err) {
			m.fail(in.err)
		}
	case inspecting:
		m.inspect(in)
	case syncing:
		switch {
		case in.err == nil:
			m.synced, m.untold = true, true
		case !session.Passing(in.err):
			m.fail(in.err)
		}
	case rereading:
		m.reread(in)
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
	case checking:
		m.checked(in)
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

// inspect follows the list of the children of the path. A child that is not the directory of a
// round belongs to another recipe: then the party withdraws.
func (m *turn) inspect(in answered) {
	switch i := slices.IndexFunc(in.names, func(name string) bool { return !isRound(name) }); {
	case in.err == nil && i < 0:
		m.inspected, m.deserted = m.based, len(in.names) == 0
	case in.err == nil:
		m.aside, m.retire, m.failure = true, true, fmt.Errorf("%w: %w", ErrLayout, nodes.ForeignChild(in.names[i]))
	case errors.Is(in.err, session.ErrNoNode):
		m.outdated(in)
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
func (m *turn) opened(in answered) {
	again := m.again
	m.again = false
	switch {
	case in.err == nil && m.asked.keeps: // there is no event of that, and others may have come to the path
		m.stale, m.untold = m.based, true
	case in.err == nil, moved(in): // by us, or already by another party
		m.outdated(in)
	case session.Passing(in.err):
	case errors.Is(in.err, session.ErrNotEmpty) && m.asked.keeps && !m.filled: // perhaps made by another party
		m.filled, m.stale, m.untold = true, m.based, true
	case errors.Is(in.err, session.ErrNotEmpty), errors.Is(in.err, session.ErrNodeExists) && (m.sight.fresh || in.at == other):
		if !m.synced {
			m.ask(syncing, 0) // the record may be another
			return
		}
		m.fail(fmt.Errorf("%w: there is a node %d, or a node in it", ErrLayout, m.asked.round))
	case in.at == directory && errors.Is(in.err, session.ErrNodeExists) && !again, in.at == directory && errors.Is(in.err, session.ErrNoNode) && again:
		m.again = !again // the server had removed only the lower node, or has removed the rest since
		m.open()
	default:
		m.fail(in.err)
	}
}

// entered follows the creation of our node. The count in the reply says whether there are
// enough.
func (m *turn) entered(in answered) {
	if !m.doubted && in.err != nil && !session.InDoubt(in.err) {
		m.node = 0
	}
	switch {
	case in.err == nil:
		m.filled = false
		m.stand(in.count >= m.parties && in.count < m.parties+bearers)
		if m.spare = in.count >= m.parties+bearers; m.spare {
			m.rest()
		}
		m.emit(Waiting{min(in.count, m.parties)})
	case in.at == party && errors.Is(in.err, session.ErrNodeExists):
		m.node = m.asked.round
		m.stand(true)
	case session.InDoubt(in.err):
		m.doubted = true
	case moved(in):
		m.outdated(in)
	case session.Passing(in.err):
	case errors.Is(in.err, session.ErrNoNode): // the server has removed the empty directory
		m.node, m.doubted = 0, false
		m.open()
	default:
		m.fail(in.err)
	}
}

// bearers is the number of entrants that have the duty at once: the one that completes the number,
// and the next. The others take it only when a session timeout has passed without a round.
const bearers = 2

// stand watches our node, which is known to stand.
func (m *turn) stand(duty bool) {
	m.sure, m.doubted, m.duty = true, false, duty
	m.do(guard{m.epoch, m.node, m.name})
}

// listed follows the list of the entrants. If there are enough entrants, and the record has not
// changed, it begins the round.
func (m *turn) listed(in answered) {
	switch {
	case session.Passing(in.err):
		return
	case errors.Is(in.err, session.ErrNoNode): // the directory is gone, and our node with it
		m.sure, m.doubted, m.duty = false, true, false
		return
	case in.err != nil:
		m.fail(in.err)
		return
	case in.czxid > m.sight.zxid: // the directory belongs to another record, or an operator has created it again
		m.younger = in.czxid
		m.outdated(in)
		return
	}
	m.meet(in.met)
	names := present(in.names)
	m.emit(Waiting{min(len(names), m.parties)})
	if len(names) < m.parties {
		m.duty = false // the entrant that completes the number will have the duty
		return
	}
	if m.retire || m.stale == m.sight.n || m.sight.book.Round+1 != m.node {
		return
	}
	m.write(starting, m.node, book{m.node, m.parties, first(names, m.parties)})
}

// manyMet is how many handles a machine knows at least, beside those of its last round.
const manyMet = 1000

// meet notes the IDs of handles that have, or had, a session. When it has met many, it forgets
// those that it has not met again.
func (m *turn) meet(ids []string) {
	if !slices.ContainsFunc(ids, func(id string) bool { return !has(m.met, id) }) {
		return
	}
	all := slices.Concat(m.met, ids)
	if len(all) > manyMet+m.parties {
		all = append(slices.Clip(ids), m.id)
	}
	slices.Sort(all)
	m.met = slices.Compact(all)
}

// has reports whether a sorted slice has the text.
func has(all []string, text string) bool {
	_, is := slices.BinarySearch(all, text)
	return is
}

// first returns the n oldest names. Between names of the same round a hash of the name decides. A
// party's names differ, so a party that is left out once is not left out every time.
func first(names []string, n int) []string {
	const age = 10 // the number of digits of the round at the beginning of a name
	hash := func(name string) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name))
		return h.Sum64()
	}
	chosen := slices.SortedFunc(slices.Values(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(a[:min(age, len(a))], b[:min(age, len(b))]), cmp.Compare(hash(a), hash(b)))
	})[:n]
	slices.Sort(chosen)
	return chosen
}

// present returns the newest name of each handle. An older one belongs to a session that has
// expired.
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
func (m *turn) started(in answered) {
	again := m.again
	m.again = false
	switch {
	case in.err == nil, moved(in):
		m.outdated(in)
	case session.Passing(in.err):
	case in.at == party && errors.Is(in.err, session.ErrNoNode): // an entrant is gone: list again
	// The last round is not over. All its members may have crashed, and with them the parties that
	// should have deleted it: see looked.
	case in.at == earlier && errors.Is(in.err, session.ErrNodeExists) && m.spare:
		m.duty, m.awaited, m.look = false, m.node-1, true
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
func (m *turn) retired(in answered) {
	switch {
	case in.err == nil, client.IsAny(in.err, session.ErrNoNode): // without the record there is no node below it
		m.rename()
	case moved(in):
		m.outdated(in)
	case session.Passing(in.err):
	default:
		m.do(abandon{m.epoch, m.node, m.name})
		m.rename()
	}
}

// exitedWith follows the deletion of our node. The count in the reply says whether we
// were the last.
func (m *turn) exitedWith(in answered) {
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

// awaitEnd waits until a round is removed. If look is set it lists the round at once, because a
// party may have crashed in the meantime; otherwise after a session timeout.
func (m *turn) awaitEnd(round int, look bool) {
	m.awaited, m.look, m.ownerless = round, look, nil
	m.do(await{m.epoch, round})
	if !look {
		m.rest()
	}
}

// rest sets the timer for the next look.
func (m *turn) rest() {
	m.ticks++
	m.do(wait{m.ticks, m.timeout})
}

// over follows the watch on the directory of the awaited round.
func (m *turn) over(in over) {
	switch {
	case in.epoch != m.epoch || in.round != m.awaited || client.Over(in.err): // of another round, or session
	// A directory that was created later belongs to another record.
	case in.err == nil && in.czxid > m.known, errors.Is(in.err, session.ErrNoNode):
		m.removed()
	case in.err == nil:
	case session.Passing(in.err):
		m.do(await{m.epoch, in.round})
	default:
		m.unwatched(in.err)
	}
}

// unwatched gives up a round whose end cannot be observed.
func (m *turn) unwatched(err error) {
	m.unawait()
	if m.stage == leaving {
		m.stage, m.why, m.round = resting, err, 0
		m.emit(Lost{err})
		m.release(err)
		m.resume()
		return
	}
	m.fail(err)
}

// unawait ends the wait for a round, and the timer.
func (m *turn) unawait() {
	m.awaited, m.look, m.ownerless = 0, false, nil
	m.do(unawait{})
}

// removed goes on when the awaited round is over: a member has left, and an entrant may
// begin the next.
func (m *turn) removed() {
	m.unawait()
	if m.duty = m.duty || m.spare; m.stage == leaving { // the timer of a spare entrant has ended with the wait
		m.left()
	}
}

// checked follows a reading of the record before a member looks. If the record does not list the
// member any more, its round is over, whichever round has the directory with that number: the
// servers may have come back with older data. If the data is not a record, the member goes on to
// look, since no round can begin then.
func (m *turn) checked(in answered) {
	switch {
	case m.asked.round != m.awaited: // it is over already
	case session.Passing(in.err):
		m.look = true
	case in.err == nil && in.bad == nil && !slices.Contains(in.names, m.member), errors.Is(in.err, session.ErrNoNode):
		m.removed()
	case in.err != nil:
		m.unwatched(in.err)
	default:
		m.ask(looking, m.awaited)
	}
}

// looked follows a list of the awaited round. The party that finds it empty removes it.
func (m *turn) looked(in answered) {
	switch {
	case m.asked.round != m.awaited: // it is over already
	case session.Passing(in.err):
		m.look = true
	case in.err != nil:
		m.unwatched(in.err)
	case in.count == 0 && in.foreign != "":
		m.blocked(in.foreign)
	case in.count == 0:
		m.ownerless = in.ownerless
		m.ask(shutting, m.awaited)
	case m.spare: // it looks again when it next takes the duty
		m.unawait()
		m.rest()
	default:
		if m.stage == leaving {
			m.emit(Leaving{in.count})
		}
		m.rest()
	}
}

// blocked goes on when no party is in the round any more, but a foreign node prevents its removal.
// For members the round is over. For entrants it is an error, because the next round cannot begin.
func (m *turn) blocked(by string) {
	if m.stage != leaving {
		m.fail(fmt.Errorf("%w: %s keeps the round from being removed", ErrLayout, by))
	}
	m.removed()
}

// shut follows the removal of a round. If the removal failed, a party that awaits the end of the
// round goes on waiting.
func (m *turn) shut(in answered) {
	again, round := m.again, m.asked.round
	m.again = false
	mine := m.stage == leaving || m.awaited == round
	switch {
	case session.Passing(in.err) && mine:
		m.ask(shutting, round)
	case in.at == party && mine && errors.Is(in.err, session.ErrNoNode): // one that was to be deleted is gone
		m.ask(looking, round)
	case in.at == party && mine:
		m.blocked(in.foreign)
	case in.at == directory && errors.Is(in.err, session.ErrNoNode) && !again:
		m.again = true // the server has removed the lower node, and perhaps the upper one
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
func (m *turn) in() {
	m.stage, m.round, m.member, m.known = inside, m.node, m.name, m.sight.zxid
	if !m.sure {
		m.stand(false)
	}
	members, ids := make([]string, len(m.sight.book.Members)), make([]string, len(m.sight.book.Members))
	for i, name := range m.sight.book.Members {
		members[i] = nodes.PartyName(name)
		ids[i], _ = nodes.PartyEntry(name)
	}
	m.meet(ids)
	m.emit(Entered{m.round, members})
	m.settle(nil)
}

// withdraw ends an Enter without a round. Our node is gone.
func (m *turn) withdraw() {
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
func (m *turn) settle(err error) {
	if m.awaited != 0 {
		m.unawait()
	}
	m.retire, m.duty = false, false
	m.do(answer{m.entrant, err})
	for _, ack := range m.acks {
		m.do(confirm{ack})
	}
	m.entrant, m.acks = actors.Reply[error]{}, nil
}

// left ends a membership: every party has left the round.
func (m *turn) left() {
	m.emit(Left{m.round})
	m.stage, m.round, m.why = resting, 0, nil
	m.release(nil)
	m.resume()
}

// release answers every Leave.
func (m *turn) release(err error) {
	for _, reply := range m.leavers {
		m.do(answer{reply, err})
	}
	m.leavers = nil
}

// resume begins the Enter that has waited for the end of the round.
func (m *turn) resume() {
	if len(m.queued) > 0 {
		reply := m.queued[0]
		m.queued = nil
		m.gather(reply)
	}
}

// close begins to end: all commands are answered at once, and our node is deleted. When the session
// itself is closed, the node is gone.
func (m *turn) close(err error) {
	if m.stage == closing {
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
func (m *turn) finish() {
	m.stage = ended
	m.emit(Closed{m.err})
}
