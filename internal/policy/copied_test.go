package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// TestExamplesCanBeCopied: a user can copy each file of Example functions alone, and each program
// of examples with its tests. Both compile here already, so this test looks for what they have only
// here: internal packages, and declarations of other files.
func TestExamplesCanBeCopied(t *testing.T) {
	examples, programs := 0, 0
	for _, s := range sources(t) {
		switch {
		case !released(s.dir):
			continue
		case under(s.dir, "examples"):
			programs++
		case hasExamples(s):
			if !strings.HasPrefix(s.name, "example") || !strings.HasSuffix(s.ast.Name.Name, "_test") {
				t.Errorf("%s: Example functions stand in files that are called so, in a package of tests", s.path())
			}
			for _, name := range unresolved(t, s) {
				t.Errorf("%s cannot be copied alone: another file declares %s", s.path(), name)
			}
			examples++
		default:
			continue
		}
		copyable(t, s)
	}
	if examples < 20 || programs < 10 {
		t.Errorf("there are %d files of examples, and %d of programs", examples, programs)
	}
}

// copyable fails the test if code of a file cannot be copied to another module.
func copyable(t *testing.T, s source) {
	t.Helper()
	for _, imported := range s.imports() {
		if internal(imported) || imported == "embed" {
			t.Errorf("%s cannot be copied: it imports %s", s.path(), imported)
		}
	}
}

// hasExamples reports whether a file has Example functions.
func hasExamples(s source) bool {
	return s.test && slices.ContainsFunc(s.ast.Decls, func(decl ast.Decl) bool {
		f, ok := decl.(*ast.FuncDecl)
		return ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Example")
	})
}

// unresolved returns the names that a file uses and does not declare or import.
func unresolved(t *testing.T, s source) (names []string) {
	t.Helper()
	file := check.Have(parser.ParseFile(token.NewFileSet(), s.name, read(t, s.path()), 0))(t)
	imported := make(map[string]bool)
	for _, spec := range file.Imports {
		name := strings.Trim(spec.Path.Value, `"`)
		name = strings.TrimPrefix(path.Base(major.ReplaceAllString(name, "")), "go-")
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imported[name] = true
	}
	for _, id := range file.Unresolved {
		if !imported[id.Name] && types.Universe.Lookup(id.Name) == nil {
			names = append(names, id.Name)
		}
	}
	return names
}

// major is the end of the path of a package whose module has a major version.
var major = regexp.MustCompile(`/v\d+$`)

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
