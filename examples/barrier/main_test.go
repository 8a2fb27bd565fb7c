package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/session/zktest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), &out, zktest.Start(t).Addrs())
	if err != nil || !strings.HasPrefix(out.String(), "after 20 rounds: [100 79 59 ") {
		t.Fatalf("%v\n%s", err, out.String())
	}
}

// TestInterrupted: an interrupted run prints no result, and reports the reason once.
func TestInterrupted(t *testing.T) {
	var out strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := run(ctx, &out, zktest.Start(t).Addrs())
	if !errors.Is(err, context.Canceled) || strings.Count(err.Error(), "canceled") != 1 || out.Len() > 0 {
		t.Errorf("%v\n%s", err, out.String())
	}
}
