package commit

import (
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// This file goes through every interleaving of one coordinator and up to three sites. The machines
// are those that run in production. They share a small model of the nodes, without performers;
// model_test.go has the performers, and fewer sites. A world is a value that is copied, so a state
// costs some microseconds.
//
// A step is one of these: the server executes the oldest request of a session; a follow delivers
// what the nodes show now, if it differs from what it delivered last; a timer fires; a user votes;
// a fault, and each thing that follows from it.
//
// Fewer steps than in reality are enough:
//
//   - A machine takes an answer when the server gives it. A machine changes nothing but itself and
//     the end of its queue, and its requests wait there as long as the walk likes.
//   - A follow delivers at any moment, not only in the order of the wire. That adds histories.
//   - A list of the ballots in which no vote has changed is not delivered again. No machine looks
//     at more of it.
//   - Sites with the same vote are alike. Of the worlds that differ in their order only, one is
//     gone through.
//   - Outcomes are alike if both commit or both abort. No machine looks at the reason, or at the
//     party that has decided.
//   - Resume is one read. A record is there for one stretch of time, so a list and a later read
//     show no more than the read.
//   - A site that was too late to record an outcome waits for the recorded one. It hears no more of
//     votes and presence.
//   - No state of the ballots returns. So of the last list that a follow delivered, only this
//     counts: whether it is old.
//   - A missing site is gone at once: the request to the leader that follows waits as long as the
//     walk likes, and its answer says whether the site is back.
//   - One fault befalls one party. A setting with one fault is a setting for each victim: the
//     coordinator, and a site with each vote. Together they have the same histories. The parties
//     that are not the victim have no trouble: see first.
//   - A request whose reply is lost, and the client's notice of that, are steps of their own. What
//     the server executes after the notice it could have executed before: a server refuses it once
//     the session is served elsewhere.

// A setting says what a world begins with, and what may go wrong in it.
type setting struct {
	mode   Mode
	plan   []Vote // of the sites' users; 0 does not vote
	faults int8   // how many of the two kinds, at most
	victim victim // the party that they befall
	crash  bool   // a process is killed, and starts again
	cut    bool   // a connection breaks: replies are lost, or requests; or the session expires
	ticks  int8   // how many timers fire at any moment; at the end all do
	late   bool   // the sites begin when the transaction is there
	slow   bool   // users vote at any moment after Prepare
}

func (s *setting) String() string {
	victim := ""
	switch {
	case s.victim == theCoordinator:
		victim = " of the coordinator"
	case s.victim > theCoordinator:
		victim = fmt.Sprintf(" of a site with %v", s.plan[s.victim-theCoordinator-1])
	}
	return fmt.Sprintf("%v %v faults=%d%s ticks=%d", s.mode, s.plan, s.faults, victim, s.ticks) +
		flagged(" crash", s.crash) + flagged(" cut", s.cut) + flagged(" late", s.late) + flagged(" slow", s.slow)
}

// A victim is a party with a number, or any. A site stands for those with the same vote too.
type victim int8

const (
	anyParty victim = iota
	theCoordinator
)

// befalls reports whether a fault may befall a party.
func (s *setting) befalls(party int) bool {
	site := int(s.victim-theCoordinator) - 1
	switch {
	case s.victim <= theCoordinator || party == 0:
		return s.victim == anyParty || s.victim == theCoordinator && party == 0
	}
	return s.plan[site] == s.plan[party-1]
}

// victims returns those that are different.
func (s *setting) victims() []victim {
	all := []victim{theCoordinator}
	for i, vote := range s.plan {
		if !slices.Contains(s.plan[:i], vote) {
			all = append(all, theCoordinator+1+victim(i))
		}
	}
	return all
}

const (
	mostSites  = 3
	mostGhosts = 3
)

// What becomes of the record's node.
const (
	notYet int8 = iota
	there
	removedAgain
)

// What becomes of a site's ballot: it is absent, pending, or has a Vote.
const (
	absent  int8 = iota - 1
	pending      // a ballot without a vote
)

// The kinds of follows.
const (
	ofParent = iota
	ofRecord
	ofBallots
	ofSites
	followKinds
)

// What a follow delivered last, if that is not a state of nodes.
const (
	inactive int32 = -1
	fresh    int32 = -2 // nothing yet
)

type (
	// A world is a state of everything. It is copied by assignment: its slices are replaced, not
	// modified.
	world struct {
		*setting
		record  *record // without an outcome
		decided *record // with the outcome, also when it is removed; nil before
		node    int8    // of the record
		ballots [mostSites]int8
		yes     [mostSites]bool // there was a Yes of the site
		present [mostSites]int8 // the session that has the site's presence; 0 for none
		chairs  uint16          // the sessions of which there is a coordinator's ballot, as bits
		ghosts  [mostGhosts]ghost
		parties [1 + mostSites]process // the coordinator, and the sites
		budget  int8                   // faults that may happen yet
		time    int8                   // timers that may fire yet
	}
	// A process is the present one of a party, with its session.
	process struct {
		crashed bool
		over    bool  // its machine has ended
		base    int8  // how many sessions earlier processes had
		session int8  // the present or the last one
		epoch   int8  // 0 between two sessions; else session - base
		cut     bool  // the connection is, and the client does not know
		expired bool  // so is the session, at the server
		queue   []any // effects: requests that are not executed
		lost    []any // requests that were executed, without a reply

		coordinator machine
		surveys     bool // a coordinator that restarted has not read the record
		unheard     bool // and then, that it has not heard of its session
		site        sitemachine
		follows     [followKinds]int32
		timers      [timers]bool
		votedBy     [mostSites]bool // which votes were there when a timer fired: no abort may miss one

		told     bool // the outcome
		prepared bool // its user has yet to vote
		learned  bool // some process of the party was told the outcome
		voted    bool // some process of the party was told that it has voted
		finished bool // some process of the party was told that it has finished
	}
	// A ghost is a session that its client has left. The server has yet to expire it.
	ghost struct {
		party, base, session int8 // no session: none
		queue                []any
	}
)

// A move is what happens next.
type move struct {
	kind    moveKind
	party   int8
	variant int16
}

type moveKind int8

const (
	serves       moveKind = iota // the server executes the oldest request
	delivers                     // a follow does
	reconnects                   // after a cut; variant 1: the client knows which requests were not sent
	expiresHere                  // by the client's clock; variant 1: answers come before the event
	expiresThere                 // by the server's clock
	notices                      // the client learns of that; variant 1 as above
	connects                     // anew
	hears                        // the coordinator, of the session that it resumes in
	straggles                    // a request of a client that has left is executed
	buries                       // the server expires the session of a client that has left
	appears                      // the presence of a site
	restarts
	votes
	fires
	crashes
	cuts
)

func (m move) String() string {
	return fmt.Sprintf("%s %d.%d", [...]string{
		"serves", "delivers", "reconnects", "expires here", "expires there", "notices", "connects", "hears", "straggles", "buries", "appears",
		"restarts", "votes", "fires", "crashes", "cuts",
	}[m.kind], m.party, m.variant)
}

// wrong is a violation.
type wrong string

func violate(format string, args ...any) { panic(wrong(fmt.Sprintf(format, args...))) }

var thisName, thisTx = name{modelID, "g"}, Tx{modelID, "g"}

func newWorld(s *setting) *world {
	r := &record{ID: modelID, GUID: "g", Mode: s.mode, Deadline: time.Minute, TakeoverAfter: time.Second, Sites: siteNames[:len(s.plan)]}
	w := &world{setting: s, record: r, ballots: [mostSites]int8{absent, absent, absent}}
	for i := range w.parties {
		w.parties[i] = process{session: 1, epoch: 1}
		w.parties[i].rest()
	}
	w.parties[0].coordinator = newMachine(r)
	begin := func() {
		w.take(0, start{})
		w.take(0, heard{session.Connected{Epoch: 1}})
	}
	if s.late {
		begin()
		w.rest()
	}
	for i := range s.plan {
		w.join(1 + i)
		w.appear(1 + i)
	}
	if !s.late {
		w.rest()
		begin()
	}
	w.budget, w.time = s.faults, s.ticks
	return w
}

// join starts the machine of a site.
func (w *world) join(party int) {
	p := &w.parties[party]
	p.site = sitemachine{parent: modelParent, site: siteNames[party-1]}
	w.take(party, siteHeard{session.Connected{Epoch: int(p.epoch)}})
}

// appear has the presence of a site stand, as package presence does when no other session has it.
func (w *world) appear(party int) {
	p := &w.parties[party]
	w.present[party-1] = p.session
	w.take(party, stood{int(p.epoch)})
}

// rest ends what a process follows and waits for.
func (p *process) rest() {
	p.timers = [timers]bool{}
	for kind := range p.follows {
		p.follows[kind] = inactive
	}
}

func (p *process) ask(request any) { p.queue = append(slices.Clip(p.queue), request) }

// deaf reports whether a site knows the outcome, and looks no more at the votes, the presence of
// others, or its deadline.
func (p *process) deaf() bool { return len(p.site.parts) > 0 && p.site.parts[0].outcome != nil }

// deafened reports whether a site looks no more at the votes or the presence of others: it is deaf,
// or it was too late to record an outcome, and waits for the one that is recorded.
func (p *process) deafened() bool {
	return len(p.site.parts) > 0 && (p.site.parts[0].outcome != nil || p.site.parts[0].decider.beaten)
}

// online reports whether the process has a session and a connection.
func (p *process) online() bool { return !p.crashed && p.epoch != 0 && !p.cut }

// --- machines and users

// take has the machine of a party take an input.
func (w *world) take(party int, in any) {
	p := &w.parties[party]
	var events []Event
	if party == 0 {
		var out effects
		p.coordinator = p.coordinator.Step(in.(input), &out)
		for _, e := range out.Do {
			w.performAsCoordinator(e)
		}
		p.over, events = p.coordinator.Ended(), out.Emit
	} else {
		var out siteEffects
		p.site = p.site.Step(in.(siteInput), &out)
		for _, e := range out.Do {
			w.performAsSite(party, e)
		}
		p.over, events = p.site.Ended(), out.Emit
	}
	if p.over {
		p.rest()
	}
	for _, ev := range events {
		w.receives(party, ev)
	}
	if p.timers[absence] {
		w.fire(party, absence)
	}
}

func (w *world) performAsCoordinator(e effect) {
	p := &w.parties[0]
	switch e := e.(type) {
	case followBallots:
		p.follows[ofBallots] = fresh
	case followSites:
		p.follows[ofSites] = fresh
	case unfollow:
		p.rest()
	case awaitDeadline:
		p.timers[deadline] = true
	case awaitAbsence:
		p.timers[absence] = true
	case respond:
		if e.err != nil && !errors.Is(e.err, session.ErrUnknownOutcome) {
			violate("Begin fails: %v", e.err)
		}
	case decide:
		w.proposes(0, e.verdict)
		p.ask(e)
	case begin, ensure, look, confirm, readVote, appear, retire, remove:
		p.ask(e)
	}
}

func (w *world) performAsSite(party int, e siteEffect) {
	p := &w.parties[party]
	switch e := e.(type) {
	case followParent:
		p.follows[ofParent] = fresh
	case followRecord:
		p.follows[ofRecord] = fresh
	case watchBallots:
		p.follows[ofBallots] = fresh
	case watchSites:
		p.follows[ofSites] = fresh
	case unwatch:
		p.follows[ofBallots], p.timers = inactive, [timers]bool{}
	case await:
		p.timers[e.timer] = true
	case forget:
		p.follows[ofRecord], p.follows[ofBallots], p.timers = inactive, inactive, [timers]bool{}
	case respond:
		switch {
		case e.err == nil && p.told: // the vote was answered before the outcome
			p.finished = true
		case e.err == nil:
			p.voted = true
		case errors.Is(e.err, ErrDecided), errors.Is(e.err, ErrVoted), p.told && errors.Is(e.err, ErrNoTransaction):
		default:
			violate("site %d is refused: %v", party, e.err)
		}
	case propose:
		w.proposes(party, e.verdict)
		p.ask(e)
	case check, cast, reread, ascertain, conclude, clearUp:
		p.ask(e)
	}
}

// proposes checks that an abort for a missing vote does not rest on a list that is older than the
// timer, and that a Commit names every ballot.
func (w *world) proposes(party int, o verdict) {
	if names := strings.Split(o.votes, "/"); o.Committed && len(names) != len(w.plan) {
		violate("%d commits by %q", party, names)
	}
	for i, site := range w.record.Sites {
		if (o.Reason == TimedOut || o.Reason == SiteGone) && o.Site == site && w.parties[party].votedBy[i] {
			violate("%d proposes %v, and the vote was there before the timer fired", party, o)
		}
	}
}

// receives has the user of a party receive an event.
func (w *world) receives(party int, ev Event) {
	p := &w.parties[party]
	switch ev := ev.(type) {
	case Voted:
		if i := slices.Index(siteNames, ev.Site); party != 0 || w.plan[i] != ev.Vote {
			violate("%d receives %v", party, ev)
		}
	case Prepare:
		if party == 0 || p.voted {
			violate("%d receives %v", party, ev)
		}
		if p.prepared = w.plan[party-1] != 0; !w.slow {
			w.vote(party)
		}
	case Committed:
		w.learns(party, Outcome{Committed: true, By: ev.By})
	case Aborted:
		w.learns(party, Outcome{Reason: ev.Reason, Site: ev.Site, By: ev.By})
	case Left:
		forgotten := errors.Is(ev.Err, ErrForgotten) && w.node == removedAgain
		if party != 0 || !forgotten && !errors.Is(ev.Err, session.ErrUnknownOutcome) {
			violate("%d receives %v", party, ev)
		}
	case Forgotten:
		violate("%d receives %v", party, ev)
	}
}

func (w *world) vote(party int) {
	if p := &w.parties[party]; p.prepared {
		p.prepared = false
		w.take(party, castVote{tx: thisTx, vote: w.plan[party-1]})
	}
}

// learns checks an outcome that a party receives: it is recorded, and the same for all.
func (w *world) learns(party int, o Outcome) {
	p := &w.parties[party]
	switch {
	case w.decided == nil || *w.decided.Outcome != o:
		violate("%d receives %v, recorded is %v", party, o, w.decided)
	case p.told, p.finished:
		violate("%d receives an outcome again", party)
	}
	if p.told, p.learned = true, true; party > 0 {
		w.take(party, finish{tx: thisTx})
	}
}

// --- the server

// execute executes a request of a session, and returns the answer.
func (w *world) execute(r any, party, base, by int8) any {
	gone := error(nil)
	if w.node != there {
		gone = session.ErrNoNode
	}
	switch r := r.(type) {
	case begin:
		if w.node == there {
			return begun{session.ErrNodeExists}
		}
		if w.node == removedAgain {
			violate("begun twice")
		}
		w.node, w.chairs = there, 1<<by
		for i := range w.plan {
			w.ballots[i] = pending
		}
		return begun{}
	case look:
		return looked{found: w.found()}
	case confirm:
		return confirmed{w.names(false), w.sites(), gone}
	case ascertain:
		return siteAnswered{name: r.name, task: confirming, names: w.names(true), sites: w.sites(), err: gone}
	case decide:
		return recorded{w.decide(gone, r.Outcome)}
	case appear:
		if gone == nil {
			w.chairs |= 1 << by
		}
		return appeared{r.epoch, gone}
	case retire:
		ours := uint16(1) << (base + int8(r.epoch))
		if gone != nil || w.chairs&ours == 0 {
			return retired{err: session.ErrNoNode}
		}
		w.chairs &^= ours
		return retired{left: w.count()}
	case remove:
		return removed{w.remove(gone)}
	case check:
		return siteAnswered{name: r.name, task: checking, names: w.names(true), err: gone}
	case cast:
		at := &w.ballots[party-1]
		if *at != pending {
			return siteAnswered{name: r.name, task: voting, err: session.ErrNoNode}
		}
		*at, w.yes[party-1] = int8(r.vote), r.vote == Yes
		return siteAnswered{name: r.name, task: voting}
	case propose:
		return siteAnswered{name: thisName, task: deciding, err: w.decide(gone, r.Outcome)}
	case conclude:
		at := &w.ballots[party-1]
		switch {
		case *at != int8(r.vote):
			return siteAnswered{name: r.name, task: finishing, err: session.ErrNoNode}
		case w.decided == nil:
			violate("%d finishes undecided", party)
		}
		*at = absent
		return siteAnswered{name: r.name, task: finishing, left: w.count()}
	case clearUp:
		return siteAnswered{name: thisName, task: clearing, err: w.remove(gone)}
	}
	panic(fmt.Sprintf("unknown request %T", r))
}

// failed returns the answer to a request that failed.
func failed(r any, err error) any {
	switch r := r.(type) {
	case begin:
		return begun{err}
	case look:
		return looked{err: err}
	case confirm:
		return confirmed{err: err}
	case ascertain:
		return siteAnswered{name: thisName, task: confirming, err: err}
	case decide:
		return recorded{err}
	case appear:
		return appeared{r.epoch, err}
	case retire:
		return retired{err: err}
	case remove:
		return removed{err}
	case check:
		return siteAnswered{name: thisName, task: checking, err: err}
	case cast:
		return siteAnswered{name: thisName, task: voting, err: err}
	case propose:
		return siteAnswered{name: thisName, task: deciding, err: err}
	case conclude:
		return siteAnswered{name: thisName, task: finishing, err: err}
	case clearUp:
		return siteAnswered{name: thisName, task: clearing, err: err}
	}
	panic(fmt.Sprintf("unknown request %T", r))
}

// reads reports whether a request changes nothing.
func reads(r any) bool {
	switch r.(type) {
	case look, check, confirm, ascertain:
		return true
	}
	return false
}

// found returns the record that is read; nil if there is none.
func (w *world) found() *record {
	switch {
	case w.node != there:
		return nil
	case w.decided != nil:
		return w.decided
	}
	return w.record
}

func (w *world) decide(gone error, o Outcome) error {
	switch {
	case gone != nil:
		return gone
	case w.decided != nil:
		return session.ErrBadVersion
	case o.Committed && slices.Contains(w.yes[:len(w.plan)], false):
		violate("committed with the votes %v", w.yes)
	}
	w.decided = w.record.With(o)
	return nil
}

func (w *world) remove(gone error) error {
	switch {
	case gone != nil:
		return gone
	case w.count() > 0:
		return session.ErrNotEmpty
	case w.decided == nil:
		violate("removed undecided")
	}
	w.node = removedAgain
	return nil
}

// count returns how many ballots there are. It takes those of coordinators for one: parties ask
// whether there is any.
func (w *world) count() (n int) {
	for i := range w.plan {
		if w.ballots[i] != absent {
			n++
		}
	}
	if w.chairs != 0 {
		n++
	}
	return n
}

// ballotNames are the names of a site's ballots.
var ballotNames = func() (all [mostSites][3]string) {
	for i, site := range siteNames {
		all[i] = [...]string{nodes.Unvoted + site, nodes.VotedYes + site, nodes.VotedNo + site}
	}
	return all
}()

// names returns those of the ballots.
func (w *world) names(coordinators bool) []string {
	names := make([]string, 0, mostSites+1)
	for i := range w.plan {
		if w.ballots[i] != absent {
			names = append(names, ballotNames[i][w.ballots[i]])
		}
	}
	if coordinators && w.chairs != 0 {
		names = append(names, nodes.CoordinatorPrefix+"x")
	}
	return names
}

// shows returns what a follow would deliver now, as a number.
func (w *world) shows(kind int) int32 {
	shown := int32(w.node)
	switch {
	case kind == ofRecord && w.node == there && w.decided != nil:
		shown = math.MaxInt32
	case kind == ofBallots && w.node == there:
		for i := range w.plan {
			shown = shown*4 + int32(w.ballots[i]) + 1
		}
	case kind == ofSites:
		for i := range w.plan {
			if shown = shown * 2; w.present[i] != 0 {
				shown++
			}
		}
	}
	return shown
}

// shown is shows without what changes nothing for those that follow the presence.
func (w *world) shown(kind int) int32 {
	if kind != ofSites {
		return w.shows(kind)
	}
	s := int32(0)
	for i := range w.plan {
		if w.present[i] != 0 {
			s |= 1 << i
		}
	}
	return s
}

// deliver delivers what a follow shows now.
func (w *world) deliver(party, kind int) {
	p := &w.parties[party]
	first := p.follows[kind] == fresh
	p.follows[kind] = w.shown(kind)
	gone := error(nil)
	if (kind == ofRecord || kind == ofBallots) && w.node != there {
		gone, p.follows[kind] = session.ErrNoNode, inactive
	}
	var names []string
	switch kind {
	case ofParent:
		if names = []string{nodes.Sites}; w.node == there {
			names = append(names, modelID)
		}
		w.take(party, siteListed{names: names})
	case ofRecord:
		in := siteRead{id: modelID, rec: w.found(), err: gone}
		if first {
			in.zxid = 1
		}
		w.take(party, in)
	case ofBallots:
		if gone == nil {
			names = w.names(false)
		}
		if party == 0 {
			w.take(0, counted{names, gone})
		} else {
			w.take(party, siteCounted{name: thisName, names: names, err: gone})
		}
	case ofSites:
		if party == 0 {
			w.take(0, attended{w.sites(), nil})
		} else {
			w.take(party, siteAttended{w.sites(), nil})
		}
	}
}

// --- faults

var (
	errReset   = session.ErrDisconnected // of a request that was not sent, or changes nothing
	errExpired = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrExpired)
)

