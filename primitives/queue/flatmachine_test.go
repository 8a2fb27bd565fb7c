package queue

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

var (
	errDoubt       = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrDisconnected)
	errDoubtClosed = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrClosed)
	flatOf         = flatItem{name: "qn-1", data: []byte("x"), epoch: 1}
	flatRefused    = func(err error) flatSent { return flatSent{err: &stock.RefusalError{Index: 0, Err: err}} }
)

// flatAnswers returns the answers to the question that a call waits for.
func flatAnswers(c flatCall) (ins []flatInput) {
	failures := []error{session.ErrNoNode, session.ErrNoAuth, session.ErrDisconnected, session.ErrExpired, session.ErrClosed, errDoubt, errDoubtClosed}
	switch c.phase {
	case flatBeginning:
		return []flatInput{flatBegun{}, flatBegun{checked: true}}
	case flatChecking, flatMaking:
		ins = append(ins, flatDone{})
		for _, err := range failures {
			ins = append(ins, flatDone{err})
		}
	case flatPicking:
		ins = append(ins, flatPicked{}, flatPicked{name: "qn-1"})
		for _, err := range failures {
			ins = append(ins, flatPicked{err: err})
		}
	case flatIdling:
		ins = append(ins, flatChanged{})
	case flatReading:
		ins = append(ins, flatRead{item: flatOf})
		for _, err := range failures {
			ins = append(ins, flatRead{flatItem{name: "qn-1"}, err})
		}
	case flatPutting, flatRemoving:
		ins = append(ins, flatSent{results: make([]session.OpResult, 1)}, flatSent{err: procedure.ErrAbandoned}, flatLapsed{})
		for _, err := range failures {
			ins = append(ins, flatSent{err: err}, flatRefused(err))
		}
		ins = append(ins, flatRefused(session.ErrBadVersion))
	}
	return ins
}

// TestFlatCalls goes through all states of calls, with every answer in each, and with commands:
// there is one question at a time, and one answer to the caller. An item or an error is given, and
// no transaction is sent for a caller that has left.
func TestFlatCalls(t *testing.T) {
	type state struct {
		call flatCall
		left bool
	}
	step := func(at state, in flatInput) (state, error) {
		var out actors.Effects[flatEffect, procedure.None]
		next := state{at.call.Step(in, &out), at.left}
		wrong := func(format string, args ...any) (state, error) {
			return next, fmt.Errorf(format+": %T%+v", append(args, out.Do, out.Do)...)
		}
		asked, given := 0, 0
		for _, e := range out.Do {
			switch e := e.(type) {
			case flatCheck, flatMake, flatPick, flatIdle, flatFetch:
				asked++
			case flatSend:
				if asked++; at.left || at.call.peeks {
					return wrong("it sends a transaction")
				}
			case flatLinger, flatForgo:
			case flatGive:
				given++
				if !at.call.puts && e.err == nil && e.item.name == "" {
					return wrong("neither an item nor an error")
				}
				if e.err != nil && e.item.name != "" && !session.InDoubt(e.err) {
					return wrong("an item that stays is given")
				}
				if at.call.phase != flatPutting && at.call.phase != flatRemoving && session.InDoubt(e.err) {
					return wrong("there is no doubt before the transaction")
				}
			}
		}
		_, stops := in.(flatDrop)
		_, shuts := in.(flatShut)
		_, ends := in.(flatLapsed)
		commanded := stops || shuts || ends
		if next.left = at.left || stops; asked+given > 1 || !commanded && asked+given != 1 || next.call.ended != (given == 1) {
			return wrong("%d questions, %d answers", asked, given)
		}
		return next, nil
	}
	var given check.Given
	for name, start := range map[string]flatCall{"Put": {puts: true}, "Take": {waits: true}, "TryTake": {}, "Peek": {peeks: true}} {
		states, _ := exploration.Search[state, flatInput, string]{
			Inputs: func(at state) []flatInput {
				switch {
				case at.call.ended:
					return nil
				case at.call.phase == flatBeginning:
					return flatAnswers(at.call)
				}
				return append(flatAnswers(at.call), flatDrop{}, flatShut{})
			},
			Step: step, Key: func(at state) string { return fmt.Sprintf("%+v", at) }, Given: &given,
		}.Run(t, state{call: start})
		check.AtLeast(t, states, 3, name, "states")
		t.Logf("%s: %d states", name, states)
	}
	check.Explored(t, "flatInput", given)
}

