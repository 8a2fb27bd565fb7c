package patience

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
)

// A bench is a module outside of the workspace, and options that run its tests.
func bench(t *testing.T, phases ...Phase) Options {
	t.Helper()
	root := t.TempDir()
	check.Must(t, os.CopyFS(root, os.DirFS("testdata/module")))
	return Options{
		Root: root, Commit: "c0ffee", Phases: phases, Times: 1, Processes: 2, Loops: 2, Loop: []string{check.Have(os.Executable())(t)},
		Limit: 5 * time.Minute, Rhythm: Rhythm{Stop: 100 * time.Millisecond, First: 5 * time.Millisecond, Later: 5 * time.Millisecond, Most: 20 * time.Millisecond},
		Record: filepath.Join(t.TempDir(), "record.jsonl"), Say: t.Logf,
	}
}

func printed(t *testing.T, r Report) string {
	t.Helper()
	var out strings.Builder
	check.Must(t, r.Print(&out))
	return out.String()
}

// TestStops finds the test that cannot bear to be stopped, and no other.
func TestStops(t *testing.T) {
	o := bench(t, Phase{Name: "stops", Stops: true, Plain: 3})
	r := check.Have(Play(check.Patient(t), o))(t)
	text := printed(t, r)
	check.Equal(t, r.Failed(), 3, text)
	check.Len(t, r.rows, 1, text)
	check.True(t, strings.Contains(text, "hasty TestRuns: stops: 3 of 3 runs failed"), "%s", text)
	check.True(t, strings.Contains(text, "go run ./campaign patience --phase stops --package hasty --test '^TestRuns$'"), "%s", text)
	check.Equal(t, r.sums[0].runs, 6, text)
	kept := check.Have(filepath.Glob(filepath.Join(r.rows[0].outputs, "*")))(t)
	check.Len(t, kept, 3)
	for _, name := range kept {
		output := string(check.Have(os.ReadFile(name))(t))
		check.True(t, strings.Contains(output, "too slow"), "%s", output)
	}
}

// TestProcessors finds the test that needs two processors, while busy loops run.
func TestProcessors(t *testing.T) {
	o := bench(t, Phase{Name: "one", Loops: true, GOMAXPROCS: 1, Plain: 1}, Phase{Name: "eight", GOMAXPROCS: 8, Plain: 1})
	o.Tests = "Processors|Counts"
	r := check.Have(Play(check.Patient(t), o))(t)
	text := printed(t, r)
	check.Equal(t, r.Failed(), 1, text)
	check.True(t, strings.Contains(text, "hasty TestProcessors: one: 1 of 1 runs failed\n    TestProcessors/many\n"), "%s", text)
}

// TestGoesOn makes only those runs that no earlier call has made with the same tests and the same
// testdata.
func TestGoesOn(t *testing.T) {
	o := bench(t, Phase{Name: "eight", GOMAXPROCS: 8, Plain: 2})
	o.Tests = "Processors|Counts"
	lines := func() int { return strings.Count(string(check.Have(os.ReadFile(o.Record))(t)), "\n") }
	play := func() Report { return check.Have(Play(check.Patient(t), o))(t) }

	o.Packages = []string{"hasty"}
	play()
	check.Equal(t, lines(), 2, "one package")
	o.Packages = nil
	r := play()
	check.Equal(t, lines(), 4, "the other")
	check.Equal(t, r.sums[0].runs, 4)
	check.Must(t, os.WriteFile(filepath.Join(o.Root, "patient/testdata/input"), nil, 0o644))
	o.Times, o.Commit = 2, "decade"
	play()
	check.Equal(t, lines(), 10, "twice as many, and all with another input")

	ctx, cancel := context.WithCancel(t.Context())
	o.Times, o.Say = 3, func(string, ...any) { cancel() } // after the first package
	r = check.Have(Play(ctx, o))(t)
	check.Equal(t, lines(), 12, "canceled")
	check.EqualSlices(t, r.Unseen, []string{"patient"})
}

func TestLoops(t *testing.T) {
	all, err := startLoops([]string{check.Have(os.Executable())(t)}, 2)
	all.end()
	check.Must(t, err)
	check.Len(t, all, 2)
	for _, l := range all {
		check.True(t, l.ProcessState.Success(), "%v", l.ProcessState)
	}
}

func TestOutput(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		failed string
		hung   bool
	}{
		"a test":               {"^=== RUN   TestA\n^--- FAIL: TestA (0.00s)\n^=== RUN   TestB\n^--- PASS: TestB (0.00s)\nFAIL\n", "TestA", false},
		"parts of a test":      {"^--- FAIL: TestA/b (0.00s)\n^--- FAIL: TestA/c (0.00s)\n^--- FAIL: TestA (0.00s)\n^--- FAIL: TestAB (0.00s)\n", "TestA/b TestA/c TestAB", false},
		"after a print":        {"dots...^--- FAIL: TestA (0.00s)\n", "TestA", false},
		"what a test prints":   {"^=== RUN   TestA\n--- FAIL: TestX (0.00s)\n^--- FAIL: TestA (0.00s)\n", "TestA", false},
		"a panic of the test":  {"^=== RUN   TestA\n^--- FAIL: TestA (0.00s)\npanic: no [recovered]\n", "TestA", false},
		"a panic of another":   {"^=== RUN   TestA\n^--- PASS: TestA (0.00s)\n^=== RUN   TestB\n^=== RUN   TestB/c\npanic: no\n\ngoroutine 7 [running]:\n", "TestB/c", false},
		"a panic, in parallel": {"^=== RUN   TestA\n^=== PAUSE TestA\n^=== RUN   TestB\n^=== PAUSE TestB\n^=== CONT  TestB\n^=== CONT  TestA\n^--- PASS: TestA (0.00s)\npanic: no\n", "TestB", false},
		"a timeout":            {"^=== RUN   TestA\npanic: test timed out after 10m0s\n\trunning tests:\n\t\tTestA (9m)\n", "TestA", true},
		"goleak":               {"^=== RUN   TestA\n^--- PASS: TestA (0.00s)\nPASS\ngoleak: Errors on successful test run: found unexpected goroutines:\n", "", false},
	} {
		o := parse(strings.ReplaceAll(c.text, "^", mark))
		check.Equal(t, strings.Join(o.failed, " "), c.failed, name)
		check.Equal(t, o.hung, c.hung, name)
		check.Equal(t, o.text, strings.ReplaceAll(c.text, "^", ""), name)
	}
}

func TestChoose(t *testing.T) {
	check.Len(t, check.Have(Choose(nil))(t), 8)
	check.Len(t, check.Have(Choose([]string{"real", "load"}))(t), 5)
	check.Len(t, check.Have(Choose([]string{"real/stops"}))(t), 1)
	_, err := Choose([]string{"loud"})
	check.True(t, err != nil, "no such phase")
}
