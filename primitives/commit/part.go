package commit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file is one transaction at a site: its part in the site's machine (sitemachine.go). The next
// request of a part is a function of its fields. It comes through these states:
//
//	       listed                     record read
//	(none) ───────▶ reading ───────────────────────▶ asked            rec, asked; the site emits Prepare
//	                   │                               │ Vote
//	                   │                               ▼
//	                   │ after a restart: check      voting           vote
//	                   │                               │ cast done, or a check shows the vote
//	                   │  a vote is there              ▼
//	                   ├────────────────────────────▶ pledged         ballot.vote
//	                   │                               │ the record has an outcome, by any party
//	                   │  a vote and an outcome        ▼
//	                   ├────────────────────────────▶ told            told; the site emits the outcome
//	                   │                               │ Finish
//	                   │                               ▼
//	                   │                            finishing        finishers
//	                   │  no ballot of this site       │ concluded
//	                   └────────────────────────────▶ finished        done; the last removes the record
//	                                                   │
//	                                                   ▼
//	                                                 rested: see rested.go
//
// An outcome may come in every state: a site that is asked or voting receives it, too. A record may
// vanish in every state. If the site has not finished, the part is gone then: it is dropped as soon
// as the user needs no more answers.
//
// Servers may come back with older data. Then a vote is cast again, since the list of the ballots
// does not have it. The exception is a vote with data that an earlier process cast: it is not cast
// again, and the transaction aborts at its deadline. An outcome may also be undone, even after it
// was emitted, as long as this site has not finished. A read of the record shows that. Then the
// part begins anew, and its user receives the events of the transaction in the history that counts
// now. The ballot of the site is there by then, because it goes only while the record is decided.
// If the session outlives the return to older data, a watch does not report data older than its
// last report. So the record is read again when an answer shows that it has changed.
//
// At any time at most one request of a part is under way: its task. advance starts the next one
// when the last is answered.

// A task is the request of a part that is under way. There is at most one: a vote is confirmed
// before the site finishes.
type task int

const (
	idle       task = iota // no request is under way
	checking               // check: list the ballots once, for our own and for those of coordinators
	voting                 // cast: replace our ballot by the vote
	rereading              // reread: read the record, whose watch has not reported a change
	confirming             // ascertain: list the ballots and the present sites, as the leader knows them
	deciding               // propose: record an outcome
	finishing              // conclude: delete our ballot
	clearing               // clearUp: remove the rest of the transaction
)

func (t task) String() string {
	return [...]string{"idle", "checking", "voting", "rereading", "confirming", "deciding", "finishing", "clearing"}[t]
}

// A timer is a deadline of a part.
type timer int

// The timers of a part. forget ends all of them.
const (
	deadline timer = iota // the votes are late
	patrol                // TakeoverAfter passed once more
	pause                 // a request that the server refused is to be made again
	absence               // missing sites are gone

	timers // how many there are
)

// refusedFor is the pause before a request is made again that the server has refused. It doubles
// with each refusal in a row, up to mostDoubled times: a node that stays unreadable costs next to
// nothing.
const (
	refusedFor  = 30 * time.Second
	mostDoubled = 10
)

// A name identifies an incarnation of a transaction: a later one may have the same id. Answers that
// name another incarnation are ignored.
type name struct{ id, guid string }

// enoughLooks is the number of looks in a row without a coordinator after which a site
// presides.
const enoughLooks = 2

