package session

import "time"

// An Observer is told what a session and the recipes on it do, for metrics. Its
// methods are called from many goroutines, and must return at once. Embed
// [NopObserver] to implement only some.
type Observer interface {
	// Request is told of every request that was answered or given up: its
	// operation, how long it took since it was asked for, and its error.
	Request(op string, took time.Duration, err error)

	// State is told of every event of the session.
	State(ev Event)

	// Waited is told how long a recipe waited until it was granted something.
	Waited(recipe, path string, took time.Duration)

	// Held is told how long a recipe held what it gave back.
	Held(recipe, path string, took time.Duration)

	// Lost is told that a recipe lost what it held, or its place in line.
	Lost(recipe, path string, err error)
}

// NopObserver is an [Observer] that does nothing.
type NopObserver struct{}

// Request implements [Observer].
func (NopObserver) Request(string, time.Duration, error) {}

// State implements [Observer].
func (NopObserver) State(Event) {}

// Waited implements [Observer].
func (NopObserver) Waited(string, string, time.Duration) {}

// Held implements [Observer].
func (NopObserver) Held(string, string, time.Duration) {}

// Lost implements [Observer].
func (NopObserver) Lost(string, string, error) {}

// A requestObserver is told nothing of a session's state.
type requestObserver struct{ Observer }

// State implements [Observer].
func (requestObserver) State(Event) {}
