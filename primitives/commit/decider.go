package commit

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/zkactors/zkactors/session"
)

// This file decides a transaction. The coordinator has a decider in the phase open, and a site has
// one for each transaction in which it presides. A party hands its decider the lists, the timers
// and the answers, and makes the request that next names. The rule is the same for every party:
//
//	Commit  if a list of the ballots showed a Yes of every site
//	Abort   if a site voted No; or if one has not voted, and is gone or the deadline has passed
//
// The first two are final in a session: votes do not change, unless servers have come back with
// older data. So in each session a list comes first, and an outcome is recorded in the session of
// the list. A Commit is recorded only if each Yes is there that the party may read. The other
// verdicts rest on votes that are missing, as far as this party knows. So before it records one of
// them it asks the leader, by a sync and lists of the ballots and of the present sites: the
// connection may have been down when the vote came, or the site came back.
//
//	          the deadline passes          confirm                         the lists agree
//	waiting ────────────────────▶ stale ────────────▶ confirming ─────────────────────────────▶ recorded
//	   │                            ▲                   │    │
//	   └──▶ missing ────────────────┘                   │    └──▶ waiting: the site has voted, or is back
//	        a site, for absentFor                       └──▶ stale: the lists failed
//
// Parties may come to different verdicts; the record takes the first, and no party acts on a
// verdict.

// absentFor is how long a site is missing before it is taken for dead: a process that waits for the
// deletion of its predecessor's node has created its own by then.
const absentFor = 2 * time.Second

// A decider is a deciding party's knowledge of a transaction. It is a value: its slices are
// replaced, not modified. The slices are in the order of the record's sites.
type decider struct {
	rec *record // constant; its outcome does not matter
	by  string  // the party; constant

	votes []ballot // without a vote for sites that have not voted

	// seen is set while the last list of the present sites has the site. While it is set, the end
	// of the presence is noticed.
	seen []bool

	// gone is set while the last list has no ballot of the site. It has finished then; or, if the
	// record has no outcome after such a list, an operator has deleted its ballot, and its vote
	// does not count any more.
	gone []bool

	// missing is set when the presence of a site ends that has not voted. It is cleared when the
	// site is back, or has voted.
	missing []bool

	// listed is set by a list of the ballots, and cleared with the session of a coordinator. Until
	// it is set nothing is decided. A site lists its own ballot first in each session, and all
	// others with it.
	listed bool
	late   bool // set when the deadline passed

	// lapsed is set when absentFor has passed since the last site went missing, and cleared when
	// another does.
	lapsed bool

	// stale is set when the deadline or absentFor has passed, and when an attempt to record the
	// outcome may have failed. It is cleared when the leader is asked. confirmed is set by the
	// answer to that, and cleared with stale. Nothing is aborted for a missing vote unless
	// confirmed is set and stale is not.
	stale, confirmed bool

	// undone is set when an attempt to record a Commit found that a vote is not there any more:
	// servers have come back with older data, and no watch has reported it. It is cleared by lists
	// of the leader. While it is set, no Commit is recorded.
	undone bool

	// beaten is set when an outcome was recorded, by this party or another party, or when there is
	// no record to write it to; and by the first list without the ballot of a site. The party
	// clears it when it reads the record. While it is set, no outcome is recorded.
	beaten bool
}

func newDecider(r *record, by string) decider {
	n := len(r.Sites)
	return decider{rec: r, by: by, votes: make([]ballot, n), seen: make([]bool, n), gone: make([]bool, n), missing: make([]bool, n)}
}

// forget follows the end of a session: nothing is decided before a list of the next.
func (d decider) forget() decider {
	d.listed, d.gone = false, make([]bool, len(d.gone))
	return d
}

// describe is canonical.
func (d decider) describe() string {
	var s strings.Builder
	for i, site := range d.rec.Sites {
		if d.votes[i].vote != 0 || d.seen[i] || d.missing[i] || d.gone[i] {
			s.WriteString(" " + site + ":" + d.votes[i].vote.String() + flagged("+", d.seen[i]) + flagged("-", d.missing[i]) + flagged(" gone", d.gone[i]))
		}
	}
	return s.String() + flagged(" late", d.late) + flagged(" lapsed", d.lapsed) + flagged(" stale", d.stale) + flagged(" confirmed", d.confirmed) +
		flagged(" listed", d.listed) + flagged(" undone", d.undone) + flagged(" beaten", d.beaten)
}

// --- the next step of a party

// A step is the next action of a party that decides.
type step int

const (
	toWait    step = iota // for lists and timers
	toRead                // read the record: no outcome can be recorded
	toConfirm             // ask the leader
	toDecide              // record the verdict
)

// A verdict is an outcome that is to be recorded.
type verdict struct {
	Outcome

	// votes has the names of the ballots on which a Commit rests, with a / between them. An abort
	// rests on none.
	votes string
}

