package actors_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
)

// start runs a counter with everything set.
func start() *actors.Actor[input, event] {
	return actors.Start(counter{}, actors.Role[counter, input, effect, event]{
		Name:    "counter",
		Perform: perform,
		Stop:    stop{},
		Merge:   merge,
		Cancel:  cancel,
	})
}

// tell tells an actor that has not ended.
func tell(t *testing.T, a *actors.Actor[input, event], ins ...input) {
	t.Helper()
	for _, in := range ins {
		if err := a.Tell(in); err != nil {
			t.Fatalf("Tell(%T) = %v", in, err)
		}
	}
}

// drain returns what the channel yields until it is closed.
func drain[Ev any](events <-chan Ev) []Ev {
	var all []Ev
	for ev := range events {
		all = append(all, ev)
	}
	return all
}

func expect[Ev comparable](t *testing.T, got []Ev, want ...Ev) {
	t.Helper()
	check.True(t, slices.Equal(got, want), "got  %v\nwant %v", got, want)
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestInputsAreSteppedInOrder(t *testing.T) {
	const writers, each = 8, 500
	a := start()
	defer a.Close()
	events := a.Events()
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				_ = a.Tell(say{[]event{edge{w*each + i}}})
			}
		})
	}
	next := make([]int, writers)
	for range writers * each {
		n := (<-events).(edge).n
		if w := n / each; n%each != next[w] {
			t.Fatalf("writer %d: event %d came when %d was due", w, n%each, next[w])
		}
		next[n/each]++
	}
	writing.Wait()
}

func TestEffectsArePerformedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var performed []effect
		a := actors.Start(counter{}, actors.Role[counter, input, effect, event]{
			Begin: []effect{echo{1}, echo{2}},
			Perform: func(do effect, answer func(input)) {
				performed = append(performed, do)
				perform(do, answer)
			},
			Stop: stop{},
		})
		events := a.Events()
		tell(t, a, want{[]effect{echo{3}, echo{4}}}, want{[]effect{echo{5}}})
		a.Close()
		expect[effect](t, performed, echo{1}, echo{2}, echo{3}, echo{4}, echo{5})
		drain(events)
	})
}

// TestStepsDoNotShareEffects: the answer to an effect comes while the others of its step are
// still to be performed, and asks for more itself.
func TestStepsDoNotShareEffects(t *testing.T) {
	a := actors.Start(counter{}, actors.Role[counter, input, effect, event]{
		Perform: func(do effect, answer func(input)) {
			answer(want{nil})
			perform(do, answer)
			answer(say{[]event{edge{do.(echo).v}}})
		},
		Stop: stop{},
	})
	events := a.Events()
	var do []effect
	for i := range 100 {
		do = append(do, echo{i})
	}
	for _, n := range []int{3, 100, 0, 1, 40} { // a waiting actor keeps memory for 32
		tell(t, a, want{do[:n]})
		for i := range n {
			expect(t, []event{<-events, <-events}, event(counted{i}), event(edge{i}))
		}
	}
	a.Close()
	expect(t, drain(events), event(over{}))
}

func TestBeginComesBeforeTheFirstInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var order []string
		a := actors.Start(counter{}, actors.Role[counter, input, effect, event]{
			Begin: []effect{echo{}},
			Perform: func(effect, func(input)) {
				<-release // against the rules, so that the input is there first
				order = append(order, "begin")
			},
			Observe: func(counter, []event) { order = append(order, "step") },
			Stop:    stop{},
		})
		tell(t, a, tick{})
		close(release)
		a.Close()
		expect(t, order, "begin", "step", "step")
	})
}

func TestAnswersComeFromAnyGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := actors.Start(counter{}, actors.Role[counter, input, effect, event]{
			Begin: []effect{echo{1}},
			Perform: func(do effect, answer func(input)) {
				go answer(echod(do.(echo)))
			},
			Stop: stop{},
		})
		defer a.Close()
		check.Equal(t, <-a.Events(), event(counted{1}), "got")
	})
}

func TestObserveComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		var observed []event
		a := actors.Start(counter{}, actors.Role[counter, input, effect, event]{
			Perform: func(effect, func(input)) {
				check.True(t, isClosed(done), "performed before observed")
			},
			Observe: func(_ counter, events []event) {
				observed = append(observed, events...)
				close(done)
			},
			Stop: want{},
		})
		events := a.Events()
		tell(t, a, say{[]event{edge{1}}})
		<-events
		check.True(t, isClosed(done), "delivered before observed")
		done = make(chan struct{})
		tell(t, a, want{[]effect{echo{}}})
		synctest.Wait()
		done = make(chan struct{})
		tell(t, a, last{[]event{edge{2}}})
		<-a.Ended()
		check.True(t, isClosed(done), "ended before observed")
		expect[event](t, observed, edge{1}, edge{2})
	})
}

func TestSlowReaderHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		a := start()
		events := a.Events()
		for i := range n {
			tell(t, a, say{[]event{edge{i}}})
		}
		for range n {
			tell(t, a, tick{})
		}
		if count, err := actors.Ask(t.Context(), a, getCount); count != n || err != nil {
			t.Errorf("with a backlog: Ask = %v, %v", count, err)
		}
		for i := range n {
			if ev := <-events; ev != event(edge{i}) {
				t.Fatalf("event %d is %v", i, ev)
			}
		}
		a.Close()
		expect[event](t, drain(events), over{n})
	})
}

func TestFirstReaderBeginsWithTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start()
		tell(t, a, say{[]event{edge{1}, edge{2}, opened{}, shut{}}})
		synctest.Wait()
		events := a.Events()
		tell(t, a, say{[]event{edge{3}, edge{4}}}, last{[]event{edge{5}}})
		expect[event](t, drain(events), shut{}, edge{3}, edge{4}, edge{5})
		a.Close()
	})
}

func TestUndeliveredEventsMerge(t *testing.T) {
	for _, test := range []struct {
		name       string
		emit, want []event
	}{
		{"levels", []event{counted{1}, counted{2}, counted{3}}, []event{counted{3}}},
		{"not across an edge", []event{counted{1}, edge{1}, counted{2}, counted{3}}, []event{counted{1}, edge{1}, counted{3}}},
		{"edges never", []event{edge{1}, edge{1}}, []event{edge{1}, edge{1}}},
		{"undone", []event{edge{1}, opened{}, shut{}, edge{2}}, []event{edge{1}, edge{2}}},
		{"undone twice", []event{edge{1}, opened{}, shut{}, opened{}, shut{}}, []event{edge{1}}},
		{"the other way round", []event{shut{}, opened{}}, []event{shut{}, opened{}}},
		{"not across an edge either", []event{opened{}, edge{1}, shut{}}, []event{opened{}, edge{1}, shut{}}},
		{"levels that meet", []event{counted{1}, opened{}, shut{}, counted{2}}, []event{counted{2}}},
		{"nothing left", []event{opened{}, shut{}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := start()
				events := a.Events()
				for _, ev := range test.emit {
					tell(t, a, say{[]event{ev}})
					synctest.Wait() // also what waits in the channel is undelivered
				}
				tell(t, a, last{})
				expect(t, drain(events), test.want...)
				a.Close()
			})
		})
	}
}

func TestDeliveredEventsDoNotMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start()
		events := a.Events()
		var got []event
		for _, ev := range []event{counted{1}, counted{2}, opened{}, shut{}} {
			tell(t, a, say{[]event{ev}})
			got = append(got, <-events)
		}
		expect[event](t, got, counted{1}, counted{2}, opened{}, shut{})
		a.Close()
	})
}

