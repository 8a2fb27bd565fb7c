package main

import (
	"strings"
	"testing"

	"github.com/zkactors/zkactors/session/zktest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, zktest.Start(t).Addrs()); err != nil {
		t.Fatal(err)
	}
	story := out.String()
	for _, want := range []string{"no limits yet", "serving 10 ", "serving 20 ", "still serving 20: ", "serving 40 "} {
		_, rest, found := strings.Cut(story, want)
		if !found {
			t.Fatalf("%q is missing, or too early, in\n%s", want, out.String())
		}
		story = rest
	}
}
