package commit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// This file is the site's side of all transactions below a parent, as a pure function. The performer
// of its effects is in participant.go; the nodes are in docs/two-phase-commit.md.
//
// A site has one part for each transaction below the parent. What a part does next is a function of its fields; it
// comes through these states:
//
//	       listed                     record read
//	(none) ───────▶ reading ───────────────────────▶ asked            rec, asked; the site emits Prepare
//	                   │                               │ Vote
//	                   │                               ▼
//	                   │ after a restart: check      voting           vote, and pledge if it is Yes
//	                   │                               │ cast done, or a check shows the vote
//	                   │  a vote is there              ▼
//	                   ├────────────────────────────▶ pledged         ballot.vote
//	                   │                               │ the record has an outcome, by any party
//	                   │  a vote and an outcome        ▼
//	                   ├────────────────────────────▶ told            told; the site emits the outcome
//	                   │                               │ Finish
//	                   │                               ▼
//	                   │                            finishing         finish
//	                   │  no ballot of this site       │ concluded
//	                   └────────────────────────────▶ finished        done; the last site removes the record
//	                                                   │ the record is gone
//	                                                   ▼
//	                                                 (none)
//
// An outcome may come in every state: a site that is asked or voting is told it, too. A record may vanish in every state. Before
// the site has finished, the part is gone then: it is dropped as soon as the user needs no more answers.
//
// At any time at most one request of a part is under way: its task. advance starts the next one when the last is answered.

// A task is the request of a part that is under way. There is at most one: a vote is
// confirmed before the site finishes.
type task int

const (
	idle      task = iota // no request is under way
	checking              // check: list the ballots once, for our own and for those of coordinators
	voting                // cast: replace our ballot by the vote
	deciding              // propose: record an outcome
	finishing             // conclude: delete our ballot
	clearing              // clearUp: remove the rest of the transaction
)

func (t task) String() string {
	return [...]string{"idle", "checking", "voting", "deciding", "finishing", "clearing"}[t]
}

// A timer is one of two deadlines of a part.
type timer int

// The timers of a part. Each is set again by the machine; forget ends both.
const (
	deadline timer = iota // the votes are late
	patrol                // TakeoverAfter passed once more
)

// A name identifies an incarnation of a transaction: a later one may have the same id.
// Answers that name another one are ignored.
type name struct{ id, guid string }

// A siteInput is an event that the machine reacts to.
//
//sumtype:decl
type siteInput interface{ siteInput() }

type (
	siteLeave  struct{}                // commanded, or the actor was stopped
	siteHeard  struct{ session.Event } // an event of the session
	displaced  struct{ err error }     // another process has the site's name
	siteListed struct {                // answers followParent, any number of times
		names []string
		err   error // its last answer
	}
	siteRead struct { // answers followRecord, any number of times
		id   string
		rec  *record
		zxid int64 // of the read; 0 if a watch reported the deletion
		err  error // its last answer; [session.ErrNoNode] if there is no record any more
	}
	siteAnswered struct { // answers check, cast, propose, conclude and clearUp
		name
		task
		names []string // of the ballots, after checking
		left  int      // how many ballots are left, after finishing
		err   error
	}
	siteCounted struct { // answers watchBallots, any number of times
		name
		names []string
		err   error // its last answer
	}
	siteAttended struct { // answers watchSites, any number of times
		names []string
		err   error // its last answer
	}
	sitePassed struct { // answers await
		name
		timer
	}
	castVote struct { // commanded; its reply gets one answer
		id    string
		vote  Vote
		data  string
		reply actors.Reply[error]
	}
	finish struct { // commanded; its reply gets one answer
		id    string
		reply actors.Reply[error]
	}
)

func (siteLeave) siteInput()    {}
func (siteHeard) siteInput()    {}
func (displaced) siteInput()    {}
func (siteListed) siteInput()   {}
func (siteRead) siteInput()     {}
func (siteAnswered) siteInput() {}
func (siteCounted) siteInput()  {}
func (siteAttended) siteInput() {}
func (sitePassed) siteInput()   {}
func (castVote) siteInput()     {}
func (finish) siteInput()       {}

