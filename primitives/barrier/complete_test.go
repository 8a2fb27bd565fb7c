package barrier

import (
	"flag"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
)

var complete = flag.Int("barrier.states", 0, "states that are gone through of each configuration; 0 for the smallest alone, 1000000 are a campaign of hours")

// A swift world has machines step at once. A step is of one machine alone, and nothing but its own session sees what
// it asks for before that is served: so steps of different machines, and steps and servings, can be exchanged. Timers
// go off when nothing else happens, and a few times: parties that wait look again and again.
type swift struct {
	*world
	timers *int // left
}

func newSwift(s *scenario) exploration.World[zkmodel.Action] {
	w := swift{newWorld(s, true), new(2)}
	w.settle()
	return w
}

// Actions implements [exploration.World].
func (w swift) Actions() (normal, wishes, faulty []zkmodel.Action) {
	normal, wishes, faulty = w.world.Actions()
	wishes = slices.DeleteFunc(wishes, func(a zkmodel.Action) bool {
		return a.Kind == "timer" && (len(normal) > 0 || *w.timers == 0)
	})
	return normal, wishes, faulty
}

// Apply implements [exploration.World].
func (w swift) Apply(a zkmodel.Action) {
	if a.Kind == "timer" {
		*w.timers--
	}
	w.world.Apply(a)
	w.settle()
}

// Key implements [exploration.World].
func (w swift) Key() uint64 { return w.world.Key() ^ zkmodel.Hash(*w.timers) }

func (w swift) settle() {
	for {
		normal, _, _ := w.world.Actions()
		i := slices.IndexFunc(normal, func(a zkmodel.Action) bool { return a.Kind == "step" })
		if i < 0 {
			return
		}
		w.Check()
		w.world.Apply(normal[i])
	}
}

// TestAllRounds goes through all that can happen, as far as the flag allows.
func TestAllRounds(t *testing.T) {
	configurations := []struct {
		name string
		scenario
	}{
		{"two parties, a round", scenario{parties: 2, handles: 2, enters: 1}},
		{"two parties, two rounds", scenario{parties: 2, handles: 2, enters: 2}},
		{"two parties, a round, a crash", scenario{parties: 2, handles: 2, enters: 1, faults: zkmodel.Faults{Crashes: 1}}},
		{"two parties, a round, a lost reply", scenario{parties: 2, handles: 2, enters: 1, faults: zkmodel.Faults{Cuts: 1}}},
		{"two parties, two rounds, a crash", scenario{parties: 2, handles: 2, enters: 2, faults: zkmodel.Faults{Crashes: 1}}},
		{"two parties, two rounds, a lost reply", scenario{parties: 2, handles: 2, enters: 2, faults: zkmodel.Faults{Cuts: 1}}},
		{"two of three parties, two rounds, a crash", scenario{parties: 2, handles: 3, enters: 2, faults: zkmodel.Faults{Crashes: 1}}},
		{"three parties, a round", scenario{parties: 3, handles: 3, enters: 1}},
		{"four parties, a round", scenario{parties: 4, handles: 4, enters: 1}},
		{"four parties, two rounds", scenario{parties: 4, handles: 4, enters: 2}},
	}
	limit := *complete
	if limit == 0 {
		configurations, limit = configurations[:1], 10_000
	}
	for i, c := range configurations {
		t.Run(c.name, func(t *testing.T) {
			c.prepared = true
			states, all, trace, err := exploration.Explore(func() exploration.World[zkmodel.Action] { return newSwift(&c.scenario) }, limit)
			if err != nil {
				exploration.Tell(newSwift(&c.scenario), trace, func(line string) { t.Log(line) })
				t.Fatal(err)
			}
			t.Logf("%d states, complete: %v", states, all)
			if i == 0 && !all {
				t.Errorf("there are more than %d states", limit)
			}
		})
	}
}
