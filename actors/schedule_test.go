package actors

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// A rig plays one schedule of an actor and of those that use it. Its machine emits every input, and
// ends with the answer to what the input stop asks for.
type rig struct {
	actor  *Actor[int, int]
	inbox  *mailbox[int]
	answer func(int)
	resume chan struct{}

	parked   int   // goroutines that do the actor's work, and wait for resume
	running  int   // goroutines of the actor
	most     int   // of either at once
	stepped  []int // inputs
	told     []int // inputs that were taken
	wanted   int   // how many of them were when events were asked for; -1 before
	stopped  bool
	received []int
	closed   bool
}

const (
	stopInput = -1
	endInput  = -2
)

// A rigged machine has the goroutine wait wherever it is asked whether it has ended: before the
// goroutine looks at the mailbox, and between two inputs.
type rigged struct {
	*rig
	over bool
}

func (m rigged) Ended() bool {
	m.park()
	return m.over
}

func (m rigged) Step(in int, out *Effects[int, int]) rigged {
	m.stepped = append(m.stepped, in)
	if in == stopInput {
		out.Do = append(out.Do, endInput)
		return m
	}
	out.Emit = append(out.Emit, in)
	return rigged{m.rig, in == endInput}
}

func (r *rig) park() {
	r.parked++
	r.most = max(r.most, r.parked)
	<-r.resume
	r.parked--
}

func newRig(kept, inline bool) *rig {
	r := &rig{resume: make(chan struct{}), wanted: -1}
	begin := func(run func()) {
		go func() {
			r.running++
			r.most = max(r.most, r.running)
			r.park()
			run()
			r.running--
		}()
	}
	l := newLoop(rigged{rig: r}, Role[rigged, int, int, int]{
		Stop:    stopInput,
		Perform: func(do int, answer func(int)) { answer(do) },
		Inline:  func(int) bool { return inline },
	})
	r.actor, r.inbox, r.answer = &l.actor, &l.actor.inbox, l.answer
	r.inbox.begin = func() { begin(func() { l.run(nil) }) }
	if kept {
		r.do('e')
	}
	begin(func() { l.run(nil) })
	return r
}

// do has a user of the actor do one thing.
func (r *rig) do(what rune) {
	switch what {
	case 't':
		in := len(r.told) + 1
		if r.actor.Tell(in) == nil {
			r.told = append(r.told, in)
		}
	case 'i':
		in := len(r.told) + 1
		if !r.inbox.closed {
			r.told = append(r.told, in)
		}
		go r.answer(in)
	case 'e':
		r.actor.Events()
		r.wanted = len(r.told)
	case 'r':
		select {
		case ev, ok := <-r.actor.Events():
			if r.closed = !ok; ok {
				r.received = append(r.received, ev)
			}
		default:
		}
	case 's':
		r.actor.Stop()
		r.stopped = true
	case 'a':
		r.resume <- struct{}{}
	}
}

// settle lets the actor go on for as long as it can.
func (r *rig) settle() {
	for synctest.Wait(); r.parked > 0; synctest.Wait() {
		r.do('a')
	}
}

// play lets users do what their scripts say, and the goroutines of the actor go on, in the order of
// the choices: where these end, it takes the first of the possible ones. It returns how many were
// possible each time.
func (r *rig) play(scripts []string, choices []int) (possible []int) {
	scripts = slices.Clone(scripts)
	for {
		synctest.Wait()
		var of []int // scripts that are not over; -1 for the actor
		if r.parked > 0 {
			of = append(of, -1)
		}
		for i, script := range scripts {
			if script != "" {
				of = append(of, i)
			}
		}
		if len(of) == 0 {
			return possible
		}
		chosen := of[0]
		if n := len(possible); n < len(choices) {
			chosen = of[choices[n]]
		}
		if possible = append(possible, len(of)); chosen < 0 {
			r.do('a')
			continue
		}
		r.do(rune(scripts[chosen][0]))
		scripts[chosen] = scripts[chosen][1:]
	}
}

