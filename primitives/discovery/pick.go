package discovery

import (
	"maps"
	"math"
	"slices"
	"time"
)

// A Strategy chooses one of the instances of a pool, and returns its index. It must be a pure
// function: [Watcher.Pick] calls it with the watcher locked. A panic, and a call of
// [runtime.Goexit], are the caller's.
type Strategy func(Pool) int

// A Pool is what a [Strategy] chooses from.
type Pool struct {
	// Instances are at least one, in the order of their IDs; those that are disabled or fail are
	// left out. They must not be modified.
	Instances []Instance
	Picks     uint64 // how many picks came before; begins with a random number, so that watchers begin with different instances
	Last      string // the ID of the instance that was picked last; "" if none was
	Random    uint64 // another number for each pick

	// Uses returns how many uses of an instance are under way, by [Watcher.Use].
	Uses func(id string) int
}

// RoundRobin picks one instance after the other.
func RoundRobin(p Pool) int { return int(p.Picks % uint64(len(p.Instances))) }

// Random picks any instance.
func Random(p Pool) int { return int(p.Random % uint64(len(p.Instances))) }

// Sticky picks the same instance as long as it can, and then any.
func Sticky(p Pool) int {
	for i, it := range p.Instances {
		if it.ID == p.Last {
			return i
		}
	}
	return Random(p)
}

// LeastUsed picks an instance with the fewest uses under way, one after the other of those that
// have equally many. Users tell of their uses with [Watcher.Use].
func LeastUsed(p Pool) int {
	n := len(p.Instances)
	first := RoundRobin(p)
	best := first
	for i := range n {
		if at := (first + i) % n; p.Uses(p.Instances[at].ID) < p.Uses(p.Instances[best].ID) {
			best = at
		}
	}
	return best
}

// A ledger is what a watcher knows of the use of instances, as a value. Times are ages of the
// session.
type ledger struct {
	limit  int           // so many failures within the window leave an instance out; 0 for never
	window time.Duration // and so long it is left out

	failures map[string]failures
	uses     map[string]int // under way
	picks    uint64
	last     string

	all []Instance // that are there

	// What is picked from, until there are other instances or failures, or an instance is back.
	good  []Instance
	known bool
	until time.Duration
}

// failures are those of one instance.
type failures struct {
	at    []time.Duration // the last ones within the window
	until time.Duration   // the instance is left out; 0 if it is not
}

func newLedger(limit int, window time.Duration, picks uint64) ledger {
	return ledger{limit: limit, window: window, failures: make(map[string]failures), uses: make(map[string]int), picks: picks}
}

// isOut reports whether an instance is left out.
func (l *ledger) isOut(id string, now time.Duration) bool { return now < l.failures[id].until }

// fail notes a failure. One that comes while the instance is left out does not prolong that: the
// use began before.
func (l *ledger) fail(id string, now time.Duration) {
	f := l.failures[id]
	if l.limit == 0 || now < f.until {
		return
	}
	f.at = slices.DeleteFunc(append(f.at, now), func(at time.Duration) bool { return now-at >= l.window })
	if len(f.at) >= l.limit {
		f = failures{until: now + l.window}
	}
	l.failures[id] = f
	l.known = false
}

// use begins a use, and end ends it.
func (l *ledger) use(id string) { l.uses[id]++ }

func (l *ledger) end(id string) {
	if l.uses[id]--; l.uses[id] == 0 {
		delete(l.uses, id)
	}
}

// keep notes which instances are there, and forgets the failures of all others.
func (l *ledger) keep(all []Instance) {
	l.all, l.known = all, false
	if len(l.failures) == 0 {
		return
	}
	there := make(map[string]bool, len(all))
	for _, i := range all {
		there[i.ID] = true
	}
	maps.DeleteFunc(l.failures, func(id string, _ failures) bool { return !there[id] })
}

// pool returns the instances from which to pick: those that are enabled, without those that fail,
// unless all of them do: a client that knows nothing better tries them.
func (l *ledger) pool(now time.Duration, random uint64) Pool {
	if !l.known || now >= l.until {
		l.choose(now)
	}
	return Pool{Instances: l.good, Picks: l.picks, Last: l.last, Random: random, Uses: func(id string) int { return l.uses[id] }}
}

// choose notes which instances are picked from, and until when.
func (l *ledger) choose(now time.Duration) {
	var enabled, good []Instance
	l.known, l.until = true, math.MaxInt64
	for _, i := range l.all {
		if i.Disabled {
			continue
		}
		enabled = append(enabled, i)
		if l.isOut(i.ID, now) {
			l.until = min(l.until, l.failures[i.ID].until)
		} else {
			good = append(good, i)
		}
	}
	if len(good) == 0 {
		good = enabled
	}
	l.good = good
}

// picked notes that an instance was picked.
func (l *ledger) picked(id string) {
	l.picks++
	l.last = id
}