// A siteEffect asks the performer for one thing. unwatch, forget and respond are not
// answered.
//
//sumtype:decl
type siteEffect interface{ siteEffect() }

type (
	followParent struct{}            // list the transactions now and after each change
	followRecord struct{ id string } // read the record now and after each change, until it is deleted
	check        struct{ name }      // list the ballots, once
	watchBallots struct{ name }      // list the ballots now and after each change
	unwatch      struct{ name }      // end watchBallots
	watchSites   struct{}            // list the present sites now and after each change
	await        struct {            // set the timer; replaces an earlier one
		name
		timer
		after time.Duration
	}
	forget struct{ name } // end everything that is followed and awaited for a transaction
	cast   struct {       // replace our ballot by our vote
		name
		ballot
		data string
	}
	propose struct { // record an outcome, unless there is one
		rec *record
		Outcome
	}
	conclude struct { // delete our ballot
		name
		ballot
	}
	clearUp struct{ rec *record } // remove the rest of the transaction
)

func (followParent) siteEffect() {}
func (followRecord) siteEffect() {}
func (check) siteEffect()        {}
func (watchBallots) siteEffect() {}
func (unwatch) siteEffect()      {}
func (watchSites) siteEffect()   {}
func (await) siteEffect()        {}
func (forget) siteEffect()       {}
func (cast) siteEffect()         {}
func (propose) siteEffect()      {}
func (conclude) siteEffect()     {}
func (clearUp) siteEffect()      {}
func (respond) siteEffect()      {}

// siteEffects accumulates what one step asks for.
type siteEffects = actors.Effects[siteEffect, Event]

// enoughLooks is the number of looks in a row without a coordinator after which a site
// presides.
const enoughLooks = 2

// A part is the state of one transaction at this site. A field that is set stays set
// until the part is dropped, unless its comment says otherwise. After every step:
//
//   - Before rec is set, no other field but id, look and next is.
//   - An outcome that was told is that of the record, or presumed after the record is gone.
//   - Once told is set, no vote is under way; once done is set, no Finish is.
type part struct {
	id string // of the transaction

	// rec is set by the first read of the record, without regard to its outcome. Until then nothing is asked, and commands are
	// refused.
	rec *record

	// task is set with the request that it names, and cleared by the answer. While it is not idle, no other request of the part
	// is under way.
	task task

	// gone is set when the record is known to be gone and the site has not finished. While it is set, nothing is asked of
	// ZooKeeper for this part.
	gone bool

	// next is set when a later list had the id, so that another transaction may have it. It is cleared by a watch that reports
	// the deletion of the record, since a later list arrives after that. While it is set, the id is followed when this part
	// is dropped.
	next bool

	// look is set when the ballots are to be listed: after a start, when a reply was lost, and by patrols. It is cleared by a
	// list that succeeds.
	look bool

	// ballot is our vote as a reply or a list confirmed it. While vote is set, it is the vote to be cast.
	ballot ballot

	// data belongs to the vote to be cast. It is cleared with vote, or when the vote is confirmed.
	data string

	// vote is set by the command to vote, and cleared when the vote is confirmed or refused. Then voter is answered.
	vote  bool
	voter actors.Reply[error]

	// asked is set when the site begins its part in an undecided transaction. Prepare was emitted, unless a vote was there.
	asked bool

	// told is set when the outcome, or that there is none to be known, was emitted. Nothing more is emitted then.
	told bool

	// sure is set by a Commit without a known Yes of ours, which an earlier process must have voted. The ballots are listed
	// once more then, so that Guard and Once name our vote.
	sure bool

	// pledge is set when our Yes may have been sent, and set anew by each list that shows our vote. While it is set, a
	// transaction that is gone is not presumed to be aborted.
	pledge bool

	// chair is the knowledge that the rule needs. It is not looked at any more when there
	// is an outcome.
	chair chair

	// presides is set when this site decides: in Peer mode with asked, else by preside. While it is set, the ballots are
	// followed until the outcome is emitted.
	presides bool

	// patrols is set when TakeoverAfter has passed, and cleared by the list that follows.
	patrols bool

	// alone is the number of these lists in a row that showed no coordinator. A list that shows one clears it.
	alone int

	// beaten is set when recording an outcome failed because there is one, or the record is gone. It is cleared by the next
	// read of the record. While it is set, no outcome is recorded.
	beaten bool

	// outcome is set by a read of the record. It is never a guess.
	outcome *Outcome

	// finishers are the replies of all commands to finish. They are set by these, and cleared when finishing is confirmed or
	// refused: then all are answered. While there are any, the site finishes. The slice is replaced, not modified.
	finishers []actors.Reply[error]

	// done is set when our ballot is gone: confirmed by a reply, or shown by a list. The record has an outcome then.
	done bool

	// clear is set when the rest of the transaction may be removed: no ballot was left, or TakeoverAfter has passed
	// since. It is cleared by an attempt, unless that is to be repeated.
	clear bool
}

