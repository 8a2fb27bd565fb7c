package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

const (
	root   = "../.."
	module = "github.com/zkactors/zkactors"
)

// requirements are the modules that go.mod may require directly. Those marked
// true are for tests and benchmarks only.
var requirements = map[string]bool{
	"github.com/go-zookeeper/zk":        false,
	"github.com/cenkalti/backoff/v4":    false,
	"go.uber.org/goleak":                true,
	"pgregory.net/rapid":                true,
	"github.com/anishathalye/porcupine": true,
	"github.com/cockroachdb/datadriven": true,
}

// A layer is a part of the tree that users import, and what it stands on.
type layer struct {
	dir     string   // and what is below it
	within  []string // directories of this module that it may import, and what is below them
	outside []string // modules that it may import, beside the standard library
}

// layers, the most specific first.
var layers = []layer{
	{"internal/znode", nil, nil},
	{"internal/maven", nil, nil},
	{"actors", nil, nil},
	{"session/zktest", []string{"session/zktest", "session/internal", "internal/maven"}, nil},
	{"session", []string{"session/internal", "internal/znode", "actors"}, []string{"github.com/go-zookeeper/zk", "github.com/cenkalti/backoff/v4"}},
	{"internal/client", []string{"session", "actors"}, nil},
	{"watch", []string{"watch/internal", "internal/client", "internal/znode", "session", "actors"}, []string{"github.com/cenkalti/backoff/v4"}},
	{"primitives/inspect", []string{"primitives", "internal/client", "internal/znode", "session", "actors"}, nil},
	{"primitives", []string{"primitives/internal", "watch", "internal/client", "internal/znode", "session", "actors"}, []string{"github.com/cenkalti/backoff/v4"}},
}

// recipeFiles are what every recipe has.
var recipeFiles = []string{"doc.go", "event.go", "machine.go", "machine_test.go", "example_test.go", "main_test.go"}

// impure are the packages that a machine may not import, with those below them.
var impure = []string{"context", "log", "math/rand", "os", "sync"}

// A source is a parsed file of this module.
type source struct {
	dir, name string // of the file, relative to the root
	test      bool
	ast       *ast.File
	fset      *token.FileSet
}

func (s source) path() string { return path.Join(s.dir, s.name) }

func (s source) at(n ast.Node) string {
	return s.path() + ":" + strconv.Itoa(s.fset.Position(n.Pos()).Line)
}

func (s source) imports() []string {
	var all []string
	for _, spec := range s.ast.Imports {
		p, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		all = append(all, p)
	}
	return all
}

// sources are the Go files of the module. They are parsed once.
func sources(t *testing.T) []source {
	t.Helper()
	all := check.Have(parsed())(t)
	if len(all) == 0 {
		t.Fatal("no sources")
	}
	return all
}

var parsed = sync.OnceValues(func() (all []source, err error) {
	fset := token.NewFileSet()
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		dir, base := path.Split(filepath.ToSlash(rel))
		all = append(all, source{path.Clean(dir), base, strings.HasSuffix(base, "_test.go"), file, fset})
		return nil
	})
	return all, err
})

// under reports whether p is dir or below it.
func under(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func underAny(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return under(p, dir) })
}

func layerOf(dir string) (layer, bool) {
	i := slices.IndexFunc(layers, func(l layer) bool { return under(dir, l.dir) })
	if i < 0 {
		return layer{}, false
	}
	return layers[i], true
}

// recipe returns the directory of the recipe that dir belongs to, or "".
func recipe(dir string) string {
	rest, ok := strings.CutPrefix(dir, "primitives/")
	name, _, _ := strings.Cut(rest, "/")
	if !ok || name == "internal" || name == "inspect" { // that has no recipe of its own
		return ""
	}
	return "primitives/" + name
}

// recipes returns the directories of all recipes.
func recipes(all []source) []string {
	dirs := make(map[string]bool)
	for _, s := range all {
		if dir := recipe(s.dir); dir != "" {
			dirs[dir] = true
		}
	}
	return slices.Sorted(maps.Keys(dirs))
}

