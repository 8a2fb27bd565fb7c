package owned

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A thing counts how often it was cancelled.
type thing struct {
	cancelled int
	over      bool
}

func (t *thing) Cancel()    { t.cancelled++ }
func (t *thing) Over() bool { return t.over }

func TestThingsEndOnce(t *testing.T) {
	var s Set
	var first, second, third, late thing
	s.Keep("a", &first)
	s.Keep("a", &second)
	s.Keep("b", &third)
	check.True(t, s.Any("a", func(x Thing) bool { return x == &third }) && !s.Any("b", func(x Thing) bool { return x == &third }), "Any looks at the wrong things")
	s.Cancel("b")
	s.Cancel("b")
	s.End()
	s.End()
	s.Keep("c", &late)
	for i, x := range []thing{first, second, third, late} {
		check.Equal(t, x.cancelled, 1, "cancellations of thing", i)
	}
}

func TestWhatIsOverIsNotKept(t *testing.T) {
	var s Set
	for range 100 {
		s.Keep(new(int), &thing{over: true})
	}
	check.AtMost(t, len(s.items), 1, "things that are over")
}

func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set
		fired := make(chan string, 4)
		for _, key := range []string{"replaced", "replaced", "cancelled"} {
			s.After(key, time.Second, func() { fired <- key })
		}
		s.Cancel("cancelled")
		<-time.After(2 * time.Second)
		synctest.Wait()
		s.Cancel("those that have fired")
		check.True(t, len(fired) == 1 && <-fired == "replaced" && len(s.items) == 0, "%d have fired too, and %d are left", len(fired), len(s.items))
		s.After("late", time.Second, func() { t.Error("it fired after the end") })
		s.End()
		<-time.After(2 * time.Second)
	})
}

// TestPauses: answers of a busy server come after pauses that grow, all others at once, and none
// after the end.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set
		busy := &session.ServerError{Code: -127}
		after := func(err error) time.Duration {
			answered, began := make(chan struct{}), time.Now()
			s.Answer(err, func() { close(answered) })
			<-answered
			return time.Since(began)
		}
		for i, want := range []time.Duration{shortest, 2 * shortest, 4 * shortest} {
			check.Equal(t, after(busy), want, "pause", i)
		}
		for range 20 {
			check.AtMost(t, after(busy), longest)
		}
		check.Equal(t, after(session.ErrNoNode), 0)
		check.Equal(t, after(busy), shortest, "after another answer")
		s.Answer(busy, func() { t.Error("an answer after the end") })
		s.End()
		<-time.After(time.Minute)
	})
}

// TestRoom: what did not fit any more is not kept alive by the memory for a few.
func TestRoom(t *testing.T) {
	var s Set
	things := make([]*thing, len(s.room)+1)
	for i := range things {
		things[i] = new(thing)
		s.Keep(i, things[i])
		if i < len(s.room) {
			check.True(t, s.room[i].thing == things[i], "thing %d is not in the room", i)
		}
	}
	check.Equal(t, s.room, [len(s.room)]item{}, "the room")
	for i, want := range things {
		check.True(t, s.Get(i) == want, "another thing than %d", i)
	}
	check.True(t, s.Get("none") == nil, "a thing that is not there")
	kept := s.items
	s.End()
	for _, i := range kept {
		check.Equal(t, i, item{}, "after the end")
	}
}

// A teller is a session that tells two events.
type teller struct {
	client.Session

	cancelled bool
}

func (s *teller) Subscribe(tell func(session.Event) (settled <-chan struct{})) (cancel func()) {
	if tell(session.Connected{}) != nil {
		panic("the session waits although it goes on")
	}
	if tell(session.Closed{}) == nil {
		panic("the session does not wait")
	}
	return func() { s.cancelled = true }
}

// TestFollow: the events are told until the end, and the end of the session waits.
func TestFollow(t *testing.T) {
	var s Set
	var of teller
	var told []session.Event
	s.Follow(&of, func(ev session.Event) { told = append(told, ev) }, make(chan struct{}))
	check.EqualSlices(t, told, []session.Event{session.Connected{}, session.Closed{}}, "told")
	check.True(t, !of.cancelled, "cancelled before the end")
	s.End()
	check.True(t, of.cancelled, "not cancelled with the end")
}

// TestTell: an input for a machine pauses as an answer does.
func TestTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set
		for _, err := range []error{nil, &session.ServerError{Code: -127}} {
			told, began := make(chan string, 1), time.Now()
			Tell(&s, err, func(in string) { told <- in }, "input")
			check.Equal(t, len(told) == 1, err == nil, "told at once")
			check.Equal(t, <-told, "input")
			want := time.Duration(0)
			if err != nil {
				want = shortest
			}
			check.Equal(t, time.Since(began), want, "pause after", err)
			answered := false
			s.Answer(err, func() { answered = true })
			check.Equal(t, answered, err == nil, "answered at once")
		}
	})
}

// TestWaits: a pause ends, or its context does. Those of StepBack grow up to a second.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set
		busy := &session.ServerError{Code: -127}
		check.OK(t, s.Wait(t.Context(), busy), "Wait")
		within := func(most time.Duration) (longest time.Duration) {
			for range 200 {
				began := time.Now()
				check.OK(t, s.StepBack(t.Context()), "StepBack")
				longest = max(longest, time.Since(began))
			}
			check.AtMost(t, longest, most, "pause")
			return longest
		}
		check.OK(t, s.StepBack(t.Context()), "StepBack")
		check.Equal(t, s.steps, 1, "steps")
		check.AtLeast(t, within(1024*time.Millisecond), 500*time.Millisecond, "the longest of 200 pauses")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errEnough)
		check.Is(t, s.StepBack(ctx), errEnough)
		check.Is(t, s.Wait(ctx, busy), errEnough)
		for range 64 { // an error without a pause
			check.Is(t, s.Wait(ctx, session.ErrUnknownOutcome), errEnough)
		}
	})
}

var errEnough = errors.New("enough")

// TestRemove: a removal that is refused returns at once, and one whose context has ended makes no
// request any more.
func TestRemove(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		t := w.T
		g := w.OpenGated(session.Options{})
		check.Must(t, g.EnsurePath(t.Context(), "/dir/node"))
		began := time.Now()
		check.Is(t, Remove(t.Context(), g.Session, session.Removal{Path: "/dir"}), session.ErrNotEmpty)
		check.AtMost(t, time.Since(began), time.Second, "until it was refused")

		g.Cut()
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Remove(ctx, g.Session, session.Removal{Path: "/dir/node"}) }()
		synctest.Wait()
		cancel(errEnough)
		check.Is(t, <-ended, errEnough)
		check.Is(t, Remove(ctx, g.Session, session.Removal{Path: "/dir/node"}), errEnough)
		g.Mend()
		check.OK(t, g.Sync(t.Context(), "/"))
		<-time.After(time.Minute)
		check.Reads(g.Get(t.Context(), "/dir/node"))(t, "", "after the removal that was given up")

		check.OK(t, Remove(t.Context(), g.Session, session.Removal{Path: "/dir/node"}), "Remove")
		stat := check.Have(g.Exists(t.Context(), "/dir/node"))(t)
		check.True(t, stat == nil, "the node is there after its removal")
	})
}
