package judge

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/zkactors/zkactors/campaign/history"
)

// The kinds of operations on latches and plain barriers.
const (
	Arrive = "arrive" // Argument is the name under which it counts; Limit of them open the latch
	Raise  = "raise"  // returns when the barrier stands
	Lift   = "lift"   // returns when it does not
	Pass   = "pass"   // a wait, which returns when the latch is open, or the barrier does not stand
)

// Latches checks that nobody passes a latch before so many arrivals were called for as open it. A
// name counts once, however often it arrives, also if the servers come back with older data. Where
// an operator has deleted nodes it may count again. That all pass in the end is judged by Progress.
func Latches(h *history.History) []Violation {
	v := verdict{check: "Latches"}
	all := byPlace(h, func(o *history.Operation) bool { return o.Kind == Arrive && o.Outcome != history.Failed })
	passes := byPlace(h, func(o *history.Operation) bool { return o.Kind == Pass && o.Outcome == history.OK && o.Limit > 0 })
	for _, p := range places(passes) {
		if slices.ContainsFunc(h.Faults, func(f history.Fault) bool { return thins(f, p.path) }) {
			continue
		}
		for _, pass := range passes[p] {
			names := make(map[string]bool)
			for _, o := range all[p] {
				if o.Call.Before(pass.Return) {
					names[o.Argument] = true
				}
			}
			if len(names) < pass.Limit {
				v.add(p.recipe, p.path, "%s passes at %v with %d of %d arrivals", pass.Process, pass.Return.At, len(names), pass.Limit)
			}
		}
	}
	return v.all
}

// plain is the specification of a plain barrier, which stands or does not.
func plain() porcupine.Model {
	return sequential(false, func(state any, o *history.Operation) []any {
		if o.Kind == Pass && state == true {
			return nil
		}
		return []any{o.Kind == Raise}
	})
}

// Barriers checks plain barriers: who passes does so at a moment at which the barrier does not
// stand. A barrier that an operator has deleted, or that has come back, is not judged. That all
// pass when it is lifted at last is judged by Progress.
func Barriers(h *history.History) []Violation {
	v := verdict{check: "Barriers"}
	all := byPlace(h, func(o *history.Operation) bool {
		passed := o.Kind == Pass && o.Outcome == history.OK && o.Limit == 0
		return passed || (o.Kind == Raise || o.Kind == Lift) && o.Outcome != history.Failed
	})
	for _, p := range places(all) {
		if meddled(h, p.path) {
			continue
		}
		switch porcupine.CheckOperationsTimeout(plain(), operations(all[p]), patience) {
		case porcupine.Ok:
		case porcupine.Illegal:
			v.add(p.recipe, p.path, "%s", through(all[p]))
		case porcupine.Unknown:
			v.add(p.recipe, p.path, "not decided within %v", patience)
		}
	}
	return v.all
}

// through describes a passage through a barrier that stood, for people. Porcupine decides.
func through(all []*history.Operation) string {
	for _, pass := range all {
		for _, raise := range all {
			stood := pass.Kind == Pass && raise.Kind == Raise && raise.Outcome == history.OK && raise.Return.Before(pass.Call)
			if stood && !slices.ContainsFunc(all, func(o *history.Operation) bool {
				over := o.Outcome == history.OK && o.Return.Before(raise.Call)
				return o.Kind == Lift && !over && o.Call.Before(pass.Return)
			}) {
				return fmt.Sprintf("%s passes from %v to %v, while the barrier stands since %v", pass.Process, pass.Call.At, pass.Return.At, raise.Return.At)
			}
		}
	}
	return fmt.Sprintf("%d calls have no order in which nobody passes while the barrier stands", len(all))
}
