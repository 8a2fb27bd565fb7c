package models

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/internal/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const root = "../.."

// TestTable: the tests of a night, and the files of machines, are there.
func TestTable(t *testing.T) {
	for _, test := range Tests() {
		files, err := filepath.Glob(filepath.Join(root, test.Package, "*_test.go"))
		check.Must(t, err)
		var text strings.Builder
		for _, name := range files {
			b, err := os.ReadFile(name)
			check.Must(t, err)
			text.Write(b)
		}
		for _, name := range test.Names {
			check.True(t, strings.Contains(text.String(), "\nfunc "+name+"("), "%s has no %s", test.Package, name)
		}
		for _, f := range test.Flags {
			name, _, _ := strings.Cut(strings.TrimPrefix(f, "-"), "=")
			is := strings.HasPrefix(name, "explore.") || strings.Contains(text.String(), `"`+name+`"`)
			check.True(t, is, "%s has no flag %s", test.Package, name)
		}
	}
	for _, m := range machines() {
		for _, name := range m.files {
			_, err := os.Stat(filepath.Join(root, m.pkg, name))
			check.OK(t, err)
		}
	}
}

// TestExplained: each explanation is of code that is there.
func TestExplained(t *testing.T) {
	all, err := Explained()
	check.Must(t, err)
	for _, u := range all {
		text, err := os.ReadFile(filepath.Join(root, u.File))
		check.Must(t, err)
		lines := strings.Split(string(text), "\n")
		is := slices.ContainsFunc(lines, func(line string) bool { return strings.TrimSpace(line) == u.Code })
		check.True(t, is, "%s has no line %q", u.File, u.Code)
	}
	for _, wrong := range []string{"", "file\n", unreachedHeader + "\na\tb\tc\t\n", unreachedHeader + "\na\tb\tc\n"} {
		_, err := parseUnreached(wrong)
		check.True(t, err != nil, "accepted: %q", wrong)
	}
}

// TestNote has lines that tests print, and the numbers that a night takes from them.
func TestNote(t *testing.T) {
	var r Run
	for _, line := range []string{
		"=== RUN   TestModel",
		"    model_test.go:7: 160 states, complete: false; 80 walks of 1234 steps",
		"    model_test.go:8: 25 states, 125 steps",
		"    models_test.go:9: 4 distinct states of 10, depth 3; all holds",
		"    machine_test.go:10: 300 schedules",
		`    mutants_test.go:11: mutant "no look, or one" is found in 12 walks: 3 states are wrong`,
		"5 states that no test has logged",
		"--- PASS: TestModel (0.1s)",
	} {
		r.note(line)
	}
	check.Equal(t, r.States, 189)
	check.Equal(t, r.Schedules, 380)
	check.EqualSlices(t, r.Mutants, []Found{{"no look, or one", 12, "walks"}})
	check.False(t, r.skipped(), "skipped")
	check.True(t, (&Run{Output: []string{"--- SKIP: TestModels (0.0s)"}}).skipped(), "not skipped")
}

const code = `package p

func (m machine) String() string {
	return "m"
}

func (m machine) Step(in input) machine {
	switch {
	case in == 1:
		m.one++
	case in == 2:
	}
	return m
}

func (m machine) ended() bool { return m.one > 0 }
`

// TestRows: statements for logs have no row, a profile adds to the one before, and a row that was
// not reached is explained or not.
func TestRows(t *testing.T) {
	dir := t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(dir, "p.go"), []byte(code), 0o600))
	c, tests := coverage{}, coverage{}
	for _, profile := range []string{
		"mode: set\n" + module + "p.go:3.34,5.2 1 0\n" + module + "p.go:7.41,8.9 1 1\n" + module + "p.go:9.15,10.10 1 0\n" +
			module + "p.go:11.15,11.15 0 0\n" + module + "p.go:13.2,13.10 1 0\n" + module + "p.go:16.31,16.50 1 0\n",
		"mode: set\n" + module + "p.go:7.41,8.9 1 0\n" + module + "p.go:9.15,10.10 1 1\n",
	} {
		check.Must(t, c.add(strings.NewReader(profile)))
	}
	check.True(t, c.add(strings.NewReader("p.go:1\n")) != nil, "a line that is none")
	check.Must(t, tests.add(strings.NewReader(module+"p.go:7.41,8.9 1 1\n"+module+"p.go:13.2,13.10 1 1\n")))
	rows, err := rows(dir, "p.go", c, tests)
	check.Must(t, err)
	check.EqualSlices(t, rows, []Row{
		{"p.go", "Step", 7, "func (m machine) Step(in input) machine {", ByModel},
		{"p.go", "Step", 9, "case in == 1:", ByModel},
		{"p.go", "Step", 11, "case in == 2:", Never},
		{"p.go", "Step", 13, "return m", ByTest},
	})
	explained := Unreached{"p.go", "Step", "case in == 2:", "nobody sends it"}
	other := Unreached{"p.go", "Step", "case in == 1:", "reached since"}
	missed, stale := Compare(rows, nil)
	check.Len(t, missed, 1)
	check.Len(t, stale, 0)
	missed, stale = Compare(rows, []Unreached{explained, other})
	check.Len(t, missed, 0)
	check.EqualSlices(t, stale, []Unreached{other})
}

// TestCommand: a run can be done again.
func TestCommand(t *testing.T) {
	r := Run{Test: Test{Package: "p", Names: []string{"TestA", "TestB"}, Flags: []string{"-p.seeds=3"}, Env: []string{"X=1"}}, Seed: 7}
	check.Equal(t, r.Command(), "X=1 ZKACTORS_SEED=7 go test ./p -v -timeout 0 -run '^(TestA|TestB)$' -p.seeds=3")
}
