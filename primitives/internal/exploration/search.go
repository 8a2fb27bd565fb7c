package exploration

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
)

// A Search goes through the states of one machine. S is a state: of the machine, and of what a test
// knows of it. States must not change in later steps. In is the type of inputs, and K that of keys.
type Search[S, In any, K comparable] struct {
	// Inputs returns the inputs that a state is given, possible or not.
	Inputs func(S) []In

	// Step returns the next state. The error says what is wrong with the step, as the promise that
	// it breaks.
	Step func(S, In) (S, error)

	// Key returns the same value for states that count as the same.
	Key func(S) K

	// Check returns what is wrong with a state, when all of its steps were right. It may be nil.
	Check func(S) error

	// Sample, if not 0, has the search try one input in so many, when each input of the first
	// states was tried: see [hasten.Sample].
	Sample int

	// Limit is the number of states after which the search ends; 0 for none.
	Limit int

	// Given, if not nil, has the types of the inputs.
	Given *check.Given
}

// Run visits the states that follow from the first ones, breadth first. It returns the numbers of
// states and of steps. If something is wrong, it fails the test with the shortest history that
// leads there, and with the command that finds it again.
func (s Search[S, In, K]) Run(tb testing.TB, first ...S) (states, steps int) {
	tb.Helper()
	type edge struct {
		from int
		by   In
	}
	var edges []edge // by state
	var waiting []S  // states from next on
	seen := map[K]bool{}
	add := func(state S, from int, by In) {
		seen[s.Key(state)] = true
		edges, waiting = append(edges, edge{from, by}), append(waiting, state)
	}
	var none In
	for i, state := range first {
		if !seen[s.Key(state)] {
			add(state, -1-i, none)
		}
	}
	fail := func(at int, err error, last ...In) {
		tb.Helper()
		history := slices.Clone(last)
		for ; edges[at].from >= 0; at = edges[at].from {
			history = append(history, edges[at].by)
		}
		slices.Reverse(history)
		tb.Fatalf("%v\nafter\n%s\n%s", err, s.story(first[-1-edges[at].from], history), check.Guide(tb))
	}
	whole, chosen := hasten.Sized(1000, 200), func() bool { return true }
	if s.Sample > 0 {
		chosen = hasten.Sample(tb, s.Sample)
	}
	for at := 0; at < len(edges) && (s.Limit == 0 || len(edges) < s.Limit); at++ {
		state := waiting[0]
		clear(waiting[:1])
		waiting = waiting[1:]
		same := s.Key(state)
		for _, in := range s.Inputs(state) {
			if len(edges) > whole && !chosen() {
				continue
			}
			steps++
			if s.Given != nil {
				check.Note(s.Given, in)
			}
			next, err := s.Step(state, in)
			if err != nil {
				fail(at, err, in)
			}
			if key := s.Key(next); key != same && !seen[key] { // most steps lead nowhere
				add(next, at, in)
			}
		}
		if s.Check != nil {
			if err := s.Check(state); err != nil {
				fail(at, err)
			}
		}
	}
	return len(edges), steps
}

// story describes a history: each input, and the state after it.
func (s Search[S, In, K]) story(state S, history []In) string {
	lines := []string{fmt.Sprintf("    %v", state)}
	for _, in := range history {
		state, _ = s.Step(state, in)
		lines = append(lines, describe(in), fmt.Sprintf("    %v", state))
	}
	return strings.Join(lines, "\n")
}

// describe returns an input, with the texts of its errors: package fmt does not print these if
// their fields are not exported.
func describe(in any) string {
	v := reflect.ValueOf(in)
	if v.Kind() != reflect.Struct {
		return fmt.Sprintf("%T(%v)", in, in)
	}
	readable := reflect.New(v.Type()).Elem()
	readable.Set(v)
	var fields []string
	for i := range v.NumField() {
		field := readable.Field(i)
		value := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().Interface()
		fields = append(fields, fmt.Sprintf("%s:%+v", v.Type().Field(i).Name, value))
	}
	return fmt.Sprintf("%T{%s}", in, strings.Join(fields, " "))
}