func TestLastEventIsDelivered(t *testing.T) {
	backlog := say{[]event{edge{1}, edge{2}, edge{3}}}
	for _, test := range []struct {
		name string
		run  func(*testing.T, *actors.Actor[input, event]) []event
		want []event
	}{
		{"after Close, nobody had asked", func(t *testing.T, a *actors.Actor[input, event]) []event {
			tell(t, a, backlog)
			a.Close()
			return drain(a.Events())
		}, []event{over{}}},
		{"after Close, to a reader who was slow", func(t *testing.T, a *actors.Actor[input, event]) []event {
			events := a.Events()
			tell(t, a, backlog)
			a.Close()
			return drain(events)
		}, []event{over{}}},
		{"after Close, when it had been emitted before", func(t *testing.T, a *actors.Actor[input, event]) []event {
			events := a.Events()
			tell(t, a, last{[]event{edge{1}, edge{2}}})
			synctest.Wait()
			a.Close()
			return drain(events)
		}, []event{edge{2}}},
		{"after the end, nobody had asked", func(t *testing.T, a *actors.Actor[input, event]) []event {
			tell(t, a, last{[]event{edge{1}, edge{2}}})
			<-a.Ended()
			synctest.Wait()
			return drain(a.Events())
		}, []event{edge{2}}},
		{"after the end, with all before it", func(t *testing.T, a *actors.Actor[input, event]) []event {
			events := a.Events()
			tell(t, a, backlog, last{[]event{edge{4}, edge{5}}})
			<-a.Ended()
			synctest.Wait()
			return drain(events)
		}, []event{edge{1}, edge{2}, edge{3}, edge{4}, edge{5}}},
		{"although it came in an earlier step", func(t *testing.T, a *actors.Actor[input, event]) []event {
			tell(t, a, say{[]event{edge{1}}}, last{})
			<-a.Ended()
			return drain(a.Events())
		}, []event{edge{1}}},
		{"when there is none", func(t *testing.T, a *actors.Actor[input, event]) []event {
			tell(t, a, last{})
			return drain(a.Events())
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := start()
				expect[event](t, test.run(t, a), test.want...)
				if ev, ok := <-a.Events(); ok {
					t.Errorf("after the last event came %v", ev)
				}
				a.Close()
			})
		})
	}
}

// The bubbles of these tests end only when every goroutine in them has.
func TestGoroutineEndsWithoutClose(t *testing.T) {
	t.Run("nobody asked for events", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tell(t, start(), say{[]event{edge{1}, edge{2}}}, last{[]event{edge{3}}})
		})
	})
	t.Run("the channel holds what nobody fetches", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := start()
			a.Events()
			tell(t, a, last{[]event{edge{1}}})
		})
	})
	t.Run("everything was read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := start()
			events := a.Events()
			tell(t, a, say{[]event{edge{1}, edge{2}}}, last{[]event{edge{3}}})
			expect[event](t, drain(events), edge{1}, edge{2}, edge{3})
		})
	})
	t.Run("it was only asked to stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := start()
			a.Events()
			tell(t, a, say{[]event{edge{1}, edge{2}}})
			a.Stop()
		})
	})
	t.Run("it was asked to stop after the end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := start()
			a.Events()
			tell(t, a, last{[]event{edge{1}, edge{2}, edge{3}}})
			synctest.Wait()
			a.Stop()
		})
	})
}

func TestMachineThatHasEndedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := actors.Start(counter{ended: true}, actors.Role[counter, input, effect, event]{Stop: stop{}})
		<-a.Ended()
		check.Is(t, a.Tell(tick{}), actors.ErrEnded)
		expect(t, drain(a.Events()))
		a.Close()
	})
}

func TestInputsAfterTheEndAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late func(input)
		steps := 0
		a := actors.Start(counter{}, actors.Role[counter, input, effect, event]{
			Begin:   []effect{echo{}},
			Perform: func(_ effect, answer func(input)) { late = answer },
			Observe: func(counter, []event) { steps++ },
			Stop:    stop{},
		})
		synctest.Wait()
		// All three in one batch, most likely.
		_ = a.Tell(last{[]event{over{}}})
		_ = a.Tell(tick{})
		_ = a.Tell(tick{})
		<-a.Ended()
		late(tick{})
		check.Is(t, a.Tell(tick{}), actors.ErrEnded)
		a.Close()
		check.True(t, steps == 1, "%d steps, want 1", steps)
		expect[event](t, drain(a.Events()), over{})
	})
}

func TestCloseFromManyGoroutines(t *testing.T) {
	for range 100 {
		a := start()
		events := a.Events()
		var closing sync.WaitGroup
		for range 8 {
			closing.Go(func() {
				_ = a.Tell(tick{})
				a.Close()
				check.True(t, isClosed(a.Ended()), "Close returned before the end")
			})
		}
		closing.Wait()
		all := drain(events)
		if len(all) == 0 {
			t.Fatal("no last event")
		}
		if _, ok := all[len(all)-1].(over); !ok {
			t.Fatalf("last event is %v", all[len(all)-1])
		}
		a.Close()
	}
}

// A reluctant machine ends only when its effect is answered.
type reluctant struct{ asked, ended bool }

func (r reluctant) Ended() bool { return r.ended }

func (r reluctant) Step(in input, out *effects) reluctant {
	switch in.(type) {
	case stop:
		if r.asked {
			panic("asked to stop twice")
		}
		out.Do = append(out.Do, echo{})
		return reluctant{asked: true}
	case echod:
		out.Emit = append(out.Emit, over{})
		return reluctant{ended: true}
	}
	return r
}

func TestCloseWaitsForTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer func(input)
		a := actors.Start(reluctant{}, actors.Role[reluctant, input, effect, event]{
			Perform: func(_ effect, a func(input)) { answer = a },
			Stop:    stop{},
		})
		a.Stop()
		a.Stop()
		closed := make(chan struct{})
		go func() {
			a.Close()
			close(closed)
		}()
		synctest.Wait()
		if isClosed(closed) || isClosed(a.Ended()) {
			t.Fatal("closed before the machine has ended")
		}
		check.OK(t, a.Tell(tick{})) // while it stops
		answer(echod{})
		<-closed
		expect[event](t, drain(a.Events()), over{})
	})
}

func TestAsk(t *testing.T) {
	ask := func(ctx context.Context, a *actors.Actor[input, event], in func(actors.Reply[int]) input) (int, error) {
		return actors.Ask(ctx, a, in)
	}
	t.Run("answered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := start()
			defer a.Close()
			tell(t, a, tick{}, tick{})
			if n, err := ask(t.Context(), a, getCount); n != 2 || err != nil {
				t.Errorf("got %v, %v", n, err)
			}
		})
	})
	t.Run("the first answer counts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := start()
			defer a.Close()
			n, err := ask(t.Context(), a, func(r actors.Reply[int]) input {
				return want{[]effect{respond{r, 1}, respond{r, 2}}}
			})
			if n != 1 || err != nil {
				t.Errorf("got %v, %v", n, err)
			}
		})
	})
	t.Run("context ends first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := start()
			defer a.Close()
			reason := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			go cancel(reason)
			_, err := ask(ctx, a, func(actors.Reply[int]) input { return tick{} })
			check.Is(t, err, reason)
			if n, err := ask(t.Context(), a, getCount); n != 1 || err != nil {
				t.Errorf("the command did not go on: %v, %v", n, err)
			}
		})
	})
	t.Run("the answer comes late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := start()
			defer a.Close()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			var given actors.Reply[int]
			_, _ = ask(ctx, a, func(r actors.Reply[int]) input { // is not answered
				given = r
				return tick{}
			})
			if n, late := given.Late(); late {
				t.Errorf("got %v before it was answered", n)
			}
			tell(t, a, want{[]effect{respond{given, 7}}})
			synctest.Wait()
			if n, late := given.Late(); n != 7 || !late {
				t.Errorf("got %v, %v", n, late)
			}
			if n, late := given.Late(); late {
				t.Errorf("got %v twice", n)
			}
		})
	})
	t.Run("machine ends first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := start()
			defer a.Close()
			check.Fails(ask(t.Context(), a, func(actors.Reply[int]) input { return stop{} }))(t, actors.ErrEnded)
			check.Fails(ask(t.Context(), a, getCount))(t, actors.ErrEnded) // after the end
		})
	})
	t.Run("answered by the step that ends", func(t *testing.T) {
		for range 50 {
			a := actors.Start(mortal{}, actors.Role[mortal, input, effect, event]{Perform: perform, Stop: stop{}})
			// The caller comes to its select when both cases are ready.
			if n, err := ask(lateContext{t.Context(), a.Ended()}, a, getCount); n != 7 || err != nil {
				t.Fatalf("got %v, %v", n, err)
			}
		}
	})
	t.Run("the zero Reply", func(*testing.T) {
		var r actors.Reply[int]
		r.Give(1)
	})
}

