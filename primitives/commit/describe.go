package commit

import (
	"fmt"
	"strconv"
	"strings"
)

// This file describes a site's machine, for transcripts and models.

// String is canonical: machines with equal strings do the same.
func (m sitemachine) String() string {
	var s strings.Builder
	s.WriteString(m.site + "(" + flagged("away ", !m.stands()) + flagged(" lapsed", m.lapsed) + flagged("began", m.began) + flagged(" attends", m.attends) + flagged(" over", m.over))
	if len(m.there) > 0 {
		fmt.Fprintf(&s, " %q", m.there)
	}
	for _, p := range m.parts {
		s.WriteString(" [" + p.describe(m.site) + "]")
	}
	for _, r := range m.rested {
		s.WriteString(" (" + r.describe() + ")")
	}
	if len(m.waiting) > 0 {
		fmt.Fprintf(&s, " waiting %q", m.waiting)
	}
	return s.String() + ")"
}

// describe is canonical: parts with equal strings do the same.
func (p part) describe(site string) string {
	s := p.id
	if p.rec != nil {
		s += "/" + p.rec.GUID + " " + p.ballot.name(site) + p.decider.describe()
	}
	if p.outcome != nil {
		s += " " + p.outcome.String()
	}
	if p.aborted != nil {
		s += " again " + p.aborted.String()
	}
	return s + flagged(" "+p.task.String(), p.task != idle) + flagged(" gone", p.gone) + flagged(" next", p.next) + flagged(" look", p.look) +
		flagged(" vote"+p.data, p.vote) + flagged(" voted"+p.data, p.voted) + flagged(" asked", p.asked) + flagged(" told", p.told) + flagged(" sure", p.sure) +
		flagged(" patrols", p.patrols) + flagged(" alone "+strconv.Itoa(p.alone), p.alone > 0) + flagged(" presides", p.presides) + flagged(" reread", p.reread) +
		flagged(" paused", p.paused) + flagged(" unread", p.unread) + flagged(" unlisted", p.unlisted) + flagged(" refused "+strconv.Itoa(p.refusals), p.refusals > 0) +
		flagged(" finish", p.finishes()) + flagged(" done", p.done) + flagged(" clear", p.clear) + flagged(" bereft", p.bereft)
}