// reconnect has the client learn that its connection was cut.
func (w *world) reconnect(party int, knows bool) {
	p := &w.parties[party]
	executed, rest := p.lost, p.queue
	p.cut, p.lost, p.queue = false, nil, nil
	for _, r := range executed {
		w.take(party, failed(r, errLost))
	}
	for _, r := range rest {
		if knows || reads(r) {
			w.take(party, failed(r, errReset))
		} else {
			w.take(party, failed(r, errLost))
		}
	}
}

// lose has the client learn that its session has expired, or find that itself.
func (w *world) lose(party int, answersFirst bool) {
	p := &w.parties[party]
	old := p.follows
	pending := slices.Concat(p.lost, p.queue)
	if !p.expired {
		w.haunt(party)
	}
	var expired any = heard{session.Expired{Epoch: int(p.epoch)}}
	if party > 0 {
		expired = siteHeard{session.Expired{Epoch: int(p.epoch)}}
	}
	p.cut, p.expired, p.epoch, p.queue, p.lost = false, false, 0, nil, nil
	unheard := p.unheard // it hears of the next session only
	if !answersFirst && !unheard {
		w.take(party, expired)
	}
	for kind, last := range old {
		if last != inactive && p.follows[kind] != inactive {
			p.follows[kind] = inactive
			w.take(party, endOf(party, kind))
		}
	}
	for _, r := range pending {
		if reads(r) {
			w.take(party, failed(r, session.ErrExpired))
		} else {
			w.take(party, failed(r, errExpired))
		}
	}
	if answersFirst && !unheard {
		w.take(party, expired)
	}
	for again := true; again; { // what is asked for in the session that is gone is refused
		again = false
		for i, r := range p.queue {
			_, begins := r.(begin)
			if _, is := r.(appear); is || begins {
				p.queue, again = slices.Delete(slices.Clone(p.queue), i, i+1), true
				w.take(party, failed(r, session.ErrExpired))
				break
			}
		}
	}
}