func TestRequirements(t *testing.T) {
	mod := check.Have(os.ReadFile(filepath.Join(root, "go.mod")))(t)
	direct := make(map[string]bool)
	for line := range strings.Lines(string(mod)) {
		if strings.Contains(line, "=>") {
			t.Errorf("go.mod: %s: nobody who imports this module would see that", strings.TrimSpace(line))
		}
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) < 2 || !strings.HasPrefix(fields[1], "v") || strings.HasSuffix(strings.TrimSpace(line), "// indirect") {
			continue
		}
		direct[fields[0]] = true
		if _, ok := requirements[fields[0]]; !ok {
			t.Errorf("go.mod requires %s directly, which is not allowed", fields[0])
		}
	}
	all := sources(t)
	for _, required := range slices.Sorted(maps.Keys(requirements)) {
		for _, s := range all {
			if !slices.ContainsFunc(s.imports(), func(p string) bool { return under(p, required) }) {
				continue
			}
			if requirements[required] && !s.test && !under(s.dir, "bench") && !under(s.dir, "campaign") && !slices.Contains(forTests, s.dir) {
				t.Errorf("%s imports %s, which is for tests", s.path(), required)
			}
			if !direct[required] {
				t.Errorf("%s imports %s, which go.mod does not require directly", s.path(), required)
				break
			}
		}
	}
}

// These packages are for tests, and are imported by nothing else but the campaign.
const (
	checks      = "internal/check"
	conformance = "primitives/internal/conformance"
	exploration = "primitives/internal/exploration"
	hasten      = "internal/hasten"
	kit         = "internal/kit"
	linemodel   = "primitives/internal/linemodel"
	peers       = "internal/peers"
	storm       = "examples/zkactors/internal/storm"
	zkmodel     = "primitives/internal/zkmodel"
)

var forTests = []string{checks, conformance, exploration, hasten, kit, linemodel, peers, storm, zkmodel}

func TestWhatIsForTests(t *testing.T) {
	for _, s := range sources(t) {
		for _, dir := range forTests {
			if !s.test && !slices.Contains(forTests, s.dir) && !under(s.dir, "campaign") && slices.Contains(s.imports(), module+"/"+dir) {
				t.Errorf("%s imports %s", s.path(), dir)
			}
		}
	}
	for _, dir := range recipes(sources(t)) {
		if _, err := os.Stat(filepath.Join(root, dir, "conformance_test.go")); err != nil {
			t.Errorf("%s does not run the conformance suite", dir)
		}
	}
}

func TestImportsPointDown(t *testing.T) {
	for _, s := range sources(t) {
		l, ok := layerOf(s.dir)
		if s.test || !ok || slices.Contains(forTests, s.dir) {
			continue
		}
		for _, imported := range s.imports() {
			first, _, _ := strings.Cut(imported, "/")
			if inside, ok := strings.CutPrefix(imported, module+"/"); ok {
				testing := under(inside, "session/zktest") && l.dir != "session/zktest"
				if testing || !underAny(inside, l.within) && !under(inside, recipe(s.dir)) {
					t.Errorf("%s imports %s: %s may import %v", s.path(), inside, l.dir, l.within)
				}
			} else if strings.Contains(first, ".") && !underAny(imported, l.outside) {
				t.Errorf("%s imports %s: %s may import the standard library and %v", s.path(), imported, l.dir, l.outside)
			}
		}
	}
}

// What users of a session do not need has one way out of its package (docs/adr/0028).
func TestOnlyClientSeesWhatIsForRecipes(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if n, ok := n.(*ast.SelectorExpr); ok && n.Sel.Name == "ForRecipes" && isPackage(n.X, "session") && s.dir != "internal/client" {
				t.Errorf("%s: use package internal/client", s.at(n))
			}
			return true
		})
	}
}

// A recipe of contenders in line has no machine but that of the line.
func TestRecipesAreComplete(t *testing.T) {
	all := sources(t)
	for _, dir := range recipes(all) {
		inLine := slices.ContainsFunc(all, func(s source) bool {
			return s.dir == dir && !s.test && slices.Contains(s.imports(), module+"/primitives/internal/line")
		})
		for _, name := range recipeFiles {
			if inLine && strings.HasPrefix(name, "machine") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, dir, name)); err != nil {
				t.Errorf("%s has no %s", dir, name)
			}
		}
	}
}

func TestMachinesArePure(t *testing.T) {
	clock := []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}
	for _, s := range sources(t) {
		if !strings.HasSuffix(s.name, "machine.go") {
			continue
		}
		for _, imported := range s.imports() {
			if underAny(imported, impure) {
				t.Errorf("%s imports %s", s.path(), imported)
			}
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if isPackage(n.X, "time") && slices.Contains(clock, n.Sel.Name) {
					t.Errorf("%s: a machine is told the time", s.at(n))
				}
			case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt:
				t.Errorf("%s: a machine has no goroutines and no channels", s.at(n))
			}
			return true
		})
	}
}

