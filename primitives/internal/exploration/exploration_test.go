package exploration_test

import (
	"errors"
	"slices"
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

func TestTell(t *testing.T) {
	var lines []string
	exploration.Tell(from(0)(), []int{1, 1, 3, 1}, func(line string) { lines = append(lines, line) })
	check.EqualSlices(t, lines, []string{"1", "1", "3", "five"})
}
