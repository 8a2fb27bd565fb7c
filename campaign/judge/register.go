package judge

import (
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/zkactors/zkactors/campaign/history"
)

// The kinds of operations on a register.
const (
	Set    = "set"    // Argument is the value
	Update = "update" // from Argument to Result, without anything between; both are empty until it has read
	Get    = "get"    // Result is the value
)

// register is the specification of a configuration value. A write with an unknown outcome happens
// once, at any time after its call, or not at all. An update that has not read writes nothing: what
// it would write must be recorded before it is sent.
func register() porcupine.Model {
	return sequential("", func(state any, o *history.Operation) []any {
		after := o.Result
		switch {
		case o.Kind == Set:
			after = o.Argument
		case o.Kind == Get && state != o.Result, o.Kind == Update && state != o.Argument:
			return nil
		}
		return []any{after}
	})
}

// sequential returns the model of an object in a state, with the states that an operation may
// lead to. An operation with an unknown outcome may have left the state as it was, too.
func sequential(state any, step func(state any, o *history.Operation) (after []any)) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state} },
		Step: func(state, input, _ any) []any {
			o, ok := input.(*history.Operation)
			if !ok {
				return nil
			}
			after := step(state, o)
			if o.Outcome == history.Unknown {
				after = append(after, state)
			}
			return after
		},
	}
	return m.ToModel()
}

// Register checks that the values of package config are linearizable. A value that an operator has
// deleted, or that has come back older, is not judged.
func Register(h *history.History) []Violation {
	v := verdict{check: "Register"}
	all := byPlace(h, func(o *history.Operation) bool {
		known := o.Kind == Get && o.Outcome == history.OK
		return known || (o.Kind == Set || o.Kind == Update) && o.Outcome != history.Failed
	})
	for _, p := range places(all) {
		if meddled(h, p.path) {
			continue
		}
		switch porcupine.CheckOperationsTimeout(register(), operations(all[p]), patience) {
		case porcupine.Ok:
		case porcupine.Illegal:
			v.add(p.recipe, p.path, "%d reads and writes have no order", len(all[p]))
		case porcupine.Unknown:
			v.add(p.recipe, p.path, "not decided within %v", patience)
		}
	}
	return v.all
}

// operations returns what porcupine is to order. What is unknown may happen at any later time.
func operations(all []*history.Operation) []porcupine.Operation {
	var moments []history.Moment
	for _, o := range all {
		moments = append(moments, o.Call, o.Return)
	}
	slices.SortFunc(moments, history.Moment.Compare)
	var ops []porcupine.Operation
	for i, o := range all {
		call, _ := slices.BinarySearchFunc(moments, o.Call, history.Moment.Compare)
		back, _ := slices.BinarySearchFunc(moments, o.Return, history.Moment.Compare)
		if o.Outcome == history.Unknown {
			back = len(moments)
		}
		ops = append(ops, porcupine.Operation{ClientId: i, Input: o, Call: int64(call), Return: int64(back)})
	}
	return ops
}
