package commit

import (
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/zkactors/zkactors/primitives/internal/exploration"
)

// This file goes through the states of the model.

// A value is a state of everything that can be copied: the model has no performers, which is why
// package exploration would repeat what has happened instead. W is its own type, and A that
// of what can happen.
type value[W any, A comparable] interface {
	// Clone returns a copy that shares nothing that Apply changes.
	Clone() W

	// Actions returns what can happen now, by itself and as a fault.
	Actions() (normal, faulty []A)

	// Apply does one thing.
	Apply(a A)

	// Key appends what tells the world from others.
	Key(to []byte) []byte
}

// try applies an action to a copy of w. Also with a [exploration.ViolationError] it returns the copy.
func try[W value[W, A], A comparable](w W, a A) (next W, err error) {
	next = w.Clone()
	defer func() {
		if r := recover(); r != nil {
			v, ok := r.(exploration.ViolationError)
			if !ok {
				panic(fmt.Sprintf("%v, after %v", r, a))
			}
			err = v
		}
	}()
	next.Apply(a)
	return next, nil
}

// explore goes through the states that follow from start, breadth first. It returns how
// many it has seen, whether that is all there are, and the shortest way to a violation.
func explore[W value[W, A], A comparable](start W, limit int) (states int, all bool, trace []A, err error) {
	type edge struct {
		from int
		by   A
	}
	seed := maphash.MakeSeed()
	seen := map[uint64]struct{}{}
	edges := []edge{{from: -1}}
	queue := []W{start}
	var none W
	var key []byte
	for at := 0; at < len(queue); at++ {
		w := queue[at]
		queue[at] = none
		normal, faulty := w.Actions()
		for _, a := range append(normal, faulty...) {
			next, err := try(w, a)
			if err != nil {
				trace := []A{a}
				for i := at; i > 0; i = edges[i].from {
					trace = append(trace, edges[i].by)
				}
				slices.Reverse(trace)
				return len(seen), false, trace, err
			}
			key = next.Key(key[:0])
			h := maphash.Bytes(seed, key)
			if _, ok := seen[h]; ok {
				continue
			}
			if len(seen) == limit {
				return len(seen), false, nil, nil
			}
			seen[h] = struct{}{}
			edges = append(edges, edge{at, a})
			queue = append(queue, next)
		}
	}
	return len(seen), true, nil, nil
}

// shorten leaves out of a trace from start what is not needed for a violation.
func shorten[W value[W, A], A comparable](start W, trace []A) []A {
	fails := func(trace []A) ([]A, bool) {
		w := start
		var done []A
		for _, a := range trace {
			normal, faulty := w.Actions()
			if !slices.Contains(normal, a) && !slices.Contains(faulty, a) {
				continue
			}
			done = append(done, a)
			var err error
			if w, err = try(w, a); err != nil {
				return done, true
			}
		}
		return nil, false
	}
	for again := true; again; {
		again = false
		for i := 0; i < len(trace); i++ {
			if short, ok := fails(slices.Delete(slices.Clone(trace), i, i+1)); ok {
				trace, again = short, true
				i--
			}
		}
	}
	return trace
}