// endOf returns the last answer of a follow whose session has expired.
func endOf(party, kind int) any {
	switch {
	case kind == ofParent:
		return siteListed{err: session.ErrExpired}
	case kind == ofRecord:
		return siteRead{id: modelID, err: session.ErrExpired}
	case kind == ofBallots && party == 0:
		return counted{err: session.ErrExpired}
	case kind == ofBallots:
		return siteCounted{name: thisName, err: session.ErrExpired}
	case party == 0:
		return attended{err: session.ErrExpired}
	}
	return siteAttended{err: session.ErrExpired}
}

// haunt leaves a session to the server, with the writes that are on their way.
func (w *world) haunt(party int) {
	p := &w.parties[party]
	i := slices.IndexFunc(w.ghosts[:], func(g ghost) bool { return g.session == 0 })
	w.ghosts[i] = ghost{int8(party), p.base, p.session, slices.DeleteFunc(slices.Clone(p.queue), reads)}
}

// bury removes the ephemeral nodes of a session.
func (w *world) bury(party, session int8) {
	switch {
	case party == 0:
		w.chairs &^= 1 << session
	case w.present[party-1] == session:
		w.present[party-1] = 0
	}
}

// mayFail reports whether a fault may yet befall a party.
func (w *world) mayFail(party int) bool { return w.budget > 0 && w.befalls(party) }

