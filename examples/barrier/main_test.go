package main

import (
	"testing"

	"github.com/zkactors/zkactors/internal/demo"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	if err := demo.On(t.Context(), "", run); err != nil {
		t.Fatal(err)
	}
}
