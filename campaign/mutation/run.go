package mutation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// skipped are tests that other processes answer, or that measure: a mutant would cost minutes.
const skipped = "Real|TestCost|Killed|Kills"

// A Trial has the tests of a target, compiled with all of its mutants.
type Trial struct {
	Mutants []Mutant
	target  Target
	root    string
	dir     string // of the programs
	overlay string
	said    string // by the compiler, last
	tests   []program
}

// A program is the tests of a package, or some of them.
type program struct {
	dir, name string
	only      string // a pattern of those that it runs; all if it is empty
	skip      string // and of those that it does not run
	limit     time.Duration
}

// Prepare compiles a target's own tests with its mutants, and sees that they pass without one.
func Prepare(ctx context.Context, root string, target Target) (_ *Trial, err error) {
	t := &Trial{target: target, root: root}
	if t.dir, err = os.MkdirTemp("", "zkactors-mutation-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	sources, name, err := read(root, target.Package)
	if err != nil {
		return nil, err
	}
	// What does not compile as it is written here has no mutant.
	if err := t.write(sources, target.Package, name); err != nil {
		return nil, err
	}
	for {
		refused, err := t.compile(ctx, target.Package)
		if err != nil {
			return nil, err
		}
		if len(refused) == 0 {
			return t, t.pass(ctx)
		}
		before := len(t.Mutants)
		for _, s := range sources {
			for _, line := range refused[s.name] {
				s.without(line)
			}
		}
		if err := t.write(sources, target.Package, name); err != nil {
			return nil, err
		}
		if len(t.Mutants) == before {
			return nil, fmt.Errorf("the package does not compile with its mutants: %v:\n%s", refused, t.said)
		}
	}
}

// Widen goes on with the tests of the packages that rest on the target, which take longer.
func (t *Trial) Widen(ctx context.Context) error {
	t.tests = nil
	for _, p := range t.target.Tests {
		if refused, err := t.compile(ctx, p); err != nil {
			return err
		} else if len(refused) > 0 {
			return fmt.Errorf("the tests of %s do not compile: %v", p, refused)
		}
	}
	return t.pass(ctx)
}

// pass sees that the tests pass without a mutant, and bounds them by the time that they take.
// Tests that take no time go first: most mutants are found by one of them.
func (t *Trial) pass(ctx context.Context) error {
	var quick, rest []program
	for _, p := range t.tests {
		begin := time.Now()
		p.limit = 10 * time.Minute
		found, out, err := t.run(ctx, p, 0)
		if err != nil {
			return err
		} else if found {
			return fmt.Errorf("the tests of %s fail without a mutant:\n%s", p.dir, out)
		}
		p.limit = limit(time.Since(begin))
		if names, took := quickTests(out); len(names) > 0 {
			first := p
			first.only, first.limit = "^("+strings.Join(names, "|")+")$", limit(took)
			quick = append(quick, first)
			p.skip += "|" + first.only
		}
		rest = append(rest, p)
	}
	t.tests = append(quick, rest...)
	return nil
}

var passed = regexp.MustCompile(`(?m)^--- PASS: (\w+) \((\d+\.\d+s)\)$`)

// quickTests returns the tests of an output that took at most a twentieth of a second, and how
// long they took together.
func quickTests(out []byte) (names []string, took time.Duration) {
	for _, m := range passed.FindAllSubmatch(out, -1) {
		if d, err := time.ParseDuration(string(m[2])); err == nil && d <= time.Second/20 {
			names, took = append(names, string(m[1])), took+d
		}
	}
	return names, took
}

// limit returns the limit of tests that take so long. Others may keep the machine busy; a mutant
// that makes tests wait is found in any case.
func limit(took time.Duration) time.Duration { return 4*took + 10*time.Second }

// Close removes the programs.
func (t *Trial) Close() error { return os.RemoveAll(t.dir) }

// read returns the files of a package that are compiled here, and its name.
func read(root, pkg string) ([]*source, string, error) {
	found, err := build.ImportDir(filepath.Join(root, pkg), 0)
	if err != nil {
		return nil, "", err
	}
	var sources []*source
	for _, name := range found.GoFiles {
		text, err := os.ReadFile(filepath.Join(root, pkg, name))
		if err != nil {
			return nil, "", err
		}
		s, err := parse(pkg+"/"+name, string(text))
		if err != nil {
			return nil, "", err
		}
		sources = append(sources, s)
	}
	return sources, found.Name, nil
}

// write writes the files with their mutants, and an overlay that puts them in the place of those
// of the repository.
func (t *Trial) write(sources []*source, pkg, name string) error {
	replaced := map[string]string{}
	put := func(at, text string) error {
		file := filepath.Join(t.dir, strings.ReplaceAll(at, "/", "+"))
		replaced[filepath.Join(t.root, at)] = file
		return os.WriteFile(file, []byte(text), 0o600)
	}
	t.Mutants = nil
	for _, s := range sources {
		text, mutants := s.write(len(t.Mutants) + 1)
		t.Mutants = append(t.Mutants, mutants...)
		if err := put(s.name, text); err != nil {
			return err
		}
	}
	if err := put(pkg+"/zz_mutants.go", fmt.Sprintf(helpers, name)); err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return err
	}
	t.overlay = filepath.Join(t.dir, "overlay.json")
	return os.WriteFile(t.overlay, text, 0o600)
}

