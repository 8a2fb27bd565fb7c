package commit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// This file is the site's side of all transactions below a parent, as a pure function. The
// performer of its effects is in participant.go; the nodes are in docs/two-phase-commit.md.
//
//	          our presence stands             the first list            a list
//	(joined) ────────────────────▶ follows ──────────────────▶ began ◀────────┐ transactions begin
//	                                                             │  └─────────┘
//	            displaced, closed, or left: in every state       ▼
//	                                                           over
//
// Each transaction of a list becomes a part (part.go), which asks its user for a vote, and receives
// the outcome. A part in which the site has nothing more to do rests (rested.go). An input that
// names a transaction goes to its part, or to its rested transaction. While our presence does not
// stand, another process may act for the site: then no part makes a request, and no part emits
// anything.

// A siteInput is an event that the machine reacts to.
//
//sumtype:decl
type siteInput interface{ siteInput() }

type (
	siteLeave  struct{}                // commanded, or the actor was stopped
	siteHeard  struct{ session.Event } // an event of the session
	stood      struct{ epoch int }     // our presence stands, in the session with that epoch
	fell       struct{}                // our presence is gone
	displaced  struct{ err error }     // another process has the site's name
	siteListed struct {                // answers followParent, any number of times
		names []string
		err   error // its last answer
	}
	siteRead struct { // answers followRecord, any number of times
		id      string
		rec     *record
		version int32 // of the node
		zxid    int64 // of the read; 0 if a watch reported the deletion
		err     error // its last answer; [session.ErrNoNode] if there is no record any more
	}
	siteAnswered struct { // answers check, cast, reread, ascertain, propose, conclude and clearUp
		name
		task
		names   []string // of the ballots, after checking and confirming
		sites   []string // that are present, after confirming
		left    int      // how many ballots are left, after finishing
		rec     *record  // after rereading
		version int32    // of the node, after rereading
		settled bool     // after deciding: whether the watch has reported all that the session knows
		err     error
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
		tx    Tx
		vote  Vote
		data  string
		reply actors.Reply[error]
	}
	finish struct { // commanded; its reply gets one answer
		tx    Tx
		reply actors.Reply[error]
	}
)

func (siteLeave) siteInput()    {}
func (siteHeard) siteInput()    {}
func (stood) siteInput()        {}
func (fell) siteInput()         {}
func (displaced) siteInput()    {}
func (siteListed) siteInput()   {}
func (siteRead) siteInput()     {}
func (siteAnswered) siteInput() {}
func (siteCounted) siteInput()  {}
func (siteAttended) siteInput() {}
func (sitePassed) siteInput()   {}
func (castVote) siteInput()     {}
func (finish) siteInput()       {}

// A siteEffect asks the performer for one action. unwatch, forget and respond are not answered.
//
//sumtype:decl
type siteEffect interface{ siteEffect() }