// name returns the name of the incarnation which the record has shown.
func (p part) name() name { return name{p.id, p.guid()} }

// guid returns the GUID of that incarnation; "" before the record was read.
func (p part) guid() string {
	if p.rec == nil {
		return ""
	}
	return p.rec.GUID
}

// finishes reports whether the site is commanded to finish.
func (p part) finishes() bool { return len(p.finishers) > 0 }

// A sitemachine is the state of a site.
type sitemachine struct {
	parent, site string // constant

	// began is set by the first list. Transactions in that list may have votes of an earlier process of this site. Later ones
	// have none.
	began bool

	// parts are in the order of their ids. Each Step replaces the slice.
	parts []part

	// attends is set with the first part that presides. While it is set, the presence of the sites is followed.
	attends bool

	// there has the sites that are present, by the last list. It is empty before attends is set.
	there []string

	// over is set when Left was emitted.
	over bool
}

// String is canonical: machines with equal strings do the same.
func (m sitemachine) String() string {
	var s strings.Builder
	s.WriteString(m.site + "(" + flagged("began", m.began) + flagged(" attends", m.attends) + flagged(" over", m.over))
	if len(m.there) > 0 {
		fmt.Fprintf(&s, " %q", m.there)
	}
	for _, p := range m.parts {
		s.WriteString(" [" + p.describe(m.site) + "]")
	}
	return s.String() + ")"
}

// describe is canonical: parts with equal strings do the same.
func (p part) describe(site string) string {
	s := p.id
	if p.rec != nil {
		s += "/" + p.rec.GUID + " " + p.ballot.name(site) + p.chair.describe(p.rec)
	}
	if p.outcome != nil {
		s += " " + p.outcome.String()
	}
	return s + flagged(" "+p.task.String(), p.task != idle) + flagged(" gone", p.gone) + flagged(" next", p.next) + flagged(" look", p.look) +
		flagged(" vote"+p.data, p.vote) + flagged(" pledge", p.pledge) + flagged(" asked", p.asked) + flagged(" told", p.told) + flagged(" sure", p.sure) +
		flagged(" patrols", p.patrols) + flagged(" alone "+strconv.Itoa(p.alone), p.alone > 0) + flagged(" presides", p.presides) + flagged(" beaten", p.beaten) +
		flagged(" finish", p.finishes()) + flagged(" done", p.done) + flagged(" clear", p.clear)
}

// Ended implements [actors.Machine].
func (m sitemachine) Ended() bool { return m.over }

// A siteTurn is a site during a step, with the accumulator of its effects.
type siteTurn struct {
	sitemachine
	out *siteEffects
}

// do asks for effects, and emit emits an event.
func (m *siteTurn) do(e ...siteEffect) { m.out.Do = append(m.out.Do, e...) }
func (m *siteTurn) emit(ev Event)      { m.out.Emit = append(m.out.Emit, ev) }

// respond gives a command its reply.
func (m *siteTurn) respond(to actors.Reply[error], err error) { m.do(respond{to, err}) }

// Step implements [actors.Machine]. Inputs that mean nothing in the present state are
// ignored: their question is no longer open.
func (m sitemachine) Step(in siteInput, out *siteEffects) sitemachine {
	if m.over {
		return m
	}
	m.parts = slices.Clone(m.parts)
	t := siteTurn{sitemachine: m, out: out}
	t.take(in)
	return t.sitemachine
}

