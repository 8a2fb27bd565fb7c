// Style looks for prose that is wrong wherever it stands, and for text that is not wrapped. It runs
// at the root of the repository, in the lint stage: prose is not a test.
//
//	go run ./internal/policy/style
//
// No rule counts words, or comments: sentences that are written for a counter read like that. The
// linter checks the width of comments.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	columns  = 100                    // the width of Markdown
	longest  = 135                    // lines of the README
	spinning = "closed channel spins" // what a method that returns a channel says of a select
)

// library are the directories with the library.
var library = regexp.MustCompile(`^(actors|internal|primitives|session|watch)/`)

// own is the directory of this program, which has the patterns.
const own = "internal/policy/"

func main() {
	found, files, err := look(".")
	for _, line := range found {
		fmt.Println(line)
	}
	if err == nil && files == 0 {
		err = errNothing
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || len(found) > 0 {
		os.Exit(1)
	}
}

var errNothing = errors.New("no code of the library: run it at the root of the repository")

// look returns what is wrong below a directory, and the number of files of the library.
func look(root string) (found []string, files int, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch path := filepath.ToSlash(path); {
		case strings.HasSuffix(path, ".md"):
			found = append(found, page(path, string(text))...)
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && library.MatchString(path) && !strings.HasPrefix(path, own):
			all, err := source(path, text)
			if err != nil {
				return err
			}
			found = append(found, all...)
			files++
		}
		return nil
	})
	return found, files, err
}

// unwrapped are lines of a page that keep their length: code, rows of tables, pictures.
var unwrapped = regexp.MustCompile(`^    |^\||^<picture>|^\[?!\[`)

// page returns the lines of a page that are too wide, unless they cannot be wrapped: code, tables,
// pictures, words without a space, and the text that a program has written between its marks.
func page(path, text string) (found []string) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if path == "README.md" && len(lines) > longest {
		found = append(found, fmt.Sprintf("%s: %d lines, want at most %d", path, len(lines), longest))
	}
	code, written := false, false
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
		case strings.HasPrefix(line, "<!-- end of"):
			written = false
		case strings.HasPrefix(line, "<!-- ") && strings.Contains(line, ": written by "):
			written = true
		}
		wide := utf8.RuneCountInString(line) > columns && strings.Contains(strings.TrimSpace(line), " ")
		if wide && !code && !written && !unwrapped.MatchString(line) {
			found = append(found, fmt.Sprintf("%s:%d: over %d columns", path, i+1, columns))
		}
	}
	return found
}

// wrong are patterns in comments and in the texts of errors.
var wrong = []struct { //nolint:gochecknoglobals // a table
	pattern *regexp.Regexp
	why     string
}{
	{
		regexp.MustCompile(`(?i)\b(somebody|nobody|everybody|anybody|whoever)\b|(^|[.:;] )Who\b`),
		"a party of a protocol has a name: contender, holder, caller, client, session, server",
	},
	{regexp.MustCompile(`\b(is|are|was|were|be|been|being) told\b`), "a party receives, or learns"},
}

// source returns what is wrong with the prose of a Go file.
func source(path string, text []byte) (found []string, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	add := func(at ast.Node, format string, args ...any) {
		found = append(found, fmt.Sprintf("%v: ", fset.Position(at.Pos()))+fmt.Sprintf(format, args...))
	}
	examine := func(at ast.Node, text string) {
		for _, w := range wrong {
			if is := w.pattern.FindString(text); is != "" {
				add(at, "%q: %s", is, w.why)
			}
		}
	}
	for _, group := range file.Comments {
		for _, sentence := range strings.SplitAfter(strings.Join(strings.Fields(group.Text()), " "), ". ") {
			examine(group, sentence)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				examine(n, n.Value)
			}
		case *ast.FuncDecl:
			doc := strings.Join(strings.Fields(n.Doc.Text()), " ")
			if channel(n) && !strings.Contains(path, "internal") && !strings.Contains(doc, spinning) {
				add(n, "%s does not say that a select over its %s", n.Name.Name, spinning)
			}
		}
		return true
	})
	return found, nil
}

// channel reports whether a function is an exported method that returns a channel of values.
func channel(f *ast.FuncDecl) bool {
	if f.Recv == nil || !f.Name.IsExported() || f.Type.Results == nil {
		return false
	}
	ch, ok := f.Type.Results.List[0].Type.(*ast.ChanType)
	if !ok {
		return false
	}
	_, signal := ch.Value.(*ast.StructType)
	return !signal
}