// A mortal machine ends with whatever it is told.
type mortal struct{ ended bool }

func (m mortal) Ended() bool { return m.ended }

func (m mortal) Step(in input, out *effects) mortal {
	if in, ok := in.(get); ok {
		out.Do = append(out.Do, respond{in.reply, 7})
	}
	return mortal{ended: true}
}

// A lateContext holds up a caller that selects on it.
type lateContext struct {
	context.Context //nolint:containedctx // it is one
	until           <-chan struct{}
}

func (c lateContext) Done() <-chan struct{} {
	<-c.until
	return c.Context.Done()
}

// A parcel is an event with something in it, and an input that emits it.
type parcel struct{ content *[1 << 16]byte }

func (parcel) event()  {}
func (parcel) effect() {}

func TestNothingIsKeptAlive(t *testing.T) {
	send := func(a *actors.Actor[input, event]) weak.Pointer[[1 << 16]byte] {
		p := new([1 << 16]byte)
		tell(t, a, say{[]event{parcel{p}}})
		return weak.Make(p)
	}
	ask := func(a *actors.Actor[input, event]) weak.Pointer[[1 << 16]byte] {
		p := new([1 << 16]byte)
		tell(t, a, want{[]effect{parcel{p}}})
		return weak.Make(p)
	}
	collected := func(p weak.Pointer[[1 << 16]byte]) bool {
		for range 3 {
			runtime.GC()
		}
		return p.Value() == nil
	}
	a := start()
	events := a.Events()
	p, asked := send(a), ask(a)
	<-events
	if n, err := actors.Ask(t.Context(), a, getCount); n != 0 || err != nil {
		t.Error(n, err)
	}
	check.True(t, collected(p), "an actor that waits keeps an event that was delivered")
	check.True(t, collected(asked), "an actor that waits keeps an effect that was performed")
	p = send(a)
	a.Close()
	check.True(t, collected(p), "an actor that has ended keeps an event that was discarded")
	runtime.KeepAlive(a)
}

func TestGoroutineIsLabelled(t *testing.T) {
	var profile bytes.Buffer
	written := make(chan error, 1)
	a := actors.Start(counter{}, actors.Role[counter, input, effect, event]{
		Name: "counter", Begin: []effect{echo{}}, Stop: stop{},
		Perform: func(effect, func(input)) { written <- pprof.Lookup("goroutine").WriteTo(&profile, 1) },
	})
	defer a.Close()
	check.Must(t, <-written)
	if !strings.Contains(profile.String(), `{"actor":"counter"}`) {
		t.Errorf("no label in\n%s", &profile)
	}
}

