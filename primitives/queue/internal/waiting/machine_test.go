package waiting

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/session"
)

// A position is a waiter in the course of a search.
type position struct {
	waiting
	question effect   // without an answer; nil if there is none
	id       string   // of the newest node
	nodes    []string // the IDs of nodes that may stand, and are the waiter's to delete
}

// ids are the GUIDs of nodes. The next one follows the present one.
var ids = []string{strings.Repeat("a", layout.GUIDLength), strings.Repeat("b", layout.GUIDLength), strings.Repeat("c", layout.GUIDLength)}

// node returns the name of a waiter's node.
func node(id string, number int) string {
	return fmt.Sprintf("%s%010d", layout.WaiterOf(id, 1), number)
}

// inputs returns every answer to the question of a waiter, and the commands.
func inputs(p position) (ins []input) {
	refusals := []error{session.ErrNoNode, session.ErrNoAuth, session.ErrDisconnected, session.ErrExpired, session.ErrClosed}
	lost := []error{fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrDisconnected), fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrClosed)}
	other, own := node(strings.Repeat("f", layout.GUIDLength), 5), node(p.id, 7)
	switch q := p.question.(type) {
	case join:
		ins = append(ins, joined{id: p.id, name: own})
		for _, err := range slices.Concat(refusals, lost) {
			ins = append(ins, joined{id: p.id, err: err})
		}
	case found:
		ins = append(ins, founded{})
		for _, err := range slices.Concat(refusals, lost) {
			ins = append(ins, founded{err})
		}
	case rankAgain:
		ins = append(ins, ranked{}, ranked{names: []string{own}}, ranked{names: []string{other, own}}, ranked{names: []string{own, node(other[3:][:layout.GUIDLength], 9)}}, ranked{names: []string{other, "config"}})
		for _, err := range refusals {
			ins = append(ins, ranked{err: err})
		}
	case watchAhead:
		ins = append(ins, ahead{name: q.name}, ahead{name: q.name, foreign: true}, ahead{name: "another"})
	case watchQueue:
		ins = append(ins, stirred{})
	case nil, landed, wake, retire: // these are no questions
	}
	return append(ins, stand{}, stand{rotate: true}, depart{})
}

// step returns the position after an input, and what is wrong with the step.
func step(p position, in input) (position, error) {
	var out actors.Effects[effect, procedure.None]
	next := position{p.Step(in, &out), p.question, p.id, slices.Clone(p.nodes)}
	_, departs := in.(depart)
	answer, isJoined := in.(joined)
	if isJoined && (answer.err == nil || session.InDoubt(answer.err)) {
		next.nodes = append(next.nodes, p.id)
	}
	if list, is := in.(ranked); is && (list.err == nil || errors.Is(list.err, session.ErrNoNode)) && p.name != "" && !slices.Contains(list.names, p.name) { // others have deleted it
		next.nodes = slices.DeleteFunc(next.nodes, func(id string) bool { return id == p.waiting.id })
	}
	asked, landings := 0, 0
	wrong := func(what string) (position, error) { return next, fmt.Errorf("%s: %T%+v", what, out.Do, out.Do) }
	for _, e := range out.Do {
		switch e := e.(type) {
		case join, found, rankAgain, watchAhead, watchQueue:
			asked++
			next.question = e
			if _, is := e.(join); is {
				next.id = ids[(slices.Index(ids, p.id)+1)%len(ids)]
			}
			if next.departed {
				return wrong("it goes on, and its owner has left")
			}
		case landed:
			landings++
		case wake:
			if p.awake || p.rank != first {
				return wrong("it wakes its owner for nothing")
			}
		case retire:
			next.nodes = slices.DeleteFunc(next.nodes, func(id string) bool { return id == e.id })
		}
	}
	if next.rank == absent {
		next.question = nil
	}
	switch {
	case asked > 1:
		return wrong("several questions")
	case (landings == 1) != (departs || isJoined):
		return wrong("a hold that is not released")
	case next.rank == absent && len(next.nodes) > 0:
		return wrong("it leaves a node in line")
	case next.rank != absent && next.question == nil, next.rank == absent && !next.departed && p.rank != absent:
		return wrong("its owner is never woken")
	}
	return next, nil
}

// TestExhaustion gives every answer in every state, and every command: a waiter has one question at
// a time, wakes its owner once, and leaves no node in line when its owner has left.
func TestExhaustion(t *testing.T) {
	var given check.Given
	for _, epoch := range []int{0, 1} {
		states, steps := exploration.Search[position, input, string]{
			Inputs: inputs, Step: step, Key: func(p position) string { return fmt.Sprintf("%+v %T", p, p.question) }, Given: &given,
		}.Run(t, position{waiting: waiting{epoch: epoch}})
		t.Logf("epoch %d: %d states, %d steps", epoch, states, steps)
	}
	check.Explored(t, "input", given)
}