// --- moves

// calm returns the moves that happen by themselves.
func (w *world) calm(to []move) []move {
	for i := range w.parties[:1+len(w.plan)] {
		p, n := &w.parties[i], int8(i)
		switch {
		case p.crashed:
			continue
		case p.epoch == 0:
			to = append(to, move{connects, n, 0})
			continue
		case p.expired:
			to = w.choices(to, notices, n)
			continue
		case len(p.queue) > 0 || p.surveys && !p.cut:
			to = append(to, move{serves, n, 0})
		}
		if p.unheard {
			to = append(to, move{hears, n, 0})
		}
		if p.cut {
			if to = append(to, move{reconnects, n, 0}); slices.ContainsFunc(p.queue, begins) {
				to = append(to, move{reconnects, n, 1})
			}
			to = w.vanishes(w.choices(to, expiresHere, n), expiresThere, n, n, p.session)
			continue
		}
		for kind, last := range p.follows {
			if kind >= ofBallots && p.deafened() {
				break
			}
			if w.news(kind, last) && w.matters(i, kind) {
				to = append(to, move{delivers, n, int16(kind)})
			}
		}
		if i > 0 && w.present[i-1] == 0 && !p.over {
			to = append(to, move{appears, n, 0})
		}
	}
	for i, g := range w.ghosts {
		if g.session != 0 {
			if to = w.vanishes(to, buries, int8(i), g.party, g.session); len(g.queue) > 0 {
				to = append(to, move{straggles, int8(i), 0})
			}
		}
	}
	return to
}

