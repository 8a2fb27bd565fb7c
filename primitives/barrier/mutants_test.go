package barrier

import (
	"errors"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

// This file leaves out one precaution of the protocols after the other. The invariants of the
// models catch each.

// around performs what the mutant performs, and has the machine told what the mutant is told.
func (x mutant) around(perform func(effect, func(input))) func(effect, func(input)) {
	return func(e effect, tell func(input)) {
		if x.effect != nil {
			if e = x.effect(e); e == nil {
				return
			}
		}
		perform(e, func(in input) {
			if x.input != nil {
				in = x.input(in)
			}
			if in != nil {
				tell(in)
			}
		})
	}
}

// tampered has the operations of transactions changed.
type tampered struct {
	client.Session
	change func([]session.Op)
}

func (s tampered) Async(epoch int) client.Async {
	return tamperedAsync{s.Session.Async(epoch), s.change}
}

type tamperedAsync struct {
	client.Async
	change func([]session.Op)
}

func (a tamperedAsync) Multi(ops []session.Op, answer func([]session.OpResult, error)) {
	if a.change != nil {
		a.change(ops)
	}
	a.Async.Multi(ops, answer)
}

// void does nothing, in a transaction.
var void = session.CheckOp("/", session.AnyVersion)

func kindOf(op session.Op) int64 { return reflect.ValueOf(op).FieldByName("kind").Int() }

// unchecked leaves out checks of nodes for which it holds.
func unchecked(of func(path string) bool) func([]session.Op) {
	return func(ops []session.Op) {
		for i, op := range ops {
			if kindOf(op) == kindOf(void) && of(op.Path()) {
				ops[i] = void
			}
		}
	}
}

// overlapping leaves out that a round begins only after the last is removed: it creates and deletes
// the node of that.
func overlapping(ops []session.Op) {
	for i := range len(ops) - 1 {
		path := ops[i].Path()
		creates := kindOf(ops[i]) == kindOf(session.CreateOp(path, nil, session.Persistent))
		if creates && ops[i+1].Path() == path && kindOf(ops[i+1]) == kindOf(session.DeleteOp(path, session.AnyVersion)) && !strings.HasSuffix(path, "/used") {
			ops[i], ops[i+1] = void, void
		}
	}
}

func mutants() map[string]mutant {
	isParty := func(path string) bool { return strings.Contains(path, "/in/") }
	isRecord := func(path string) bool { return path == root }
	const idEnd = 10 + 1 + 36 // of the name of a node
	return map[string]mutant{
		"a round is begun at any version of the record": {effect: func(e effect) effect {
			if r, is := e.(request); is && r.step == starting {
				r.version = session.AnyVersion
				return r
			}
			return e
		}},
		"withdrawing does not check the record":  {ops: unchecked(isRecord)},
		"the nodes of members are not checked":   {ops: unchecked(isParty)},
		"a round begins before the last is over": {ops: overlapping},
		"the nodes of an earlier session count": {
			input: func(in input) input { // the older of two of one handle gets another id
				if a, is := in.(answered); is {
					for i := range a.names {
						if i+1 < len(a.names) && a.names[i][:idEnd] == a.names[i+1][:idEnd] {
							a.names[i] = strings.Replace(a.names[i], "-0", "-f", 1)
						}
					}
				}
				return in
			},
			effect: func(e effect) effect {
				if r, is := e.(request); is && r.step == starting {
					for i, name := range r.book.Members {
						r.book.Members[i] = strings.Replace(name, "-f", "-0", 1)
					}
				}
				return e
			},
		},
		"no list after a member was missing": {input: func(in input) input {
			if a, is := in.(answered); is && a.at == party && errors.Is(a.err, session.ErrNoNode) {
				a.err, a.settled = nil, false // a reading is waited for
				return a
			}
			return in
		}},
		"the watch on the record always tells": {input: func(in input) input {
			if a, is := in.(answered); is {
				a.settled = false
				return a
			}
			return in
		}},
		"the doubt of a creation is forgotten": {twist: func(before machine, in input, m *machine) {
			if a, is := in.(answered); is && before.step == entering && session.InDoubt(a.err) {
				m.doubted, m.name, m.node = false, "", 0
				m.entries++
			}
		}},
		"nobody looks after the dead": {effect: func(e effect) effect {
			if _, is := e.(wait); is {
				return nil
			}
			return e
		}},
		"the own node is not watched": {effect: func(e effect) effect {
			if _, is := e.(guard); is {
				return nil
			}
			return e
		}},
		"the record is not read again": {input: func(in input) input {
			if s, is := in.(saw); is && s.book.Round > 0 {
				return nil
			}
			return in
		}},
		"the member that leaves first is done": {twist: func(before machine, in input, m *machine) {
			if before.stage == leaving && before.step == exiting && m.awaited != 0 {
				m.stage = resting
			}
		}},
		"a round of the same number is the own": {input: func(in input) input {
			if a, is := in.(answered); is {
				a.bad = ErrLayout
				return a
			}
			return in
		}},
		"a node of no session is a party": {effect: func(e effect) effect {
			if r, is := e.(request); is && r.step == listing {
				r.parties = len(r.met) + 100 // so no node is read
				return r
			}
			return e
		}},
		"a node of no session is waited for": {input: func(in input) input {
			if a, is := in.(answered); is && len(a.ownerless) > 0 {
				a.names, a.count, a.ownerless = a.ownerless, len(a.ownerless), nil
				return a
			}
			return in
		}},
		"a crash inside is not looked for": {effect: func(e effect) effect {
			if r, is := e.(request); is && r.step == looking {
				return nil
			}
			return e
		}},
	}
}

// hunt walks at random until something is wrong.
func hunt(walks uint64, start func(n uint64) exploration.World[zkmodel.Action], ended func(exploration.World[zkmodel.Action]) error) (n uint64, err error) {
	for n = range walks {
		w := start(n)
		if _, err = exploration.Walk(w, rand.New(rand.NewPCG(n, 0)).IntN); err == nil {
			err = ended(w)
		}
		if err != nil {
			return n + 1, err
		}
	}
	return walks, nil
}

// hunted are the scenarios in which mutants are hunted, in turn.
var hunted = []scenario{
	{parties: 2, handles: 4, enters: 2, cancels: 2, prepared: true, faults: zkmodel.Faults{Cuts: 2, Kills: 1, Crashes: 1, Strikes: 1, Lags: 1}},
	{parties: 2, handles: 3, enters: 1, prepared: true, slow: true, faults: zkmodel.Faults{Kills: 1, Reaps: 2}},
	{parties: 2, handles: 2, enters: 1, prepared: true, slow: true, faults: zkmodel.Faults{Cuts: 1, Expires: 1}},
	{parties: 2, handles: 2, enters: 2, prepared: true, faults: zkmodel.Faults{Restores: 1}},
	{parties: 2, handles: 2, enters: 2, prepared: true, faults: zkmodel.Faults{Relapses: 1}},
	{parties: 2, handles: 2, enters: 1, copied: true, copies: 1},
}

func TestMutants(t *testing.T) {
	seek := func(x mutant, walks uint64) (uint64, error) {
		return hunt(walks, func(n uint64) exploration.World[zkmodel.Action] {
			s := hunted[n%uint64(len(hunted))]
			s.mutant = x
			return newWorld(&s, false)
		}, func(w exploration.World[zkmodel.Action]) error { return w.(*world).ended() })
	}
	chosen := hasten.OneIn(1, 5)
	all := mutants()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !chosen() {
			continue
		}
		x := all[name]
		n, err := seek(x, 5000)
		if err == nil {
			t.Errorf("%s: nothing is wrong", name)
			continue
		}
		t.Logf("mutant %q is found in %d walks: %v", name, n, err)
	}
	if n, err := seek(mutant{}, hasten.Sized[uint64](60, 12)); err != nil {
		t.Errorf("no mutant: %v, in walk %d", err, n)
	}
}

