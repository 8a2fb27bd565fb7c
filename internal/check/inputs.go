package check

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Given are the types of the inputs that an exploration gives to machines. Its zero value is ready
// for use, and is not safe for concurrent use.
type Given struct{ types map[given]bool }

// A given is the type of an input, and the interface of the inputs of its machine.
type given struct{ of, as reflect.Type }

// Note notes an input. In is the interface of the machine's inputs.
func Note[In any](g *Given, in In) {
	if g.types == nil {
		g.types = make(map[given]bool)
	}
	of := reflect.TypeOf(in)
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if noted := (given{of, reflect.TypeFor[In]()}); !g.types[noted] {
		g.types[noted] = true
	}
}

// has reports whether a machine whose inputs have the marker method had one of the type with the
// name.
func (g *Given) has(name, marker string) bool {
	for noted := range g.types {
		if noted.as.Kind() != reflect.Interface {
			continue
		}
		for method := range noted.as.Methods() {
			of, _, _ := strings.Cut(noted.of.Name(), "[") // without the type arguments
			if method.Name == marker && of == name {
				return true
			}
		}
	}
	return false
}

// Missing returns the types with the marker method that no input had so far. It reads the package
// in the directory of the test.
func (g *Given) Missing(tb testing.TB, marker string) (names []string) {
	tb.Helper()
	found := 0
	for _, entry := range Have(os.ReadDir("."))(tb) {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file := Have(parser.ParseFile(token.NewFileSet(), entry.Name(), nil, parser.SkipObjectResolution))(tb)
		for _, decl := range file.Decls {
			if f, is := decl.(*ast.FuncDecl); is && f.Recv != nil && f.Name.Name == marker {
				if name := receiver(f.Recv.List[0].Type); !g.has(name, marker) {
					names = append(names, name)
				}
				found++
			}
		}
	}
	Require(tb, found > 0, "no type has a method %s", marker)
	slices.Sort(names)
	return names
}

// receiver returns the name of the type of a receiver.
func receiver(of ast.Expr) string {
	for {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.IndexExpr:
			of = x.X
		case *ast.IndexListExpr:
			of = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// Explored fails the test unless the inputs have all types with the marker method, such as input,
// that the package has. A machine whose exploration leaves one out is not known to bear it.
func Explored(tb testing.TB, marker string, given Given) {
	tb.Helper()
	for _, name := range given.Missing(tb, marker) {
		tb.Errorf("no exploration gives a %s to the machine: let one do so", name)
	}
}
