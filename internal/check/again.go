package check

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Guide returns the promise of a test, which is its comment, and the command of [Again]: a failure
// says no more than what is wrong.
func Guide(tb testing.TB, settings ...string) string {
	again := "again: " + Again(tb, settings...)
	if promise := promise(tb); promise != "" {
		return "the promise: " + promise + "\n" + again
	}
	return again
}

// promise returns the comment of a test, in one line; "" if it has none, or cannot be read.
func promise(tb testing.TB) string {
	test, _, _ := strings.Cut(tb.Name(), "/")
	files, _ := filepath.Glob("*_test.go")
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		for _, decl := range file.Decls {
			if f, is := decl.(*ast.FuncDecl); is && f.Recv == nil && f.Name.Name == test {
				return strings.Join(strings.Fields(f.Doc.Text()), " ")
			}
		}
	}
	return ""
}

// Again returns the command that runs a test alone, at the root of the repository, as it was run
// here: with the flags of the package that were given, and with the environment's settings. Those
// that are given here, such as ZKACTORS_SEED=7, replace the environment's.
func Again(tb testing.TB, settings ...string) string {
	const prefix = "ZKACTORS_"
	words := settings
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		if strings.HasPrefix(name, prefix) && !strings.Contains(strings.Join(settings, " "), name+"=") {
			words = append(words, setting)
		}
	}
	words = append(words, "go test", here())
	elements := strings.Split(tb.Name(), "/")
	for i, name := range elements {
		elements[i] = "^" + regexp.QuoteMeta(name) + "$"
	}
	words = append(words, "-run '"+strings.Join(elements, "/")+"'")
	if testing.Short() {
		words = append(words, "-short")
	}
	flag.Visit(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") && !strings.HasPrefix(f.Name, "rapid.") {
			words = append(words, fmt.Sprintf("-%s=%s", f.Name, f.Value))
		}
	})
	return strings.Join(words, " ")
}

// here returns the directory of the package under test, as a path from the root of the repository.
func here() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	for root := dir; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.work")); err == nil || root == filepath.Dir(root) {
			if below, err := filepath.Rel(root, dir); err == nil {
				return "./" + filepath.ToSlash(below)
			}
			return dir
		}
	}
}
