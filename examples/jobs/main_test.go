package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/session/zktest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An output calls a function after it has printed a certain line.
type output struct {
	strings.Builder
	line   string
	called func()
}

func (o *output) Write(p []byte) (int, error) {
	if o.called != nil && strings.HasPrefix(string(p), o.line) {
		o.called()
	}
	return o.Builder.Write(p)
}

// servers starts a server. A session does not expire because the machine is slow.
func servers(t *testing.T) []string {
	t.Helper()
	return zktest.Start(t, zktest.Timeouts(time.Minute, time.Minute)).Addrs()
}

func contains(t *testing.T, out *output, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

func TestRun(t *testing.T) {
	var out output
	if err := run(t.Context(), &out, servers(t), 20); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	contains(t, &out, "20 jobs are put, of 20 in the queue", "a worker crashes with job 0", "job 0, attempt 1: <nil>",
		"job 7, attempt 3: the printer is away", "job 19, attempt 1", "; 0 left",
		"dead: job 7, after 3 attempts: the printer is away", "1 jobs are redriven", "job 7, attempt 1: <nil>; 0 left")
}

// TestInterrupted interrupts a run in the middle. The next run does the jobs that are left.
func TestInterrupted(t *testing.T) {
	var out, again output
	addrs := servers(t)
	ctx, interrupt := context.WithCancelCause(t.Context())
	defer interrupt(nil)
	enough := errors.New("enough")
	out.line, out.called = "job 3", func() { interrupt(enough) }
	if err := run(ctx, &out, addrs, 20); err == nil || err.Error() != enough.Error() {
		t.Errorf("interrupted: %v", err)
	}
	if err := run(t.Context(), &again, addrs, 1); err != nil {
		t.Fatalf("%v\n%s", err, again.String())
	}
	contains(t, &again, "1 jobs are put, of ", "job 19, attempt", "; 0 left", "dead: job 7", "job 7, attempt 1: <nil>; 0 left")
}

func TestNoJobs(t *testing.T) {
	var out output
	for _, n := range []int{0, -1} {
		err := run(t.Context(), &out, servers(t), n)
		if err == nil || !strings.HasPrefix(err.Error(), "-jobs: ") || out.Len() > 0 {
			t.Errorf("%d jobs: %v\n%s", n, err, out.String())
		}
	}
}
