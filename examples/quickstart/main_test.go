package main

import (
	"testing"

	"github.com/zkactors/zkactors/session/zktest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	if err := run(t.Context(), zktest.Start(t).Addrs()); err != nil {
		t.Fatal(err)
	}
}
