// Package order brings all reports of a session into one sequence: the answers and watch events of
// the wire, and the session's own events.
//
// A step calls functions of users. Such a function may end its goroutine with [runtime.Goexit], as
// t.FailNow does. Then the goroutine that runs the order next goes on with the other steps. A step
// that calls several functions leaves the rest of them with [Order.Left].
package order

import (
	"slices"
	"sync"
)

// An Order runs steps: each after the step that was put before it, on a goroutine of the session,
// never on a caller's.
type Order struct {
	before func() // runs before each step

	mu    sync.Mutex
	steps []Step
	spare []Step        // what the steps are put into next
	busy  bool          // a goroutine is running steps
	ready chan struct{} // holds a value while there may be something to run
	over  bool          // the session's goroutines have ended
	left  []Step        // of the step whose goroutine ends; nil but while that unwinds
}

// A Step is an answer to a call, or a function.
type Step interface{ Run() }

// A Func is a step.
type Func func()

// Run implements [Step].
func (f Func) Run() { f() }

// A Report is a function that only the session's loop runs. If it ends its goroutine again and
// again, that costs no connection.
type Report func()

// Run implements [Step].
func (r Report) Run() { r() }

// A remainder is the rest of a step. Nothing runs before it.
type remainder func()

func (r remainder) Run() { r() }

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
	o.wake()
}

// wake wakes a goroutine that may run the steps. The order is locked.
func (o *Order) wake() {
	switch {
	case o.busy: // the goroutine that runs the other steps runs this step
	case o.over:
		go o.Run()
	default:
		select {
		case o.ready <- struct{}{}:
		default:
		}
	}
}

// maxSpare is the number of steps that the kept memory has room for.
const maxSpare = 512

// Run runs the waiting steps, unless another goroutine does.
func (o *Order) Run() { o.run(true) }

// RunAnswers is Run for a goroutine that reads. It leaves a [Report], and what comes behind, to the
// loop.
func (o *Order) RunAnswers() { o.run(false) }

func (o *Order) run(reports bool) {
	o.mu.Lock()
	if o.busy {
		o.mu.Unlock()
		return
	}
	o.busy = true
	var left []Step // of those that were taken
	returns := false
	defer func() {
		if !returns {
			o.handOver(left)
		}
	}()
	for len(o.steps) > 0 {
		steps := o.steps
		o.steps, o.spare = o.spare[:0], nil
		o.mu.Unlock()
		for left = steps; len(left) > 0; {
			s := left[0]
			if _, is := s.(Report); is && !reports {
				returns = true
				o.handOver(left)
				return
			}
			if _, is := s.(remainder); !is {
				o.before()
			}
			left[0], left = nil, left[1:]
			s.Run()
		}
		o.mu.Lock()
		if cap(steps) <= maxSpare {
			o.spare = steps
		}
	}
	o.busy, returns = false, true
	o.mu.Unlock()
}

// handOver leaves the steps to the goroutine that runs the order next: this one ends.
func (o *Order) handOver(steps []Step) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.steps = slices.Concat(o.left, steps, o.steps)
	o.left, o.busy = nil, false
	if len(o.steps) > 0 {
		o.wake()
	}
}

// Left is called by a step while its goroutine ends, with what it has not done. The calls of
// functions within each other are to be in that order.
func (o *Order) Left(rest func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left = append(o.left, remainder(rest))
}

// InTurn calls functions within a step, also the functions behind a function that ends the
// goroutine.
func (o *Order) InTurn(all ...func()) {
	defer func() {
		if len(all) > 0 {
			o.Left(func() { o.InTurn(all...) })
		}
	}()
	for len(all) > 0 {
		f := all[0]
		all = all[1:]
		f()
	}
}

// End is called by the loop when it stops.
func (o *Order) End() {
	o.mu.Lock()
	o.over = true
	o.mu.Unlock()
	o.Run()
}
