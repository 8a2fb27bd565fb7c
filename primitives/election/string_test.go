package election

import (
	"fmt"
	"strings"
)

// String names all that is set, for transcripts and for violations that the model finds.
func (m machine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v leader=%s/%d", m.place, m.view.leading().Node, m.view.leading().term)
	for _, f := range []struct {
		set  bool
		text string
	}{
		{m.term != 0, fmt.Sprintf("leading=%d", m.term)},
		{m.acknowledged, "acknowledged"},
		{m.suspended, "suspended"},
		{m.handing.to != "", fmt.Sprintf("to=%s/%d", m.handing.to, m.handing.phase)},
		{m.wanted, "wanted"},
		{m.work.term != 0, fmt.Sprintf("work=%d", m.work.term)},
		{m.work.overdue, "overdue"},
		{m.work.then != nil, "then"},
		{m.closing, "closing"},
		{m.ended, "ended"},
	} {
		if f.set {
			b.WriteString(" " + f.text)
		}
	}
	return b.String()
}
