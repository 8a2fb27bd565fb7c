package main

import (
	"context"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/demo"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := demo.On(t.Context(), "", func(ctx context.Context, servers []string) error { return run(ctx, &out, servers, 20) }); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		"20 jobs are put", "a worker crashes with job 0", "job 0, attempt 2: <nil>", "job 7, attempt 3: cannot be done", "job 19, attempt 1", "; 0 left", "dead: job 7",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