func gateMutants() map[string]gateMutant {
	return map[string]gateMutant{
		"the doubt of a creation is forgotten": {twist: func(_ gate, _ gateInput, m *gate) { m.doubted = false }},
		"the node is not watched": {effect: func(e gateEffect) gateEffect {
			if _, is := e.(mind); is {
				return nil
			}
			return e
		}},
		"a newer node counts as the own": {input: func(in gateInput) gateInput {
			if in, is := in.(minded); is {
				in.token = 1
				return in
			}
			if _, is := in.(unminded); is {
				return nil
			}
			return in
		}},
		"what stands is the own": {input: func(in gateInput) gateInput {
			if in, is := in.(replied); is && errors.Is(in.err, session.ErrNodeExists) {
				return replied{token: 1}
			}
			return in
		}},
		"a cancelled creation is not removed": {effect: func(e gateEffect) gateEffect {
			if r, is := e.(raze); is && r.token == 0 {
				return nil
			}
			return e
		}},
		"Raise takes a lost reply for a barrier": {after: func(s raiseStep, err error, below bool) (raiseStep, error) {
			if session.Passing(err) {
				return raiseDone, nil
			}
			return s.after(err, below)
		}},
		"Raise makes the parent only": {after: func(s raiseStep, err error, below bool) (raiseStep, error) {
			if s == raiseParent {
				return raiseDone, err
			}
			return s.after(err, below)
		}},
		"a late reply revives what was given up": {twist: func(before gate, in gateInput, m *gate) {
			if r, is := in.(replied); is && before.stage == falling && r.err == nil {
				m.stage, m.token = standing, r.token
			}
		}},
	}
}

func TestGateMutants(t *testing.T) {
	s := plainScenario{gates: 3, waits: 1, cancels: 1, raises: 1, faults: zkmodel.Faults{Cuts: 2, Strikes: 1, Busy: 1}}
	seek := func(walks uint64) (uint64, error) {
		return hunt(walks, func(uint64) exploration.World[zkmodel.Action] { return newPlainWorld(&s, false) },
			func(w exploration.World[zkmodel.Action]) error { return w.(*plainWorld).ended() })
	}
	if n, err := seek(hasten.Sized[uint64](50, 10)); err != nil {
		t.Errorf("no mutant: %v, in walk %d", err, n)
	}
	chosen := hasten.OneIn(1, 3)
	all := gateMutants()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !chosen() {
			continue
		}
		x := all[name]
		s.mutant, s.bare = x, x.after != nil
		n, err := seek(500)
		if err == nil {
			t.Errorf("%s: nothing is wrong", name)
			continue
		}
		t.Logf("mutant %q is found in %d walks: %v", name, n, err)
	}
}
