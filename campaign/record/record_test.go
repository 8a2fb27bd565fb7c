package record

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// TestRecord: every line is of a commit of this repository, of its day, and names a test that is
// there, today or in the mend.
func TestRecord(t *testing.T) {
	all, err := Faults()
	check.Must(t, err)
	check.True(t, len(all) >= 120, "%d faults", len(all))
	for _, f := range all {
		check.True(t, regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(f.ID), "id %q", f.ID)
		check.True(t, strings.HasSuffix(f.Said, ".") && len(f.Said) > 20, "%s is not told in a sentence: %q", f.ID, f.Said)
	}
	if out, err := git(t.Context(), ".", "rev-parse", "--is-shallow-repository"); err != nil || out != "false\n" {
		t.Skip("the history of the repository is not there")
	}
	if _, err := git(t.Context(), ".", "cat-file", "-e", all[0].Mend+"^{commit}"); err != nil {
		t.Skip("this is another history of the repository")
	}
	for _, f := range all {
		date, err := git(t.Context(), ".", "log", "-1", "--format=%ad", "--date=short", f.Mend)
		check.OK(t, err, f.ID)
		check.Equal(t, strings.TrimSpace(date), f.Date, f.ID)
		code := f.Mend
		if _, err := os.Stat(f.ID + ".patch"); err == nil {
			code = "HEAD"
		}
		m := regexp.MustCompile(`\./(\S+) -run '\^\(?([\w|]+)\)?\$'$`).FindStringSubmatch(f.Command)
		if m == nil {
			check.True(t, f.Command == "", "%s: the command %q runs no tests by name", f.ID, f.Command)
			continue
		}
		for test := range strings.SplitSeq(m[2], "|") {
			_, err := git(t.Context(), "../..", "grep", "-q", "func "+test+"(", code, "--", m[1]+"/*_test.go")
			check.OK(t, err, f.ID+": "+test)
		}
	}
}

// TestPatches: each belongs to a fault with a command, and applies to today's code.
func TestPatches(t *testing.T) {
	all, err := Faults()
	check.Must(t, err)
	patches, err := filepath.Glob("*.patch")
	check.Must(t, err)
	for _, p := range patches {
		id := strings.TrimSuffix(p, ".patch")
		check.True(t, slices.ContainsFunc(all, func(f Fault) bool { return f.ID == id && f.Command != "" }), "%s is of no fault", p)
		_, err := git(t.Context(), "../..", "apply", "--check", "campaign/record/"+p)
		check.OK(t, err, p)
	}
}

// TestTries: what the command has written can be read, and is written the same again.
func TestTries(t *testing.T) {
	all, err := Faults()
	check.Must(t, err)
	text, err := os.ReadFile("tries.tsv")
	check.Must(t, err)
	tries, err := parseTries(string(text))
	check.Must(t, err)
	check.Equal(t, formatTries(merge(all, tries, nil)), string(text), "tries.tsv")
}

// TestMerge: a new try replaces the one before, and tries are in the order of the record.
func TestMerge(t *testing.T) {
	all := []Fault{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	merged := merge(all, []Try{{ID: "a", Result: Missed}, {ID: "gone"}}, []Try{{ID: "c"}, {ID: "a", Result: Found}})
	check.True(t, slices.Equal(merged, []Try{{ID: "a", Result: Found}, {ID: "c"}}), "%v", merged)
}

// TestRead has what go test prints, and what is made of it.
func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		out    string
		passed bool
		want   Result
		found  string
	}{
		"passes":   {"ok  \tp\t0.25s\n", true, Missed, ""},
		"fails":    {"--- FAIL: TestX (0.1s)\n    x_test.go:7: 1, want 2\nFAIL\nFAIL\tp\t0.25s\n", false, Found, "x_test.go:7: 1, want 2"},
		"panics":   {"panic: no room\n\ngoroutine 1\n    x_test.go:7: before\nFAIL\tp\t0.25s\n", false, Found, "panic: no room"},
		"leaks":    {"PASS\ngoleak: Errors on successful test run: found unexpected goroutines:\nFAIL\tp\t0.25s\n", false, Found, "goleak: Errors on successful test run: found unexpected goroutines:"},
		"compiler": {"# p\np/x_test.go:3:2: undefined: y\nFAIL\tp [build failed]\n", false, Unbuilt, "# p p/x_test.go:3:2: undefined: y FAIL p [build failed]"},
		"nothing":  {"ok  \tp\t0.25s [no tests to run]\n", true, Nothing, ""},
		"hangs":    {"panic: test timed out after 1s\nFAIL\tp\t1.25s\n", false, Hung, "panic: test timed out after 1s"},
	} {
		r := read([]byte(test.out), test.passed)
		check.Equal(t, r.result(), test.want, name)
		check.Equal(t, r.found, test.found, name)
		if test.want == Found {
			check.Equal(t, r.seconds, 0.25, name)
		}
	}
}

// TestFind makes a repository with a mend, and finds the fault in the code before it: by its
// parent, and by a patch of today's code.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	do := func(args ...string) string {
		out, err := git(t.Context(), dir, append([]string{"-c", "user.name=t", "-c", "user.email=t@t"}, args...)...)
		check.Must(t, err)
		return strings.TrimSpace(out)
	}
	put := func(name, text string) {
		check.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	const mended, faulty = "package p\n\nfunc Two() int { return 2 }\n", "package p\n\nfunc Two() int { return 3 }\n"
	do("init", "-q")
	put("go.mod", "module p\n\ngo 1.26\n")
	put("p.go", faulty)
	do("add", ".")
	do("commit", "-qm", "faulty")
	put("p.go", mended)
	put("p_test.go", "package p\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) {\n\tif Two() != 2 {\n\t\tt.Error(Two())\n\t}\n}\n")
	do("add", ".")
	do("commit", "-qm", "mended")
	mend := do("rev-parse", "--short=8", "HEAD")
	put("campaign/record/by-patch.patch", "--- a/p.go\n+++ b/p.go\n@@ -1,3 +1,3 @@\n package p\n \n-func Two() int { return 2 }\n+func Two() int { return 3 }\n")
	const command = "go test . -run '^TestTwo$'"
	t.Chdir(dir)
	f, err := OpenFinder(t.Context(), []Fault{{ID: "by-patch", Command: command}}, DefaultLimit)
	check.Must(t, err)
	defer func() { check.OK(t, f.Close(), "Close") }()
	for _, test := range []struct {
		fault Fault
		code  string
		want  Result
	}{
		{Fault{ID: "by-parent", Mend: mend, Command: command}, mend + "^", Found},
		{Fault{ID: "by-patch", Mend: mend, Command: command}, mend + " + by-patch.patch", Found},
		{Fault{ID: "no-test", Mend: mend, Command: "go test . -run '^TestThree$'"}, mend + "^", Nothing},
		{Fault{ID: "other-command", Mend: mend, Command: "go vet ."}, mend + "^", Missed},
	} {
		got, err := f.Find(t.Context(), test.fault)
		check.Must(t, err)
		check.Equal(t, got.Result, test.want, test.fault.ID)
		check.Equal(t, got.Code, test.code, test.fault.ID)
		if test.want == Found {
			check.Equal(t, got.Found, "p_test.go:7: 3", test.fault.ID)
		}
	}
}
