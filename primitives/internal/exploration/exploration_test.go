package exploration_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A counter must not come to five, and goes on to three by itself.
type counter struct{ n int }

func (c *counter) Actions() (normal, wishes, faulty []int) {
	if c.n < 3 {
		normal = append(normal, 1, 0)
	}
	if c.n == 2 {
		faulty = append(faulty, 3)
	}
	return normal, nil, faulty
}

func (c *counter) Apply(by int) { c.n += by }

func (c *counter) Check() {
	if c.n == 5 {
		panic(exploration.ViolationError("five"))
	}
}

func (c *counter) Key() uint64 { return uint64(c.n) }

func (c *counter) Describe(by int) string { return string(rune('0' + by)) }

func from(n int) func() exploration.World[int] {
	return func() exploration.World[int] { return &counter{n} }
}

func TestExplore(t *testing.T) {
	var five exploration.ViolationError
	states, all, trace, err := exploration.Explore(from(0), 100)
	check.True(t, !all && errors.As(err, &five) && slices.Equal(trace, []int{1, 1, 3}), "%d states, %v, %v, %v", states, all, trace, err)
	if states, all, trace, err := exploration.Explore(from(3), 100); states != 0 || !all || trace != nil || err != nil {
		t.Errorf("%d states, %v, %v, %v", states, all, trace, err)
	}
	if states, all, _, err := exploration.Explore(from(0), 2); states != 2 || all || err != nil {
		t.Errorf("%d states, %v, %v", states, all, err)
	}
}

func TestWalk(t *testing.T) {
	var five exploration.ViolationError
	last := func(n int) int { return n - 1 }
	if trace, err := exploration.Walk(from(2)(), last); !errors.As(err, &five) && err == nil {
		t.Errorf("%v, %v", trace, err)
	}
	if trace, err := exploration.Walk(from(3)(), last); len(trace) > 0 || err != nil {
		t.Errorf("%v, %v", trace, err)
	}
	for name, pick := range map[string]func(int) int{
		"no end":  func(n int) int { return min(1, n-1) - n/50 }, // never calm
		"no rest": func(n int) int { return min(1, n-1) },
	} {
		if _, err := exploration.Walk(from(0)(), pick); err == nil {
			t.Errorf("%s: nothing is wrong", name)
		}
	}
}

// TestShorten: what does not matter is left out of a history.
func TestShorten(t *testing.T) {
	start := func() exploration.World[int] { return from(0)() }
	trace := []int{0, 0, 1, 0, 1, 0, 0, 3}
	shorter, err := exploration.Shorten(start, trace, errEight)
	check.EqualSlices(t, shorter, []int{1, 1, 3})
	var five exploration.ViolationError
	check.True(t, errors.As(err, &five), "%v", err)
}

func TestTell(t *testing.T) {
	var lines []string
	exploration.Tell(from(0)(), []int{1, 1, 3, 1}, func(line string) { lines = append(lines, line) })
	check.EqualSlices(t, lines, []string{"1", "1", "3", "five"})
}

// A recorder is a testing.TB that records how it fails.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Name() string { return "TestX/y z" }

func (r *recorder) Fatalf(format string, args ...any) {
	r.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Errorf(format string, args ...any) { r.said += fmt.Sprintf(format, args...) }

// plus is an input of a sum.
type plus struct {
	n   int
	why error
}

func TestSearch(t *testing.T) {
	var given check.Given
	search := exploration.Search[int, plus, int]{
		Inputs: func(sum int) []plus { return []plus{{n: 1}, {n: 3, why: errThree}} },
		Step: func(sum int, in plus) (int, error) {
			if sum+in.n == 8 {
				return sum + in.n, errEight
			}
			return (sum + in.n) % 10, nil
		},
		Key: func(sum int) int { return sum }, Given: &given,
	}
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { defer close(done); search.Run(r, 0) }()
	<-done
	check.True(t, strings.HasPrefix(r.said, `eight
after
    0
exploration_test.plus{n:1 why:<nil>}
    1
exploration_test.plus{n:1 why:<nil>}
    2
exploration_test.plus{n:3 why:three}
    5
exploration_test.plus{n:3 why:three}
    8
again: `+check.Again(r)), "%s", r.said)
	search.Step = func(sum int, in plus) (int, error) { return (sum + in.n) % 10, nil }
	states, steps := search.Run(t, 0, 0)
	check.True(t, states == 10 && steps == 20, "%d states, %d steps", states, steps)
	search.Limit = 4
	states, _ = search.Run(t, 0)
	check.AtMost(t, states, 5, "states")
}

var errThree, errEight = errors.New("three"), errors.New("eight")
