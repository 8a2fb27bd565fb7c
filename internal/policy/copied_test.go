package policy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// user is the module of a user who has copied all examples.
const user = "example.com/user"

// TestExamplesCanBeCopied: in a module of a user's, each file of Example functions compiles, alone,
// and so does each program of examples with its tests, and the program in the README.
func TestExamplesCanBeCopied(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) {
		t.Helper()
		name = filepath.Join(dir, filepath.FromSlash(name))
		check.Must(t, os.MkdirAll(filepath.Dir(name), 0o700))
		check.Must(t, os.WriteFile(name, text, 0o600))
	}
	checkout := check.Have(filepath.Abs(root))(t)
	write("go.mod", fmt.Appendf(nil, "module %s\n\ngo 1.26\n\nrequire %s v0.0.0\n\nreplace %s => %s\n", user, module, module, checkout))
	write("go.sum", read(t, "go.sum"))
	write("readme/main.go", program(t))
	examples, programs := 0, 0
	for _, s := range sources(t) {
		switch found := exampleFunctions(s); {
		case !released(s.dir):
			continue
		case under(s.dir, "examples"):
			write(s.path(), read(t, s.path()))
			programs++
		case len(found) > 0: // as a program that calls its examples
			if !strings.HasPrefix(s.name, "example") {
				t.Errorf("%s: Example functions stand in files that are called so", s.path())
			}
			copied, text := path.Join(s.dir, strings.TrimSuffix(s.name, "_test.go")), read(t, s.path())
			name := s.fset.Position(s.ast.Name.Pos()).Offset
			write(copied+"/example.go", slices.Concat(text[:name], []byte("main"), text[name+len(s.ast.Name.Name):]))
			write(copied+"/main.go", fmt.Appendf(nil, "package main\n\nfunc main() {\n%s()\n}\n", strings.Join(found, "()\n")))
			examples++
		default:
			continue
		}
		for _, imported := range s.imports() {
			if internal(imported) {
				t.Errorf("%s cannot be copied: it imports %s", s.path(), imported)
			}
		}
	}
	if examples < 20 || programs < 10 {
		t.Errorf("there are %d files of examples, and %d of programs", examples, programs)
	}
	vet := exec.Command("go", "vet", "./...")
	vet.Dir = dir
	vet.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("%v: a directory below has the name of the file that was copied into it\n%s", err, out)
	}
}

// exampleFunctions returns the names of the Example functions of a file.
func exampleFunctions(s source) (names []string) {
	for _, decl := range s.ast.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && s.test && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Example") {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

// internal reports whether a package is internal to this repository.
func internal(imported string) bool {
	return under(imported, module) && strings.Contains(imported+"/", "/internal/")
}

// released reports whether a directory belongs to the module of the root.
func released(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if _, err := os.Stat(filepath.Join(root, dir, "go.mod")); err == nil {
			return false
		}
	}
	return true
}

// read returns what a file below the root has.
func read(t *testing.T, name string) []byte {
	t.Helper()
	return check.Have(os.ReadFile(filepath.Join(root, name)))(t)
}

// program returns the Go program in the README.
func program(t *testing.T) []byte {
	t.Helper()
	_, rest, ok := bytes.Cut(read(t, "README.md"), []byte("```go\n"))
	program, _, closed := bytes.Cut(rest, []byte("```\n"))
	if !ok || !closed {
		t.Fatal("README.md has no Go program")
	}
	return program
}

// The program in the README is formatted, and the README is short. TestExamplesCanBeCopied compiles
// the program.
func TestReadme(t *testing.T) {
	if n := bytes.Count(read(t, "README.md"), []byte("\n")); n > 135 {
		t.Errorf("README.md has %d lines, want at most 135", n)
	}
	program := program(t)
	if formatted, err := format.Source(program); err != nil || !bytes.Equal(formatted, program) {
		t.Errorf("the program in README.md is not formatted: %v", err)
	}
}

// The module metrics requires the version of the library that is released with it, and nothing
// replaces that: users would not see it. Before the first release that is v0.1.0.
func TestMetricsCanBeRequired(t *testing.T) {
	version := "v0.1.0"
	if m := regexp.MustCompile(`(?m)^## \[?(\d+\.\d+\.\d+)`).FindSubmatch(read(t, "CHANGELOG.md")); m != nil {
		version = "v" + string(m[1])
	}
	own, library := module+"/metrics", "\t"+module+" "+version+"\n"
	mod, example := string(read(t, "metrics/go.mod")), string(read(t, "examples/metrics/go.mod"))
	if !strings.HasPrefix(mod, "module "+own+"\n") || !strings.Contains(mod, library) || strings.Contains(mod, "=>") {
		t.Errorf("metrics/go.mod: want the module %s, which requires %s, and no replacement", own, strings.TrimSpace(library))
	}
	if !strings.Contains(example, library) || !strings.Contains(example, "\t"+own+" "+version+"\n") {
		t.Errorf("examples/metrics/go.mod does not require %s of both", version)
	}
	found := 0
	for _, s := range sources(t) {
		if !under(s.dir, "metrics") {
			continue
		}
		found++
		for _, imported := range s.imports() {
			if internal(imported) && !under(imported, own) {
				t.Errorf("%s imports %s, which changes without notice", s.path(), imported)
			}
		}
	}
	if found == 0 {
		t.Error("metrics has no source")
	}
}
