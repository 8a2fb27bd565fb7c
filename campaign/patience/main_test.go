package patience

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or a busy loop.
func TestMain(m *testing.M) {
	if os.Getenv(LoopVariable) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := Loop(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
