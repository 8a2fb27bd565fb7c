package judge

import (
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/zkactors/zkactors/campaign/history"
)

// The kinds of operations on a queue. The item is Argument, or the Result of a take; each item is
// put once. Token is the attempt of a delivery, and of its rejection.
const (
	Put     = "put"
	Take    = "take"
	Deliver = "deliver" // to the reader of a consumer, which may acknowledge it
	Ack     = "ack"
	Reject  = "reject"  // the item comes again after Delay
	Drain   = "drain"   // a take after all faults, by a client that is alone; it ends when nothing is left
	Empty   = "empty"   // after the last drain
	missing = "missing" // when the queue was empty, and the item was not drained
)

// The states of one item.
const (
	absent = iota
	there
	gone
)

// item is the specification of one item of a queue. A queue is the product of its items, so each is
// judged alone.
func item() porcupine.Model {
	return sequential(absent, func(state any, o *history.Operation) []any {
		switch {
		case o.Kind == Put && state == absent:
			return []any{there}
		case (o.Kind == Take || o.Kind == Drain || o.Kind == Ack) && state == there:
			return []any{gone}
		case o.Kind == Deliver && state != absent, o.Kind == missing && state != there:
			return []any{state}
		}
		return nil
	})
}

// Items checks that each item is put once, taken or acknowledged once, and lost never. A take with
// an unknown outcome may have lost one item that it does not know. Where an operator has deleted
// nodes, or older data has come back, only invented items are found.
func Items(h *history.History) []Violation {
	v := verdict{check: "Items"}
	kinds := []string{Put, Take, Deliver, Ack, Drain, Empty}
	all := byPlace(h, func(o *history.Operation) bool { return slices.Contains(kinds, o.Kind) })
	for _, p := range places(all) {
		items, maybeLost := make(map[string][]*history.Operation), 0
		var empty *history.Operation // nil if the queue was not drained
		put := make(map[string]bool)
		for _, o := range all[p] {
			name := o.Argument
			if o.Kind == Take || o.Kind == Drain {
				name = o.Result
			}
			switch {
			case o.Kind == Empty:
				empty = o
			case o.Outcome == history.Failed:
			case name == "":
				maybeLost++
			default:
				put[name] = put[name] || o.Kind == Put
				items[name] = append(items[name], o)
			}
		}
		for _, name := range sortedKeys(items) {
			if !put[name] {
				v.add(p.recipe, p.path, "item %s was never put", name)
			}
		}
		if meddled(h, p.path) {
			continue
		}
		for _, name := range sortedKeys(items) {
			if !put[name] {
				continue
			}
			ops := relaxed(items[name])
			if !porcupine.CheckOperations(item(), operations(ops)) {
				v.add(p.recipe, p.path, "item %s: %s", name, kindsOf(ops))
				continue
			}
			if empty == nil {
				continue
			}
			ops = append(ops, &history.Operation{Kind: missing, Outcome: history.OK, Call: empty.Call, Return: empty.Return})
			if porcupine.CheckOperations(item(), operations(ops)) {
				continue
			}
			if maybeLost--; maybeLost < 0 {
				v.add(p.recipe, p.path, "item %s is lost: %s", name, kindsOf(ops))
			}
		}
	}
	return v.all
}

// relaxed returns the operations of an item, with deliveries that may be older than they are
// received: an item may wait in the process of its consumer.
func relaxed(ops []*history.Operation) []*history.Operation {
	first := ops[0].Call
	for _, o := range ops {
		if o.Call.Before(first) {
			first = o.Call
		}
	}
	var all []*history.Operation
	for _, o := range ops {
		if o.Kind == Deliver {
			late := *o
			late.Call = first
			o = &late
		}
		all = append(all, o)
	}
	return all
}

func latest(a, b history.Moment) history.Moment {
	if a.Before(b) {
		return b
	}
	return a
}

// kindsOf lists operations for people.
func kindsOf(ops []*history.Operation) string {
	var text []string
	for _, o := range ops {
		text = append(text, o.Kind+" "+string(o.Outcome)+" by "+o.Process+" at "+o.Call.At.String())
	}
	return strings.Join(text, ", ")
}

// FirstInFirstOut checks the order of the items that a single client has drained: an item whose put
// had returned before another was called for comes first. The client may begin anywhere, because
// competing consumers begin at different items: then it goes on with the items before, and with
// those that were put after its list was made. Where there were consumers, items have gone back to
// other places, and nothing is judged; nor where items had delays. With priorities each is judged
// alone.
func FirstInFirstOut(h *history.History) []Violation {
	v := verdict{check: "FirstInFirstOut"}
	consumed := byPlace(h, func(o *history.Operation) bool { return o.Kind == Deliver })
	all := byPlace(h, func(o *history.Operation) bool { return o.Outcome == history.OK && (o.Kind == Put || o.Kind == Drain) })
	for _, p := range places(all) {
		puts, delays := make(map[string]*history.Operation), false
		drained := make(map[int][]*history.Operation) // by priority, as they were put
		for _, o := range all[p] {
			if o.Kind == Put {
				puts[o.Argument] = o
				delays = delays || o.Delay > 0
			}
		}
		for _, o := range all[p] {
			if put := puts[o.Result]; o.Kind == Drain && put != nil {
				drained[put.Priority] = append(drained[put.Priority], put)
			}
		}
		if meddled(h, p.path) || consumed[p] != nil || delays {
			continue
		}
		for _, priority := range sortedKeys(drained) {
			v.laps(p, drained[priority])
		}
	}
	return v.all
}

// laps adds what is wrong with the order of drained items, which were put like this.
func (v *verdict) laps(p place, drained []*history.Operation) {
	lap := 0 // where the second lap begins
	for i, next := range drained {
		passed := drained[lap:i]
		former := slices.IndexFunc(passed, func(o *history.Operation) bool { return next.Return.Before(o.Call) })
		switch {
		case former >= 0 && lap == 0:
			lap = i
		case former >= 0:
			v.add(p.recipe, p.path, "item %s, put at %v, comes after %s, put at %v", next.Argument, next.Return.At, passed[former].Argument, passed[former].Call.At)
		case lap > 0 && drained[0].Return.Before(next.Call) && next.Return.Before(drained[lap-1].Call):
			v.add(p.recipe, p.path, "item %s, put at %v, was passed by, from %s, put at %v, to %s, put at %v", next.Argument, next.Return.At,
				drained[0].Argument, drained[0].Call.At, drained[lap-1].Argument, drained[lap-1].Call.At)
		}
	}
}
