package commit

import (
	"slices"
	"strings"
)

// This file is the rule by which a transaction is decided. It is the same for every party.
//
//	Commit  if a list of the ballots showed a Yes of every site
//	Abort   if a site voted No, or one has not voted and the deadline has passed, or one has not voted and is gone
//
// The first is final: votes do not change. The others are final only when they are recorded, so no party acts on a verdict. Parties
// may come to different verdicts; the record takes the first.

// A chair is a deciding party's knowledge of a transaction. It is a value: its slices are
// replaced, not modified.
type chair struct {
	votes []Vote // of the record's sites, in its order; 0 for those that have not voted
	seen  []bool // set when the presence of the site was seen. While set, its end is a death.
	dead  []bool // set when the presence of the site, which had not voted, was gone
	late  bool   // set when the deadline passed
	knows bool   // set by a list of the ballots, cleared by a death. Until it is set nothing else is decided.
}

func newChair(r *record) chair {
	n := len(r.Sites)
	return chair{votes: make([]Vote, n), seen: make([]bool, n), dead: make([]bool, n)}
}

// describe is canonical.
func (c chair) describe(r *record) string {
	var s strings.Builder
	for i, site := range r.Sites {
		if c.votes[i] != 0 || c.seen[i] || c.dead[i] {
			s.WriteString(" " + site + ":" + c.votes[i].String() + flagged("+", c.seen[i]) + flagged("-", c.dead[i]))
		}
	}
	return s.String() + flagged(" late", c.late) + flagged(" knows", c.knows)
}

// count takes the votes from a list of the ballots.
func (c chair) count(r *record, b ballots) chair {
	c.votes, c.dead, c.knows = slices.Clone(c.votes), slices.Clone(c.dead), true
	for i, site := range r.Sites {
		if b.of[site].vote != 0 {
			c.votes[i], c.dead[i] = b.of[site].vote, false
		}
	}
	return c
}

// attend takes the names of the sites that are there. A site that is gone may have voted before: its
// death counts when the ballots show no vote. If died, they are to be followed anew: what is told
// first includes all votes before the death.
func (c chair) attend(r *record, sites []string) (_ chair, died bool) {
	c.seen, c.dead = slices.Clone(c.seen), slices.Clone(c.dead)
	for i, site := range r.Sites {
		there := slices.Contains(sites, site)
		if c.seen[i] && !there && c.votes[i] == 0 {
			c.dead[i], c.knows, died = true, false, true
		}
		c.seen[i] = there
	}
	return c, died
}

// verdict returns the outcome to record, if the rule has one.
func (c chair) verdict(r *record, by string) (Outcome, bool) {
	if !c.knows {
		return Outcome{}, false
	}
	if i := slices.Index(c.votes, No); i >= 0 {
		return Outcome{Reason: VotedNo, Site: r.Sites[i], By: by}, true
	}
	pending, dead := slices.Index(c.votes, 0), slices.Index(c.dead, true)
	switch {
	case pending < 0:
		return Outcome{Committed: true, By: by}, true
	case c.late:
		return Outcome{Reason: TimedOut, Site: r.Sites[pending], By: by}, true
	case dead >= 0:
		return Outcome{Reason: SiteGone, Site: r.Sites[dead], By: by}, true
	}
	return Outcome{}, false
}
