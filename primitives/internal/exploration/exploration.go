// Package exploration goes through what several machines can do over a model of what they
// share, for tests: breadth first, and what is not needed for a violation left out.
package exploration

import (
	"fmt"
	"hash/maphash"
	"slices"
)

// A ViolationError is what is wrong with a world. [World.Apply] panics with it.
type ViolationError string

// Error implements the error interface.
func (v ViolationError) Error() string { return string(v) }

// A World is a state of everything. W is its own type, and A that of what can happen.
type World[W any, A comparable] interface {
	// Clone returns a copy that shares nothing that Apply changes.
	Clone() W

	// Actions returns what can happen now, by itself and as a fault.
	Actions() (normal, faulty []A)

	// Apply does one thing.
	Apply(a A)

	// Key appends what tells the world from others.
	Key(to []byte) []byte
}

// Try applies an action to a copy of w. Also with a [ViolationError] it returns the copy.
func Try[W World[W, A], A comparable](w W, a A) (next W, err error) {
	next = w.Clone()
	defer func() {
		if r := recover(); r != nil {
			v, ok := r.(ViolationError)
			if !ok {
				panic(fmt.Sprintf("%v, after %v", r, a))
			}
			err = v
		}
	}()
	next.Apply(a)
	return next, nil
}

// Explore goes through the states that follow from start, breadth first. It returns how
// many it has seen, whether that is all there are, and the shortest way to a violation.
func Explore[W World[W, A], A comparable](start W, limit int) (states int, all bool, trace []A, err error) {
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
			next, err := Try(w, a)
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

// Shorten leaves out of a trace from start what is not needed for a violation.
func Shorten[W World[W, A], A comparable](start W, trace []A) []A {
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
			if w, err = Try(w, a); err != nil {
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
