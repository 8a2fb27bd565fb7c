// Package mutation changes the library in one place at a time, and says which changes no test
// notices. All mutants of a package are compiled together, into one program for its tests: an
// environment variable says which mutant is in force. So a mutant costs a run of the tests, and no
// compilation.
package mutation

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// A Mutant is a change of one place.
type Mutant struct {
	File   string // from the root of the repository
	Line   int
	Change string // what is other, and in which expression or statement
	Code   string // the line as it is, to find it again when others have come before it
}

// String has the mutant as file:line and what changes.
func (m Mutant) String() string { return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Change) }

// A site is a span of a file in which mutants can be.
type site struct {
	start, end  int // offsets
	first, last int // lines
	changes     []string
	write       writer
}

// A writer returns a span with its mutants, which have these numbers. Text returns a part of it,
// with the mutants inside.
type writer func(numbers []int, text func(start, end token.Pos) string) string

// sites returns the sites of a file, outer ones before those inside.
func sites(fset *token.FileSet, file *ast.File) []site {
	var all []site
	add := func(n ast.Node, write writer, changes ...string) {
		all = append(all, site{
			start: fset.Position(n.Pos()).Offset, end: fset.Position(n.End()).Offset,
			first: fset.Position(n.Pos()).Line, last: fset.Position(n.End()).Line,
			changes: changes, write: write,
		})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok != token.CONST // a constant has no mutants at run time
		case *ast.BinaryExpr:
			if write, changes := binary(n); write != nil {
				add(n, write, changes...)
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				add(n, negated(n), "without !")
			}
		case *ast.Ident:
			if n.Name == "true" || n.Name == "false" {
				add(n, negated(n), "not "+n.Name)
			}
		case *ast.IfStmt:
			switch n.Cond.(type) {
			case *ast.BinaryExpr, *ast.UnaryExpr:
			default:
				add(n.Cond, negated(n.Cond), "negated")
			}
		case *ast.BlockStmt:
			statements(n.List, add)
		case *ast.CaseClause:
			statements(n.Body, add)
		case *ast.CommClause:
			statements(n.Body, add)
		}
		return true
	})
	slices.SortStableFunc(all, func(a, b site) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	return all
}

// statements adds the statements that can be left out.
func statements(list []ast.Stmt, add func(ast.Node, writer, ...string)) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.BranchStmt:
			if s.Tok == token.FALLTHROUGH || s.Tok == token.GOTO {
				continue
			}
		case *ast.ExprStmt:
			if isPanic(s.X) {
				continue // a function may end with it
			}
		case *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt:
		default:
			continue
		}
		add(s, func(n []int, text func(start, end token.Pos) string) string {
			return fmt.Sprintf("if !mutated(%d) { %s }", n[0], text(s.Pos(), s.End()))
		}, "left out")
	}
}

func isPanic(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	name, ok := call.Fun.(*ast.Ident)
	return ok && name.Name == "panic"
}

// negated returns what writes a condition that its mutant negates.
func negated(e ast.Expr) writer {
	return func(n []int, text func(start, end token.Pos) string) string {
		return fmt.Sprintf("((%s) != mutated(%d))", text(e.Pos(), e.End()), n[0])
	}
}

// bound returns the operator that differs in the equal case.
func bound(op string) string {
	if without, is := strings.CutSuffix(op, "="); is {
		return without
	}
	return op + "="
}

