package taking

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

// A position is a call in the course of a search.
type position struct {
	Machine
	question effect // without an answer; nil if there is none
	shuts    bool   // the handle was closed
}

// refusals are the errors of reads, and failures those of writes.
var (
	refusals = []error{session.ErrNoNode, session.ErrNoAuth, session.ErrBusy, session.ErrDisconnected, session.ErrExpired, session.ErrClosed}
	failures = append(slices.Clone(refusals), fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrDisconnected), fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrClosed))
)

// inputs returns every answer to the question of a call, and the commands.
func inputs(p position) (ins []input) {
	x, y := layout.Claimed{Place: layout.Place{Name: "x"}}, layout.Claimed{Place: layout.Place{Name: "y"}, Version: 3}
	switch q := p.question.(type) {
	case pick:
		ins = append(ins, picked{}, picked{[]layout.Place{x.Place}}, picked{[]layout.Place{x.Place, y.Place}})
	case survey:
		for _, own := range []bool{false, true} {
			ins = append(ins, surveyed{own: own}, surveyed{view: stock.View{Places: []layout.Place{x.Place}}, own: own})
		}
		for _, err := range refusals {
			ins = append(ins, surveyed{err: err})
		}
	case idle:
		ins = append(ins, roused{})
	case fetch:
		for _, old := range []bool{false, true} {
			ins = append(ins, fetched{old: old}, fetched{items: []layout.Claimed{x, y}[:len(q.places)], old: old}, fetched{items: []layout.Claimed{y}, old: old})
		}
		for _, err := range refusals {
			ins = append(ins, fetched{err: err})
		}
	case remove:
		ins = append(ins, removed{}, removed{session.ErrTooLarge}, removed{procedure.Abandoned(true)})
		for _, err := range failures {
			ins = append(ins, removed{err})
		}
		for _, err := range []error{session.ErrNoNode, session.ErrNodeExists, session.ErrBadVersion, session.ErrNoAuth} {
			for at := range len(q.items) + 1 {
				ins = append(ins, removed{&stock.RefusalError{Index: at, Err: err}})
			}
		}
	case ready:
		ins = append(ins, readied{})
		for _, err := range failures {
			ins = append(ins, readied{err})
		}
	case nil, forget, linger, disown, give: // these are no questions
	}
	if !p.left {
		ins = append(ins, drop{})
	} else {
		ins = append(ins, lapsed{})
	}
	if !p.shuts {
		ins = append(ins, shut{})
	}
	return ins
}

// step returns the position after an input, and what is wrong with the step.
func step(p position, in input) (position, error) {
	var out actors.Effects[effect, procedure.None]
	next := position{p.Step(in, &out), p.question, p.shuts}
	asked, given, lingers := 0, 0, false
	wrong := func(format string, args ...any) (position, error) {
		return next, fmt.Errorf(format+": %+v", append(args, out.Do)...)
	}
	for _, e := range out.Do {
		switch e := e.(type) {
		case pick, survey, idle, fetch, remove, ready:
			asked++
			next.question = e
			_, sends := e.(remove)
			_, waits := e.(idle)
			if p.left || sends && p.Peeks || waits && !p.Wait {
				return wrong("it asks for %T", e)
			}
		case give:
			given++
			next.question = nil
			done, isRemoved := in.(removed)
			sure := isRemoved && done.err == nil || p.Peeks
			doubt := isRemoved && session.InDoubt(done.err)
			if e.err == nil && len(e.items) == 0 || len(e.items) > 0 && (e.err == nil) != sure || len(e.items) > 0 && e.err != nil && !doubt || doubt && len(e.items) == 0 {
				return wrong("the caller has items, or has none, and the servers say otherwise")
			}
			if next.left && !isRemoved || errors.Is(e.err, session.ErrUnknownOutcome) && !doubt {
				return wrong("it is in doubt about nothing")
			}
		case linger:
			lingers = true
		case disown, forget:
		}
	}
	_, drops := in.(drop)
	_, lapses := in.(lapsed)
	_, next.shuts = in.(shut)
	commanded := drops || lapses || next.shuts
	next.shuts = next.shuts || p.shuts
	switch {
	case asked+given > 1 || !commanded && asked+given != 1 || commanded && asked > 0 || next.Ended() != (given == 1):
		return wrong("%d questions and %d answers to the caller", asked, given)
	case drops && given == 0 != lingers:
		return wrong("the caller leaves while nothing is in doubt, and it goes on")
	}
	return next, nil
}

// TestExhaustion gives every answer in every state, and every command: a call has one question at a
// time, and its caller one answer. Items are given exactly if they were deleted, or may have been.
func TestExhaustion(t *testing.T) {
	var given check.Given
	for _, of := range []Machine{{}, {Wait: true}, {Peeks: true}, {Peeks: true, Wait: true}} {
		search := exploration.Search[position, input, string]{
			Inputs: func(p position) []input {
				if p.Ended() {
					return nil
				}
				return inputs(p)
			},
			Step: step, Key: func(p position) string { return fmt.Sprintf("%+v %T", p, p.question) }, Given: &given,
		}
		states, steps := search.Run(t, position{Machine: of, question: pick{}})
		check.AtLeast(t, states, 20, "states")
		t.Logf("%+v: %d states, %d steps", of, states, steps)
	}
	check.Explored(t, "input", given)
}