// first returns a move that can be taken before all others. If there is one, the walk takes no
// other: it is a move of a party that has no trouble and will have none, it touches no other party
// and no node, and whatever happens before it, it remains possible and does the same. So each way
// on that has it later, or never, can be gone with this move first, and comes to the same end.
// Since no way goes round, no other move is left out for ever. The moves are:
//
//   - A session connects.
//   - A proposal is refused, since another outcome is recorded. The party does nothing then but
//     wait for that outcome. If it has a vote to send this is no such move: the outcome may come
//     first, and the vote is not sent then.
//   - A coordinator reads the outcome, while it follows nothing and its ballot keeps the record in
//     place.
//   - A site reads the outcome, while its own ballot keeps the record in place. What the site would
//     have heard before it, of votes and of the presence of others, makes it propose another
//     outcome at most, which is refused. Such moves are left out, and not only taken later; the
//     walk takes a step with each of them.
//
// TestFirst checks this against walks that take all moves.
func (w *world) first() (move, bool) {
	if w.slow || w.time > 0 {
		return move{}, false
	}
	for i := range w.parties[:1+len(w.plan)] {
		p, n := &w.parties[i], int8(i)
		switch {
		case p.crashed || p.expired || p.cut || w.mayFail(i):
		case p.epoch == 0:
			return move{connects, n, 0}, true
		case w.decided == nil:
		case i == 0 && w.refusesOrShows(p), i > 0 && w.refuses(p):
			return move{serves, n, 0}, true
		case i > 0 && w.reveals(p, n):
			return move{delivers, n, ofRecord}, true
		}
	}
	return move{}, false
}

// refusesOrShows reports whether a coordinator is about to learn that, or how, the transaction was
// decided.
func (w *world) refusesOrShows(p *process) bool {
	if p.unheard || p.surveys || len(p.queue) == 0 || p.follows[ofBallots] != inactive || p.follows[ofSites] != inactive {
		return false
	}
	switch p.queue[0].(type) {
	case decide:
		return true
	case look:
		return w.chairs&(1<<p.session) != 0
	}
	return false
}

// refuses reports whether a proposal of a site is about to be refused.
func (w *world) refuses(p *process) bool {
	if len(p.queue) == 0 || len(p.site.parts) == 0 || p.site.parts[0].vote {
		return false
	}
	_, is := p.queue[0].(propose)
	return is
}

// reveals reports whether a site is about to read the outcome, and nothing else is under way for
// it.
func (w *world) reveals(p *process, n int8) bool {
	if len(p.queue) > 0 || len(p.site.parts) == 0 || w.ballots[n-1] == absent || !w.news(ofRecord, p.follows[ofRecord]) {
		return false
	}
	at := p.site.parts[0]
	return at.rec != nil && at.outcome == nil && !at.vote &&
		!slices.ContainsFunc(w.ghosts[:], func(g ghost) bool { return g.party == n && len(g.queue) > 0 })
}

// news reports whether a follow has something to deliver.
func (w *world) news(kind int, last int32) bool {
	return last == fresh || last != inactive && last != w.shown(kind)
}

// matters reports whether to deliver that changes more than what a party knows of votes and
// presence. To deliver the rest is as good as to deliver it together with what comes later; or
// immediately before a site vanishes, or before a timer fires: see vanishes, and the condition on
// the time.
func (w *world) matters(party, kind int) bool {
	c := w.parties[party].decider()
	switch {
	case kind < ofBallots, kind == ofBallots && len(w.parties[party].site.rested) > 0:
		return true
	case c == nil:
		return false
	case kind == ofSites:
		_, missing := c.attend(w.sites())
		return missing
	case w.node != there:
		return true
	}
	b := parse(w.names(false))
	d := c.count(b)
	d.beaten = false // no machine but the coordinator asks for more when it is
	_, next := d.next()
	return next != toWait || w.time > 0 || party == 0 && b.finished(w.record)
}

// decider returns what a party knows that decides; nil if it does not.
func (p *process) decider() *decider {
	switch {
	case p.coordinator.phase == open:
		return &p.coordinator.decider
	case len(p.site.parts) > 0 && p.site.parts[0].rec != nil && p.site.parts[0].presides:
		return &p.site.parts[0].decider
	}
	return nil
}

// sites returns the names of those that are present.
func (w *world) sites() (names []string) {
	for i := range w.plan {
		if w.present[i] != 0 {
			names = append(names, siteNames[i])
		}
	}
	return names
}

// A notice is what a party is told immediately before the presence of a site vanishes.
const (
	ofNothing = iota
	ofPresence
	ofVotes // which include that of the site
	noticeKinds
)

// vanishes returns the moves by which the server expires a session, with all notices that make a
// difference.
func (w *world) vanishes(to []move, kind moveKind, n, party, session int8) []move {
	all := []int16{0}
	if party > 0 && w.present[party-1] == session {
		weight := int16(1)
		for i := range w.parties[:1+len(w.plan)] {
			p := &w.parties[i]
			if c := p.decider(); c != nil && p.online() && !p.deafened() && c.votes[party-1].vote == 0 {
				for _, before := range slices.Clone(all) {
					if w.news(ofSites, p.follows[ofSites]) {
						all = append(all, before+ofPresence*weight)
					}
					if w.ballots[party-1] > pending && w.news(ofBallots, p.follows[ofBallots]) {
						all = append(all, before+ofVotes*weight)
					}
				}
			}
			weight *= noticeKinds
		}
	}
	for _, told := range all {
		to = append(to, move{kind, n, told})
	}
	return to
}

// tell gives the notices, of which there is one for each party.
func (w *world) tell(all int16) {
	for i := range w.parties {
		switch all % noticeKinds {
		case ofPresence:
			w.deliver(i, ofSites)
		case ofVotes:
			w.deliver(i, ofBallots)
		}
		all /= noticeKinds
	}
}

