package session

import "sync"

// An order brings everything that a session tells into one sequence: the answers and watch
// events of the wire, and the session's own events. A step runs after the one that was
// put before it, on one of the session's own goroutines, never on a caller's.
type order struct {
	before func() // runs before each step

	mu    sync.Mutex
	steps []step
	spare []step        // what the steps are put into next
	busy  bool          // a goroutine is running steps
	ready chan struct{} // holds a value while there may be something to run
	over  bool          // the session's goroutines have ended
}

// A step is an answer to a call, or a function.
type step interface{ run() }

type function func()

func (f function) run() { f() }

func newOrder(before func()) *order {
	return &order{ready: make(chan struct{}, 1), before: before}
}

// add appends a step. The caller runs the order afterwards, if it is a goroutine of the
// session and holds no locks; else it uses put.
func (o *order) add(s step) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.steps = append(o.steps, s)
}

// put appends a function, and has the session's loop run it.
func (o *order) put(do func()) { o.putStep(function(do)) }

// putStep appends a step, and has the session's loop run it.
func (o *order) putStep(s step) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.steps = append(o.steps, s)
	switch {
	case o.busy: // the goroutine that runs the others runs this
	case o.over:
		go o.run()
	default:
		select {
		case o.ready <- struct{}{}:
		default:
		}
	}
}

// run runs the steps that there are, unless another goroutine does.
func (o *order) run() {
	o.mu.Lock()
	if o.busy {
		o.mu.Unlock()
		return
	}
	o.busy = true
	for len(o.steps) > 0 {
		steps := o.steps
		o.steps, o.spare = o.spare[:0], nil
		o.mu.Unlock()
		for i, s := range steps {
			o.before()
			s.run()
			steps[i] = nil
		}
		o.mu.Lock()
		if cap(steps) <= maxInFlight {
			o.spare = steps
		}
	}
	o.busy = false
	o.mu.Unlock()
}

// end is called by the loop when it stops.
func (o *order) end() {
	o.mu.Lock()
	o.over = true
	o.mu.Unlock()
	o.run()
}