// take hands an input to the machine, or to the part that it names. An answer whose name
// is not that of a part is ignored.
func (m *siteTurn) take(in siteInput) {
	switch in := in.(type) {
	case siteLeave:
		m.end(nil)
	case siteHeard:
		if _, closed := in.Event.(session.Closed); closed {
			m.end(session.ErrClosed)
		}
	case displaced:
		m.end(in.err)
	case siteListed:
		m.listed(in)
	case siteRead:
		m.on(in.id, nil, func(p *part) { m.read(p, in) })
	case siteAnswered:
		m.on(in.id, &in.guid, func(p *part) { m.answered(p, in) })
	case siteCounted:
		m.on(in.id, &in.guid, func(p *part) { m.counted(p, in) })
	case siteAttended:
		m.attended(in)
	case sitePassed:
		m.on(in.id, &in.guid, func(p *part) { m.passed(p, in.timer) })
	case castVote:
		m.castVote(in)
	case finish:
		m.finish(in)
	}
}

// find returns the index of the part with the id, or where it is to be inserted.
func (m *siteTurn) find(id string) (at int, found bool) {
	return slices.BinarySearchFunc(m.parts, id, func(p part, id string) int { return cmp.Compare(p.id, id) })
}

// on is the way of all inputs to a part. It changes the part with the id, and the GUID if
// that is not nil, and then advances it.
func (m *siteTurn) on(id string, guid *string, change func(*part)) {
	at, found := m.find(id)
	if !found || guid != nil && m.parts[at].guid() != *guid {
		return
	}
	change(&m.parts[at])
	// The change may have dropped the part, or replaced it by one of a later transaction.
	if at, found := m.find(id); found && !m.over {
		m.advance(&m.parts[at])
	}
}

// answered follows the answer to a task. An answer after the task was ended otherwise
// is ignored.
func (m *siteTurn) answered(p *part, in siteAnswered) {
	if p.task != in.task {
		return
	}
	p.task = idle
	switch in.task {
	case checking:
		m.checked(p, in)
	case voting:
		m.castDone(p, in.err)
	case deciding: // only a read of the record says which outcome counts
		p.beaten = p.beaten || !session.Passing(in.err)
	case finishing:
		m.finished(p, in)
	case clearing:
		p.clear = session.Passing(in.err)
	case idle:
	}
}

// --- which transactions exist

// listed follows a list of the transactions. It begins parts, and ends none: a part ends
// with its record.
func (m *siteTurn) listed(in siteListed) {
	switch {
	case session.Passing(in.err):
		m.do(followParent{})
		return
	case in.err != nil:
		m.end(in.err)
		return
	}
	for _, id := range transactions(in.names) {
		if at, found := m.find(id); found {
			m.parts[at].next = true
		} else {
			m.join(at, part{id: id, look: !m.began})
		}
	}
	m.began = true
}

// join begins a part, by following its record.
func (m *siteTurn) join(at int, p part) {
	m.parts = slices.Insert(m.parts, at, p)
	m.do(followRecord{p.id})
}

// read follows a read of the record, or its deletion. The first record with another GUID
// ends the part: a later transaction has the id, and the removal between the two was not
// seen.
func (m *siteTurn) read(p *part, in siteRead) {
	switch {
	case errors.Is(in.err, session.ErrNoNode):
		p.next = p.next && in.zxid != 0 // a list that is newer than the deletion arrives after it
		m.vanished(p)
	case session.Passing(in.err):
		m.do(followRecord{p.id})
	case in.err != nil:
		m.end(fmt.Errorf("transaction %s: %w", p.id, in.err))
	case in.rec == nil: // a record that does not decode is not one of ours
	case p.rec == nil:
		p.rec, p.chair, p.outcome = in.rec, newChair(in.rec), in.rec.Outcome
	case p.rec.GUID == in.rec.GUID:
		p.beaten = false
		if p.outcome == nil {
			p.outcome = in.rec.Outcome
		}
	default: // a later transaction has the id: the removal between was not seen
		p.next = true
		m.vanished(p)
	}
}

// vanished follows the end of the record. A part that has finished, or has nothing to do,
// is dropped; any other is gone.
func (m *siteTurn) vanished(p *part) {
	if p.rec == nil || !m.named(p) || p.done {
		m.drop(p)
		return
	}
	p.gone = true
	m.do(forget{p.name()})
}