// TestInputsAreExplored: each package with a machine compares the inputs of its exploration with
// those that the machine has, by check.Explored or exploration.Explored. So a new input that no
// exploration gives fails a test of that package. Inputs are types with a marker method that is
// called input, or ends with Input.
func TestInputsAreExplored(t *testing.T) {
	explored := make(map[string]bool) // by directory and marker
	machines := 0
	all := sources(t)
	for _, s := range all {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !s.test {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Explored" && len(call.Args) == 3 {
				if marker, ok := call.Args[1].(*ast.BasicLit); ok {
					explored[s.dir+" "+strings.Trim(marker.Value, `"`)] = true
				}
			}
			return true
		})
	}
	for _, s := range all {
		if _, layered := layerOf(s.dir); !layered || s.test {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			of, ok := n.(*ast.InterfaceType)
			if !ok || len(of.Methods.List) != 1 || len(of.Methods.List[0].Names) != 1 {
				return true
			}
			if marker := of.Methods.List[0].Names[0].Name; marker == "input" || strings.HasSuffix(marker, "Input") && !ast.IsExported(marker) {
				if machines++; !explored[s.dir+" "+marker] {
					t.Errorf("%s: no test of the package compares the inputs of an exploration: check.Explored(t, %q, …)", s.at(n), marker)
				}
			}
			return true
		})
	}
	if machines < 20 {
		t.Error("there are", machines, "machines")
	}
}

// Whatever watch and the recipes run concurrently runs in package actors.
func TestGoroutinesStartInActorsAndSession(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !under(s.dir, "watch") && !under(s.dir, "primitives/inspect") && recipe(s.dir) == "" {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if n, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: a go statement", s.at(n))
			}
			return true
		})
	}
}

func isPackage(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}

func TestTestsLookForLeaks(t *testing.T) {
	checked := make(map[string]bool) // by directory with tests
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		looks := slices.Contains(s.imports(), "go.uber.org/goleak") || slices.Contains(s.imports(), module+"/"+kit) || s.dir == kit
		checked[s.dir] = checked[s.dir] || looks &&
			slices.ContainsFunc(s.ast.Decls, func(d ast.Decl) bool {
				f, ok := d.(*ast.FuncDecl)
				return ok && f.Recv == nil && f.Name.Name == "TestMain"
			})
	}
	for _, dir := range slices.Sorted(maps.Keys(checked)) {
		if !checked[dir] {
			t.Errorf("%s has tests, but no TestMain with goleak", dir)
		}
	}
}

// Every event of a recipe stands in the contract of its package, and every
// recipe in the index.
func TestEventsAndRecipesAreDocumented(t *testing.T) {
	all := sources(t)
	contracts := make(map[string]string) // by directory
	for _, s := range all {
		if s.name == "doc.go" {
			contracts[s.dir] = s.ast.Doc.Text()
		}
	}
	for _, s := range all {
		if s.name != "event.go" || recipe(s.dir) == "" {
			continue
		}
		for _, decl := range s.ast.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != "event" {
				continue
			}
			event := receiver(f)
			if !regexp.MustCompile(`\b` + event + `\b`).MatchString(contracts[s.dir]) {
				t.Errorf("%s/doc.go does not mention %s", s.dir, event)
			}
		}
	}
	for _, dir := range recipes(all) {
		if !strings.Contains(contracts["primitives"], dir) {
			t.Errorf("primitives/doc.go does not mention %s", dir)
		}
	}
}

// Every handle prints as one short line: what has a Close method has Format, too.
func TestHandlesArePrinted(t *testing.T) {
	closes, prints := make(map[string]bool), make(map[string]bool)
	for _, s := range sources(t) {
		if !underAny(s.dir, []string{"session", "watch", "primitives"}) || under(s.dir, "session/zktest") || s.test || strings.Contains(s.dir, "internal") {
			continue
		}
		for _, decl := range s.ast.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !ast.IsExported(receiver(f)) && receiver(f) != "base" { // which the queues embed
				continue
			}
			switch name := s.dir + "." + receiver(f); f.Name.Name {
			case "Close", "Done":
				closes[name] = true
			case "Format":
				prints[name] = true
			}
		}
	}
	for name := range closes {
		if !prints[name] {
			t.Errorf("%s has no method Format", name)
		}
	}
	if len(closes) < 15 {
		t.Error("there are", closes)
	}
}

// receiver returns the name of a method's type.
func receiver(f *ast.FuncDecl) string {
	x := f.Recv.List[0].Type
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}
