package judge

import (
	"slices"

	"github.com/zkactors/zkactors/campaign/history"
)

// Ask is the kind of an operation that asks for the outcome of a function that runs once in the
// life of the cluster. Result is what it learns. Argument is the outcome of its own run, if it has
// run the function; no two runs have the same. The run is a grant.
const Ask = "ask"

// Once checks that all who ask learn the same outcome, that it is of a run which has not failed,
// and that no run begins when somebody has learned an outcome. That runs do not overlap is judged
// by Exclusive. An outcome that an operator has deleted, or that has come back older, is not
// judged.
func Once(h *history.History) []Violation {
	v := verdict{check: "Once"}
	asks := byPlace(h, func(o *history.Operation) bool { return o.Kind == Ask })
	runs := tenuresOf(h)
	for _, p := range places(asks) {
		if meddled(h, p.path) {
			continue
		}
		var first *history.Operation // to learn
		for _, o := range asks[p] {
			if o.Outcome == history.OK && (first == nil || o.Return.Before(first.Return)) {
				first = o
			}
		}
		if first == nil {
			continue
		}
		if !slices.ContainsFunc(asks[p], func(o *history.Operation) bool {
			return o.Argument != "" && o.Argument == first.Result && o.Outcome != history.Failed && o.Call.Before(first.Return)
		}) {
			v.add(p.recipe, p.path, "%s learns %q at %v, which is the outcome of no run", first.Process, first.Result, first.Return.At)
		}
		for _, o := range asks[p] {
			if o.Outcome == history.OK && o.Result != first.Result {
				v.add(p.recipe, p.path, "%s learns %q, and %s %q", first.Process, first.Result, o.Process, o.Result)
			}
		}
		for _, run := range runs[p] {
			begun := unaware(h, &tenure{grant: run.grant, from: run.grant.Return})
			if !run.excused && first.Return.Before(begun) {
				v.add(p.recipe, p.path, "%s runs at %v, although %s has learned the outcome at %v", describe(run), begun.At, first.Process, first.Return.At)
			}
		}
	}
	return v.all
}