func begins(r any) bool { _, is := r.(begin); return is }

// choices returns a move of a party in both variants.
func (*world) choices(to []move, kind moveKind, party int8) []move {
	return append(to, move{kind, party, 0}, move{kind, party, 1})
}

// more returns the other moves.
func (w *world) more(to []move) []move {
	for i := range w.parties[:1+len(w.plan)] {
		p, n := &w.parties[i], int8(i)
		if p.crashed {
			to = append(to, move{restarts, n, 0})
			continue
		}
		if w.slow && p.prepared {
			to = append(to, move{votes, n, 0})
		}
		for t, set := range p.timers {
			if set && w.time > 0 && !p.deaf() {
				to = append(to, move{fires, n, int16(t)})
			}
		}
		if w.crash && w.mayFail(i) {
			to = append(to, move{crashes, n, 0})
		}
		if idle := p.over && len(p.queue) == 0 && i == 0; w.cut && w.mayFail(i) && p.online() && !idle {
			to = append(to, move{cuts, n, 0})
		}
	}
	return to
}

func (w *world) apply(m move) {
	n := int(m.party)
	if m.kind == buries || m.kind == straggles {
		g := &w.ghosts[n]
		if m.kind == straggles {
			r := g.queue[0]
			g.queue = g.queue[1:]
			w.execute(r, g.party, g.base, g.session)
			return
		}
		w.tell(m.variant)
		gone := *g
		copy(w.ghosts[n:], w.ghosts[n+1:])
		w.ghosts[mostGhosts-1] = ghost{}
		w.bury(gone.party, gone.session)
		return
	}
	p := &w.parties[n]
	switch m.kind {
	case serves:
		w.serve(n)
	case delivers:
		w.deliver(n, int(m.variant))
	case reconnects:
		w.reconnect(n, m.variant == 1)
	case expiresThere:
		w.tell(m.variant)
		p.expired = true
		w.bury(m.party, p.session)
	case expiresHere, notices:
		w.lose(n, m.variant == 1)
	case connects:
		p.session++
		p.epoch = p.session - p.base
		switch connected := (session.Connected{Epoch: int(p.epoch)}); {
		case n > 0:
			w.take(n, siteHeard{connected})
		case !p.surveys && !p.unheard:
			w.take(0, heard{connected})
		}
	case hears:
		p.unheard = false
		w.take(0, heard{session.Connected{Epoch: int(p.epoch)}})
	case appears:
		w.appear(n)
	case restarts:
		w.restart(n)
	case votes:
		w.vote(n)
	case fires:
		w.time--
		w.fire(n, timer(m.variant))
	case crashes:
		w.budget--
		if p.epoch != 0 && !p.expired {
			w.haunt(n)
		}
		*p = process{crashed: true, session: p.session, learned: p.learned, voted: p.voted, finished: p.finished}
	case cuts:
		w.budget--
		p.cut = true
	case buries, straggles:
	}
}

func (w *world) serve(party int) {
	p := &w.parties[party]
	if len(p.queue) == 0 {
		p.surveys = false
		if r := w.found(); r != nil {
			p.coordinator, p.over = resumed(r), false
			p.unheard = true
			for _, e := range resumption() {
				w.performAsCoordinator(e)
			}
		}
		return
	}
	r := p.queue[0]
	p.queue = p.queue[1:]
	answer := w.execute(r, int8(party), p.base, p.session)
	if !p.cut {
		w.take(party, answer)
		return
	}
	p.lost = append(slices.Clip(p.lost), r)
}

// restart starts a process of a party that has crashed.
func (w *world) restart(party int) {
	p := &w.parties[party]
	p.crashed, p.base, p.epoch = false, p.session, 1
	p.session++
	p.rest()
	if party > 0 {
		w.join(party)
		return
	}
	p.surveys, p.over, p.coordinator.phase, p.coordinator.rec = true, true, ended, w.record
}

func (w *world) fire(party int, t timer) {
	if t != patrol {
		for i := range w.plan {
			w.parties[party].votedBy[i] = w.ballots[i] > pending
		}
	}
	switch w.parties[party].timers[t] = false; {
	case party == 0 && t == absence:
		w.take(0, lapsed{})
	case party == 0:
		w.take(0, passed{})
	default:
		w.take(party, sitePassed{thisName, t})
	}
}

// --- the end

// rest goes on until nothing happens by itself.
func (w *world) rest() {
	for range 1000 {
		calm := w.calm(nil)
		if len(calm) == 0 {
			return
		}
		w.apply(calm[0])
	}
	violate("no rest")
}

// finish brings a world in which nothing happens by itself to its end: there are no further faults,
// sites start again, a coordinator does not, users vote, and timers fire. All parties that live
// have learned the outcome then, and nothing is left.
func (w *world) finish() {
	w.budget = 0
	for i := range w.plan {
		if w.parties[1+i].crashed {
			w.restart(1 + i)
		}
		w.vote(1 + i)
	}
	w.rest()
	for range 40 {
		if w.done() {
			return
		}
		for i := range w.parties {
			for t, set := range w.parties[i].timers {
				if set {
					w.fire(i, timer(t))
					w.rest()
				}
			}
		}
	}
	violate("it does not end")
}

// done reports whether all is over.
func (w *world) done() bool {
	c := &w.parties[0]
	if w.node == there || !c.crashed && !c.over {
		return false
	}
	for i := range w.plan {
		if p := &w.parties[1+i]; len(p.site.parts)+len(p.site.rested) > 0 || w.node == removedAgain && !p.learned {
			return false
		}
	}
	return true
}

// --- states

// A register tells worlds apart.
type register struct {
	seed   maphash.Seed
	orders [][]int // in which sites can stand for each other: where each of them goes
	buffer []byte
}

func newRegister(s *setting) *register {
	g := &register{seed: maphash.MakeSeed()}
	var extend func(order []int)
	extend = func(order []int) {
		if len(order) == len(s.plan) {
			g.orders = append(g.orders, order)
			return
		}
		for i := range s.plan {
			if !slices.Contains(order, i) && s.plan[i] == s.plan[len(order)] {
				extend(append(slices.Clip(order), i))
			}
		}
	}
	extend(nil)
	return g
}