func TestPanicsAreNotRecovered(t *testing.T) {
	if os.Getenv("ACTORS_TEST_PANIC") != "" {
		a := start()
		tell(t, a, nil)
		<-a.Ended()
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPanicsAreNotRecovered$")
	cmd.Env = append(os.Environ(), "ACTORS_TEST_PANIC=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("panic: unknown input")) {
		t.Errorf("exit %v, output\n%s", err, out)
	}
}

// TestGoexit: Close does not wait for a goroutine that a function of the role has ended, as a test
// does that fails.
func TestGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := actors.Start(counter{}, actors.Role[counter, input, effect, event]{
			Perform: func(effect, func(input)) { runtime.Goexit() },
			Stop:    stop{},
		})
		synctest.Wait()
		tell(t, a, want{[]effect{echo{1}}})
		a.Close()
		a.Close()
	})
}

// TestKeptFromTheBeginning: all events are there for a reader that comes after them.
func TestKeptFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := actors.StartKept(burst{}, actors.Role[burst, int, int, int]{
			Name: "burst", Begin: []int{1}, Perform: func(do int, answer func(int)) { answer(do) },
		})
		synctest.Wait()
		for want := range 3 {
			check.Equal(t, <-a.Events(), want)
		}
		a.Close()
	})
}

// burst emits three events at its first input.
type burst struct{ over bool }

func (b burst) Ended() bool { return b.over }

func (b burst) Step(in int, out *actors.Effects[int, int]) burst {
	if in != 1 {
		return burst{true}
	}
	out.Emit = append(out.Emit, 0, 1, 2)
	return b
}

// TestCall: the result comes once. One that is not received holds up no goroutine, which goleak
// would find.
func TestCall(t *testing.T) {
	begin, failed := make(chan struct{}), errors.New("failed")
	result := actors.Call(func() error {
		<-begin
		return failed
	})
	select {
	case err := <-result:
		t.Errorf("%v before the call has ended", err)
	default:
	}
	close(begin)
	if err := <-result; !errors.Is(err, failed) {
		t.Errorf("%v, want %v", err, failed)
	}
	actors.Call(func() error { return failed })
}

func TestContain(t *testing.T) {
	done := false
	for want, f := range map[string]func(){
		"<nil>":                    func() { done = true },
		"it panicked: no":          func() { panic("no") },
		"it panicked: EOF":         func() { panic(io.EOF) },
		"it called runtime.Goexit": runtime.Goexit,
	} {
		err := actors.Contain(f)
		check.Equal(t, fmt.Sprint(err), want)
		check.Equal(t, errors.Is(err, io.EOF), strings.HasSuffix(want, "EOF"))
	}
	check.True(t, done, "it has not been called")
}

func TestFeed(t *testing.T) {
	ch := make(chan int, 3)
	var got []int
	ended := false
	gone := actors.Feed("test", ch, func(v int) { got = append(got, v) }, func() { ended = true })
	for i := range 3 {
		ch <- i
	}
	close(ch)
	<-gone
	check.True(t, slices.Equal(got, []int{0, 1, 2}) && ended, "got %v, ended %v", got, ended)
}

func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, fired := time.Now(), make(chan time.Duration, 2)
		actors.After(time.Minute, func() { fired <- time.Since(begun) })
		stop := actors.After(time.Second, func() { t.Error("it was stopped") })
		stop()
		check.Equal(t, <-fired, time.Minute, "fired after")
	})
}

// TestNilFunctions: a nil function is refused at the caller, not on the goroutine that would call
// it.
func TestNilFunctions(t *testing.T) {
	for argument, call := range map[string]func(){
		"Call: f":    func() { actors.Call(nil) },
		"After: f":   func() { actors.After(0, nil) },
		"Feed: tell": func() { actors.Feed("a", make(chan int), nil, func() {}) },
		"Feed: end":  func() { actors.Feed("a", make(chan int), func(int) {}, nil) },
	} {
		func() {
			defer func() {
				if got, want := recover(), "actors: "+argument+" is nil"; got != want {
					t.Errorf("%v, want %s", got, want)
				}
			}()
			call()
		}()
	}
}
