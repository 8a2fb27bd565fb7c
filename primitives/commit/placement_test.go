package commit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
)

// This file goes where the states are too many: it places each fault, and the end of each timer, at
// each step of transactions of three sites, under several schedules.

// A schedule says which of n things happens next.
type schedule func(step, n int) int

// schedules returns the two that are unfair for as long as they can be, one that goes round, and
// some at random.
func schedules(random int) map[string]func() schedule {
	all := map[string]func() schedule{
		"first": func() schedule { return func(_, _ int) int { return 0 } },
		"last":  func() schedule { return func(_, n int) int { return n - 1 } },
		"round": func() schedule { return func(step, n int) int { return step % n } },
	}
	for seed := range random {
		all[fmt.Sprint("random ", seed)] = func() schedule {
			r := rand.New(rand.NewPCG(uint64(seed), 0))
			return func(_, n int) int { return r.IntN(n) }
		}
	}
	return all
}

// strokes returns the faults and the timers that may be next, and steps the other things.
func (w *stage) strokes() (strokes, steps []zkmodel.Action) {
	normal, wishes, faulty := w.Actions()
	for _, a := range append(normal, wishes...) {
		if a.Kind == "timer" && !w.busy(a) {
			strokes = append(strokes, a)
		} else {
			steps = append(steps, a)
		}
	}
	return append(strokes, faulty...), steps
}

// proceed goes on by the schedule, for at most limit steps, until nothing more happens by itself.
func (w *stage) proceed(next schedule, limit int) (did []zkmodel.Action, rests bool) {
	for step := range limit {
		_, steps := w.strokes()
		if len(steps) == 0 {
			return did, true
		}
		a := steps[next(step, len(steps))]
		did = append(did, a)
		w.Apply(a)
		w.Check()
	}
	return did, false
}

// end goes on to the end, which is to be a good one.
func (w *stage) end(next schedule) {
	if _, rests := w.proceed(next, 4*exploration.Rest); !rests {
		zkmodel.Violate("no rest")
	}
	w.Finish()
}

// violation returns what is wrong with what f does.
func violation(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			v, ok := r.(exploration.ViolationError)
			if !ok {
				panic(r)
			}
			err = v
		}
	}()
	f()
	return nil
}

// A placement has faults strike at steps of one run.
type placement struct {
	s    *scene
	next func() schedule
	runs int
}

// play returns a world after the trace.
func (p *placement) play(trace []zkmodel.Action) *stage {
	w := newStage(p.s)
	for _, a := range trace {
		w.Apply(a)
	}
	return w
}

// strike places a stroke at every stride-th step after the trace, and further ones after that.
func (p *placement) strike(trace []zkmodel.Action, strokes, stride int) error {
	var run []zkmodel.Action
	err := violation(func() { run, _ = p.play(trace).proceed(p.next(), 4*exploration.Rest) })
	if err != nil {
		return fmt.Errorf("%w, after %v", err, trace)
	}
	for at := 0; at <= len(run); at += stride {
		before := slices.Concat(trace, run[:at])
		all, _ := p.play(before).strokes()
		for _, stroke := range all {
			w, then := p.play(before), append(slices.Clip(before), stroke)
			p.runs++
			if err := violation(func() {
				w.Apply(stroke)
				w.Check()
				w.end(p.next())
			}); err != nil {
				return errors.Join(err, fmt.Errorf("after %v", then))
			}
			if strokes > 1 {
				if err := p.strike(then, strokes-1, 7*stride); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// TestModelFaults places one fault, or the end of one timer, at some steps of transactions of three
// sites. With -commit.full it places it at each step, and then two at some.
func TestModelFaults(t *testing.T) {
	passes := []struct{ strokes, random, stride int }{{1, 1, hasten.Sized(hasten.Usually(7, 13), 31)}}
	if *modelFull {
		passes = []struct{ strokes, random, stride int }{{1, 2, 1}, {2, 1, 23}}
	}
	for _, mode := range []Mode{Coordinated, Peer} {
		for _, plan := range [][]Vote{{Yes, Yes, Yes}, {Yes, No, Yes}, {Yes, 0, Yes}} {
			for _, pass := range passes {
				s := scene{
					mode: mode, plan: plan, budget: pass.strokes, ticks: pass.strokes, lazy: true,
					faults: zkmodel.Faults{Crashes: 2, Cuts: 2, Lates: 2, Expires: 2, Kills: 2, Busy: 1, Lags: 1},
				}
				t.Run(fmt.Sprint(mode, plan, " faults ", pass.strokes), func(t *testing.T) {
					t.Parallel()
					runs := 0
					for name, next := range schedules(pass.random) {
						p := placement{s: &s, next: next}
						if err := p.strike(nil, pass.strokes, pass.stride); err != nil {
							t.Fatalf("%s: %v", name, err)
						}
						runs += p.runs
					}
					t.Logf("%d runs", runs)
				})
			}
		}
	}
}