// A part is the state of one transaction at this site. A field that is set stays set until the part
// is dropped, or begun anew by decidedBy, unless its comment says otherwise. After every step:
//
//   - Before rec is set, no other field but id, look, next and those of a pause is.
//   - An outcome that was emitted is the outcome in the record, as it was read last.
//   - Once told is set, no vote is under way; once done is set, no Finish is.
//   - Our ballot is deleted only while the record is decided.
type part struct {
	id string // of the transaction

	// rec is set by the first read of the record, without regard to its outcome. Until then nothing
	// is asked, and commands are refused.
	rec *record

	// task is set with the request that it names, and cleared by the answer. While it is not idle,
	// no other request of the part is under way.
	task task

	// gone is set when the record is known to be gone and the site has not finished. While it is
	// set, nothing is asked of ZooKeeper for this part.
	gone bool

	// next is set when a list had the id that is newer than the last read of the record: another
	// transaction may have it. It is cleared by the next read, and by a watch that reports the
	// deletion of the record, since a later list arrives after that. While it is set, the id is
	// followed when this part is dropped.
	next bool

	// look is set when the ballots are to be listed: after a start, when a reply was lost, and by
	// patrols. It is cleared by a list that succeeds.
	look bool

	// ballot is our vote as a reply or a list confirmed it. While vote is set, it is the vote to be
	// cast.
	ballot ballot

	// data is the data of the vote, if this process has cast the vote. It is kept when the vote is
	// confirmed, since the vote may be undone.
	data string

	// vote is set by the command to vote, and by a list that shows that our vote was undone. It is
	// cleared when the vote is confirmed or refused. Then voter is answered, unless voted is set:
	// it is set when a vote of ours is known, so that the command has its answer.
	vote, voted bool
	voter       actors.Reply[error]

	// asked is set when the site begins its part in an undecided transaction. Prepare was emitted,
	// unless a vote was there.
	asked bool

	// told is set when the outcome, or Forgotten, was emitted. While it is set, nothing more is
	// emitted.
	told bool

	// sure is set by a Commit while no Yes of ours is known: an earlier process has voted, or a
	// reply is late. The ballots are listed once more then, so that Guard and Once name our vote.
	sure bool

	// decider is the knowledge that the rule needs. It is not used once there is an outcome. It is
	// beaten until the watch on the record, or a reread, has shown the recorded outcome.
	decider decider

	// presides is set when this site decides: in Peer mode with asked, else by preside. While it is
	// set, the ballots are followed until the outcome is emitted.
	presides bool

	// patrols is set when TakeoverAfter has passed, and cleared by the list that follows.
	patrols bool

	// alone is the number of these lists in a row that showed no coordinator. A list that shows one
	// clears it.
	alone int

	// refusals counts the requests in a row that the server has refused. An answer clears it.
	refusals int

	// paused is set by a refusal, and cleared by the timer pause, and by a command. While it is
	// set, no task is started.
	paused bool

	// unread is set when the record, and unlisted when the ballots that this site follows, could
	// not be read. Both are cleared when that is tried again, after the pause.
	unread, unlisted bool

	// outcome and version are those of the last read of the record. The outcome is never a guess.
	// It is cleared, or replaced, if a later read shows that it was undone.
	outcome *Outcome
	version int32

	// reread is set when the version of the record differs from the version that was read, and the
	// watch may not report the difference. It is cleared by a read.
	reread bool

	// aborted is set with the outcome that was emitted, if that is an abort and was undone. It is
	// recorded again, unless there is another one.
	aborted *Outcome

	// finishers are the replies of all commands to finish. Each command adds its reply. They are
	// cleared when finishing is confirmed or refused: then all are answered. While there are any,
	// the site finishes. The slice is replaced, not modified.
	finishers []actors.Reply[error]

	// done is set when our ballot is gone: confirmed by a reply, or shown by a list. The record has
	// an outcome then.
	done bool

	// bereft is set when a list does not have our ballot although no outcome is known. The record
	// is read then, and the ballots are listed once more.
	bereft bool

	// clear is set when the rest of the transaction may be removed: no ballot was left. It is
	// cleared by an attempt, unless that is to be repeated. barred is set when the server has
	// refused the removal.
	clear, barred bool
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

// opening reports whether the part has yet to learn its state.
func (p part) opening() bool { return !p.paused && (p.rec == nil || p.look && !p.asked && !p.told) }

// named reports whether the transaction names this site.
func (m *siteTurn) named(p *part) bool { return slices.Contains(p.rec.Sites, m.site) }

// --- answers

// answered follows the answer to a task. An answer after the task was ended otherwise
// is ignored.
func (m *siteTurn) answered(p *part, in siteAnswered) {
	if p.task != in.task {
		return
	}
	p.task = idle
	if in.err == nil {
		p.refusals = 0
	}
	switch in.task {
	case checking:
		m.checked(p, in)
	case voting:
		m.castDone(p, in.err)
	case confirming:
		m.decides(p, toConfirm, in)
	case rereading:
		m.readAgain(p, in)
	case deciding:
		m.decides(p, toDecide, in)
	case finishing:
		m.finished(p, in)
	case clearing:
		p.clear = session.Passing(in.err)
		p.barred = in.err != nil && !p.clear && !errors.Is(in.err, session.ErrNotEmpty)
	case idle:
	}
}

// refuse follows a request that the server has refused, and that no caller waits for: it is made
// again after a pause. The refusal is no reason to leave, since the other transactions do not
// depend on the request. Nor is it the outcome of another party: without a further attempt a
// transaction would stay undecided for ever, if this site is the only one left that decides.
func (m *siteTurn) refuse(p *part) {
	m.do(await{p.name(), pause, refusedFor << min(p.refusals, mostDoubled)})
	p.paused = true
	p.refusals++
}

// resume ends the pause after a refusal. It renews the watches that ended with the refusal. A
// request follows from the fields of the part, as after any other input.
func (m *siteTurn) resume(p *part) {
	if p.paused = false; p.unread {
		m.do(followRecord{p.id})
	}
	if p.unlisted {
		m.do(watchBallots{p.name()})
	}
	p.unread, p.unlisted = false, false
}

// --- the record

// read follows a read of the record, or its deletion. The first record with another GUID
// ends the part: a later transaction has the id, and the removal between the two was not
// seen.
func (m *siteTurn) read(p *part, in siteRead) {
	if in.err == nil && !p.gone {
		p.next, p.reread = false, false // the lists so far are older
	}
	switch {
	case errors.Is(in.err, session.ErrNoNode):
		p.next = p.next && in.zxid != 0 // a list that is newer than the deletion arrives after it
		m.vanished(p)
	case session.Passing(in.err):
		m.do(followRecord{p.id})
	case in.err != nil:
		p.unread = true
		m.refuse(p)
	case in.rec == nil && p.rec == nil: // a record that does not decode is not one of ours
		m.rest(p, rested{mute: true})
	case in.rec == nil: // another client has overwritten it
		m.lament(p)
		m.settleFinish(p, fmt.Errorf("%w: %s is no record of a transaction any more", ErrForeign, place{m.parent, p.id, ""}.record()))
	case p.rec == nil:
		if p.rec, p.decider, p.outcome, p.version = in.rec, newDecider(in.rec, m.site), in.rec.Outcome, in.version; !m.named(p) {
			m.rest(p, rested{mute: true}) // a later transaction may have the id
		}
	case p.rec.GUID == in.rec.GUID:
		// An operator may have written the record: no outcome can be recorded, however often it is
		// read.
		p.decider.beaten, p.version = in.rec.Outcome == nil && in.version != 0, in.version
		if m.decidedBy(p, in.rec.Outcome); p.decider.beaten {
			m.lament(p)
		}
	default: // a later transaction has the id: the removal between was not seen
		p.next = true
		m.vanished(p)
	}
}

// decidedBy enters the outcome as a read shows it. A record that had an outcome keeps it, unless
// the servers have come back with older data: then the site begins its part anew, and its user
// receives the events that follow. Nothing is begun anew after our ballot has gone: see rested.go.
func (m *siteTurn) decidedBy(p *part, now *Outcome) {
	was := p.outcome
	switch {
	case was == nil || p.done || p.gone:
		p.outcome = cmp.Or(was, now)
	case now != nil && *now == *was:
	case !p.told:
		p.outcome, p.sure = now, false
	default:
		m.settleFinish(p, ErrUndecided)
		*p = part{
			id: p.id, rec: p.rec, task: p.task, next: p.next, ballot: p.ballot, data: p.data, voted: p.voted, decider: newDecider(p.rec, m.site),
			outcome: now, version: p.version, look: true,
		}
		if now == nil && !was.Committed {
			p.aborted = was
		}
	}
}

// readAgain follows a read of the record, made because no watch may report the change. If there is
// no record, the list of the ballots shows the fate of the transaction.
func (m *siteTurn) readAgain(p *part, in siteAnswered) {
	switch {
	case in.err == nil:
		m.read(p, siteRead{id: p.id, rec: in.rec, version: in.version})
	case errors.Is(in.err, session.ErrNoNode):
		p.reread, p.look = false, true
	case !session.Passing(in.err):
		m.refuse(p)
	}
}

// vanished follows the end of the record. A part that has finished, or has nothing to do,
// is dropped; any other is gone.
func (m *siteTurn) vanished(p *part) {
	if p.rec == nil || p.done {
		m.drop(p)
		return
	}
	p.gone = true
	m.do(forget{p.name()})
}

// voided follows a list that found no ballots. The record is gone with them, which a read will
// show; or an operator has deleted the ballots only. The transaction rests until the record is
// gone, so that its site is not asked again.
func (m *siteTurn) voided(p *part) {
	if p.gone { // the read came first
		return
	}
	m.settleVote(p, ErrNoTransaction)
	m.lament(p)
	m.settleFinish(p, nil)
	m.rest(p, rested{mute: true, void: true})
}

// --- the next step of a part

// advance starts the next task of a part, which the order of the cases below selects. It
// is called after each change of the part, so that whatever waits for the end of a task
// goes on here.
func (m *siteTurn) advance(p *part) {
	if p.rec == nil || p.task != idle || !m.stands() {
		return
	}
	if p.gone {
		m.settleVote(p, ErrNoTransaction)
		m.lament(p)
		if !p.told || p.outcome == nil || p.finishes() { // else the user may yet call Finish
			m.drop(p)
		}
		return
	}
	if p.paused {
		return
	}

	if p.reread {
		p.task = rereading
		m.do(reread{p.name()})
		return
	}

	// A Commit implies our Yes, which an earlier process has cast: a list shows the name of its
	// ballot.
	if p.outcome != nil && p.outcome.Committed && !p.told && !p.done && !p.sure && (p.vote || p.ballot.vote != Yes) {
		p.sure, p.look = true, true
	}

	// The list comes first: everything else depends on our ballot, and on the fate of earlier
	// requests.
	if p.look {
		p.task = checking
		m.do(check{p.name()})
		return
	}

	// The end of the transaction precedes its middle: after a restart, parts begin anywhere.
	if p.done {
		m.lament(p)
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

	// From here on the transaction is undecided, as far as is known here. Our own vote precedes the
	// outcome that we propose.
	if p.vote {
		p.task = voting
		m.do(cast{p.name(), p.ballot, p.data})
		return
	}
	if p.aborted != nil && !p.decider.beaten {
		p.task = deciding
		m.do(propose{p.rec, verdict{Outcome: *p.aborted}, m.epoch})
		return
	}
	if !p.presides {
		return
	}
	switch v, next := p.decider.next(); next {
	case toWait, toRead: // the watch on the record will report the outcome, or a reread does
	case toConfirm:
		p.task, p.decider = confirming, p.decider.ask()
		m.do(ascertain{p.name()})
	case toDecide:
		p.task = deciding
		m.do(propose{p.rec, v, m.epoch})
	}
}

// ask begins the part of a site in an undecided transaction. In Peer mode it decides from now on.
// In Coordinated mode it watches for the coordinator's absence only, and for a deadline that passed
// without an outcome.
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
		m.emit(Prepare{Tx: txOf(p.rec), Payload: p.rec.Payload})
	}
}

