package owned

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
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
