package policy

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/zkactors/zkactors/internal/check"
)

// No test counts words, or comments: sentences that are written for a counter read like that. These
// patterns are wrong wherever they stand.
var wrong = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{
		regexp.MustCompile(`(?i)\b(somebody|nobody|everybody|anybody|whoever)\b|(^|[.:;] )Who\b`),
		"a party of a protocol has a name: contender, holder, caller, client, session, server",
	},
	{regexp.MustCompile(`\b(is|are|was|were|be|been|being) told\b`), "a party receives, or learns"},
}

// TestWords looks for wrong patterns in the comments and the error texts of the library.
func TestWords(t *testing.T) {
	for _, s := range sources(t) {
		if _, library := layerOf(s.dir); !library || s.test {
			continue
		}
		examine := func(at ast.Node, text string) {
			for _, w := range wrong {
				if found := w.pattern.FindString(text); found != "" {
					t.Errorf("%s: %q: %s", s.at(at), found, w.why)
				}
			}
		}
		for _, group := range s.ast.Comments {
			for _, sentence := range strings.SplitAfter(strings.Join(strings.Fields(group.Text()), " "), ". ") {
				examine(group, sentence)
			}
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				examine(lit, lit.Value)
			}
			return true
		})
	}
}

// unwrapped are lines of a page that keep their length: code, rows of tables, pictures.
var unwrapped = regexp.MustCompile(`^    |^\||^<picture>|^\[?!\[`)

// columns is the width of comments and of Markdown. Code may be a little wider.
const columns = 100

// TestTextIsWrapped: no line of a comment that has the line to itself, and no line of a page, is
// wider than columns. A tab counts for four. Text that cannot be wrapped is left out: directives,
// words without a space, and the output of examples; in a page code, tables, pictures, and the text
// that a program has written between its marks.
func TestTextIsWrapped(t *testing.T) {
	for _, s := range sources(t) {
		if s.name == "example_test.go" {
			continue
		}
		for i, line := range textOf(t, s.path()) {
			comment := strings.TrimLeft(line, "\t")
			if text, is := strings.CutPrefix(comment, "// "); is && wide(line, text) {
				t.Errorf("%s:%d: a comment of over %d columns", s.path(), i+1, columns)
			}
		}
	}
	for _, page := range pages(t) {
		code, written := false, false
		for i, line := range textOf(t, page) {
			switch {
			case strings.HasPrefix(line, "```"):
				code = !code
			case strings.HasPrefix(line, "<!-- end of"):
				written = false
			case strings.HasPrefix(line, "<!-- ") && strings.Contains(line, ": written by "):
				written = true
			}
			if !code && !written && !unwrapped.MatchString(line) && wide(line, line) {
				t.Errorf("%s:%d: over %d columns", page, i+1, columns)
			}
		}
	}
}

// wide reports whether a line is too wide, and its text could be wrapped.
func wide(line, text string) bool {
	const more = 3 // columns that a tab has beside its first
	width := utf8.RuneCountInString(line) + more*strings.Count(line, "\t")
	return width > columns && strings.Contains(strings.TrimSpace(text), " ")
}

// textOf returns the lines of a file below the root.
func textOf(t *testing.T, path string) []string {
	t.Helper()
	return strings.Split(string(check.Have(os.ReadFile(filepath.Join(root, path)))(t)), "\n")
}

// pages returns the Markdown pages of the module, relative to the root.
func pages(t *testing.T) (all []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "docs/guides/*.md", "bench/*.md", "examples/*.md", "examples/*/*.md"} {
		for _, page := range check.Have(filepath.Glob(filepath.Join(root, pattern)))(t) {
			all = append(all, filepath.ToSlash(check.Have(filepath.Rel(root, page))(t)))
		}
	}
	return all
}
