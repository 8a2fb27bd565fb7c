package mutation

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
)

const code = `package p

const most = 2 + 1

// Room reports whether there is room for one more of these.
func Room(taken []bool, all bool) (n int, is bool) {
	for _, t := range taken {
		if t {
			continue
		}
		n++
	}
	if all && n != len(taken) || !all && n == 0 {
		return 0, false
	}
	calls := 0
	one := func() int { calls++; return 1 }
	if one()-1 != 0 || calls != 1 {
		return
	}
	log := 0
	log = n
	_ = log
	return n + 1, n <= most
}
`

const other = `package p

var size [1]int

type flag bool

var up = flag(size[0] == 0) && flag(true)

func never() int { panic("never") }
`

const tests = `package p

import "testing"

func TestRoom(t *testing.T) {
	for _, test := range []struct {
		taken []bool
		all   bool
		n     int
		is    bool
	}{
		{[]bool{true, true}, false, 0, false},
		{[]bool{true, false}, false, 2, true},
		{[]bool{true, false}, true, 0, false},
		{[]bool{false, false}, true, 3, true},
		{make([]bool, 4), true, 5, false},
	} {
		if n, is := Room(test.taken, test.all); n != test.n || is != test.is {
			t.Errorf("%v: %d, %v", test, n, is)
		}
	}
}
`

// put writes files, and returns their directory.
func put(t *testing.T, files map[string]string) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	check.Must(t, err)
	for name, text := range files {
		check.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// TestSurvivors: of all mutants of a small package those survive that change nothing that its
// tests see, or that they do not try. What does not compile with its mutants is left out.
func TestSurvivors(t *testing.T) {
	t.Setenv("GOWORK", "off")
	root := put(t, map[string]string{
		"go.mod": "module m\n\ngo 1.26\n", "p/p.go": code, "p/p_test.go": tests, "p/q.go": other,
	})
	trial, err := Prepare(t.Context(), root, Target{Package: "p"})
	check.Must(t, err)
	defer func() { check.OK(t, trial.Close(), "Close") }()
	all := make([]int, len(trial.Mutants))
	for i := range all {
		all[i] = i
	}
	check.AtLeast(t, len(all), 15, "mutants")
	survivors, err := trial.Survive(t.Context(), all, 2)
	check.Must(t, err)
	var got []string
	for _, i := range survivors {
		got = append(got, trial.Mutants[i].String())
	}
	want := []string{
		"p/p.go:18: || → &&: one()-1 != 0 || calls != 1",
		"p/p.go:22: left out: log = n",
		"p/p.go:23: left out: _ = log",
		"p/p.go:24: <= → <: n <= most",
	}
	got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "p/q.go") })
	check.EqualSlices(t, got, want, "survivors")
}

// TestQuickTests: those that take no time are told from the others, and from their parts.
func TestQuickTests(t *testing.T) {
	out := "=== RUN   TestA\n--- PASS: TestA (0.05s)\n    --- PASS: TestA/part (0.00s)\n--- PASS: TestB (0.06s)\n" +
		"--- SKIP: TestC (0.00s)\n--- PASS: ExampleD (0.02s)\nPASS\n"
	names, took := quickTests([]byte(out))
	check.EqualSlices(t, names, []string{"TestA", "ExampleD"}, "tests")
	check.Equal(t, took, 70*time.Millisecond, "together")
}

// TestJoin: a survivor keeps its explanation when lines have come before it; what is found now
// goes; what was not tried stays.
func TestJoin(t *testing.T) {
	at := func(line int, code string) Mutant { return Mutant{"p.go", line, "left out", code} }
	known := []Survivor{{at(3, "a++"), "the same"}, {at(5, "b++"), "found now"}, {at(9, "c++"), "not tried"}}
	tried := []Mutant{at(4, "a++"), at(6, "b++"), at(7, "d++"), at(8, "a++")}
	all := Join(known, tried, []Mutant{tried[0], tried[2], tried[3]})
	name := filepath.Join(t.TempDir(), "survivors.tsv")
	check.Must(t, WriteSurvivors(name, all))
	read, err := ReadSurvivors(name)
	check.Must(t, err)
	check.EqualSlices(t, read, []Survivor{{at(4, "a++"), "the same"}, {at(7, "d++"), ""}, {at(8, "a++"), ""}, {at(9, "c++"), "not tried"}}, "survivors")
}

// TestTargets: each package, and each whose tests are tried, is there. The list of survivors is of
// these, and each line is as it stands in the code.
func TestTargets(t *testing.T) {
	for _, target := range Targets() {
		for _, p := range append(target.Tests, target.Package) {
			_, err := os.Stat(filepath.Join("../..", p))
			check.OK(t, err, p)
		}
	}
	all, err := ReadSurvivors("survivors.tsv")
	check.Must(t, err)
	for _, s := range all {
		text, err := os.ReadFile(filepath.Join("../..", s.File))
		check.Must(t, err)
		check.True(t, strings.Contains(string(text), s.Code), "%v: the code is another: run mutate --write", s.Mutant)
		check.True(t, s.Why != "", "%v: not explained", s.Mutant)
	}
}
