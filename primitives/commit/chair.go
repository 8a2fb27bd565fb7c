package commit

import (
	"slices"
	"strings"
)

// This file is the rule by which a transaction is decided. It is the same for every party.

// A chair is what a deciding party knows of a transaction. It is a value: its slices are replaced,
// not modified.
type chair struct {
	votes []Vote // of the record's sites, in its order; 0 for those that have not voted
	seen  []bool // set when the presence of the site was seen. While set, its end is a death.
	dead  string // set when a site died without a vote was seen
	late  bool   // set when the deadline passed
	given bool   // set when the caller of Begin gave up
	knows bool   // set by the first list of the ballots. Until then nothing else is decided.
}

func newChair(r *record) chair {
	return chair{votes: make([]Vote, len(r.Sites)), seen: make([]bool, len(r.Sites))}
}

// describe is canonical.
func (c chair) describe(r *record) string {
	var s strings.Builder
	for i, site := range r.Sites {
		if c.votes[i] != 0 || c.seen[i] {
			s.WriteString(" " + site + ":" + c.votes[i].String() + flagged("+", c.seen[i]))
		}
	}
	return s.String() + flagged(" dead:"+c.dead, c.dead != "") + flagged(" late", c.late) + flagged(" given", c.given) + flagged(" knows", c.knows)
}

// count takes the votes from a list of the ballots.
func (c chair) count(r *record, b ballots) chair {
	c.votes, c.knows = slices.Clone(c.votes), true
	for i, site := range r.Sites {
		if b.of[site].vote != 0 {
			c.votes[i] = b.of[site].vote
		}
	}
	return c
}

// attend takes the names of the sites that are there.
func (c chair) attend(r *record, sites []string) chair {
	c.seen = slices.Clone(c.seen)
	for i, site := range r.Sites {
		there := slices.Contains(sites, site)
		if c.seen[i] && !there && c.votes[i] == 0 && c.dead == "" {
			c.dead = site
		}
		c.seen[i] = there
	}
	return c
}

// verdict returns the outcome to record, if the rule has one.
func (c chair) verdict(r *record, by string) (Outcome, bool) {
	if c.given {
		return Outcome{Reason: Withdrawn, By: by}, true
	}
	if !c.knows {
		return Outcome{}, false
	}
	if i := slices.Index(c.votes, No); i >= 0 {
		return Outcome{Reason: VotedNo, Site: r.Sites[i], By: by}, true
	}
	pending := slices.Index(c.votes, 0)
	switch {
	case pending < 0:
		return Outcome{Committed: true, By: by}, true
	case c.late:
		return Outcome{Reason: TimedOut, Site: r.Sites[pending], By: by}, true
	case c.dead != "" && c.votes[slices.Index(r.Sites, c.dead)] == 0:
		return Outcome{Reason: SiteGone, Site: c.dead, By: by}, true
	}
	return Outcome{}, false
}
