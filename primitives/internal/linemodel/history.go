package linemodel

import (
	"fmt"
	"math"

	"github.com/anishathalye/porcupine"
)

// Capacity is the limit of a line in which a contender may exclude all others.
const Capacity = 100

// A History has the grants of contenders in a random walk, by their own events. The methods of a
// nil History do nothing.
type History struct {
	ops   []porcupine.Operation
	now   int64         // counts steps
	since map[int]int64 // by contender: the end of its newest grant
	over  map[int]int64 // by contender: since when another may hold its grant
	holds map[int]bool
	limit int // the newest
}

// The operations of contenders and operators.
type (
	enter struct {
		contender, weight int
		token             int64 // 0 if tokens mean nothing
	}
	leave struct{ contender int }
	lower struct{ contender int } // it shares from then on
	limit struct{ limit int }
)

// NewHistory returns an empty history of a line with a limit.
func NewHistory(of int) *History {
	h := &History{since: map[int]int64{}, over: map[int]int64{}, holds: map[int]bool{}}
	h.Limit(of)
	return h
}

// add notes an operation that began at the step since, and is done now.
func (h *History) add(contender int, what any, since int64) {
	h.ops = append(h.ops, porcupine.Operation{ClientId: contender, Input: what, Call: since, Return: h.now})
}

// Step begins a step of the walk.
func (h *History) Step() {
	if h != nil {
		h.now++
	}
}

// Limit notes the present limit.
func (h *History) Limit(of int) {
	if h != nil && of != h.limit {
		h.limit = of
		h.add(0, limit{of}, h.now)
	}
}

// Enter notes that a contender reports a grant. It may have been made at any time since the
// contender last left.
func (h *History) Enter(contender, weight int, token int64) {
	if h != nil {
		h.holds[contender] = true
		h.add(contender, enter{contender, weight, token}, h.since[contender])
	}
}

// Doomed notes, in each step, whether another contender may hold what this contender holds, or is
// about to be granted.
func (h *History) Doomed(contender int, doomed bool) {
	if h == nil {
		return
	}
	if _, is := h.over[contender]; !doomed {
		delete(h.over, contender)
	} else if !is {
		h.over[contender] = h.now
	}
}

// Lower notes that a contender is to share. done notes that it does.
func (h *History) Lower(contender int) (done func()) {
	if h == nil {
		return func() {}
	}
	h.add(contender, lower{contender}, h.now)
	at := len(h.ops) - 1
	h.ops[at].Return = math.MaxInt64
	return func() { h.ops[at].Return = h.now }
}

// Leave notes that a contender reports that it no longer holds.
func (h *History) Leave(contender int) {
	if h == nil || !h.holds[contender] {
		return
	}
	since, is := h.over[contender]
	if !is {
		since = h.now
	}
	h.add(contender, leave{contender}, since)
	h.since[contender] = h.now
	delete(h.holds, contender)
}

// Check returns an error if no order of the operations explains the history.
func (h *History) Check() error {
	if h == nil {
		return nil
	}
	ops := h.ops
	for contender := range h.holds {
		if since, is := h.over[contender]; is {
			ops = append(ops, porcupine.Operation{ClientId: contender, Input: leave{contender}, Call: since, Return: math.MaxInt64})
		}
	}
	if !porcupine.CheckOperations(ordered, ops) {
		return fmt.Errorf("no order explains the history %+v", ops)
	}
	return nil
}

// A state is the weight that each contender holds, and the tokens that were granted.
type state struct {
	limit    int
	held     [8]int // by contender
	excluded int64  // the newest token of a contender that excludes others
	newest   int64
}

// ordered is the model of a line: at a grant, all weights that are held are within the limit in
// sum, and the token is greater than the tokens with which it may be compared.
var ordered = porcupine.Model{ //nolint:gochecknoglobals // it is constant
	Init: func() any { return state{} },
	Step: func(at, input, _ any) (legal bool, after any) {
		s := at.(state)
		switch in := input.(type) {
		case limit:
			s.limit = in.limit
		case enter:
			held := in.weight
			for _, weight := range s.held {
				held += weight
			}
			excludes := in.weight == Capacity
			late := in.token != 0 && (in.token <= s.excluded || excludes && in.token <= s.newest)
			if held > s.limit || s.held[in.contender] > 0 || late {
				return false, s
			}
			s.held[in.contender] = in.weight
			if s.newest = max(s.newest, in.token); excludes {
				s.excluded = in.token
			}
		case lower:
			s.held[in.contender] = min(1, s.held[in.contender])
		case leave:
			if s.held[in.contender] == 0 {
				return false, s
			}
			s.held[in.contender] = 0
		}
		return true, s
	},
}