// named reports whether the transaction names this site. Others are followed too, since a
// later one may have the id.
func (m *siteTurn) named(p *part) bool { return slices.Contains(p.rec.Sites, m.site) }

// drop ends a part, answers its commands, and begins with the next transaction of the same id.
func (m *siteTurn) drop(p *part) {
	if p.vote {
		m.respond(p.voter, ErrNoTransaction)
	}
	m.settleFinish(p, nil)
	m.do(forget{p.name()})
	id, next := p.id, p.next
	at, _ := m.find(id)
	if m.parts = slices.Delete(m.parts, at, at+1); next {
		m.join(at, part{id: id})
	}
}

// --- what a part does next

// advance starts the next task of a part, which the order of the cases below selects. It
// is called after each change of the part, so that whatever waits for the end of a task
// goes on here.
func (m *siteTurn) advance(p *part) {
	if p.rec == nil || !m.named(p) || p.task != idle {
		return
	}
	if p.gone {
		m.lament(p)
		return
	}

	// A Commit implies our Yes, which an earlier process has cast: a list shows under which name.
	if p.outcome != nil && p.outcome.Committed && !p.told && !p.done && !p.sure && (p.vote || p.ballot.vote != Yes) {
		p.sure, p.look = true, true
	}

	// The list comes first: everything else depends on our ballot, and on the fate of earlier requests.
	if p.look {
		p.task = checking
		m.do(check{p.name()})
		return
	}

	// The end of the transaction precedes its middle: after a restart, parts begin anywhere.
	if p.done {
		m.sweep(p)
		return
	}
	if p.outcome != nil {
		m.tell(p)
		return
	}
	if !p.asked {
		m.ask(p)
	}

	// From here on the transaction is undecided, as far as is known here. Our own vote precedes the outcome that we propose.
	if p.vote {
		p.task, p.pledge = voting, p.pledge || p.ballot.vote == Yes
		m.do(cast{p.name(), p.ballot, p.data})
		return
	}
	if o, ok := p.chair.verdict(p.rec, m.site); ok && p.presides && !p.beaten {
		p.task = deciding
		m.do(propose{p.rec, o})
	}
}

// ask begins the part of a site in an undecided transaction. In Peer mode it decides from now on. In Coordinated mode it
// watches for the coordinator's absence only, and for a deadline that passed without an outcome.
func (m *siteTurn) ask(p *part) {
	p.asked = true
	if p.rec.Mode == Peer {
		m.do(await{p.name(), deadline, p.rec.Deadline})
		m.preside(p)
	} else {
		m.do(await{p.name(), deadline, overdue(p.rec)})
		m.patrol(p)
	}
	if p.ballot.vote == 0 {
		m.emit(Prepare{Tx: p.id, Payload: p.rec.Payload})
	}
}

// patrol sets the timer for another look at the transaction.
func (m *siteTurn) patrol(p *part) { m.do(await{p.name(), patrol, p.rec.TakeoverAfter}) }

// tell emits the outcome, once, and finishes when that is commanded. A vote that was not
// sent is refused: it would come too late.
func (m *siteTurn) tell(p *part) {
	if p.vote {
		p.vote, p.ballot, p.data = false, ballot{}, ""
		m.respond(p.voter, ErrDecided)
	}
	if !p.told {
		if p.told = true; p.presides {
			m.do(unwatch{p.name()})
		}
		m.emit(eventOf(p.rec, *p.outcome, m.node(p)))
	}
	if p.finishes() {
		p.task = finishing
		m.do(conclude{p.name(), p.ballot})
	}
}

// node returns the path of the site's ballot.
func (m *siteTurn) node(p *part) string {
	return place{m.parent, p.id, p.guid()}.ballot(p.ballot.name(m.site))
}