// patrol sets the timer for another look at the transaction.
func (m *siteTurn) patrol(p *part) { m.do(await{p.name(), patrol, p.rec.TakeoverAfter}) }

// tell emits the outcome, once, and finishes when that is commanded. A vote that was not
// sent is refused: it would come too late.
func (m *siteTurn) tell(p *part) {
	if p.vote {
		m.settleVote(p, ErrDecided)
		p.ballot = ballot{}
	}
	if !p.told {
		if p.told = true; p.presides {
			m.do(unwatch{p.name()})
		}
		m.emit(eventOf(p.rec, *p.outcome, m.node(p)))
	}
	if p.finishes() {
		p.task = finishing
		m.do(conclude{p.name(), p.ballot, p.version, m.epoch})
	}
}

// node returns the path of the site's ballot.
func (m *siteTurn) node(p *part) string {
	return place{m.parent, p.id, p.guid()}.ballot(p.ballot.name(m.site))
}

// lament emits the end of a transaction that is gone, or whose record an operator has written, or
// in which our ballot is gone, before this site has finished, if its user has received anything of
// it. Package commit does not remove it then: an operator has. Or the user of this site has deleted
// its ballot: see [Committed.Once]. Or another process of the site has finished.
func (m *siteTurn) lament(p *part) {
	switch {
	case p.told || !p.asked:
	case p.outcome != nil:
		m.emit(eventOf(p.rec, *p.outcome, m.node(p)))
	default:
		m.emit(Forgotten{txOf(p.rec)})
	}
	p.told = p.told || p.asked
}