// key returns a hash of a world, which is the same for worlds that differ in the order of sites
// that are alike.
func (g *register) key(w *world) uint64 {
	least := uint64(math.MaxUint64)
	for _, order := range g.orders {
		e := encoder{to: g.buffer[:0], order: order}
		e.world(w)
		g.buffer = e.to
		least = min(least, maphash.Bytes(g.seed, e.to))
	}
	return least
}

// An encoder writes a world, in which the sites have another order. Every field of a machine is in
// it, or is the same in all worlds of a setting.
type encoder struct {
	to    exploration.Bytes
	order []int // the site that stands at each place
}

func (e *encoder) world(w *world) {
	e.to.Numbers(int(w.node))
	e.outcome(decision(w.decided))
	e.to.Numbers(int(w.chairs))
	e.to.Numbers(int(w.budget))
	e.to.Numbers(int(w.time))
	e.process(w, 0, func(p *process) { e.coordinator(&p.coordinator) })
	for _, i := range e.order {
		e.to.Numbers(int(w.ballots[i]))
		e.to.Numbers(int(w.present[i]))
		e.process(w, 1+i, func(p *process) { e.site(&p.site) })
	}
	for _, g := range w.ghosts {
		if g.session == 0 {
			break
		}
		e.to.Numbers(e.place(int(g.party)))
		e.to.Numbers(int(g.base))
		e.to.Numbers(int(g.session))
		e.requests(g.queue)
	}
}

// decision returns the outcome; nil if there is none.
func decision(r *record) *Outcome {
	if r == nil {
		return nil
	}
	return r.Outcome
}

// place returns the number that a party has in the other order.
func (e *encoder) place(party int) int { return 1 + slices.Index(e.order, party-1) }

func (e *encoder) process(w *world, party int, machine func(*process)) {
	p := &w.parties[party]
	e.to.Flags(p.crashed, p.over, p.cut, p.expired, p.surveys, p.unheard, p.told, p.prepared, p.learned, p.voted, p.finished, p.timers[deadline], p.timers[patrol], p.timers[absence])
	e.to.Numbers(int(p.session))
	if p.crashed {
		return
	}
	if p.decider() != nil && !p.deafened() {
		for _, i := range e.order {
			e.to.Flags(p.votedBy[i])
		}
	}
	e.to.Numbers(int(p.base))
	e.to.Numbers(int(p.epoch))
	e.requests(p.queue)
	e.requests(p.lost)
	for kind, last := range p.follows {
		switch {
		case kind >= ofBallots && p.deafened():
		case kind == ofSites:
			e.to.Flags(last == inactive || p.decider() == nil) // the rest is in the machine
		default:
			e.follow(w, kind, last)
		}
	}
	machine(p)
}

// follow writes what was delivered last.
func (e *encoder) follow(w *world, kind int, last int32) {
	if kind < ofBallots || last == inactive {
		e.to.Numbers(int(last))
		return
	}
	e.to.Flags(w.news(kind, last)) // no state of the ballots returns
}

func (e *encoder) requests(all []any) {
	e.to.Numbers(len(all))
	for _, r := range all {
		switch r := r.(type) {
		case begin:
			e.to.Numbers(1)
			e.to.Numbers(r.epoch)
		case look:
			e.to.Numbers(2)
		case decide:
			e.to.Numbers(3)
			e.outcome(&r.Outcome)
		case appear:
			e.to.Numbers(4)
			e.to.Numbers(r.epoch)
		case retire:
			e.to.Numbers(5)
			e.to.Numbers(r.epoch)
		case remove:
			e.to.Numbers(6)
		case check:
			e.to.Numbers(7)
		case cast:
			e.to.Numbers(8)
		case propose:
			e.to.Numbers(9)
			e.outcome(&r.Outcome)
		case conclude:
			e.to.Numbers(10)
			e.to.Numbers(int(r.vote))
		case clearUp:
			e.to.Numbers(11)
		case confirm:
			e.to.Numbers(12)
		case ascertain:
			e.to.Numbers(13)
		default:
			panic(fmt.Sprintf("unknown request %T", r))
		}
	}
}

// outcome writes whether there is an outcome, and which. No machine looks at the reason, or at the
// party that has decided.
func (e *encoder) outcome(o *Outcome) {
	const none, unset, aborted, committed = 0, 1, 2, 3
	switch {
	case o == nil:
		e.to.Numbers(none)
	case *o == Outcome{}:
		e.to.Numbers(unset)
	case o.Committed:
		e.to.Numbers(committed)
	default:
		e.to.Numbers(aborted)
	}
}

// decider writes what a deciding party knows. It looks at the presence only of sites whose vote it
// does not know.
func (e *encoder) decider(d *decider) {
	for _, i := range e.order {
		if e.to.Numbers(int(d.votes[i].vote)); d.votes[i].vote == 0 {
			e.to.Flags(d.seen[i], d.missing[i])
		}
	}
	e.to.Flags(d.listed, d.late, d.lapsed, d.stale, d.confirmed)
}

// coordinator leaves out what is not looked at any more when the outcome is known. No operator
// touches the nodes: void is set only after a decision, and makes no difference then.
func (e *encoder) coordinator(m *machine) {
	e.to.Numbers(int(m.phase))
	e.to.Flags(m.settled, m.err != nil)
	e.to.Numbers(m.epoch)
	e.to.Numbers(m.stood)
	e.outcome(&m.outcome)
	if m.phase <= open {
		e.decider(&m.decider)
		e.to.Flags(m.asked, m.decider.beaten, m.doubt, m.rec.Outcome != nil)
	}
}

// site leaves out what is not looked at any more when the outcome is known.
func (e *encoder) site(m *sitemachine) {
	e.to.Flags(m.began, m.over, m.follows, m.epoch != 0, m.stands())
	e.to.Numbers(len(m.rested))
	for _, r := range m.rested {
		e.to.Flags(r.mute, r.barred, r.watching, r.empty, r.next)
	}
	for _, p := range m.parts {
		e.to.Flags(p.rec != nil, p.gone, p.next, p.look, p.vote, p.asked, p.told, p.sure, p.finishes(), p.done, p.clear, p.barred)
		e.to.Numbers(int(p.task))
		e.to.Numbers(int(p.ballot.vote))
		e.to.Numbers(len(p.finishers))
		e.outcome(p.outcome)
		if p.rec == nil || p.outcome != nil {
			continue
		}
		if e.to.Flags(m.attends, p.presides, p.patrols, p.decider.beaten); !p.decider.beaten {
			e.decider(&p.decider)
		}
		e.to.Numbers(p.alone)
		for _, i := range e.order {
			e.to.Flags(!p.presides && slices.Contains(m.there, siteNames[i]))
		}
	}
}