// TestFlatRows: answers that are easy to mistake.
func TestFlatRows(t *testing.T) {
	reads := []flatInput{flatBegun{}, flatPicked{name: "qn-1"}}
	removes := append(slices.Clip(reads), flatRead{item: flatOf})
	for _, row := range []struct {
		danger string
		call   flatCall
		before []flatInput
		in     flatInput
		want   flatEffect
	}{
		{"its epoch is over: read it anew", flatCall{}, removes, flatSent{err: session.ErrExpired}, flatFetch{"qn-1"}},
		{"another item has the name", flatCall{}, removes, flatRefused(session.ErrBadVersion), flatFetch{"qn-1"}},
		{"another client has it", flatCall{}, removes, flatRefused(session.ErrNoNode), flatPick{}},
		{"it is gone", flatCall{}, reads, flatRead{flatItem{name: "qn-1"}, session.ErrNoNode}, flatPick{}},
		{"it waits", flatCall{waits: true}, []flatInput{flatBegun{}}, flatPicked{}, flatIdle{}},
		{"and looks again", flatCall{waits: true}, []flatInput{flatBegun{}, flatPicked{}}, flatChanged{}, flatPick{}},
		{"the caller leaves, and the item may be its", flatCall{}, removes, flatDrop{}, flatLinger{}},
		{"until the session is over", flatCall{}, append(slices.Clip(removes), flatDrop{}), flatLapsed{}, flatForgo{}},
		{"there is no path", flatCall{puts: true}, []flatInput{flatBegun{checked: true}}, flatRefused(session.ErrNoNode), flatMake{}},
		{"there is now", flatCall{puts: true}, []flatInput{flatBegun{checked: true}, flatRefused(session.ErrNoNode)}, flatDone{}, flatSend{}},
		{"the producer leaves", flatCall{puts: true}, []flatInput{flatBegun{checked: true}}, flatDrop{}, flatForgo{}},
		{"the path is another's", flatCall{puts: true}, []flatInput{flatBegun{}}, flatDone{ErrLayout}, flatGive{err: ErrLayout}},
	} {
		var out actors.Effects[flatEffect, procedure.None]
		c := row.call
		for _, in := range append(slices.Clip(row.before), row.in) {
			out.Do = nil
			c = c.Step(in, &out)
		}
		if got, want := fmt.Sprintf("%T%+v", out.Do[0], out.Do[0]), fmt.Sprintf("%T%+v", row.want, row.want); got != want {
			t.Errorf("%s: %s, want %s", row.danger, got, want)
		}
	}
	var out actors.Effects[flatEffect, procedure.None]
	c := flatCall{}
	for _, in := range append(slices.Clip(removes), flatDrop{}, flatSent{err: session.ErrDisconnected}) {
		out.Do = nil
		c = c.Step(in, &out)
	}
	if gave, ok := out.Do[0].(flatGive); !ok || !errors.Is(gave.err, procedure.ErrAbandoned) || session.InDoubt(gave.err) {
		t.Errorf("the item stays: %+v", out.Do)
	}
}

// TestFlatRefusedList: nothing is picked from a list that has a node of another layout.
func TestFlatRefusedList(t *testing.T) {
	f := &Flat{layout: Curator, tried: map[string]bool{}}
	for range 2 {
		f.asking = append(f.asking, func(name string, _ stock.Children, err error) {
			if name != "" || len(f.listed)+len(f.tried) > 0 || !errors.Is(err, ErrLayout) {
				t.Errorf("picked %q, listed %q, tried %v: %v", name, f.listed, f.tried, err)
			}
		})
	}
	f.listedAnew([]string{"qn-0000000001", "other", "third"}, stock.Children{}, ErrLayout)
}

// TestTried: an item that a call tries is not for the others, until the call has ended.
func TestTried(t *testing.T) {
	f := &Flat{listed: []string{"qn-1"}, tried: map[string]bool{}}
	k, picked := &flatCaller{Flat: f}, ""
	k.perform(flatPick{}, func(in flatInput) { picked = in.(flatPicked).name })
	check.Equal(t, picked, "qn-1", "picked")
	check.True(t, f.tried[picked], "another call may try it too")
	k.settle("", true)
	check.Equal(t, len(f.tried), 0, "items that are tried after the end")
}

// TestRefusedTogether: calls that were refused together are tried one by one. Those that were too
// large together still go with others.
func TestRefusedTogether(t *testing.T) {
	for err, alone := range map[error]bool{session.ErrTooLarge: false, session.ErrNoAuth: true, errDoubt: false} {
		calls := []*flatPut{{data: [][]byte{nil}}, {data: [][]byte{nil}}}
		parts := new(flatPuts).Divide(calls, nil, err)
		check.Equal(t, calls[0].alone, alone, err)
		check.Equal(t, parts[1].Again, !errors.Is(err, errDoubt), err)
	}
}
