package judge

import (
	"slices"
	"strings"

	"github.com/zkactors/zkactors/campaign/history"
)

// The kinds of operations and events of two-phase commit. Handle is the transaction.
const (
	Begin     = "begin" // Argument has the names of the sites
	Vote      = "vote"  // Argument is the site, Result is Yes or No
	Yes       = "yes"
	No        = "no"
	Committed = "Committed" // an event; Value is the party that receives it
	Aborted   = "Aborted"
)

// Agreement checks two-phase commit: no two parties learn different outcomes of one transaction,
// and an outcome is Committed only if every site had voted Yes, and none No. A site whose process
// died in a vote may not have voted, and has a vote still; so has one whose vote an operator has
// deleted. If older data has come back, another outcome may follow, and nothing is judged.
func Agreement(h *history.History) []Violation {
	v := verdict{check: "Agreement"}
	if slices.ContainsFunc(h.Faults, func(f history.Fault) bool { return f.Kind == history.Restored }) {
		return nil
	}
	sites, voted := make(map[string]string), make(map[string]string) // by transaction, and site
	perhaps := make(map[string]bool)                                 // votes of Yes whose outcome is unknown
	for i := range h.Operations {
		switch o := &h.Operations[i]; {
		case o.Kind == Begin:
			sites[o.Handle] = o.Argument
		case o.Kind == Vote && o.Outcome == history.OK:
			key := o.Handle + " " + o.Argument
			if voted[key] != "" && voted[key] != o.Result && !removed(h, o.Handle) {
				v.add(o.Recipe, o.Path, "%s: site %s has voted %s and %s", o.Handle, o.Argument, voted[key], o.Result)
			}
			voted[key] = o.Result
		case o.Kind == Vote && o.Outcome == history.Unknown && o.Result == Yes:
			perhaps[o.Handle+" "+o.Argument] = true
		}
	}
	outcomes := make(map[string]history.Told)
	for _, t := range h.Told {
		if t.Kind != Committed && t.Kind != Aborted {
			continue
		}
		if first, ok := outcomes[t.Handle]; ok && first.Kind != t.Kind {
			v.add(t.Recipe, t.Path, "%s: %s learns %s, %s learns %s", t.Handle, first.Value, first.Kind, t.Value, t.Kind)
		} else if !ok && t.Kind == Committed {
			for site := range strings.SplitSeq(sites[t.Handle], ",") {
				key := t.Handle + " " + site
				if site != "" && voted[key] != Yes && (voted[key] != "" || !perhaps[key]) { // "" if its coordinator died in Begin
					v.add(t.Recipe, t.Path, "%s is committed, and the vote of site %s is %q", t.Handle, site, voted[key])
				}
			}
		}
		outcomes[t.Handle] = t
	}
	return v.all
}

// removed reports whether an operator has deleted nodes of a transaction: one that is begun at that
// moment begins again.
func removed(h *history.History, transaction string) bool {
	return slices.ContainsFunc(h.Faults, func(f history.Fault) bool {
		return f.Kind == history.Removed && strings.Contains(f.Path, transaction)
	})
}
