package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// DefaultLimit is how long one test may take.
const DefaultLimit = 2 * time.Minute

// A Finder looks for faults in the code before their mends. It works in a git worktree of its own,
// so that the clone stays as it is.
type Finder struct {
	Clone string        // the root of the repository
	Limit time.Duration // of one command
	tree  string        // the worktree
	all   []Fault
	today map[string]run // the tests of a package in today's code, by their command
}

// OpenFinder returns a Finder for the repository around the working directory.
func OpenFinder(ctx context.Context, all []Fault, limit time.Duration) (*Finder, error) {
	root, err := git(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "zkactors-refind-")
	if err != nil {
		return nil, err
	}
	f := &Finder{Clone: strings.TrimSpace(root), Limit: limit, tree: filepath.Join(dir, "tree"), all: all, today: make(map[string]run)}
	if _, err := git(ctx, f.Clone, "worktree", "add", "--quiet", "--detach", f.tree, "HEAD"); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return f, nil
}

// Close removes the worktree, also if the context of the run has ended.
func (f *Finder) Close() error {
	_, err := git(context.Background(), f.Clone, "worktree", "remove", "--force", f.tree)
	return errors.Join(err, os.RemoveAll(filepath.Dir(f.tree)))
}

// Find runs the command of a fault without its mend, where it is to fail, and with it, where it
// is to pass. An error means that the try could not be made.
func (f *Finder) Find(ctx context.Context, fault Fault) (Try, error) {
	t := Try{ID: fault.ID, Date: time.Now().Format(time.DateOnly), Command: fault.Command}
	without, with := f.beforeMend, f.mended
	if f.isPatched(fault) {
		without, with = f.patched, f.unpatched
	}
	code, err := without(ctx, fault)
	if err != nil {
		return t, err
	}
	t.Code = code
	r, err := f.run(ctx, fault.Command)
	if err != nil {
		return t, err
	}
	t.Result, t.Seconds, t.Found = r.result(), r.seconds, r.found
	if t.Result != Found && t.Result != Hung {
		return t, nil
	}
	if r, err = with(ctx, fault); err != nil {
		return t, err
	}
	if !r.passed || r.nothing {
		t.Result, t.Found = FailsMended, r.found
	}
	return t, nil
}

func (f *Finder) patch(fault Fault) string {
	return filepath.Join(f.Clone, "campaign", "record", fault.ID+".patch")
}

func (f *Finder) isPatched(fault Fault) bool {
	_, err := os.Stat(f.patch(fault))
	return err == nil
}

// patched is the newest commit without the mend.
func (f *Finder) patched(ctx context.Context, fault Fault) (string, error) {
	code, err := f.newest(ctx)
	if err != nil {
		return "", err
	}
	_, err = git(ctx, f.tree, "apply", f.patch(fault))
	return code + " + " + filepath.Base(f.patch(fault)), err
}

// unpatched runs the tests of a package that find faults by patches: all together, and once, as
// they are to pass.
func (f *Finder) unpatched(ctx context.Context, fault Fault) (run, error) {
	command := fault.Command
	if before, _, is := cutTests(command); is {
		var tests []string
		for _, other := range f.all {
			if b, t, is := cutTests(other.Command); is && b == before && f.isPatched(other) {
				tests = append(tests, t)
			}
		}
		command = before + "^(" + strings.Join(tests, "|") + ")$"
	}
	if r, is := f.today[command]; is {
		return r, nil
	}
	if _, err := f.newest(ctx); err != nil {
		return run{}, err
	}
	r, err := f.run(ctx, command)
	if err == nil {
		f.today[command] = r
	}
	return r, err
}

// cutTests divides a command into what comes before the names of tests, and these.
func cutTests(command string) (before, tests string, is bool) {
	before, tests, is = strings.Cut(command, "'^")
	tests, found := strings.CutSuffix(tests, "$'")
	return before, strings.Trim(tests, "()"), is && found
}

// newest checks out the newest commit, and returns the one that has last changed the library.
func (f *Finder) newest(ctx context.Context) (string, error) {
	code, err := git(ctx, f.Clone, "log", "-1", "--abbrev=8", "--format=%h", "--", ".", ":!campaign")
	if err != nil {
		return "", err
	}
	head, err := git(ctx, f.Clone, "rev-parse", "HEAD") // in the worktree it is another
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(code), f.checkout(ctx, strings.TrimSpace(head))
}

