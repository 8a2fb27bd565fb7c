package policy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
)

// The rules by which code of the guides is compiled. They are visible in the pages:
//
//   - A block of Go that begins with "package" is a file. The blocks of one guide with the same
//     package are one package. A block that imports testing is a file of tests, and runs.
//   - A block of declarations is a part of the package "guide". It uses the packages of [shorthand]
//     without importing them.
//   - Any other block of Go is the body of a function with the parameters ctx and s, which returns
//     an error. It uses packages likewise.
//   - Each call in the column "here" of a table compiles, with the variables of [calls].
//
// Blocks of other languages are not compiled.

// calls declares the variables that calls in tables may use.
const calls = `func calls(ctx context.Context, s *session.Session, path string, data []byte, servers []string,
	l *lock.Lock, m *lock.Mutex, lease *semaphore.Lease, c *election.Candidate, b *barrier.Barrier,
	d *barrier.Double, q *queue.Queue, f *queue.Flat, v *config.Value[int64], tx *config.Transactor,
	member *group.Membership, work func(ctx context.Context, term int64) error) {`

// shorthand are the packages that bodies and calls may use, by their names.
var shorthand = func() map[string]string {
	all := map[string]string{
		"slog": "log/slog", "http": "net/http", "tls": "crypto/tls", "x509": "crypto/x509",
		"zk":     "github.com/go-zookeeper/zk",
		"actors": module + "/actors", "session": module + "/session", "watch": module + "/watch",
	}
	for _, std := range []string{"context", "errors", "fmt", "log", "os", "sync", "time"} {
		all[std] = std
	}
	for _, recipe := range []string{"lock", "semaphore", "election", "barrier", "queue", "commit", "config", "group", "naming", "discovery", "shard"} {
		all[recipe] = module + "/primitives/" + recipe
	}
	return all
}()

// A block is code of a guide.
type block struct {
	page string // absolute
	line int    // of the first line of the text
	text string
}

// blocks returns the blocks of Go of a page, and the calls in its tables.
func blocks(t *testing.T, page string) (code, inTables []block) {
	t.Helper()
	column, inside := -1, ""
	var text []string
	for i, line := range strings.Split(string(check.Have(os.ReadFile(page))(t)), "\n") {
		fence, is := strings.CutPrefix(line, "```")
		switch {
		case is && inside == "":
			inside, text = "```"+fence, nil
		case is:
			if inside == "```go" {
				code = append(code, block{page, i + 1 - len(text), strings.Join(text, "\n") + "\n"})
			}
			inside = ""
		case inside != "":
			text = append(text, line)
		case !strings.HasPrefix(line, "|"):
			column = -1
		default:
			cells := strings.Split(strings.Trim(line, "|"), "|")
			if column < 0 {
				column = slices.IndexFunc(cells, func(cell string) bool { return strings.TrimSpace(cell) == "here" })
				if column < 0 {
					column = len(cells) // of a table without calls
				}
			} else if column < len(cells) {
				for _, m := range quoted.FindAllStringSubmatch(cells[column], -1) {
					inTables = append(inTables, block{page, i + 1, m[1]})
				}
			}
		}
	}
	if inside != "" {
		t.Errorf("%s: a block without an end", page)
	}
	return code, inTables
}

// statement returns a call as a statement, a literal as an assignment, and "" for a name.
func statement(expr string) (string, error) {
	parsed, err := parser.ParseExpr(expr)
	if err != nil {
		return "", err
	}
	switch parsed := parsed.(type) {
	case *ast.Ident, *ast.SelectorExpr: // TestDocumentsNameWhatExists looks for it
		return "", nil
	case *ast.CallExpr:
		return expr, nil
	case *ast.UnaryExpr:
		if parsed.Op == token.ARROW {
			return expr, nil
		}
	}
	return "_ = " + expr, nil
}

// bodyOf returns a function around the text, which returns nil at its end unless that cannot be
// reached.
func bodyOf(head, text string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+head+text+"}\n", parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	last := "return nil\n"
	if list := file.Decls[0].(*ast.FuncDecl).Body.List; len(list) > 0 {
		switch end := list[len(list)-1].(type) {
		case *ast.ReturnStmt:
			last = ""
		case *ast.ForStmt:
			if end.Cond == nil {
				last = ""
			}
		}
	}
	return head + text + last + "}\n", nil
}

// complete returns a file with the declarations, and the imports that they need.
func complete(pkg, declarations string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+declarations, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	imports := make(map[string]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		if n, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := n.X.(*ast.Ident); ok && shorthand[id.Name] != "" {
				imports[shorthand[id.Name]] = true
			}
		}
		return true
	})
	var out strings.Builder
	_, _ = fmt.Fprintf(&out, "package %s\n", pkg)
	for _, p := range slices.Sorted(maps.Keys(imports)) {
		_, _ = fmt.Fprintf(&out, "import %q\n", p)
	}
	_, _ = out.WriteString(declarations)
	return out.String(), nil
}

var packageOf = regexp.MustCompile(`^package (\w+)\n`)

