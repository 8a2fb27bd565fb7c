// Package judge decides whether a history is one that the recipes promise. It knows no code of the
// library: it sees what clients recorded, and what the servers' tree had.
//
// Grants, registers and queues are checked by porcupine, each recipe with a specification of its
// own. Streams of events are checked by validators with the names that etcd's robustness suite uses
// for its watches: Ordered, Unique, Reliable and Resumable. Each checker has tests with bad
// histories, which it must refuse.
//
// Promises have exceptions: a session that is ended by decree, nodes that an operator deletes,
// servers that come back with older data. Such faults stand in the history. A checker excuses what
// overlaps them, and no more.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/campaign/history"
)

// A Violation is a promise that a history breaks.
type Violation struct {
	Check  string `json:"check"`
	Recipe string `json:"recipe"`
	Path   string `json:"path"`
	Text   string `json:"text"`
}

// String returns the violation in one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s: %s %s: %s", v.Check, v.Recipe, v.Path, v.Text)
}

// A Checker is one way to judge a history.
type Checker struct {
	Name  string
	Judge func(h *history.History) []Violation
}

// Checkers returns all checkers.
func Checkers() []Checker {
	return []Checker{
		{"Exclusive", Exclusive},
		{"Numbers", Numbers},
		{"Guarded", Guarded},
		{"ToldBeforeNextGrant", ToldBeforeNextGrant},
		{"Register", Register},
		{"Items", Items},
		{"FirstInFirstOut", FirstInFirstOut},
		{"MostUrgentFirst", MostUrgentFirst},
		{"NotBeforeDue", NotBeforeDue},
		{"Rounds", Rounds},
		{"Latches", Latches},
		{"Barriers", Barriers},
		{"Once", Once},
		{"Agreement", Agreement},
		{"Grammar", Grammar},
		{"Ordered", Ordered},
		{"Unique", Unique},
		{"Reliable", Reliable},
		{"Resumable", Resumable},
		{"Converged", Converged},
		{"Explained", Explained},
		{"NoGhosts", NoGhosts},
		{"Progress", Progress},
	}
}

// All judges a history by all checkers that it has enough for.
func All(h *history.History) []Violation {
	var all []Violation
	for _, c := range Checkers() {
		if h.Head.Unjudged[c.Name] == "" {
			all = append(all, c.Judge(h)...)
		}
	}
	return all
}

// A verdict collects the violations of one checker.
type verdict struct {
	check string
	all   []Violation
}

func (v *verdict) add(recipe, path, format string, args ...any) {
	v.all = append(v.all, Violation{v.check, recipe, path, fmt.Sprintf(format, args...)})
}

// A place is a path of a recipe.
type place struct{ recipe, path string }

// byPlace returns the operations that are selected, by recipe and path.
func byPlace(h *history.History, selected func(o *history.Operation) bool) map[place][]*history.Operation {
	all := make(map[place][]*history.Operation)
	for i := range h.Operations {
		if o := &h.Operations[i]; selected(o) {
			p := place{o.Recipe, o.Path}
			all[p] = append(all[p], o)
		}
	}
	return all
}

// places returns the keys in order, so that the same history has the same verdict.
func places[V any](m map[place]V) []place {
	var all []place
	for p := range m {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.recipe, b.recipe), cmp.Compare(a.path, b.path))
	})
	return all
}

// family returns the recipe whose promises a recipe has: the name of one in the format of another
// library goes on with that of the format, such as lock-kazoo.
func family(recipe string) string {
	name, _, _ := strings.Cut(recipe, "-")
	return name
}

func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// restores counts the restores of older data up to a moment.
func restores(h *history.History, until history.Moment) int {
	n := 0
	for _, f := range h.Faults {
		if f.Kind == history.Restored && f.At.Before(until) {
			n++
		}
	}
	return n
}

// meddled reports whether the nodes below a path were deleted by an operator, or replaced by older
// ones.
func meddled(h *history.History, path string) bool {
	return slices.ContainsFunc(h.Faults, func(f history.Fault) bool { return meddles(f, path) })
}

func meddles(f history.Fault, path string) bool { return f.Kind == history.Restored || thins(f, path) }

// thins reports whether a fault is the deletion of a node below a path by an operator.
func thins(f history.Fault, path string) bool {
	return f.Kind == history.Removed && under(f.Path, path)
}

// Progress refuses histories in which a handle said that it waits for ever.
func Progress(h *history.History) []Violation {
	v := verdict{check: "Progress"}
	for _, t := range h.Told {
		if t.Kind == Stuck {
			v.add(t.Recipe, t.Path, "%s waits for ever: %s", t.Handle, t.Value)
		}
	}
	return v.all
}

// Stuck is the kind of what a workload records when a call does not come back although no fault is
// in force any more.
const Stuck = "stuck"

// NoGhosts refuses histories that end with ephemeral nodes: all handles were closed.
func NoGhosts(h *history.History) []Violation {
	v := verdict{check: "NoGhosts"}
	owners := make(map[string]int64)
	for _, c := range h.Commits {
		if c.Restored {
			clear(owners)
		}
		for _, ch := range c.Changes {
			switch {
			case ch.Kind == history.Deleted:
				delete(owners, ch.Path)
			case ch.Kind == history.Created && ch.Owner != 0:
				owners[ch.Path] = ch.Owner
			}
		}
	}
	for _, path := range sortedKeys(owners) {
		v.add("", path, "the node of session %#x is left", owners[path])
	}
	return v.all
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	var all []K
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}
