// Package exploration tries the possible steps of several machines over a model of their shared
// nodes, for tests: breadth first, and at random. Worlds cannot be copied. To return to a world, it
// begins a new one and repeats the actions that led there.
package exploration

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
)

// A ViolationError names the property that a world violates. [World.Apply] and [World.Check] panic
// with it.
type ViolationError string

// Error implements the error interface.
func (v ViolationError) Error() string { return string(v) }

// A World is the state of a whole model. A is the type of its actions.
type World[A comparable] interface {
	// Actions returns the actions that can happen now: by themselves, as commands of users, and as
	// faults.
	Actions() (normal, wishes, faulty []A)

	// Apply performs one action.
	Apply(a A)

	// Check checks the properties of every state.
	Check()

	// Key returns a hash of the whole world. It is called only on worlds that were made to be
	// compared.
	Key() uint64

	// Describe describes an action that is about to be applied.
	Describe(a A) string
}

// A Finisher is a World that can be run to its end without further faults. Finish panics with a
// [ViolationError] if the end is not a good one. The world cannot be used after that.
type Finisher interface{ Finish() }

// Rest is the number of actions that may happen by themselves before a world has to come to rest.
const Rest = 500

// try applies an action, and returns the violation, if any.
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

// finish runs a world to its end, and returns the violation, if any.
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

// Explore visits the states that follow from start, breadth first. It returns the number of states,
// whether these are all, and the shortest trace to a violation.
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

// Walk applies random actions until none is possible, and returns the trace, and the violation, if
// any. Now and then it leaves out commands and faults until the world comes to rest.
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

// Tell writes a description of a trace.
func Tell[A comparable](w World[A], trace []A, write func(string)) {
	for _, a := range trace {
		write(w.Describe(a))
		if err := try(w, a); err != nil {
			write(err.Error())
			return
		}
	}
}

// story describes a trace, a line for each action.
func story[A comparable](w World[A], trace []A) (text string) {
	Tell(w, trace, func(line string) { text += "    " + line + "\n" })
	return text
}

//nolint:gochecknoglobals // they are flags
var (
	breadth = flag.Int("explore.states", hasten.Usually(1000, 160), "states of each scenario that are gone through")
	walks   = flag.Int("explore.walks", hasten.Usually(600, 80), "random walks through each scenario")
)

// shorter is the factor by which short tests do less.
const shorter = 8

// Test explores the states that follow from start, and then walks at random beyond them. It logs
// the shortest trace to a violation that it finds. effort multiplies the number of states and
// walks. start returns a world that has a Key if keyed. ended returns the violation of a world in
// which nothing can happen any more, if any.
func Test[A comparable](t *testing.T, start func(keyed bool) World[A], effort int, ended func(World[A]) error) {
	t.Helper()
	less := hasten.Sized(hasten.Usually(1, shorter/2), shorter)
	limit, checks := *breadth*effort/less, *walks*effort/less
	states, all, trace, err := Explore(func() World[A] { return start(true) }, limit)
	if err != nil {
		t.Fatalf("%v\nafter\n%sthe shortest history, in state %d\n%s", err, story(start(false), trace), states, check.Guide(t))
	}
	steps := 0
	for walk := range checks {
		w := start(false)
		random := rand.New(rand.NewPCG(hasten.Seed(), uint64(walk)))
		trace, err := Walk(w, random.IntN)
		if err == nil {
			err = cmp.Or(finish(w), ended(w))
		} else {
			trace, err = shorten(func() World[A] { return start(false) }, trace, err)
		}
		if steps += len(trace); err != nil {
			t.Fatalf("%v\nafter\n%sin random walk %d\n%s", err, story(start(false), trace), walk, check.Guide(t, fmt.Sprint("ZKACTORS_SEED=", hasten.Seed())))
		}
	}
	t.Logf("%d states, complete: %v; %d walks of %d steps", states, all, checks, steps)
}

// shorten leaves out actions of a trace to a violation, as long as what remains leads to one, too.
func shorten[A comparable](start func() World[A], trace []A, err error) (shorter []A, violation error) {
	for size := (len(trace) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at < len(trace); {
			rest := slices.Concat(trace[:at], trace[min(at+size, len(trace)):])
			if played, err2 := play(start(), rest); err2 != nil {
				trace, err = played, err2
			} else {
				at += size
			}
		}
	}
	return trace, err
}

// play applies those of the actions that are possible then, up to a violation.
func play[A comparable](w World[A], all []A) (played []A, err error) {
	for _, a := range all {
		normal, wishes, faulty := w.Actions()
		if slices.Contains(normal, a) || slices.Contains(wishes, a) || slices.Contains(faulty, a) {
			played = append(played, a)
			if err := try(w, a); err != nil {
				return played, err
			}
		}
	}
	return played, nil
}

// Explored walks at random through worlds, always the same walks, until the machines in them have
// had every input with the marker method, such as input, that the package has. It fails the test if
// an input is missing after all walks. begin returns the world of a walk, which notes its inputs.
func Explored[A comparable](t *testing.T, marker string, begin func(walk int, given *check.Given) World[A]) {
	t.Helper()
	const walks = 1000
	var given check.Given
	for walk := range walks {
		if len(given.Missing(t, marker)) == 0 {
			return
		}
		_, err := Walk(begin(walk, &given), rand.New(rand.NewPCG(uint64(walk), 0)).IntN)
		check.Must(t, err)
	}
	check.Explored(t, marker, given)
}
