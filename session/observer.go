package session

import "time"

// An Observer receives what a session and the recipes on it do, for metrics. Its methods
// are called on the goroutines of sessions and recipes, many at once. They must return at
// once and wait for nothing of the session, which answers nothing meanwhile. Embed
// [NopObserver] to implement only some.
//
// Recipes are named as their packages are, and paths as they were given. Each Waiting is followed
// by one Waited or GaveUp: so the difference is how many wait now. Likewise each Waited is followed
// by one Held, and the difference is how many hold now.
type Observer interface {
	// Request is called once for every request that was answered, or was given up before it
	// was sent: its operation, how long it took since it was asked for, and its error. A read
	// that finds no node has none.
	Request(op string, took time.Duration, err error)

	// State receives every event of the session.
	State(ev Event)

	// Waiting is called when a recipe begins to wait for a grant: a contender in line, a
	// candidate that does not lead, a member or a name that does not stand. It is called again
	// when a candidate was deposed, or a node that is kept is gone.
	Waiting(recipe, path string)

	// Waited receives the time for which a recipe waited until it was granted what it waited
	// for.
	Waited(recipe, path string, took time.Duration)

	// GaveUp receives the time for which a recipe waited in vain, until it left, or lost its
	// place.
	GaveUp(recipe, path string, took time.Duration)

	// Held receives the time for which a lock, a lease of a semaphore, a term, a membership or a name was
	// held. It is called when that is given back or lost. Barriers, queues, transactions and values report
	// nothing.
	Held(recipe, path string, took time.Duration)

	// Lost is called when a recipe lost what it held, or its place in line, with the reason;
	// not that a node is gone that is made again.
	Lost(recipe, path string, err error)

	// Revoked is called when a holder is asked to give up a lock.
	Revoked(recipe, path string)

	// Leader receives from each candidate and each observer of an election what it learns: the node
	// of the leader, "" while there is none, its data, and its term, or the last term while there
	// is none. Several on one path repeat the same, and one may be late: a smaller term is old
	// news.
	Leader(path, node string, data []byte, term int64)

	// Members receives from each watcher of a group the number of members.
	Members(path string, n int)
}

// NopObserver is an [Observer] that does nothing.
type NopObserver struct{}

// Request implements [Observer].
func (NopObserver) Request(string, time.Duration, error) {}

// State implements [Observer].
func (NopObserver) State(Event) {}

// Waiting implements [Observer].
func (NopObserver) Waiting(string, string) {}

// Waited implements [Observer].
func (NopObserver) Waited(string, string, time.Duration) {}

// GaveUp implements [Observer].
func (NopObserver) GaveUp(string, string, time.Duration) {}

// Held implements [Observer].
func (NopObserver) Held(string, string, time.Duration) {}

// Lost implements [Observer].
func (NopObserver) Lost(string, string, error) {}

// Revoked implements [Observer].
func (NopObserver) Revoked(string, string) {}

// Leader implements [Observer].
func (NopObserver) Leader(string, string, []byte, int64) {}

// Members implements [Observer].
func (NopObserver) Members(string, int) {}

// A requestObserver is told nothing of a session's state.
type requestObserver struct{ Observer }

// State implements [Observer].
func (requestObserver) State(Event) {}