// sweep removes the rest of a transaction, if all parties have finished. Else there is nothing to
// do for this site.
func (m *siteTurn) sweep(p *part) {
	switch {
	case p.clear:
		p.task = clearing
		m.do(clearUp{p.rec.With(*p.outcome)})
	case !p.clear:
		m.rest(p, rested{barred: p.barred})
	}
}

// --- votes

// commanded returns the part that a command names. If there is none, it refuses the command and
// returns nil. If the site has finished the transaction, it answers the command as finished says.
func (m *siteTurn) commanded(tx Tx, reply actors.Reply[error], finished error) *part {
	at, found := m.find(tx.ID)
	switch {
	case m.answerAtRest(tx, reply, finished):
		return nil
	case !found || m.parts[at].rec == nil:
		m.respond(reply, ErrNoTransaction)
		return nil
	case m.parts[at].guid() != tx.GUID:
		m.respond(reply, ErrStale)
		return nil
	}
	return m.own(at)
}

// castVote follows the command to vote. A vote that is known, or that may be on its way,
// is not replaced.
func (m *siteTurn) castVote(in castVote) {
	p := m.commanded(in.tx, in.reply, ErrDecided)
	switch {
	case p == nil:
	case p.gone:
		m.respond(in.reply, ErrNoTransaction)
	case p.vote || p.ballot.vote != 0:
		m.respond(in.reply, ErrVoted)
	case p.outcome != nil:
		m.respond(in.reply, ErrDecided)
	default:
		p.vote, p.voted, p.voter = true, false, in.reply
		p.ballot, p.data = ballot{in.vote, in.data != ""}, in.data
		m.resume(p)
		m.advance(p)
	}
}

