package filing

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/actors"
	expect "github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/once"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/session"
)

// A position is a call in the course of a search.
type position struct {
	Machine
	question effect // without an answer; nil if there is none
	shuts    bool   // the handle was closed
	stops    bool   // the caller has left
}

// failures are the errors of requests.
var failures = []error{
	session.ErrNoNode, session.ErrNoAuth, session.ErrBusy, session.ErrDisconnected, session.ErrExpired, session.ErrClosed,
	fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrDisconnected), fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrClosed),
}

// inputs returns every answer to the question of a call, and the commands.
func inputs(p position) (ins []input) {
	failing := func(in func(error) input) {
		for _, err := range failures {
			ins = append(ins, in(err))
		}
	}
	switch p.question.(type) {
	case check, makeDir:
		ins = append(ins, replied{})
		failing(func(err error) input { return replied{err} })
	case readClock:
		ins = append(ins, timed{high: 5})
		failing(func(err error) input { return timed{err: err} })
	case count:
		for _, there := range []int{0, p.Most} {
			for _, wanted := range []int{0, 1} {
				b := bound{known: true, epoch: 1, count: there, lined: wanted > 0}
				ins = append(ins, counted{bound: b, wanted: wanted}, counted{bound: b, wanted: wanted, stands: true})
			}
		}
		failing(func(err error) input { return counted{err: err} })
	case awaitRoom:
		ins = append(ins, room{})
	case findNewest:
		last := layout.Bucket{Number: -1}
		ins = append(ins, newest{bucket: last, seen: 1}, newest{}, newest{version: 1}, newest{full: true})
		failing(func(err error) input { return newest{err: err} })
	case assign:
		ins = append(ins, assigned{to: make([]target, p.items)}, assigned{to: slices.Repeat([]target{{fresh: true}}, p.items)})
		failing(func(err error) input { return assigned{err: err} })
	case transact:
		operations := min(p.Most, 1) + p.first + 1 + p.items
		ins = append(ins, filed{results: make([]session.OpResult, operations)}, filed{err: once.ErrYounger}, filed{err: procedure.Abandoned(true)})
		failing(func(err error) input { return filed{err: err} })
		for _, err := range []error{session.ErrNoNode, session.ErrNodeExists, session.ErrBadVersion, session.ErrNoAuth} {
			for at := range operations {
				results := make([]session.OpResult, operations)
				results[at].Err = err
				ins = append(ins, filed{results, err})
			}
		}
	case nil:
		known := knowledge{known: true, bound: bound{known: true, epoch: 1, count: 1}, lost: mostLost - 2} // often refused
		return []input{file{knowledge: known}, file{checked: true, knowledge: known}, file{checked: true, knowledge: knowledge{lost: known.lost}}}
	case forgo, learn, confirm: // these are no questions
	}
	if !p.stops {
		ins = append(ins, stop{})
	}
	if !p.shuts {
		ins = append(ins, shut{})
	}
	return ins
}

// step returns the position after an input, and what is wrong with the step.
func step(p position, in input) (position, error) {
	var out actors.Effects[effect, procedure.None]
	next := position{p.Step(in, &out), p.question, p.shuts, p.stops}
	answer, isFiled := in.(filed)
	put := isFiled && answer.err == nil
	doubt := isFiled && session.InDoubt(answer.err)
	asked, given := 0, 0
	wrong := func(format string, args ...any) (position, error) {
		return next, fmt.Errorf(format+": %T%+v", append(args, out.Do, out.Do)...)
	}
	for i, e := range out.Do {
		switch e := e.(type) {
		case check, readClock, count, awaitRoom, findNewest, assign, makeDir, transact:
			asked++
			next.question = e
			c, isCounted := in.(counted)
			if _, waits := e.(awaitRoom); waits && (p.Most == 0 || p.refuse && isCounted && c.count+c.wanted+p.items > p.Most) {
				return wrong("it waits for room")
			}
			if x, sends := e.(transact); sends {
				if b := x.plan.bound; p.Most > 0 && (!b.known || b.count+p.items > p.Most) {
					return wrong("it puts items, and does not know that there is room")
				}
				if n := len(p.delays); n > 0 && (len(x.plan.to) != n || len(x.plan.due) != n) || n == 0 && len(x.plan.to) != 1 {
					return wrong("it puts items nowhere")
				}
			}
		case forgo:
		case learn:
			if e.bound.known && (!put || e.bound.count > p.Most) {
				return wrong("the next call is to rely on a count that is wrong")
			}
		case confirm:
			given++
			next.question = nil
			if (e.err == nil) != put || doubt && !session.InDoubt(e.err) || session.InDoubt(e.err) && !doubt || i != len(out.Do)-1 {
				return wrong("the caller does not learn whether the items were put")
			}
			if errors.Is(e.err, ErrFull) && p.Most == 0 {
				return wrong("a queue without a bound is full")
			}
		}
	}
	_, next.stops = in.(stop)
	_, next.shuts = in.(shut)
	commanded := next.stops || next.shuts
	next.stops, next.shuts = next.stops || p.stops, next.shuts || p.shuts
	if asked+given > 1 || !commanded && asked+given != 1 || commanded && asked > 0 || next.Ended() != (given == 1) {
		return wrong("%d questions and %d answers to the caller", asked, given)
	}
	return next, nil
}

// TestExhaustion gives every answer in every state, and every command: a call has one question at a
// time, and its caller one answer, which says whether the items were put. In a bounded queue they
// are put only as long as there is room.
func TestExhaustion(t *testing.T) {
	var given expect.Given
	for name, of := range map[string]Machine{
		"items": {items: 2, size: 10}, "with operations": {items: 1, first: 1, size: 1}, "in one session": {items: 1, size: 10, Epoch: 1},
		"delayed": {items: 2, delays: []int64{1, 2}, size: 10}, "bounded": {items: 1, size: 10, Most: 2}, "too many": {items: 3, size: 10, Most: 2},
		"refused when full": {items: 1, size: 10, Most: 2, refuse: true}, "delayed and bounded": {items: 1, delays: []int64{1}, size: 10, Most: 2},
	} {
		states, steps := exploration.Search[position, input, string]{
			Inputs: func(p position) []input {
				if p.Ended() {
					return nil
				}
				return inputs(p)
			},
			Step: step,
			Key: func(p position) string {
				p.lost = min(p.lost, mostLost+1)
				return fmt.Sprintf("%+v %T", p, p.question)
			},
			Given: &given,
		}.Run(t, position{Machine: of})
		t.Logf("%s: %d states, %d steps", name, states, steps)
	}
	expect.Explored(t, "input", given)
}
