package policy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// codeOf is the directory with the packages of the guides. Package guides has the rules.
const codeOf = "internal/guides"

// A block is code of a page.
type block struct {
	page string
	line int // of the first line of the text
	text string
}

// at returns the page and the number of a line of the block.
func (b block) at(line int) string { return fmt.Sprintf("%s:%d", b.page, b.line+line) }

// missing returns the first line of the block that a text does not have, or the first one if it has
// each line but not the block.
func (b block) missing(text string) (line int, is string) {
	lines := strings.Split(b.text, "\n")
	i := max(0, slices.IndexFunc(lines, func(line string) bool { return !strings.Contains(text, line+"\n") }))
	return i, lines[i]
}

// blocks returns the blocks of Go of a page, and the calls in its tables.
func blocks(t *testing.T, page string) (code, inTables []block) {
	t.Helper()
	column, fence := -1, ""
	var text []string
	for i, line := range strings.Split(string(read(t, page)), "\n") {
		switch is := strings.HasPrefix(line, "```"); {
		case is && fence == "":
			fence, text = line, nil
		case is:
			if fence == "```go" {
				code = append(code, block{page, i + 1 - len(text), strings.Join(text, "\n") + "\n"})
			}
			fence = ""
		case fence != "":
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
	return code, inTables
}

// TestGuides: the code of the guides and of the README stands in the packages of internal/guides,
// so it compiles. Users copy it, so those import nothing internal.
func TestGuides(t *testing.T) {
	t.Parallel()
	files := make(map[string]string) // the text, by the name of the page
	for _, s := range sources(t) {
		if page, is := strings.CutPrefix(s.dir, codeOf+"/"); is {
			files[page] += string(read(t, s.path()))
			copyable(t, s)
		}
	}
	compared := func(page, text string) (inTables []block) {
		code, inTables := blocks(t, page)
		if len(code) == 0 {
			t.Errorf("%s has no code", page)
		}
		for _, b := range code {
			if !strings.Contains(text, b.text) {
				line, is := b.missing(text)
				t.Errorf("%s: no file of %s has the block with %q: let both be the same", b.at(line), codeOf, is)
			}
		}
		return inTables
	}
	compared("README.md", files["readme"])
	calls := string(read(t, codeOf+"/calls.go"))
	for _, page := range check.Have(filepath.Glob(filepath.Join(root, "docs/guides/*.md")))(t) {
		name := filepath.Base(page)
		for _, b := range compared("docs/guides/"+name, files[strings.TrimSuffix(name, ".md")]) {
			switch parsed, err := parser.ParseExpr(b.text); parsed.(type) {
			case *ast.Ident, *ast.SelectorExpr: // TestDocumentsNameWhatExists looks for it
			default:
				if err != nil || !strings.Contains(calls, "\n\t"+b.text+"\n") && !strings.Contains(calls, "\n\t_ = "+b.text+"\n") {
					t.Errorf("%s: %s/calls.go has no call %s", b.at(0), codeOf, b.text)
				}
			}
		}
	}
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
