package models

import (
	"bufio"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Row is a case of a machine: statements that run together, as the Go tool counts them.
type Row struct {
	File    string // from the root
	Func    string
	Line    int
	Code    string // of the line on which it begins
	Reached Reached
}

// Reached says what has reached a row.
type Reached int

// A row is reached by nothing, by a test of single rows only, or by a model.
const (
	Never Reached = iota
	ByTest
	ByModel
)

func (r Row) String() string { return fmt.Sprintf("%s:%d: %s", r.File, r.Line, r.Code) }

// A place is where statements that run together begin and end, as a profile has it.
type place struct {
	file                    string // from the root
	line, column, end, last int
}

// A coverage has for each place whether it was reached.
type coverage map[place]bool

// add adds what a profile has.
func (c coverage) add(profile io.Reader) error {
	scanner := bufio.NewScanner(profile)
	for scanner.Scan() {
		if strings.HasPrefix(scanner.Text(), "mode: ") {
			continue
		}
		file, rest, _ := strings.Cut(strings.TrimPrefix(scanner.Text(), module), ":")
		p := place{file: file}
		var statements, count int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &p.line, &p.column, &p.end, &p.last, &statements, &count); err != nil {
			return fmt.Errorf("the line %q of a profile: %w", scanner.Text(), err)
		}
		c[p] = c[p] || count > 0
	}
	return scanner.Err()
}

// Rows returns the rows of all machines that have been compiled.
func (r *Runner) Rows() ([]Row, error) {
	var all []Row
	for _, m := range machines() {
		for _, name := range m.files {
			found, err := rows(r.root, m.pkg+"/"+name, r.models, r.tests)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// Files returns the files of rows, in their order.
func Files(rows []Row) []string {
	var all []string
	for _, r := range rows {
		if !slices.Contains(all, r.File) {
			all = append(all, r.File)
		}
	}
	return all
}

// rows returns the rows of a file, in their order.
func rows(root, file string, models, tests coverage) ([]Row, error) {
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, text, 0)
	if err != nil {
		return nil, err
	}
	var places []place
	for _, c := range []coverage{models, tests} {
		for p := range c {
			if p.file == file {
				places = append(places, p)
			}
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(a.line-b.line, a.column-b.column) })
	places = slices.Compact(places) // a program that does not have the machine has none of them
	lines := strings.Split(string(text), "\n")
	var all []Row
	for _, p := range places {
		if f := around(files, parsed, p.line); f != nil && !hasNoRow(f) {
			r := Row{file, f.Name.Name, p.line, strings.TrimSpace(lines[p.line-1]), Never}
			if models[p] {
				r.Reached = ByModel
			} else if tests[p] {
				r.Reached = ByTest
			}
			all = append(all, r)
		}
	}
	return all, nil
}

// around returns the function around a line.
func around(files *token.FileSet, parsed *ast.File, line int) *ast.FuncDecl {
	for _, d := range parsed.Decls {
		if f, is := d.(*ast.FuncDecl); is && files.Position(f.Pos()).Line <= line && line <= files.Position(f.End()).Line {
			return f
		}
	}
	return nil
}

// hasNoRow reports whether a function is for logs, seals an interface, or returns a field.
func hasNoRow(f *ast.FuncDecl) bool {
	if f.Name.Name == "String" || f.Body == nil || len(f.Body.List) == 0 {
		return true
	}
	_, returns := f.Body.List[0].(*ast.ReturnStmt)
	return returns && len(f.Body.List) == 1 && f.Type.Params.NumFields() == 0
}
