// Package patient has a test whose verdict is always the same.
package patient

import (
	"os"
	"testing"
)

func TestCounts(t *testing.T) {
	if _, err := os.Stat("testdata/input"); err != nil {
		t.Error(err)
	}
	n := 0
	for range 100_000_000 {
		n++
	}
	if n != 100_000_000 {
		t.Error(n)
	}
}
