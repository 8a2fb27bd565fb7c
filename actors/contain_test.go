package actors_test

import (
	"runtime"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
)

func TestContain(t *testing.T) {
	done := false
	for name, row := range map[string]struct {
		f        func()
		panicked any
		returned bool
	}{
		"returns": {func() { done = true }, nil, true},
		"panics":  {func() { panic("no") }, "no", false},
		"exits":   {runtime.Goexit, nil, false},
	} {
		if panicked, returned := actors.Contain(row.f); panicked != row.panicked || returned != row.returned {
			t.Errorf("%s: %v, %v", name, panicked, returned)
		}
	}
	check.True(t, done, "it has not been called")
}