type (
	followParent struct{}            // list the transactions now and after each change
	followRecord struct{ id string } // read the record now and after each change, until it is deleted
	check        struct{ name }      // list the ballots, once
	watchBallots struct{ name }      // list the ballots now and after each change
	unwatch      struct{ name }      // end watchBallots and all timers
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
	reread    struct{ name } // read the record, once
	ascertain struct{ name } // list the ballots and the present sites, as the leader knows them
	propose   struct {       // record an outcome in the epoch, unless there is one, or a vote is not there
		rec *record
		verdict
		epoch int
	}
	conclude struct { // delete our ballot in the epoch, if the record is what was read
		name
		ballot
		version int32
		epoch   int
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
func (reread) siteEffect()       {}
func (ascertain) siteEffect()    {}
func (propose) siteEffect()      {}
func (conclude) siteEffect()     {}
func (clearUp) siteEffect()      {}
func (respond) siteEffect()      {}

// siteEffects accumulates the effects of one step.
type siteEffects = actors.Effects[siteEffect, Event]

// A sitemachine is the state of a site.
type sitemachine struct {
	parent, site string // constant

	// epoch is the epoch of the session; 0 between two sessions, and before the machine learns of
	// the first. at is the epoch in which our presence stood last; 0 while it is known to be gone.
	// While they are equal, no other process acts for the site. While they differ, no task is
	// started, and no event but Left is emitted.
	epoch, at int
	// lapsed is set by Lapsed, and cleared by what follows it.
	lapsed bool

	// follows is set when our presence has stood for the first time. The transactions are followed
	// from then on: nothing that is read is older than what an earlier process of the site has
	// done.
	follows bool

	// began is set by the first list. Transactions in that list may have votes of an earlier
	// process of this site. Later ones have none.
	began bool

	// parts are in the order of their ids: the transactions that name this site, and that it has
	// not finished; and those that it does not know yet. Each Step replaces the slice, and each
	// part that it changes: see own.
	parts []*part

	// waiting are the ids of the first list that have no part yet, since there are mostOpening that
	// are being read.
	waiting []string

	// rested are the other transactions, in the order of their ids. The slice is replaced, not
	// modified.
	rested []*rested

	// attends is set with the first part that presides. While it is set, the presence of the sites
	// is followed.
	attends bool

	// there has the sites that are present, by the last list. It is empty before attends is set.
	there []string

	// over is set when Left was emitted.
	over bool
}

// Ended implements [actors.Machine].
func (m sitemachine) Ended() bool { return m.over }

// stands reports whether our presence stands: this process, and no other, acts for the site.
func (m sitemachine) stands() bool { return m.epoch != 0 && m.at == m.epoch }

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
	t.admit()
	return t.sitemachine
}

// take hands an input to the machine, or to the part that it names. An answer whose name
// is not that of a part is ignored.
func (m *siteTurn) take(in siteInput) {
	switch in := in.(type) {
	case siteLeave:
		m.end(nil)
	case siteHeard:
		m.heard(in.Event)
	case stood:
		m.at = in.epoch
		m.stand()
	case fell:
		m.at = 0
	case displaced:
		m.end(in.err)
	case siteListed:
		m.listed(in)
	case siteRead:
		if !m.disturb(in.id, nil, func(at int, r rested) { m.readAtRest(at, r, in) }) {
			m.on(in.id, nil, func(p *part) { m.read(p, in) })
		}
	case siteAnswered:
		m.on(in.id, &in.guid, func(p *part) { m.answered(p, in) })
	case siteCounted:
		if !m.disturb(in.id, &in.guid, func(at int, r rested) { m.countedAtRest(at, r, in) }) {
			m.on(in.id, &in.guid, func(p *part) { m.counted(p, in) })
		}
	case siteAttended:
		m.attended(in)
	case sitePassed:
		if !m.disturb(in.id, &in.guid, func(at int, r rested) { m.passedAtRest(at, r, in.timer) }) {
			m.on(in.id, &in.guid, func(p *part) { m.passed(p, in.timer) })
		}
	case castVote:
		m.castVote(in)
	case finish:
		m.finish(in)
	}
}

// --- the presence

// heard follows an event of the session. The event of a session and the report that our presence
// stands in it come in either order.
func (m *siteTurn) heard(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		m.epoch = ev.Epoch
		m.stand()
	case session.Expired:
		m.epoch, m.lapsed = 0, false
	case session.Closed:
		m.end(session.ErrClosed)
	case session.Resumed:
		// The servers may have come back with older data, which no watch reports. Behind a lapse
		// they may also have gone on since, beyond the transactions that the session has seen.
		lapsed := m.lapsed
		m.lapsed = false
		for _, p := range slices.Clone(m.parts) {
			if p.decider.beaten && p.outcome == nil {
				m.on(p.id, nil, func(p *part) { p.reread = true })
			}
			if lapsed {
				m.on(p.id, nil, func(p *part) { p.look = true })
			}
		}
	case session.Lapsed:
		m.lapsed = true
	case session.Suspended:
	}
}

// stand begins, or goes on after our presence was gone. Another process may have acted for the site
// meanwhile, and this machine does not know of its vote, or of a ballot that it deleted. So all
// ballots are listed anew, before anything is asked or emitted.
func (m *siteTurn) stand() {
	switch {
	case !m.stands():
		return
	case !m.follows:
		m.follows = true
		m.do(followParent{})
	}
	for _, p := range slices.Clone(m.parts) {
		m.on(p.id, nil, func(p *part) { p.look = p.look || p.rec != nil && !p.done && !p.gone })
	}
}

