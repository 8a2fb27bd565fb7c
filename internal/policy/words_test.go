package policy

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// vague are words that name no party of a protocol: a comment says contender, holder, caller, client,
// session or server instead.
var vague = regexp.MustCompile(`(?i)\b(somebody|nobody|everybody|anybody|whoever)\b|(^|[.:;] )Who\b`)

// longest is the number of words that a sentence of a comment may have.
const longest = 25

// TestCommentsNameTheirSubjects holds the comments and error texts of the library to the words of its field.
func TestCommentsNameTheirSubjects(t *testing.T) {
	for _, s := range sources(t) {
		if _, library := layerOf(s.dir); !library || s.test {
			continue
		}
		for _, group := range s.ast.Comments {
			for _, sentence := range sentences(group) {
				if vague.MatchString(sentence) {
					t.Errorf("%s: no party of the protocol: %s", s.at(group), sentence)
				}
				if n := len(strings.Fields(sentence)); n > longest {
					t.Errorf("%s: a sentence of %d words: %s", s.at(group), n, sentence)
				}
			}
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && vague.MatchString(lit.Value) {
				t.Errorf("%s: no party of the protocol: %s", s.at(lit), lit.Value)
			}
			return true
		})
	}
}

var ends = regexp.MustCompile(`[.:;!?] |[.:;!?]?\n`)

// sentences returns the sentences of a comment, and what stands between a colon or a semicolon and the next.
// Pictures and code stand by themselves, as do the items of lists.
func sentences(group *ast.CommentGroup) []string {
	var text strings.Builder
	for _, line := range group.List {
		words := strings.TrimPrefix(line.Text, "//")
		switch {
		case strings.TrimSpace(words) == "", strings.HasPrefix(words, "\t"), strings.HasPrefix(words, " #"), strings.HasPrefix(words, "   - "):
			text.WriteString("\n")
		}
		text.WriteString(strings.TrimSpace(words) + " ")
		if strings.HasPrefix(words, "\t") || strings.HasPrefix(words, " #") {
			text.WriteString("\n")
		}
	}
	return ends.Split(text.String(), -1)
}

// TestMachinesAreExplained counts the lines that contain comments in each file that has the Step of a machine:
// at least 35 for 100 lines of code.
func TestMachinesAreExplained(t *testing.T) {
	const enough = 35
	for _, s := range sources(t) {
		if _, library := layerOf(s.dir); !library || s.test || !steps(s.ast) {
			continue
		}
		if comments, code := lines(t, s.path()); 100*comments < enough*code {
			t.Errorf("%s: %d lines of comments for %d of code", s.path(), comments, code)
		}
	}
}

// steps reports whether a file declares a method like that of [actors.Machine]: Step, with an input and effects.
func steps(file *ast.File) bool {
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == "Step" && f.Type.Params.NumFields() == 2 {
			return true
		}
	}
	return false
}

// lines returns the numbers of lines that contain comments, and that contain code.
func lines(t *testing.T, path string) (comments, code int) {
	t.Helper()
	text := check.Have(os.ReadFile(filepath.Join(root, path)))(t)
	fset := token.NewFileSet()
	file := fset.AddFile(path, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	seen := map[bool]map[int]bool{true: {}, false: {}} // by whether it is a comment
	for {
		pos, tok, lit := s.Scan()
		switch {
		case tok == token.EOF:
			return len(seen[true]), len(seen[false])
		case tok == token.SEMICOLON && lit == "\n":
		default:
			for i := range strings.Count(lit, "\n") + 1 {
				seen[tok == token.COMMENT][file.Line(pos)+i] = true
			}
		}
	}
}
