package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/demo"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	var out strings.Builder
	err := demo.On(t.Context(), "", func(ctx context.Context, servers []string) error { return run(ctx, &out, servers) })
	if err != nil || !strings.HasPrefix(out.String(), "after 20 rounds: [100 79 59 ") {
		t.Fatalf("%v\n%s", err, out.String())
	}
}

// TestInterrupted: an interrupted run prints no result, and reports the reason once.
func TestInterrupted(t *testing.T) {
	var out strings.Builder
	err := demo.On(t.Context(), "", func(ctx context.Context, servers []string) error {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return run(ctx, &out, servers)
	})
	if !errors.Is(err, context.Canceled) || strings.Count(err.Error(), "canceled") != 1 || out.Len() > 0 {
		t.Errorf("%v\n%s", err, out.String())
	}
}