// --- the walk

// A walk goes through all worlds that follow from one, depth first.
type walk struct {
	*register
	exploration.Depth
	thorough bool     // takes all moves, whether or not one can be first
	compares bool     // checks that worlds with the same key go on alike
	limit    int      // of states
	worlds   []*world // the memory for those on the way
	way      []move
	ends     map[uint64]struct{} // the keys of worlds in which nothing happens by itself
}

// from goes through what follows from the world at the end of the way.
func (k *walk) from() {
	w := k.worlds[len(k.way)]
	key := k.key(w)
	var some [32]move
	moves := w.calm(some[:0])
	if k.compares {
		k.compare(key, w, w.more(slices.Clip(moves)))
	}
	switch first, round := k.Enter(key); {
	case round:
		violate("it goes round")
	case !first:
		return
	case k.States() > k.limit:
		violate("more than %d states", k.limit)
	}
	if len(k.worlds) == len(k.way)+1 {
		k.worlds = append(k.worlds, new(world))
	}
	if len(moves) == 0 {
		k.ends[key] = struct{}{}
		end := *w
		end.finish()
	}
	if first, is := w.first(); is && !k.thorough {
		for _, m := range moves {
			if m.kind == delivers && m.party == first.party && m != first { // it must do no harm
				next := *w
				next.apply(m)
			}
		}
		moves = append(moves[:0], first)
	} else if moves = w.more(moves); w.node == removedAgain && w.budget+w.time == 0 && len(moves) > 0 {
		moves = moves[:1] // no party sees what another does any more: one order stands for all
	}
	for _, m := range moves {
		k.way = append(k.way, m)
		next := k.worlds[len(k.way)]
		*next = *w
		next.apply(m)
		k.from()
		k.way = k.way[:len(k.way)-1]
	}
	k.Leave(key)
}

// compare checks that worlds with the same key are followed by worlds with the same keys.
func (k *walk) compare(key uint64, w *world, moves []move) {
	next := make([]uint64, len(moves))
	for i, m := range moves {
		w := *w
		w.apply(m)
		next[i] = k.key(&w)
	}
	if !k.Alike(key, next) {
		violate("one key for worlds that go on differently")
	}
}

// explore goes through all worlds of a setting. The walk has done nothing yet.
func (k *walk) explore(t *testing.T, s *setting) {
	began := time.Now()
	k.worlds, k.ends = []*world{newWorld(s)}, map[uint64]struct{}{}
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("%v, after %v", r, k.way)
		}
	}()
	k.from()
	t.Logf("%d states, %d at rest, %v", k.States(), len(k.ends), time.Since(began).Round(time.Millisecond))
}

var (
	modelFull   = flag.Bool("commit.full", false, "go through the larger scenes of the models too")
	modelStates = flag.Int("commit.states", 50_000_000, "states of each of these that are gone through at most")
)

// TestExhaustive goes through all states of all settings, or of the smaller ones (see
// [hasten.Thorough]), and with -commit.full of larger ones. It is complete: no setting is too
// large. The largest, with three sites in Peer mode and a cut, have millions of states. Walks that
// take all moves in every order have more, and come to the same ends: see TestFirst.
func TestExhaustive(t *testing.T) {
	size := usual
	switch {
	case *modelFull:
		size = large
	case exploration.Brief(false), !hasten.Thorough():
		size = small
	}
	chosen := hasten.OneIn(1, 5)
	for _, s := range settings(size) {
		if !chosen() {
			continue
		}
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			k := &walk{register: newRegister(&s), limit: *modelStates}
			k.explore(t, &s)
		})
	}
}

// checkable returns the settings that tests of the walk go through, with -commit.full those of a
// size.
func checkable(full size) []setting {
	if *modelFull {
		return settings(full)
	}
	most := 2 // sites
	if exploration.Brief(false) {
		most = 1
	}
	return slices.DeleteFunc(settings(small), func(s setting) bool { return len(s.plan) > most })
}

// TestFirst checks that walks that take some moves first come to the same ends as walks that take
// all moves in every order. With -commit.full it does so for the larger settings too.
func TestFirst(t *testing.T) {
	chosen := hasten.OneIn(2, 4)
	for _, s := range checkable(large) {
		if !chosen() {
			continue
		}
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			some := &walk{register: newRegister(&s), limit: *modelStates}
			some.explore(t, &s)
			all := &walk{register: some.register, limit: *modelStates, thorough: true}
			all.explore(t, &s)
			if !maps.Equal(some.ends, all.ends) {
				t.Errorf("%d ends, not %d", len(some.ends), len(all.ends))
			}
		})
	}
}

// TestKeys checks that worlds go on alike if their keys are the same.
func TestKeys(t *testing.T) {
	chosen := hasten.OneIn(2, 4)
	for _, s := range checkable(usual) {
		if !chosen() {
			continue
		}
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			k := &walk{register: newRegister(&s), limit: *modelStates, compares: true}
			k.explore(t, &s)
		})
	}
}

// A size says which settings are gone through.
type size int

const (
	small size = iota
	usual
	large // all
)

// settings returns those of a size, and smaller ones.
func settings(most size) (all []setting) {
	for _, plan := range [][]Vote{{Yes}, {Yes, Yes}, {Yes, No}, {Yes, 0}, {Yes, Yes, Yes}, {Yes, Yes, No}, {Yes, Yes, 0}} {
		for _, mode := range []Mode{Coordinated, Peer} {
			parties := len(plan) // that decide or vote
			if mode == Peer {
				parties++
			}
			// add adds a setting that is small, or usual, up to so many parties. Of one with a
			// fault, it adds those with each victim.
			add := func(smallTo, usualTo int, s setting) {
				if s.mode, s.plan = mode, plan; parties > smallTo && (most == small || parties > usualTo && most == usual) {
					return
				}
				if s.faults != 1 {
					all = append(all, s)
					return
				}
				for _, s.victim = range s.victims() {
					all = append(all, s)
				}
			}
			add(4, 4, setting{slow: true})
			add(3, 3, setting{slow: true, late: true})
			add(2, 3, setting{ticks: 1, slow: true})
			add(2, 3, setting{faults: 1, crash: true})
			add(2, 3, setting{faults: 1, cut: true})
			if parties < 3 {
				add(1, 1, setting{faults: 1, crash: true, ticks: 1, late: true})
				add(0, 1, setting{faults: 2, crash: true, cut: true})
			}
		}
	}
	return all
}
