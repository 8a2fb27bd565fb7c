package exploration_test

import (
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/primitives/internal/exploration"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A counter must not come to five, and goes on to three by itself.
type counter struct{ n int }

func (c *counter) Clone() *counter { return &counter{c.n} }

func (c *counter) Actions() (normal, faulty []int) {
	if c.n < 3 {
		normal = append(normal, 1, 0)
	}
	if c.n == 2 {
		faulty = append(faulty, 3)
	}
	return normal, faulty
}

func (c *counter) Apply(by int) {
	if c.n += by; c.n == 5 {
		panic(exploration.ViolationError("five"))
	}
}

func (c *counter) Key(to []byte) []byte { return append(to, byte(c.n)) }

func TestExplore(t *testing.T) {
	var five exploration.ViolationError
	states, all, trace, err := exploration.Explore(&counter{}, 100)
	if all || !errors.As(err, &five) || !slices.Equal(trace, []int{1, 1, 3}) {
		t.Errorf("%d states, %v, %v, %v", states, all, trace, err)
	}
	if states, all, trace, err := exploration.Explore(&counter{3}, 100); states != 0 || !all || trace != nil || err != nil {
		t.Errorf("%d states, %v, %v, %v", states, all, trace, err)
	}
	if states, all, _, err := exploration.Explore(&counter{}, 2); states != 2 || all || err != nil {
		t.Errorf("%d states, %v, %v", states, all, err)
	}
}

func TestShorten(t *testing.T) {
	if trace := exploration.Shorten(&counter{}, []int{0, 1, 0, 0, 1, 0, 3}); !slices.Equal(trace, []int{1, 1, 3}) {
		t.Errorf("%v", trace)
	}
}