// lament emits the end of a transaction that is gone before this site has finished.
// Package commit does not remove it then: an operator has, or a second process that acts
// for the site. The part stays while its user may yet call Finish.
func (m *siteTurn) lament(p *part) {
	if p.vote {
		p.vote = false
		m.respond(p.voter, ErrNoTransaction)
	}
	switch {
	case p.told || !p.asked && !p.pledge: // the user has received the end, or no event at all
	case p.outcome != nil:
		m.emit(eventOf(p.rec, *p.outcome, m.node(p)))
	case p.pledge:
		m.emit(Forgotten{p.id})
	default:
		m.emit(Aborted{Tx: p.id, Reason: Presumed})
	}
	forgotten := !p.told && p.outcome == nil && p.pledge
	unknown := !p.told && !p.asked && !p.pledge // the user has received no event
	if p.told = true; p.finishes() || unknown || forgotten {
		m.drop(p)
	}
}

// sweep removes the rest of a transaction, once all parties have finished, or time has
// passed since.
func (m *siteTurn) sweep(p *part) {
	if p.clear && p.outcome != nil {
		p.task = clearing
		m.do(clearUp{p.rec.With(*p.outcome)})
	}
}

// --- votes

// commanded returns the part that a command names. If there is none, it refuses the command and returns nil.
func (m *siteTurn) commanded(id string, reply actors.Reply[error]) *part {
	at, found := m.find(id)
	switch {
	case !found || m.parts[at].rec == nil:
		m.respond(reply, ErrNoTransaction)
		return nil
	case !m.named(&m.parts[at]):
		m.respond(reply, ErrNotNamed)
		return nil
	}
	return &m.parts[at]
}

// castVote follows the command to vote. A vote that is known, or that may be on its way,
// is not replaced.
func (m *siteTurn) castVote(in castVote) {
	p := m.commanded(in.id, in.reply)
	switch {
	case p == nil:
	case p.gone:
		m.respond(in.reply, ErrNoTransaction)
	case p.vote || p.ballot.vote != 0:
		m.respond(in.reply, ErrVoted)
	case p.outcome != nil || p.done:
		m.respond(in.reply, ErrDecided)
	default:
		p.vote, p.voter = true, in.reply
		p.ballot, p.data = ballot{in.vote, in.data != ""}, in.data
		m.advance(p)
	}
}

// castDone follows the answer to the vote. Any doubt is resolved by a list of the
// ballots: it shows our vote, or that it may be cast again.
func (m *siteTurn) castDone(p *part, err error) {
	switch {
	case !p.vote: // refused already, when the transaction was gone
	case err == nil:
		p.vote = false
		m.respond(p.voter, nil)
	case session.Passing(err), errors.Is(err, session.ErrNoNode), errors.Is(err, session.ErrNodeExists):
		p.look = true
	default: // not done: Vote may be called again
		m.respond(p.voter, err)
		p.vote, p.ballot, p.data = false, ballot{}, ""
	}
}

// checked follows the list of the ballots. It settles what became of our own, and counts
// the looks without a coordinator.
func (m *siteTurn) checked(p *part, in siteAnswered) {
	switch {
	case session.Passing(in.err):
		p.look = true
		return
	case errors.Is(in.err, session.ErrNoNode):
		m.vanished(p) // the record is gone with the ballots
		return
	case in.err != nil:
		m.end(fmt.Errorf("transaction %s: %w", p.id, in.err))
		return
	}

	// Only the looks of patrols say that a coordinator is away for long: others may follow each other at once.
	b := parse(in.names)
	ours, there := b.of[m.site]
	p.look = false
	switch {
	case b.coordinators > 0:
		p.alone = 0
	case p.patrols:
		p.alone = min(p.alone+1, enoughLooks)
	}
	p.patrols = false
	p.chair = p.chair.count(p.rec, b)

	// Our own ballot: there is none after we have finished, and it has no vote until ours is executed.
	switch {
	// No party but this site deletes our ballot before the transaction is removed.
	case !there:
		m.settleVote(p, ErrDecided)
		p.done, p.clear = true, true
		m.patrol(p)
		m.settleFinish(p, nil)
	case ours.vote == 0 && !p.vote:
		p.ballot = ballot{}
	case ours.vote != 0:
		var err error
		if p.vote && ours != p.ballot {
			err = ErrVoted
		}
		p.ballot, p.pledge = ours, ours.vote == Yes
		m.settleVote(p, err)
	}
	if p.alone == enoughLooks && p.outcome == nil && !p.done {
		m.preside(p)
	}
}