func binary(e *ast.BinaryExpr) (writer, []string) {
	op := e.Op.String()
	switch op {
	case "&&", "||":
		other := map[string]string{"&&": "||", "||": "&&"}[op]
		return func(n []int, text func(start, end token.Pos) string) string {
			// De Morgan: each operand is written once, and evaluated at most once.
			return fmt.Sprintf("((((%s) != mutated(%d)) %s ((%s) != mutated(%[2]d))) != mutated(%[2]d))",
				text(e.X.Pos(), e.X.End()), n[0], op, text(e.Y.Pos(), e.Y.End()))
		}, []string{op + " → " + other}
	case "==", "!=":
		other := map[string]string{"==": "!=", "!=": "=="}[op]
		return negated(e), []string{op + " → " + other}
	case "<", "<=", ">", ">=":
		bound := bound(op)
		return func(n []int, text func(start, end token.Pos) string) string {
			x, y := text(e.X.Pos(), e.X.End()), text(e.Y.Pos(), e.Y.End())
			return fmt.Sprintf("((mutated(%d) && (%s %s %s) || !mutated(%[1]d) && (%[2]s %[5]s %[4]s)) != mutated(%[6]d))",
				n[0], x, bound, y, op, n[1])
		}, []string{op + " → " + bound, "not " + op}
	case "+", "-":
		// With a literal it is a number, and no text.
		if x, y := isNumber(e.X), isNumber(e.Y); x == y {
			return nil, nil
		}
		other := map[string]string{"+": "-", "-": "+"}[op]
		return func(n []int, text func(start, end token.Pos) string) string {
			x, y := text(e.X.Pos(), e.X.End()), text(e.Y.Pos(), e.Y.End())
			return fmt.Sprintf("%s(mutated(%d), %s, %s)", map[string]string{"+": "plus", "-": "minus"}[op], n[0], x, y)
		}, []string{op + " → " + other}
	}
	return nil, nil
}

func isNumber(e ast.Expr) bool {
	literal, ok := e.(*ast.BasicLit)
	return ok && literal.Kind == token.INT
}

// helpers are in each package that has mutants.
const helpers = `package %s

import (
	"os"
	"strconv"
)

var mutantInForce, _ = strconv.Atoi(os.Getenv("` + variable + `"))

func mutated(n int) bool { return n == mutantInForce }

type mutatedNumber interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

func plus[T mutatedNumber](mutated bool, x, y T) T {
	if mutated {
		return x - y
	}
	return x + y
}

func minus[T mutatedNumber](mutated bool, x, y T) T { return plus(!mutated, x, y) }
`

// variable is the environment variable with the number of the mutant in force.
const variable = "ZKACTORS_MUTANT"

// A source is a file of the library, and its mutants.
type source struct {
	name, text string
	lines      []string
	fset       *token.FileSet
	file       *ast.File
	sites      []site
}

func parse(name, text string) (*source, error) {
	s := &source{name: name, text: text, lines: strings.Split(text, "\n"), fset: token.NewFileSet()}
	var err error
	if s.file, err = parser.ParseFile(s.fset, name, text, parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	s.sites = sites(s.fset, s.file)
	return s, nil
}

// without leaves out the sites that touch a line: what is written there does not compile.
func (s *source) without(line int) {
	s.sites = slices.DeleteFunc(s.sites, func(at site) bool { return at.first <= line && line <= at.last && at.last-at.first < 3 })
}

// snippet returns the beginning of what a site has.
func (s *source) snippet(at site) string {
	const most = 80
	text := []rune(strings.Join(strings.Fields(s.text[at.start:at.end]), " "))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// write returns the file with all of its mutants, numbered from next on. Lines stay where they
// are.
func (s *source) write(next int) (text string, mutants []Mutant) {
	numbers := make([][]int, len(s.sites))
	for i, at := range s.sites {
		for _, change := range at.changes {
			numbers[i] = append(numbers[i], next+len(mutants))
			mutants = append(mutants, Mutant{File: s.name, Line: at.first, Change: change + ": " + s.snippet(at), Code: strings.TrimSpace(s.lines[at.first-1])})
		}
	}
	var span func(start, end, outer int) string
	span = func(start, end, outer int) string {
		var b strings.Builder
		for i := outer + 1; i < len(s.sites); i++ {
			at := s.sites[i]
			if at.start < start || at.end > end {
				continue
			}
			b.WriteString(s.text[start:at.start])
			b.WriteString(at.write(numbers[i], func(from, to token.Pos) string {
				return span(s.fset.Position(from).Offset, s.fset.Position(to).Offset, i)
			}))
			start = at.end
		}
		b.WriteString(s.text[start:end])
		return b.String()
	}
	return span(0, len(s.text), -1), mutants
}
