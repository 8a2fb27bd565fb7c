// Package grants finds out since when contenders hold. The nodes of most recipes show only since
// when they are in line, so it compares each survey with the last one.
package grants

import (
	"time"

	"github.com/zkactors/zkactors/primitives/inspect"
)

// A Grant was given between two moments. They are the same if the grant was seen, or if a node
// shows it.
type Grant struct{ Earliest, Latest time.Time }

// Seen reports whether the moment of the grant is known.
func (g Grant) Seen() bool { return g.Earliest.Equal(g.Latest) }

// Known are the grants of the holders of one survey. It is never modified. nil is of use: no survey
// was seen.
type Known struct {
	survey *inspect.Survey
	things map[place]*inspect.Thing
	grants map[holder]Grant
}

// A place is a recipe at a path.
type place struct {
	path string
	kind inspect.Kind
}

// A holder is a contender that holds. A node that is created again has another czxid.
type holder struct {
	node  string
	czxid int64
}

// Follow returns the grants after the next survey. gap says that the session was not connected all
// the time since the last one. Without a gap, contenders that hold only now were granted at a
// moment so near that it counts as now.
func (k *Known) Follow(survey *inspect.Survey, gap bool) *Known {
	next := &Known{survey, make(map[place]*inspect.Thing, len(survey.Things)), make(map[holder]Grant, len(survey.Things))}
	for i := range survey.Things {
		t := &survey.Things[i]
		next.things[place{t.Path, t.Kind}] = t
		for _, c := range t.Contenders {
			if c.Holds {
				next.grants[holder{c.Node, c.Czxid}] = k.date(t, &c, survey.Taken, gap)
			}
		}
	}
	return next
}

// date returns the grant of a holder.
func (k *Known) date(t *inspect.Thing, c *inspect.Contender, taken time.Time, gap bool) Grant {
	if g, known := k.Of(t, c); known {
		return g
	}
	joined := c.Since
	if joined.After(taken) { // the server's clock is ahead
		joined = taken
	}
	switch {
	case k.blind(t):
		return Grant{joined, taken}
	case gap && joined.Before(k.survey.Taken): // it did not hold then
		return Grant{k.survey.Taken, taken}
	case gap:
		return Grant{joined, taken}
	}
	return Grant{taken, taken}
}

// blind reports whether the last survey does not show who held then.
func (k *Known) blind(t *inspect.Thing) bool {
	if k == nil {
		return true
	}
	was := k.things[place{t.Path, t.Kind}]
	if was == nil {
		return k.survey.Truncated
	}
	return was.Forbidden || was.Problem != ""
}

// Of returns the grant of a holder, and whether it is known. The claim of a leader was created with
// the grant.
func (k *Known) Of(t *inspect.Thing, c *inspect.Contender) (Grant, bool) {
	if t.Leader != nil && t.Leader.Node == c.Node && c.Claim != "" {
		return Grant{t.Leader.Since, t.Leader.Since}, true
	}
	if k == nil {
		return Grant{}, false
	}
	g, known := k.grants[holder{c.Node, c.Czxid}]
	return g, known
}

// Times returns the moments that are known, by the paths of the holders' nodes.
func (k *Known) Times() map[string]time.Time {
	at := make(map[string]time.Time)
	for h, g := range k.grants {
		if g.Seen() {
			at[h.node] = g.Latest.UTC()
		}
	}
	return at
}
