package main

import (
	"time"

	"github.com/zkactors/zkactors/primitives/inspect"
)

// This file finds out since when contenders hold: their nodes show only since when they are in
// line.

// A holder is a contender that holds. A node that is created again has another czxid.
type holder struct {
	node  string
	czxid int64
}

// A grant is the knowledge of the time of a grant.
type grant struct {
	at      time.Time
	earlier bool // set if the contender held already when it was first seen as a holder
}

// grants are the grants of the holders of the newest survey, as far as a reader of surveys has seen
// them. nil is of use: no grant was seen.
type grants map[holder]grant

// follow returns the grants after a survey. connected says that there was a survey before, and no
// gap since: then contenders that hold only now were granted in the meantime, which is short.
func (g grants) follow(survey *inspect.Survey, connected bool) grants {
	next := make(grants)
	for i := range survey.Things {
		for _, c := range survey.Things[i].Holders() {
			h := holder{c.Node, c.Czxid}
			seen, ok := g[h]
			if !ok {
				seen = grant{survey.Taken, !connected}
			}
			next[h] = seen
		}
	}
	return next
}

// times returns the times of the grants that were seen, by the paths of the nodes.
func (g grants) times() map[string]time.Time {
	at := make(map[string]time.Time)
	for h, seen := range g {
		if !seen.earlier {
			at[h.node] = seen.at.UTC()
		}
	}
	return at
}

// held returns for how long a contender has held, or "?".
func (g grants) held(t *inspect.Thing, c *inspect.Contender, now time.Time) string {
	if t.Leader != nil && t.Leader.Node == c.Node && c.Claim != "" { // the claim was created with the grant
		return age(t.Leader.Since, now)
	}
	switch seen, ok := g[holder{c.Node, c.Czxid}]; {
	case !ok:
		return "?"
	case seen.earlier:
		return ">" + age(seen.at, now)
	default:
		return age(seen.at, now)
	}
}
