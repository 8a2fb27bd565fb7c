package commit

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

// This file leaves out one precaution of the protocol after the other. The invariants of the model
// catch each.

// A mutant is what is wrong with the parties. All may be nil.
type mutant struct {
	ops    func([]session.Op) []session.Op // changes those of a transaction
	effect func(any) any                   // nil for one that is not performed
	input  func(any) any                   // nil for one that is not told
	old    bool                            // the leader's lists may be old: they are not synced
}

// around performs what the mutant performs, and has the machine told what the mutant is told.
func around[Do, In any](x mutant, perform func(Do, func(In))) func(Do, func(In)) {
	change := func(f func(any) any, v any) any {
		if f == nil {
			return v
		}
		return f(v)
	}
	return func(e Do, tell func(In)) {
		if e, is := change(x.effect, e).(Do); is {
			perform(e, func(in In) {
				if in, is := change(x.input, in).(In); is {
					tell(in)
				}
			})
		}
	}
}

// none reports whether nothing is wrong.
func (x mutant) none() bool { return x.ops == nil && x.effect == nil && x.input == nil && !x.old }

// session returns the session of a party.
func (x mutant) session(s client.Session) client.Session {
	if x.ops == nil && !x.old {
		return s
	}
	return tampered{s, x}
}

// tampered has requests changed.
type tampered struct {
	client.Session
	x mutant
}

func (s tampered) Async(epoch int) client.Async { return tamperedAsync{s.Session.Async(epoch), s.x} }

type tamperedAsync struct {
	client.Async
	x mutant
}

func (a tamperedAsync) Sync(path string, answer func(error)) {
	if a.x.old {
		answer(nil)
		return
	}
	a.Async.Sync(path, answer)
}

func (a tamperedAsync) Multi(ops []session.Op, answer func([]session.OpResult, error)) {
	if a.x.ops != nil {
		ops = a.x.ops(ops)
	}
	a.Async.Multi(ops, answer)
}

func mutants() map[string]mutant {
	dir := place{modelParent, modelID, "g"}
	is := func(op session.Op, path string) bool { return op.Path() == path }
	return map[string]mutant{
		"a Commit does not check the votes": {ops: func(ops []session.Op) []session.Op {
			if is(ops[0], dir.dir()) {
				return ops[:min(decidingOps, len(ops))]
			}
			return ops
		}},
		"a vote in doubt counts": {input: func(in any) any {
			if a, is := in.(siteAnswered); is && a.task == voting && session.InDoubt(a.err) {
				a.err = nil
				return a
			}
			return in
		}},
		"an outcome in doubt counts": {input: func(in any) any {
			if a, is := in.(recorded); is && session.InDoubt(a.err) {
				return recorded{}
			}
			return in
		}},
		"an outcome that came second counts": {input: func(in any) any {
			if a, is := in.(recorded); is && errors.Is(a.err, session.ErrBadVersion) {
				return recorded{}
			}
			return in
		}},
		"the last one does not remove the rest": {effect: func(e any) any {
			switch e.(type) {
			case remove, clearUp:
				return nil
			}
			return e
		}},
		"no site takes over": {effect: func(e any) any {
			if a, is := e.(await); is && (a.timer == patrol || a.timer == deadline) {
				return nil
			}
			return e
		}},
		"the leader's lists are old": {old: true},
		"the ballots are not followed again": {effect: func(e any) any {
			switch e.(type) {
			case watchBallots, watchSites:
				return nil
			}
			return e
		}},
		"Finish does not delete the ballot": {ops: func(ops []session.Op) []session.Op {
			if len(ops) == 3 && is(ops[0], dir.record()) {
				return []session.Op{ops[0], ops[2], ops[2]}
			}
			return ops
		}},
	}
}

// TestMutants has the model find what is wrong with parties that lack a precaution.
func TestMutants(t *testing.T) {
	var hunted []scene
	for _, mode := range []Mode{Coordinated, Peer} {
		all := scene{
			mode: mode, plan: []Vote{Yes, 0}, budget: 3, ticks: 4, unasked: true,
			faults: zkmodel.Faults{Crashes: 1, Cuts: 2, Expires: 1, Kills: 1, Lags: 1},
		}
		three := all
		three.plan = []Vote{Yes, Yes, Yes}
		hunted = append(hunted, all, three,
			scene{mode: mode, plan: []Vote{Yes}, budget: 3, ticks: 4, unasked: true, faults: zkmodel.Faults{Relapses: 1, Cuts: 1, Lags: 1}})
	}
	seek := func(x mutant, walks uint64) (uint64, error) {
		for n := range walks {
			s := hunted[n%uint64(len(hunted))]
			s.mutant = x
			w := newStage(&s)
			_, err := exploration.Walk(w, rand.New(rand.NewPCG(n, 0)).IntN)
			if err == nil {
				err = violation(w.Finish)
			}
			if err != nil {
				return n + 1, err
			}
		}
		if x.none() {
			return walks, nil
		}
		late := scene{plan: []Vote{Yes}, budget: 1, ticks: 1, faults: zkmodel.Faults{Lags: 1}, mutant: x} // which walks do not meet
		states, _, _, err := exploration.Explore(func() exploration.World[zkmodel.Action] { return newStage(&late) }, 5000)
		return walks + uint64(states), err
	}
	chosen := hasten.OneIn(1, 4)
	all := mutants()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !chosen() {
			continue
		}
		x := all[name]
		n, err := seek(x, 2000)
		if err == nil {
			t.Errorf("%s: nothing is wrong", name)
			continue
		}
		t.Logf("mutant %q is found in %d walks and states: %v", name, n, err)
	}
	if n, err := seek(mutant{}, hasten.Sized[uint64](60, 12)); err != nil {
		t.Errorf("no mutant: %v, in walk %d", err, n)
	}
}