// TestGuides: the code of the guides compiles in a module of a user's, and its tests pass: those
// that the guides show, and those of testdata/guides about the functions that they show.
func TestGuides(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		check.Must(t, os.MkdirAll(filepath.Dir(name), 0o700))
		check.Must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	library := check.Have(filepath.Abs(root))(t)
	write("go.mod", fmt.Sprintf("module guides\n\ngo 1.26\n\nrequire %s v0.0.0\n\nreplace %s => %s\n", module, module, library))
	write("go.sum", string(check.Have(os.ReadFile(filepath.Join(root, "go.sum")))(t)))
	guides := check.Have(filepath.Glob(filepath.Join(library, "docs/guides/*.md")))(t)
	if len(guides) == 0 {
		t.Fatal("no guides")
	}
	for _, page := range guides {
		guide := strings.TrimSuffix(filepath.Base(page), ".md")
		code, inTables := blocks(t, page)
		if len(code) == 0 {
			t.Errorf("%s has no code", page)
		}
		for _, b := range code {
			if formatted, err := format.Source([]byte(b.text)); err != nil || !bytes.Equal(formatted, []byte(b.text)) {
				t.Errorf("%s:%d: not formatted: %v", b.page, b.line, err)
				continue
			}
			at := fmt.Sprintf("//line %s:%d\n", b.page, b.line)
			if m := packageOf.FindStringSubmatch(b.text); m != nil {
				name := fmt.Sprintf("%s/%s/line%d", guide, strings.TrimSuffix(m[1], "_test"), b.line)
				if strings.Contains(b.text, "\t\"testing\"\n") {
					name += "_test"
				}
				write(name+".go", at+b.text)
				continue
			}
			pkg, file := "guide", at+b.text
			if _, err := complete(pkg, file); err != nil { // these are no declarations
				pkg = "bodies"
				head := fmt.Sprintf("func body%d(ctx context.Context, s *session.Session) error {\n", b.line)
				if file, err = bodyOf(head, at+b.text); err != nil {
					t.Errorf("%s:%d: %v", b.page, b.line, err)
					continue
				}
			}
			write(fmt.Sprintf("%s/%s/line%d.go", guide, pkg, b.line), check.Have(complete(pkg, file))(t))
		}
		statements := ""
		for _, b := range inTables {
			if s, err := statement(b.text); err != nil {
				t.Errorf("%s:%d: %s: %v", b.page, b.line, b.text, err)
			} else if s != "" {
				statements += fmt.Sprintf("//line %s:%d\n%s\n", b.page, b.line, s)
			}
		}
		if statements != "" {
			write(guide+"/calls/calls.go", check.Have(complete("calls", calls+"\n"+statements+"}\n"))(t))
		}
	}
	tests := check.Have(filepath.Glob("testdata/guides/*/*/*_test.go"))(t)
	if len(tests) == 0 {
		t.Fatal("no tests of guides")
	}
	for _, test := range tests {
		name := check.Have(filepath.Rel("testdata/guides", test))(t)
		if _, err := os.Stat(filepath.Join(dir, filepath.Dir(name))); err != nil {
			t.Errorf("%s tests a package that no guide shows", test)
		}
		write(name, string(check.Have(os.ReadFile(test))(t)))
	}
	args := []string{"test", "-vet=all", "-timeout=120s"}
	if testing.Short() {
		args = append(args, "-short") // no real servers
	}
	cmd := exec.CommandContext(t.Context(), "go", append(args, "./...")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
	cmd.WaitDelay = time.Second // a server that outlives a test that fails must not keep this one
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
	t.Logf("%s", out)
}

var (
	metric = regexp.MustCompile(`zkactors_\w+`)
	label  = regexp.MustCompile(`\b(\w+)(?:=~|!=|=)"([^"]*)"`)
)

// TestGuidesNameMetricsThatExist: rules for alerts name metrics of the exporter for Prometheus, and
// labels and values that the code has.
func TestGuidesNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	literals, exported := make(map[string]bool), make(map[string]bool)
	for _, s := range sources(t) {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && !s.test {
				text := strings.Trim(lit.Value, "\"`")
				literals[text] = true
				if filepath.Base(s.dir) == "prom" {
					exported["zkactors_"+strings.TrimPrefix(text, "zkactors_")] = true
				}
			}
			return true
		})
	}
	found := 0
	for _, page := range check.Have(filepath.Glob(filepath.Join(root, "docs/guides/*.md")))(t) {
		text := string(check.Have(os.ReadFile(page))(t))
		for _, name := range metric.FindAllString(text, -1) {
			found++
			base := name
			for _, of := range []string{"_bucket", "_count", "_sum"} {
				base = strings.TrimSuffix(base, of)
			}
			if !exported[base] {
				t.Errorf("%s: there is no metric %s", page, name)
			}
		}
		for _, rule := range regexp.MustCompile(`zkactors_\w+\{[^}]*\}`).FindAllString(text, -1) {
			for _, m := range label.FindAllStringSubmatch(rule, -1) {
				for _, value := range append(strings.Split(m[2], "|"), m[1]) {
					if !literals[value] {
						t.Errorf("%s: %s: no code has %q", page, rule, value)
					}
				}
			}
		}
	}
	if found == 0 {
		t.Error("no guide names a metric")
	}
}
