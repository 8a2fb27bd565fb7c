// Package hasty has tests whose verdict is one of the clock, or of the machine.
package hasty

import (
	"runtime"
	"testing"
	"time"
)

// TestRuns runs until it has not run for a while, and fails then.
func TestRuns(t *testing.T) {
	last := time.Now()
	for end := last.Add(3 * time.Minute); last.Before(end); {
		now := time.Now()
		if now.Sub(last) > 50*time.Millisecond {
			t.Fatal("too slow")
		}
		last = now
	}
}

func TestProcessors(t *testing.T) {
	t.Run("many", func(t *testing.T) {
		if runtime.GOMAXPROCS(0) == 1 {
			t.Error("only one")
		}
	})
}