// verify returns what is wrong when the schedule is over.
func (r *rig) verify() error {
	r.settle()
	if last := len(r.stepped) - 1; len(r.told) > 0 && !r.stopped && (last < 0 || r.stepped[last] != len(r.told)) {
		return fmt.Errorf("stepped %v, told %v", r.stepped, r.told)
	}
	if r.wanted < 0 {
		r.do('e')
	}
	for n := -1; n != len(r.received); { // what comes with the next read
		r.settle()
		n = len(r.received)
		r.do('r')
	}
	r.settle()
	emitted := slices.DeleteFunc(slices.Clone(r.stepped), func(in int) bool { return in == stopInput })
	if kept := emitted; len(kept) > 0 && kept[len(kept)-1] == endInput {
		kept = kept[:len(kept)-1]
		if !slices.Equal(kept, r.told[:len(kept)]) {
			return fmt.Errorf("stepped %v, told %v", r.stepped, r.told)
		}
	} else if !slices.Equal(kept, r.told) {
		return fmt.Errorf("stepped %v, told %v", r.stepped, r.told)
	}
	next := 0 // of what was emitted
	for _, ev := range r.received {
		at := slices.Index(emitted[next:], ev)
		if at < 0 {
			return fmt.Errorf("received %v, emitted %v", r.received, emitted)
		}
		next += at + 1
	}
	switch {
	case r.most > 1:
		return fmt.Errorf("%d goroutines at once", r.most)
	case r.running > 0 || !r.stopped && r.inbox.awake:
		return fmt.Errorf("%d goroutines stay", r.running)
	case next != len(emitted):
		return fmt.Errorf("received %v, emitted %v: the last is missing", r.received, emitted)
	case !r.stopped && len(emitted)-r.wanted > len(r.received):
		return fmt.Errorf("received %v, emitted %v, of which %d before events were asked for", r.received, emitted, r.wanted)
	case r.closed != r.stopped, isUp(r.actor.ended.wait()) != r.stopped, isUp(r.actor.gone.wait()) != r.stopped:
		return fmt.Errorf("asked to stop: %v, channel closed: %v", r.stopped, r.closed)
	case r.stopped && slices.Index(r.stepped, stopInput) < 0:
		return fmt.Errorf("stepped %v", r.stepped)
	}
	return nil
}

func isUp(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// TestAllSchedules plays every order of what users of an actor do, and of what its goroutines do
// between: there is one goroutine at most, or an answer's giver in its place, and none when all is
// done; every input is stepped, every event is delivered that has to be, and all signs of the end
// come with it.
func TestAllSchedules(t *testing.T) {
	for _, scripts := range [][]string{
		{"ttt"},              // tellers
		{"tt", "t"},          // two of them
		{"tt", "er"},         // and a reader
		{"ttt", "r"},         // who does not read enough
		{"t", "s"},           // and one that stops
		{"tt", "ss"},         // twice
		{"t", "er", "s"},     // all three
		{"tt", "s", "e"},     // all three, and nothing is read
		{"tt", "er", "s"},    // longer
		{"k", "tt", "r"},     // events are kept from the beginning
		{"k", "tt", "s"},     // likewise
		{"k", "t", "r", "s"}, // likewise
		{"ii"},               // answers, which their givers step
		{"ii", "i"},          // of several
		{"ii", "t"},          // and tellers
		{"it", "er"},         // and a reader
		{"iii", "r"},         // who does not read enough
		{"i", "er", "s"},     // all
		{"ii", "t", "s"},     // and nothing is read
		{"k", "ti", "r"},     // events are kept from the beginning
		{"k", "ii", "s"},     // likewise
	} {
		t.Run(fmt.Sprint(scripts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				users, kept := scripts, scripts[0] == "k"
				inline := strings.Contains(strings.Join(scripts, ""), "i")
				if kept {
					users = scripts[1:]
				}
				played := 0
				for choices, more := []int(nil), true; more; played++ {
					r := newRig(kept, inline)
					possible := r.play(users, choices)
					if err := r.verify(); err != nil {
						t.Fatalf("schedule %v: %v", choices, err)
					}
					r.actor.Stop()
					r.settle()
					choices, more = following(choices, possible)
				}
				t.Logf("%d schedules", played)
			})
		})
	}
}

// following returns the choices of the next schedule, when so many were possible each time.
func following(choices, possible []int) (next []int, more bool) {
	next = append(slices.Clone(choices), make([]int, len(possible)-len(choices))...)
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] < possible[i] {
			return next[:i+1], true
		}
	}
	return nil, false
}

// A given is a machine that notes its inputs, and asks for the one after the first.
type given struct{ stepped *[]int }

func (given) Ended() bool { return false }

func (m given) Step(in int, out *Effects[int, int]) given {
	if *m.stepped = append(*m.stepped, in); in == 1 {
		out.Do = append(out.Do, 2)
	}
	return m
}

// TestGiverSteps: an answer is stepped when its giver goes on, and inputs that come meanwhile go to
// a goroutine.
func TestGiverSteps(t *testing.T) {
	var stepped []int
	begun := 0
	l := newLoop(given{&stepped}, Role[given, int, int, int]{Perform: func(do int, answer func(int)) { answer(do) }, Inline: func(int) bool { return true }})
	l.actor.inbox.begin = func() { begun++ }
	l.actor.inbox.awake = false // as if the first goroutine had ended
	if l.answer(3); !slices.Equal(stepped, []int{3}) || begun != 0 {
		t.Errorf("stepped %v, and %d goroutines begun", stepped, begun)
	}
	if l.answer(1); !slices.Equal(stepped, []int{3, 1}) || begun != 1 {
		t.Errorf("stepped %v, and %d goroutines begun", stepped, begun)
	}
}
