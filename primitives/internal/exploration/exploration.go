// Package exploration goes through the possible steps of several machines over a model of
// their shared nodes, for tests: breadth first, and at random. A world is never copied: it
// is made again, and what has happened is repeated.
package exploration

import (
	"cmp"
	"flag"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/zkactors/zkactors/internal/hasten"
)

// A ViolationError says which property a world violates. [World.Apply] and
// [World.Check] panic with it.
type ViolationError string

// Error implements the error interface.
func (v ViolationError) Error() string { return string(v) }

// A World is a state of everything. A is the type of possible steps.
type World[A comparable] interface {
	// Actions returns what can happen now: by itself, by a user's command, and as a
	// fault.
	Actions() (normal, wishes, faulty []A)

	// Apply does one thing.
	Apply(a A)

	// Check holds in every state.
	Check()

	// Key returns a hash of everything in it. It is asked for only of worlds that were
	// made to be compared.
	Key() uint64

	// Describe says what an action is about to do.
	Describe(a A) string
}

// A Finisher is a World that can be brought to its end without further faults. Finish panics with a
// [ViolationError] if that is not a good one. The world is of no more use then.
type Finisher interface{ Finish() }

// Rest is for how many steps of its own a world may go on without coming to rest.
const Rest = 500

// try does one thing, and returns what is wrong then.
func try[A comparable](w World[A], a A) (err error) {
	defer func() {
		if r := recover(); r != nil {
			v, ok := r.(ViolationError)
			if !ok {
				panic(fmt.Sprintf("%v, after %v", r, a))
			}
			err = v
		}
	}()
	w.Apply(a)
	w.Check()
	return nil
}

// finish brings a world to its end, and returns what is wrong then.
func finish[A comparable](w World[A]) (err error) {
	f, is := w.(Finisher)
	if !is {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			v, ok := r.(ViolationError)
			if !ok {
				panic(r)
			}
			err = v
		}
	}()
	f.Finish()
	return nil
}

// Explore goes through the states that follow from start, breadth first. It returns how
// many it has seen, whether that is all there are, and the shortest way to a violation.
func Explore[A comparable](start func() World[A], limit int) (states int, all bool, trace []A, err error) {
	type edge struct {
		from int
		by   A
	}
	edges := []edge{{from: -1}}
	way := func(to int) (trace []A) {
		for ; to > 0; to = edges[to].from {
			trace = append(trace, edges[to].by)
		}
		slices.Reverse(trace)
		return trace
	}
	seen := map[uint64]struct{}{}
	for at := 0; at < len(edges); at++ {
		trace := way(at)
		again := func() World[A] {
			w := start()
			for _, a := range trace {
				w.Apply(a)
			}
			return w
		}
		w := again()
		normal, wishes, faulty := w.Actions()
		for i, a := range slices.Concat(normal, wishes, faulty) {
			if i > 0 {
				w = again()
			}
			if err := try(w, a); err != nil {
				return len(seen), false, append(trace, a), err
			}
			h := w.Key()
			if _, ok := seen[h]; ok {
				continue
			}
			if len(seen) == limit {
				return len(seen), false, nil, nil
			}
			seen[h] = struct{}{}
			edges = append(edges, edge{at, a})
			if err := finish(w); err != nil {
				return len(seen), false, append(trace, a), err
			}
		}
	}
	return len(seen), true, nil, nil
}

// Walk goes at random until nothing can happen any more, and returns what has happened, and
// what is wrong. Now and then there are no commands and no faults until the world comes to
// rest.
func Walk[A comparable](w World[A], pick func(n int) int) (trace []A, err error) {
	faultiness, haste := pick(26), pick(26)
	calm := 0
	for range 5000 {
		normal, wishes, faulty := w.Actions()
		switch {
		case len(normal) == 0:
			calm = 0
		case calm > 1:
			calm--
		case calm == 1:
			return trace, fmt.Errorf("no rest in %d steps", Rest)
		case pick(50) == 1:
			calm = Rest
		}
		choice := normal
		switch {
		case calm > 0:
		case len(faulty) > 0 && (len(normal)+len(wishes) == 0 || pick(100) < faultiness):
			choice = faulty
		case len(wishes) > 0 && (len(normal) == 0 || pick(100) < haste):
			choice = wishes
		}
		if len(choice) == 0 {
			return trace, nil
		}
		a := choice[pick(len(choice))]
		trace = append(trace, a)
		if err := try(w, a); err != nil {
			return trace, err
		}
	}
	return trace, fmt.Errorf("no end in %d steps", len(trace))
}

// Tell writes what a trace does.
func Tell[A comparable](w World[A], trace []A, write func(string)) {
	for _, a := range trace {
		write(w.Describe(a))
		if err := try(w, a); err != nil {
			write(err.Error())
			return
		}
	}
}

//nolint:gochecknoglobals // they are flags
var (
	breadth = flag.Int("explore.states", 1000, "states of each scenario that are gone through")
	walks   = flag.Int("explore.walks", 600, "random walks through each scenario")
)

// shorter is how much less short tests do.
const shorter = 60

// Test goes through the states that follow from start, and at random beyond. What it finds it
// tells, as short as it can be. Effort is how much more than others the scenario takes.
// Keyed worlds have a Key. Ended returns what is wrong with a world in which nothing can
// happen any more.
func Test[A comparable](t *testing.T, start func(keyed bool) World[A], effort int, ended func(World[A]) error) {
	t.Helper()
	less := hasten.Sized(1, shorter)
	limit, checks := *breadth*effort/less, *walks*effort/less
	states, all, trace, err := Explore(func() World[A] { return start(true) }, limit)
	if err != nil {
		Tell(start(false), trace, func(line string) { t.Log(line) })
		t.Fatalf("%v, after %d states", err, states)
	}
	for flagged, value := range map[string]string{"rapid.checks": fmt.Sprint(checks), "rapid.nofailfile": "true", "rapid.shrinktime": "5s"} {
		_ = flag.Set(flagged, value)
	}
	if seed := flag.Lookup("rapid.seed"); seed.Value.String() == "0" {
		_ = flag.Set("rapid.seed", "1")
	}
	steps := 0
	walk := rapid.Custom(func(t *rapid.T) (at outcome) { // whose draws do not matter
		w := start(false)
		var trace []A
		if trace, at.err = Walk(w, func(n int) int { return pick(t, n) }); at.err == nil {
			at.err = cmp.Or(finish(w), ended(w))
		}
		if steps += len(trace); at.err != nil {
			Tell(start(false), trace, func(line string) { at.story += line + "\n" })
		}
		return at
	})
	rapid.Check(t, func(t *rapid.T) {
		if at := walk.Draw(t, "walk"); at.err != nil {
			t.Fatalf("%v, in a random walk:\n%s", at.err, at.story)
		}
	})
	t.Logf("%d states, complete: %v; %d random steps", states, all, steps)
}

// pick picks all alike, where rapid's integers prefer the small and the great.
func pick(t *rapid.T, n int) int {
	const spare = 3
	picked := 0
	for range bits.Len(uint(n)) + spare {
		picked *= 2
		if rapid.Bool().Draw(t, "") {
			picked++
		}
	}
	return picked % n
}

// An outcome is that of a random walk.
type outcome struct {
	err   error
	story string
}

// GoString implements [fmt.GoStringer], for the log of what was drawn.
func (at outcome) GoString() string { return fmt.Sprint(at.err) }