// find returns the index of the part with the id, or where it is to be inserted.
func (m *siteTurn) find(id string) (at int, found bool) {
	return slices.BinarySearchFunc(m.parts, id, func(p *part, id string) int { return cmp.Compare(p.id, id) })
}

// own replaces a part by a copy, which this step may change: earlier machines have the part too.
// The parts of a step are few, and the others are not copied: thousands may be in progress at once.
func (m *siteTurn) own(at int) *part {
	p := *m.parts[at]
	m.parts[at] = &p
	return &p
}

// on hands an input to a part. It changes the part with the id, and the GUID if that is not nil,
// and then advances it.
func (m *siteTurn) on(id string, guid *string, change func(*part)) {
	at, found := m.find(id)
	if !found || guid != nil && m.parts[at].guid() != *guid {
		return
	}
	change(m.own(at))
	// The change may have dropped the part, or replaced it by a new one of a later transaction.
	if at, found := m.find(id); found && !m.over {
		m.advance(m.parts[at])
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
	ids := transactions(in.names)
	if !m.began {
		m.began, m.waiting = true, ids
		return
	}
	m.unlist(ids)
	for _, id := range ids {
		at, found := m.find(id)
		_, rests := m.resting(id)
		_, waits := slices.BinarySearch(m.waiting, id)
		switch {
		case found:
			m.own(at).next = true
		case !rests && !waits:
			m.join(part{id: id})
		}
	}
}

// mostOpening is how many transactions of the first list are read at once. There may be very many,
// all but a few of them finished, and each is a part until that is known.
const mostOpening = 64

// admit begins parts of the first list.
func (m *siteTurn) admit() {
	if len(m.waiting) == 0 || m.over {
		return
	}
	opening := 0
	for i := range m.parts {
		if m.parts[i].opening() {
			opening++
		}
	}
	for ; opening < mostOpening && len(m.waiting) > 0; opening++ {
		m.join(part{id: m.waiting[0], look: true})
		m.waiting = m.waiting[1:]
	}
}

// join begins a part, by following its record.
func (m *siteTurn) join(p part) {
	at, _ := m.find(p.id)
	m.parts = slices.Insert(m.parts, at, &p)
	m.do(followRecord{p.id})
}

// drop ends a part, answers its commands, and begins with the next transaction of the same id.
func (m *siteTurn) drop(p *part) {
	m.settleVote(p, ErrNoTransaction)
	m.settleFinish(p, nil)
	m.do(forget{p.name()})
	id, next := p.id, p.next
	if m.remove(p); next {
		m.join(part{id: id})
	}
}

// remove takes a part out.
func (m *siteTurn) remove(p *part) {
	at, _ := m.find(p.id)
	m.parts = slices.Delete(m.parts, at, at+1)
}

// attended follows a list of the present sites, for each part that presides. A site that is missing
// may be back at once: only when it has been away for a while is the leader asked. A later list
// that has the site again cancels the question.
func (m *siteTurn) attended(in siteAttended) {
	switch {
	case session.Passing(in.err):
		m.do(watchSites{})
		return
	case in.err != nil: // deaths are not noticed until the next transaction; deadlines are
		m.attends = false
		return
	}
	m.there = in.names
	for _, p := range slices.Clone(m.parts) {
		if p.presides {
			m.on(p.id, nil, func(p *part) {
				var missing bool
				if p.decider, missing = p.decider.attend(in.names); missing && p.outcome == nil && !p.gone {
					m.do(await{p.name(), absence, absentFor})
				}
			})
		}
	}
}

// --- the end

// end answers all commands, and leaves. The outcome of a command whose request may be under way is
// unknown.
func (m *siteTurn) end(why error) {
	for i := range m.parts {
		p := m.own(i)
		err := refusal(why)
		if p.task == voting || p.look {
			err = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, err)
		}
		m.settleVote(p, err)
		m.settleFinish(p, fmt.Errorf("%w: %w", session.ErrUnknownOutcome, refusal(why)))
	}
	m.over = true
	m.emit(Left{why})
}

// refusal returns the error of commands after the end.
func refusal(why error) error { return client.Because(ErrClosed, why) }
