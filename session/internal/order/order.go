// Package order brings everything that a session tells into one sequence: the answers and watch
// events of the wire, and the session's own events.
package order

import "sync"

// An Order runs steps: each after the one that was put before it, on one of the session's own
// goroutines, never on a caller's.
type Order struct {
	before func() // runs before each step

	mu    sync.Mutex
	steps []Step
	spare []Step        // what the steps are put into next
	busy  bool          // a goroutine is running steps
	ready chan struct{} // holds a value while there may be something to run
	over  bool          // the session's goroutines have ended
}

// A Step is an answer to a call, or a function.
type Step interface{ Run() }

// A Func is a step.
type Func func()

// Run implements [Step].
func (f Func) Run() { f() }

// New returns an order without steps. Before is called before each step.
func New(before func()) *Order {
	return &Order{ready: make(chan struct{}, 1), before: before}
}

// Ready returns a channel that holds a value while there may be something to run.
func (o *Order) Ready() <-chan struct{} { return o.ready }

// Add appends a step. The caller runs the order afterwards, if it is a goroutine of the
// session and holds no locks; else it uses Put.
func (o *Order) Add(s Step) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.steps = append(o.steps, s)
}

// Put appends a function, and has the session's loop run it.
func (o *Order) Put(do func()) { o.PutStep(Func(do)) }

// PutStep appends a step, and has the session's loop run it.
func (o *Order) PutStep(s Step) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.steps = append(o.steps, s)
	switch {
	case o.busy: // the goroutine that runs the others runs this
	case o.over:
		go o.Run()
	default:
		select {
		case o.ready <- struct{}{}:
		default:
		}
	}
}

// maxSpare is how many steps the memory that is kept has room for.
const maxSpare = 512

// Run runs the steps that there are, unless another goroutine does.
func (o *Order) Run() {
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
			s.Run()
			steps[i] = nil
		}
		o.mu.Lock()
		if cap(steps) <= maxSpare {
			o.spare = steps
		}
	}
	o.busy = false
	o.mu.Unlock()
}

// End is called by the loop when it stops.
func (o *Order) End() {
	o.mu.Lock()
	o.over = true
	o.mu.Unlock()
	o.Run()
}