// castDone follows the answer to the vote. Any doubt is resolved by a list of the ballots: it shows
// our vote, or that it may be cast again.
func (m *siteTurn) castDone(p *part, err error) {
	switch {
	case !p.vote: // refused already, when the transaction was gone
	case err == nil:
		m.settleVote(p, nil)
		p.voted = true
	case session.Passing(err), errors.Is(err, session.ErrNoNode), errors.Is(err, session.ErrNodeExists):
		p.look = true
	default: // not done: Vote may be called again
		m.settleVote(p, err)
		p.ballot = ballot{}
	}
}

// checked follows the list of the ballots. It shows the fate of our own ballot, and counts the
// looks without a coordinator.
func (m *siteTurn) checked(p *part, in siteAnswered) {
	switch {
	case session.Passing(in.err):
		p.look = true
		return
	case errors.Is(in.err, session.ErrNoNode):
		m.voided(p)
		return
	case in.err != nil:
		m.refuse(p)
		return
	}

	// Only the looks of patrols say that a coordinator is away for long: others may follow each
	// other at once.
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
	was := p.decider.beaten
	p.decider = p.decider.count(b)
	m.doubt(p, was)

	// Our own ballot: there is none after we have finished, and it has no vote until ours is
	// executed, or if that was undone.
	switch {
	// No party but this site deletes our ballot before the transaction is removed. A site that has
	// finished has read the outcome: if there is none, an operator has deleted it.
	case !there && p.outcome == nil && !p.bereft:
		p.bereft, p.reread, p.look = true, true, true
	case !there && p.outcome == nil:
		m.settleVote(p, fmt.Errorf("%w: %s was deleted", session.ErrNoNode, m.node(p)))
	case !there:
		m.settleVote(p, ErrDecided)
		p.done, p.clear = true, len(in.names) == 0
		m.settleFinish(p, nil)
	case ours.vote == 0 && !p.vote:
		p.bereft = false
		known := p.ballot.vote != 0 && p.ballot.data == (p.data != "")
		if p.vote = known; !known {
			p.ballot, p.data = ballot{}, ""
		}
	case ours.vote != 0:
		p.bereft = false
		var err error
		if ours != p.ballot { // of an earlier process
			err = ErrVoted
		}
		m.settleVote(p, err)
		p.ballot, p.voted = ours, true
	}
	if p.alone == enoughLooks && p.outcome == nil && !p.done {
		m.preside(p)
	}
}