var compileError = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):`)

// compile compiles the tests of a package. It returns the lines that the compiler refuses.
func (t *Trial) compile(ctx context.Context, pkg string) (map[string][]int, error) {
	p := program{
		dir:  filepath.Join(t.root, pkg),
		name: filepath.Join(t.dir, strings.ReplaceAll(pkg, "/", "+")+".test"),
		skip: skipped,
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-gcflags=-e", "-overlay", t.overlay, "-o", p.name, "./"+pkg)
	cmd.Dir = t.root
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.tests = append(t.tests, p)
		return nil, nil
	}
	t.said = string(out)
	refused := map[string][]int{}
	for _, m := range compileError.FindAllSubmatch(out, -1) {
		line, _ := strconv.Atoi(string(m[2]))
		name := strings.ReplaceAll(filepath.Base(string(m[1])), "+", "/") // see put in write
		refused[name] = append(refused[name], line)
	}
	if len(refused) == 0 || ctx.Err() != nil {
		return nil, fmt.Errorf("compiling the tests of %s: %w\n%s", pkg, err, out)
	}
	return refused, nil
}

// Survive returns those of the mutants, by their indexes, that no test finds. It tries n at a
// time.
func (t *Trial) Survive(ctx context.Context, indexes []int, n int) ([]int, error) {
	var mu sync.Mutex
	var alive []int
	var failed error
	turns := make(chan int)
	var workers sync.WaitGroup
	for range n {
		workers.Go(func() {
			for i := range turns {
				found, err := t.try(ctx, i+1)
				mu.Lock()
				if failed = errors.Join(failed, err); err == nil && !found {
					alive = append(alive, i)
				}
				mu.Unlock()
			}
		})
	}
	for _, i := range indexes {
		if ctx.Err() != nil {
			break
		}
		turns <- i
	}
	close(turns)
	workers.Wait()
	slices.Sort(alive)
	return alive, errors.Join(failed, ctx.Err())
}

func (t *Trial) try(ctx context.Context, number int) (found bool, err error) {
	for _, p := range t.tests {
		if found, _, err := t.run(ctx, p, number); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// run runs the tests of a package with a mutant, or with none if its number is 0.
func (t *Trial) run(ctx context.Context, p program, number int) (found bool, out []byte, err error) {
	bounded, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	cmd := exec.CommandContext(bounded, p.name, "-test.short", "-test.failfast", "-test.v", "-test.run", p.only, "-test.skip", p.skip)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), variable+"="+strconv.Itoa(number))
	cmd.WaitDelay = time.Second // for processes that a test has left
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err = cmd.Run()
	if ctx.Err() != nil {
		return false, nil, ctx.Err()
	}
	if _, exited := errors.AsType[*exec.ExitError](err); exited || bounded.Err() != nil || errors.Is(err, exec.ErrWaitDelay) {
		return true, output.Bytes(), nil
	}
	return false, output.Bytes(), err
}
