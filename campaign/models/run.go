package models

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkactors/zkactors/internal/peers/process"
)

const module = "github.com/zkactors/zkactors/"

// An Outcome says what has become of a run.
type Outcome string

// The outcomes of a run.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "FAILED"
	Stopped Outcome = "stopped" // by the context
	Skipped Outcome = "skipped" // by the test, for want of something
)

// A Run is what came of a test.
type Run struct {
	Test
	Seed      uint64
	Outcome   Outcome
	States    int // different worlds, or states of a machine
	Schedules int // random ones
	Mutants   []Found
	Processor time.Duration // of the tests and the processes that they start
	Output    []string
}

// A Found is a planted mutant, and how much was gone through until the model found it.
type Found struct {
	Mutant string
	After  int
	Of     string // walks, schedules or states
}

// A Runner compiles tests such that they note the rows of machines that they reach, and runs them
// on one core.
type Runner struct {
	root, dir string
	programs  map[string]string // by package
	profiles  int
	models    coverage
	tests     coverage // of single rows
}

// Open returns a Runner for the repository.
func Open(root string) (*Runner, error) {
	dir, err := os.MkdirTemp("", "zkactors-models-")
	if err != nil {
		return nil, err
	}
	return &Runner{root: root, dir: dir, programs: map[string]string{}, models: coverage{}, tests: coverage{}}, nil
}

// Close removes the programs.
func (r *Runner) Close() error { return os.RemoveAll(r.dir) }

// build compiles the tests of a package, once.
func (r *Runner) build(ctx context.Context, pkg string) (string, error) {
	if name, is := r.programs[pkg]; is {
		return name, nil
	}
	var covered []string
	for _, m := range machines() {
		covered = append(covered, module+m.pkg)
	}
	name := filepath.Join(r.dir, strings.ReplaceAll(pkg, "/", "+")+".test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-covermode=set", "-coverpkg="+strings.Join(covered, ","), "-o", name, "./"+pkg)
	cmd.Dir = r.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling the tests of %s: %w\n%s", pkg, err, out)
	}
	r.programs[pkg] = name
	return name, nil
}

// Run runs a test with a seed, until the context ends. An error means that it could not be run.
func (r *Runner) Run(ctx context.Context, t Test, seed uint64) (Run, error) {
	run := Run{Test: t, Seed: seed}
	program, err := r.build(ctx, t.Package)
	if ctx.Err() != nil {
		run.Outcome = Stopped
		return run, nil
	}
	if err != nil {
		return run, err
	}
	r.profiles++
	profile := filepath.Join(r.dir, strconv.Itoa(r.profiles)+".cover")
	args := append([]string{"-test.run=^(" + strings.Join(t.Names, "|") + ")$", "-test.v", "-test.timeout=0", "-test.coverprofile=" + profile}, t.Flags...)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = filepath.Join(r.root, t.Package)
	cmd.Env = append(os.Environ(), t.Env...)
	cmd.Env = append(cmd.Env, "GOMAXPROCS=1", "ZKACTORS_SEED="+strconv.FormatUint(seed, 10))
	p, err := process.Start(cmd)
	if err != nil {
		return run, err
	}
	defer context.AfterFunc(ctx, p.Kill)()
	for line := range p.Lines() {
		run.note(line)
	}
	err = p.Wait()
	run.Processor = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	_, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		run.Outcome = Stopped
		return run, nil
	case exited:
		run.Outcome, run.Output = Failed, append(run.Output, p.Complaints())
		return run, nil
	case err != nil:
		return run, err
	}
	if run.Outcome = Passed; run.skipped() {
		run.Outcome = Skipped
	}
	text, err := os.ReadFile(profile)
	if err == nil {
		reached := r.models
		if t.Rows {
			reached = r.tests
		}
		err = reached.add(bytes.NewReader(text))
	}
	return run, errors.Join(err, os.Remove(profile))
}

var (
	logged  = regexp.MustCompile(`^\s+\w+\.go:\d+: `)
	mutated = regexp.MustCompile(`mutant "(.+?)" is found in (\d+) (\w+)`)
	counted = regexp.MustCompile(`\b(\d+) (?:distinct )?(states|walks|schedules|runs)\b`)
)

// note reads a line of the output of tests.
func (r *Run) note(line string) {
	r.Output = append(r.Output, line)
	if !logged.MatchString(line) {
		return
	}
	if m := mutated.FindStringSubmatch(line); m != nil {
		n, _ := strconv.Atoi(m[2]) // they are digits
		r.Mutants = append(r.Mutants, Found{m[1], n, m[3]})
		return
	}
	for _, m := range counted.FindAllStringSubmatch(line, -1) {
		if n, _ := strconv.Atoi(m[1]); m[2] == "states" {
			r.States += n
		} else {
			r.Schedules += n
		}
	}
}

// skipped reports whether a test was skipped and none was gone through.
func (r *Run) skipped() bool {
	has := func(said string) bool {
		return slices.ContainsFunc(r.Output, func(line string) bool { return strings.HasPrefix(line, said) })
	}
	return has("--- SKIP") && !has("--- PASS")
}

// Command returns a command that does the run again, from the root.
func (r *Run) Command() string {
	words := append(slices.Clone(r.Env), fmt.Sprint("ZKACTORS_SEED=", r.Seed), "go test", "./"+r.Package, "-v -timeout 0", "-run '^("+strings.Join(r.Names, "|")+")$'")
	return strings.Join(append(words, r.Flags...), " ")
}