// settleVote ends the vote that is to be cast, if there is one, and answers its command, unless
// that has its answer.
func (m *siteTurn) settleVote(p *part, err error) {
	if p.vote && !p.voted {
		m.respond(p.voter, err)
	}
	if p.vote = false; err != nil {
		p.data = ""
	}
}

// --- deciding

// preside has this site apply the rule. Any number of parties may preside: the first to record an
// outcome wins. The presence of the sites is followed once for all parts.
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
	p.decider, _ = p.decider.attend(m.there)
}

// counted follows a list of the ballots while this site presides.
func (m *siteTurn) counted(p *part, in siteCounted) {
	if p.outcome == nil && !p.gone { // else nothing is to be decided
		m.decides(p, toWait, siteAnswered{names: in.names, err: in.err})
	}
}

// decides hands the decider an answer: to a request of advance, or a list of the ballots, for which
// it waits. If there are no ballots, the list for our own ballot shows the fate of the transaction.
// A reply that was lost leads to another attempt, which fails if the first one has recorded the
// outcome. Only a read of the record says which outcome counts. The watch on the record fires,
// unless the servers have come back with older data and it has nothing to report. Then the record
// is read.
func (m *siteTurn) decides(p *part, to step, in siteAnswered) {
	was := p.decider.beaten
	var means meaning
	switch p.decider, means = p.decider.answered(to, in.names, in.sites, in.err); means {
	case learned:
		m.doubt(p, was)
	case isOutcome, unfounded:
	case passes:
		if to == toWait {
			m.do(watchBallots{p.name()})
		}
	case forbidden:
		p.unlisted = p.unlisted || to == toWait
		m.refuse(p)
	case noBallots:
		p.look = true
	case tooLate:
		p.reread = p.reread || in.settled && p.outcome == nil && errors.Is(in.err, session.ErrBadVersion)
	}
}

// doubt follows a list of the ballots. If it is the first without one of them, the record is read:
// its watch will report the outcome, unless there is none.
func (m *siteTurn) doubt(p *part, was bool) {
	p.reread = p.reread || p.decider.beaten && !was && p.outcome == nil
}

// passed follows the end of a timer. A patrol looks for a coordinator before the outcome,
// and for the rest of the transaction after the site has finished. A deadline lets the
// site preside, whatever the mode.
func (m *siteTurn) passed(p *part, t timer) {
	switch {
	case p.gone:
		return
	case t == pause:
		m.resume(p)
		return
	case t == absence:
		p.decider = p.decider.lapse()
		return
	case t == patrol:
		m.patrol(p)
		if p.outcome == nil && !p.presides {
			p.look, p.patrols = true, true
		}
		return
	}
	p.decider = p.decider.expire()
	m.preside(p)
}

// --- the end of a part

// finish follows the command to finish, which may come again while the first is under
// way.
func (m *siteTurn) finish(in finish) {
	p := m.commanded(in.tx, in.reply, nil)
	switch {
	case p == nil:
	case p.done:
		m.respond(in.reply, nil)
	case !p.told || p.outcome == nil && !p.gone:
		m.respond(in.reply, ErrUndecided)
	default:
		p.finishers = append(slices.Clip(p.finishers), in.reply)
		m.resume(p)
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
// whether we have finished. If the record is not what was read, the outcome may have been undone.
func (m *siteTurn) finished(p *part, in siteAnswered) {
	switch {
	case in.err == nil:
		p.done, p.clear = true, in.left == 0
		m.settleFinish(p, nil)
	case errors.Is(in.err, session.ErrBadVersion):
		p.reread = true
	case session.Passing(in.err), errors.Is(in.err, session.ErrNoNode):
		p.look = true
	default: // the ballot stays, and Finish may be called again
		m.settleFinish(p, in.err)
	}
}