// next returns the next step, and the verdict if the step records one.
func (d decider) next() (verdict, step) {
	sites, missing := d.rec.Sites, slices.Index(d.missing, true)
	no, pending := d.first(No), d.pending()
	switch {
	case d.beaten:
		return verdict{}, toRead
	case !d.listed:
		return verdict{}, toWait
	case no >= 0:
		return d.abort(VotedNo, sites[no]), toDecide
	case d.undone:
		return verdict{}, toConfirm
	case pending < 0:
		return verdict{Outcome{Committed: true, By: d.by}, d.ballots()}, toDecide
	case !d.late && (missing < 0 || !d.lapsed):
		return verdict{}, toWait
	case d.stale:
		return verdict{}, toConfirm
	case !d.confirmed:
		return verdict{}, toWait
	case d.late:
		return d.abort(TimedOut, sites[pending]), toDecide
	}
	return d.abort(SiteGone, sites[missing]), toDecide
}

// first returns the number of the first site with the vote; -1 if there is none.
func (d decider) first(v Vote) int {
	return slices.IndexFunc(d.votes, func(b ballot) bool { return b.vote == v })
}

// pending returns the number of the first site whose vote is not there; -1 if there is none.
func (d decider) pending() int {
	for i, b := range d.votes {
		if b.vote == 0 || d.gone[i] {
			return i
		}
	}
	return -1
}

func (d decider) abort(why Reason, site string) verdict {
	return verdict{Outcome: Outcome{Reason: why, Site: site, By: d.by}}
}

// ballots returns the names of all ballots, as [verdict] has them.
func (d decider) ballots() string {
	names := make([]string, len(d.votes))
	for i, b := range d.votes {
		names[i] = b.name(d.rec.Sites[i])
	}
	return strings.Join(names, "/")
}

// ask follows the request to the leader.
func (d decider) ask() decider { d.stale, d.confirmed = false, false; return d }

// lapse follows the end of absentFor, and expire that of the deadline.
func (d decider) lapse() decider  { d.lapsed, d.stale = true, true; return d }
func (d decider) expire() decider { d.late, d.stale = true, true; return d }

// --- answers

// A meaning is the consequence of an answer for the party. Its news of the votes is in the decider.
type meaning int

const (
	learned   meaning = iota // the request succeeded
	passes                   // it failed, and may succeed when it is made again
	forbidden                // it failed, for a reason that does not pass
	noBallots                // the transaction is gone, or an operator has deleted its ballots only
	isOutcome                // the verdict is recorded
	tooLate                  // an outcome was recorded before, or there is nothing to record it in
	unfounded                // a vote on which the verdict rests is not there any more
)

// answered enters the answer to a request that next has named, or a list of the ballots, for which
// the party waits. An abort for a missing vote rests on lists of the leader that came after all
// else. So if these, or an attempt to record the verdict, failed, the leader is asked again.
func (d decider) answered(to step, names, sites []string, err error) (decider, meaning) {
	d.stale = d.stale || to == toDecide || to == toConfirm && err != nil
	switch {
	case to == toDecide && (err == nil || beaten(err)):
		if d.beaten = true; err == nil {
			return d, isOutcome
		}
		return d, tooLate
	case errors.Is(err, errUndone):
		d.undone = true
		return d, unfounded
	case errors.Is(err, session.ErrNoNode):
		return d, noBallots
	case session.Passing(err):
		return d, passes
	case err != nil:
		return d, forbidden
	}
	d = d.count(parse(names))
	if to == toConfirm {
		d = d.confirm(sites)
		d.undone = false
	}
	return d, learned
}

// errUndone means that a vote on which a Commit rests is not there, while the transaction is.
var errUndone = errors.New("a vote was undone")

// beaten reports whether an attempt to record an outcome failed because there is an outcome, or no
// record to write it to.
func beaten(err error) bool {
	return errors.Is(err, session.ErrBadVersion) || errors.Is(err, session.ErrNoNode)
}

// count takes the votes from a list of the ballots, which is newer than those before. A site
// without a ballot has finished, so the record is read for its outcome, once. If a ballot that had
// a vote has none again, the vote was undone: the servers have come back with older data.
func (d decider) count(b ballots) decider {
	d.votes, d.gone, d.missing, d.listed = slices.Clone(d.votes), slices.Clone(d.gone), slices.Clone(d.missing), true
	for i, site := range d.rec.Sites {
		now, there := b.of[site]
		d.beaten = d.beaten || !there && !d.gone[i]
		if d.gone[i] = !there; there {
			d.votes[i], d.missing[i] = now, d.missing[i] && now.vote == 0
		}
	}
	return d
}

// confirm takes the sites that the leader knows as present, after its list of the ballots was
// counted.
func (d decider) confirm(sites []string) decider {
	d.missing = slices.Clone(d.missing)
	for i, site := range d.rec.Sites {
		d.missing[i] = d.missing[i] && !slices.Contains(sites, site)
	}
	d.confirmed = true
	return d
}

// attend takes the names of the sites that are present. If a site went missing, the timer for
// absentFor is to be set.
func (d decider) attend(sites []string) (_ decider, missing bool) {
	d.seen, d.missing = slices.Clone(d.seen), slices.Clone(d.missing)
	for i, site := range d.rec.Sites {
		there := slices.Contains(sites, site)
		if d.seen[i] && !there && d.votes[i].vote == 0 {
			d.missing[i], d.lapsed, missing = true, false, true
		}
		d.seen[i], d.missing[i] = there, d.missing[i] && !there
	}
	return d, missing
}