// beforeMend is the parent of the mend, with the tests of the mend and what only tests use.
func (f *Finder) beforeMend(ctx context.Context, fault Fault) (string, error) {
	code := fault.Mend + "^"
	if err := f.checkout(ctx, code); err != nil {
		return "", err
	}
	changed, err := git(ctx, f.tree, "diff", "--no-renames", "--name-status", code, fault.Mend)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(changed) {
		status, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if !forTests.MatchString(name) {
			continue
		}
		if status == "D" {
			err = os.Remove(filepath.Join(f.tree, name))
		} else {
			_, err = git(ctx, f.tree, "checkout", "--quiet", fault.Mend, "--", name)
		}
		if err != nil {
			return "", err
		}
	}
	return code, nil
}

// mended runs the command in the code with the mend.
func (f *Finder) mended(ctx context.Context, fault Fault) (run, error) {
	if err := f.checkout(ctx, fault.Mend); err != nil {
		return run{}, err
	}
	return f.run(ctx, fault.Command)
}

// forTests matches the files that are taken from the mend: they are not what it mended.
var forTests = regexp.MustCompile(`_test\.go$|/testdata/|^internal/(bubble|check|hasten|peers|debian|maven|pypi)/|` +
	`^session/zktest/|^primitives/internal/(conformance|contention|exploration|linemodel|outage|zkmodel)/`)

func (f *Finder) checkout(ctx context.Context, code string) error {
	if _, err := git(ctx, f.tree, "checkout", "--quiet", "--force", "--detach", code); err != nil {
		return err
	}
	_, err := git(ctx, f.tree, "clean", "-qfdx")
	return err
}

// A run is what a command in the worktree has printed.
type run struct {
	passed  bool
	nothing bool // it had no test to run
	unbuilt bool
	hung    bool
	seconds float64
	found   string // the first assertion that failed, or a panic
}

func (r run) result() Result {
	switch {
	case r.unbuilt:
		return Unbuilt
	case r.nothing:
		return Nothing
	case r.passed:
		return Missed
	case r.hung:
		return Hung
	}
	return Found
}

// run runs a command. Without the workspace it needs no module beside the root, which was another
// in the past.
func (f *Finder) run(ctx context.Context, command string) (run, error) {
	// The tests themselves end first, and say where they hang.
	bounded, cancel := context.WithTimeout(ctx, f.Limit+10*time.Minute)
	defer cancel()
	args := strings.Fields(strings.ReplaceAll(command, "'", ""))
	if len(args) > 1 && args[0] == "go" && args[1] == "test" {
		args = append([]string{"go", "test", "-timeout", f.Limit.String(), "-vet=off"}, args[2:]...)
	}
	cmd := exec.CommandContext(bounded, args[0], args[1:]...)
	cmd.Dir = f.tree
	// Without the directory in them, packages are compiled once for all worktrees.
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath -buildvcs=false")
	if !strings.Contains(command, "./campaign") {
		cmd.Env = append(cmd.Env, "GOWORK=off")
	}
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		return run{}, fmt.Errorf("%s: %w", command, err)
	}
	if ctx.Err() != nil {
		return run{}, fmt.Errorf("%s: %w", command, ctx.Err())
	}
	r := read(out, err == nil)
	r.hung = r.hung || bounded.Err() != nil
	if r.seconds == 0 {
		r.seconds = time.Since(begin).Seconds()
	}
	return r, nil
}

var (
	ended    = regexp.MustCompile(`(?m)^(?:ok|FAIL)\s+\S+\s+([\d.]+)s`)
	asserted = regexp.MustCompile(`(?m)^\s+\w+_test\.go:\d+: .*`)
	panicked = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*|WARNING: DATA RACE|.*found unexpected goroutines.*)`)
	unbuilt  = regexp.MustCompile(`(?m)\[(build|setup) failed\]`)
)

// read reads the output of go test, or of a campaign.
func read(out []byte, passed bool) run {
	r := run{
		passed:  passed,
		nothing: bytes.Contains(out, []byte("[no tests to run]")) || bytes.Contains(out, []byte("no packages to test")),
		unbuilt: unbuilt.Match(out),
		hung:    bytes.Contains(out, []byte("panic: test timed out")),
	}
	if m := ended.FindSubmatch(out); m != nil {
		r.seconds, _ = strconv.ParseFloat(string(m[1]), 64)
	}
	if passed {
		return r
	}
	// A race or a panic comes before what it makes of the test.
	for _, found := range [][]byte{panicked.Find(out), asserted.Find(out), out} {
		if len(found) > 0 {
			r.found = shorten(string(found))
			break
		}
	}
	return r
}

// shorten makes a cell of a table.
func shorten(s string) string {
	const most = 160
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

// Note enters tries into tries.tsv.
func (f *Finder) Note(all []Fault, tried []Try) error {
	name := filepath.Join(f.Clone, "campaign", "record", "tries.tsv")
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	old, err := parseTries(string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(formatTries(merge(all, old, tried))), 0o644)
}

// git runs a command of git in dir, and returns its output.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(exit.Stderr))
	}
	return string(out), err
}