// settleVote answers the command to vote, if there is one.
func (m *siteTurn) settleVote(p *part, err error) {
	if p.vote {
		p.vote, p.data = false, ""
		m.respond(p.voter, err)
	}
}

// --- deciding

// preside has this site apply the rule. Any number of parties may preside: the first to record an outcome wins. The presence of
// the sites is followed once for all parts.
func (m *siteTurn) preside(p *part) {
	if p.presides || p.outcome != nil {
		return
	}
	p.presides = true
	m.do(watchBallots{p.name()})
	if !m.attends {
		m.attends = true
		m.do(watchSites{})
	}
	p.chair, _ = p.chair.attend(p.rec, m.there)
}

// counted follows a list of the ballots while this site presides.
func (m *siteTurn) counted(p *part, in siteCounted) {
	switch {
	case p.outcome != nil || p.gone: // nothing is to be decided
	case in.err == nil:
		p.chair = p.chair.count(p.rec, parse(in.names))
	case errors.Is(in.err, session.ErrNoNode):
		p.look = true // the transaction is gone, or an operator has deleted its ballots only
	case session.Passing(in.err):
		m.do(watchBallots{p.name()})
	}
}

// attended follows a list of the present sites. After a death the ballots are listed anew
// in each part that presides: that list includes all votes before the death.
func (m *siteTurn) attended(in siteAttended) {
	switch {
	case session.Passing(in.err):
		m.do(watchSites{})
		return
	case in.err != nil:
		return // deaths are not noticed then; deadlines are
	}
	m.there = in.names
	for _, p := range slices.Clone(m.parts) {
		if p.presides {
			m.on(p.id, nil, func(p *part) {
				var died bool
				if p.chair, died = p.chair.attend(p.rec, in.names); died && p.outcome == nil && !p.gone {
					m.do(watchBallots{p.name()})
				}
			})
		}
	}
}

// passed follows the end of a timer. A patrol looks for a coordinator before the outcome,
// and for the rest of the transaction after the site has finished. A deadline lets the
// site preside, whatever the mode.
func (m *siteTurn) passed(p *part, t timer) {
	switch {
	case p.gone:
		return
	case t == patrol:
		m.patrol(p)
		if p.done {
			p.clear = true
		} else if p.outcome == nil && !p.presides {
			p.look, p.patrols = true, true
		}
		return
	}
	p.chair.late = true
	m.preside(p)
}

// --- the end of a part

// finish follows the command to finish, which may come again while the first is under
// way.
func (m *siteTurn) finish(in finish) {
	p := m.commanded(in.id, in.reply)
	switch {
	case p == nil:
	case p.done:
		m.respond(in.reply, nil)
	case !p.told:
		m.respond(in.reply, ErrUndecided)
	default:
		p.finishers = append(slices.Clip(p.finishers), in.reply)
		m.advance(p)
	}
}

// settleFinish answers all commands to finish.
func (m *siteTurn) settleFinish(p *part, err error) {
	for _, reply := range p.finishers {
		m.respond(reply, err)
	}
	p.finishers = nil
}

// finished follows the deletion of our ballot. If the ballot was missing, a list shows
// whether we have finished.
func (m *siteTurn) finished(p *part, in siteAnswered) {
	switch {
	case in.err == nil:
		p.done, p.clear = true, in.left == 0
		m.settleFinish(p, nil)
		m.patrol(p)
	case session.Passing(in.err), errors.Is(in.err, session.ErrNoNode):
		p.look = true
	default: // the ballot stays, and Finish may be called again
		m.settleFinish(p, in.err)
	}
}

// --- the end

// end answers all commands, and leaves. The outcome of a command whose request may be under way is unknown.
func (m *siteTurn) end(why error) {
	for i := range m.parts {
		p := &m.parts[i]
		if p.vote {
			err := refusal(why)
			if p.task == voting || p.look {
				err = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, err)
			}
			m.respond(p.voter, err)
		}
		m.settleFinish(p, fmt.Errorf("%w: %w", session.ErrUnknownOutcome, refusal(why)))
	}
	m.over = true
	m.emit(Left{why})
}

// refusal returns the error of commands after the end.
func refusal(why error) error { return client.Because(ErrClosed, why) }
