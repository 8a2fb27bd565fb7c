package commit

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file has the transactions in which a site has nothing to do: transactions that it has
// finished, transactions that do not name it, and nodes that are no transactions. There may be
// thousands, because one site that never comes back keeps each of its transactions from being
// removed. So each costs one watch, and no periodic request:
//
//	             it has finished, and a ballot is left
//	(a part) ──────────────────────────────────────────▶ rested              the record is followed
//	   ▲ ▲                                                  │ after a while
//	   │ │ another record, no ballots any more, or undone   ▼
//	   │ ├─────────────────────────────────────────────── watching           the ballots are followed, which carry no payload
//	   │ │                                                  │ a list without a ballot
//	   │ │ still there after a while: to remove it          ▼
//	   │ └─────────────────────────────────────────────── watching, empty
//	   │                                                    │ the id is not listed any more, or its node is gone
//	   └─ the id is listed again                            ▼
//	                                                      (none)
//
// The party that leaves no ballot removes the record. Only if that party crashes before the removal
// does another party find the list empty.

// restAfter bounds the time for which the record is followed, whatever TakeoverAfter is.
const restAfter = 30 * time.Second

// A rested transaction is a value: it is replaced, not modified.
type rested struct {
	name
	after time.Duration // before the ballots are followed, and before an empty list is acted on

	named bool // the transaction names this site, which has finished

	// mute is set when the site is not named, or the ballots are gone. The record is followed then,
	// until another record is read, and no timer runs. void is set with mute if the ballots are
	// gone.
	mute, void bool

	// barred is set when the server has refused the removal. It is not tried again, but the site
	// begins anew when servers with older data have undone the outcome.
	barred bool

	watching bool // set when the ballots are followed, instead of the record

	// empty is set by a list without a ballot, and cleared by one with any. While it is set, a
	// timer runs, unless barred is set.
	empty bool

	next bool // set when a list had the id that is newer than the last read of the record
}

func (r rested) describe() string {
	return r.id + "/" + r.guid + flagged(" unnamed", !r.named) + flagged(" mute", r.mute) + flagged(" void", r.void) + flagged(" barred", r.barred) +
		flagged(" watching", r.watching) + flagged(" empty", r.empty) + flagged(" next", r.next)
}

// resting returns the index of the rested transaction with the id, or where it is to be inserted.
func (m *siteTurn) resting(id string) (at int, found bool) {
	return slices.BinarySearchFunc(m.rested, id, func(r *rested, id string) int { return cmp.Compare(r.id, id) })
}

// rest ends a part in which this site has nothing more to do. It completes r.
func (m *siteTurn) rest(p *part, r rested) {
	r.name, r.named, r.next = p.name(), p.rec != nil && m.named(p), p.next
	m.do(unwatch{r.name})
	if !r.mute {
		r.after = min(p.rec.TakeoverAfter, restAfter)
		m.do(await{r.name, patrol, r.after})
	}
	m.remove(p)
	at, _ := m.resting(r.id)
	m.rested = slices.Insert(slices.Clone(m.rested), at, &r)
}

// wake ends the rest of a transaction.
func (m *siteTurn) wake(at int) {
	m.do(forget{m.rested[at].name})
	m.rested = slices.Delete(slices.Clone(m.rested), at, at+1)
}

// gone follows the end of the record. A deletion that a watch reported precedes the next list. If a
// read found the deletion, an earlier list may have had a later transaction.
func (m *siteTurn) gone(at int, zxid int64) {
	r := *m.rested[at]
	if m.wake(at); r.next && zxid != 0 {
		m.join(part{id: r.id})
	}
}

// change replaces a rested transaction.
func (m *siteTurn) change(at int, r rested) {
	m.rested = slices.Clone(m.rested)
	m.rested[at] = &r
}

// disturb hands a rested transaction an input that names it. It reports whether there is such a
// transaction.
func (m *siteTurn) disturb(id string, guid *string, do func(at int, r rested)) bool {
	at, found := m.resting(id)
	if !found || guid != nil && m.rested[at].guid != *guid {
		return false
	}
	do(at, *m.rested[at])
	return true
}

// readAtRest follows a read of the record.
func (m *siteTurn) readAtRest(at int, r rested, in siteRead) {
	switch {
	case r.watching: // the record is not followed any more
	case errors.Is(in.err, session.ErrNoNode):
		m.gone(at, in.zxid)
	case session.Passing(in.err):
		m.do(followRecord{r.id})
	case in.err != nil:
		m.again(at)
	case in.rec != nil && in.rec.GUID != r.guid:
		m.wake(at)
		m.join(part{id: r.id})
	case in.rec != nil && !r.mute && in.rec.Outcome == nil:
		m.again(at)
	case r.next:
		r.next = false
		m.change(at, r)
	}
}

// again begins the part of this site anew, by a read of the record and a list of the ballots. What
// the site had finished may be undone: servers with older data have the record without an outcome,
// or the ballot of the site. Or the ballots are gone, or the rest of the transaction is still
// there, or the server has refused to read the node that is followed: a part tries again.
func (m *siteTurn) again(at int) {
	id := m.rested[at].id
	m.wake(at)
	m.join(part{id: id, look: true})
}

// countedAtRest follows a list of the ballots. If none is left, the party that was to remove the
// record may have crashed.
func (m *siteTurn) countedAtRest(at int, r rested, in siteCounted) {
	switch {
	case !r.watching: // the part followed them, and the answer was queued when the rest began
	case errors.Is(in.err, session.ErrNoNode): // with the record; or an operator has deleted them only
		m.again(at)
	case session.Passing(in.err):
		m.do(watchBallots{r.name})
	case in.err != nil, parse(in.names).has(m.site):
		m.again(at)
	default:
		was := r.empty
		if r.empty = len(in.names) == 0; r.empty && !was && !r.barred {
			m.do(await{r.name, patrol, r.after})
		}
		if r.empty != was {
			m.change(at, r)
		}
	}
}

// passedAtRest follows the end of the timer: the ballots are followed from now on, or the rest is
// still there. A timer of the part may have been queued when the rest began.
func (m *siteTurn) passedAtRest(at int, r rested, t timer) {
	switch {
	case r.mute || t != patrol:
	case !r.watching:
		r.watching = true
		m.do(forget{r.name}, watchBallots{r.name})
		m.change(at, r)
	case r.empty && !r.barred:
		m.again(at)
	}
}

// unlist ends the rest of the transactions that a list does not have any more. The others may have
// been replaced by later transactions with the same ids.
func (m *siteTurn) unlist(ids []string) {
	kept := make([]*rested, 0, len(m.rested))
	for _, r := range m.rested {
		_, listed := slices.BinarySearch(ids, r.id)
		if !listed {
			m.do(forget{r.name})
			continue
		}
		if !r.next {
			later := *r
			later.next = true
			r = &later
		}
		kept = append(kept, r)
	}
	m.rested = kept
}

// answerAtRest answers a command for a rested transaction. It reports whether there is such a
// transaction.
func (m *siteTurn) answerAtRest(tx Tx, reply actors.Reply[error], finished error) bool {
	return m.disturb(tx.ID, nil, func(_ int, r rested) {
		switch {
		case r.guid == "":
			m.respond(reply, ErrNoTransaction)
		case r.guid != tx.GUID:
			m.respond(reply, ErrStale)
		case !r.named:
			m.respond(reply, ErrNotNamed)
		case r.void && finished != nil:
			m.respond(reply, ErrNoTransaction)
		default:
			m.respond(reply, finished)
		}
	})
}
