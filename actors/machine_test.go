package actors_test

import (
	"fmt"

	"github.com/zkactors/zkactors/actors"
)

// The machine of these tests counts.

type input interface{ input() }

type (
	tick  struct{}             // emits counted
	say   struct{ ev []event } // emits ev
	want  struct{ do []effect }
	echod struct{ v int } // answers echo; emits counted{v}
	get   struct{ reply actors.Reply[int] }
	last  struct{ ev []event } // ends with these
	stop  struct{}             // ends with over
)

func (tick) input()  {}
func (say) input()   {}
func (want) input()  {}
func (echod) input() {}
func (get) input()   {}
func (last) input()  {}
func (stop) input()  {}

type effect interface{ effect() }

type (
	echo    struct{ v int }
	respond struct {
		reply actors.Reply[int]
		count int
	}
)

func (echo) effect()    {}
func (respond) effect() {}

type event interface{ event() }

type (
	counted struct{ n int } // merges with others of its kind
	edge    struct{ n int } // never merges
	opened  struct{}
	shut    struct{} // undoes opened
	over    struct{ n int }
)

func (counted) event() {}
func (edge) event()    {}
func (opened) event()  {}
func (shut) event()    {}
func (over) event()    {}

func (e counted) String() string { return fmt.Sprintf("counted %d", e.n) }
func (e edge) String() string    { return fmt.Sprintf("edge %d", e.n) }
func (opened) String() string    { return "opened" }
func (shut) String() string      { return "shut" }
func (e over) String() string    { return fmt.Sprintf("over %d", e.n) }

func merge(last, next event) (event, bool) {
	_, a := last.(counted)
	_, b := next.(counted)
	return next, a && b
}

func cancel(last, next event) bool { return last == event(opened{}) && next == event(shut{}) }

type counter struct {
	n     int
	ended bool
}

type effects = actors.Effects[effect, event]

func (c counter) Ended() bool { return c.ended }

func (c counter) Step(in input, out *effects) counter {
	switch in := in.(type) {
	case tick:
		c.n++
		out.Emit = append(out.Emit, counted{c.n})
	case say:
		out.Emit = append(out.Emit, in.ev...)
	case want:
		out.Do = append(out.Do, in.do...)
	case echod:
		out.Emit = append(out.Emit, counted{in.v})
	case get:
		out.Do = append(out.Do, respond{in.reply, c.n})
	case last:
		c.ended = true
		out.Emit = append(out.Emit, in.ev...)
	case stop:
		c.ended = true
		out.Emit = append(out.Emit, over{c.n})
	default:
		panic(fmt.Sprintf("unknown input %T", in))
	}
	return c
}

func perform(do effect, answer func(input)) {
	switch do := do.(type) {
	case echo:
		answer(echod(do))
	case respond:
		do.reply.Give(do.count)
	}
}

func getCount(reply actors.Reply[int]) input { return get{reply} }
