package policy

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Why no value of an option is bad.
const (
	alone  = "both values go with all other options"
	own    = "nil is the default, and any other is the user's own"
	text   = "any text"
	signed = "negative means never, or no limit"
)

// never are the options of which no value is bad, and why.
var never = map[string]string{
	"barrier.Options.NoSync": alone, "config.Options.Sync": alone, "discovery.WatchOptions.Sync": alone, "group.WatchOptions.Sync": alone,
	"watch.Options.Sync": alone, "watch.TreeOptions.Sync": alone,
	"commit.Options.Record": alone, "election.Options.IgnoreLeader": alone, "session.Options.ReadOnly": alone,
	"discovery.Options.TakeOver": alone, "group.Options.TakeOver": alone, "naming.Options.Replace": alone,
	"naming.Options.Ephemeral": alone, "queue.FlatOptions.Ephemeral": alone, "queue.Options.Ephemeral": alone,
	"lock.Options.ReleaseInBackground": alone, "semaphore.Options.ReleaseInBackground": alone,
	"semaphore.Options.AnyLimit": alone, "semaphore.Options.Numbered": alone,

	"discovery.WatchOptions.FailureLimit": signed, "queue.Options.MaxAttempts": signed, "session.Options.Rebalance": signed,

	"discovery.WatchOptions.Skipped": own, "session.Options.Dialer": own, "session.Options.Logger": own, "session.Options.Observer": own,
	"session.Options.Resolve": own, "session.Options.SASL": own, "session.Options.TLS": own, "shard.Options.Placement": own, "watch.TreeOptions.Filter": own,

	"session.Options.Name": text,
}

// TestOptionsHaveBadInput: each field of a struct called Options, in packages that users import,
// has a row of bad input in input_test.go, whose word is its name; or it is in the list of those
// of which no value is bad.
func TestOptionsHaveBadInput(t *testing.T) {
	rows := make(map[string]bool) // package.Type.Field
	var fields []string
	for _, s := range sources(t) {
		switch {
		case s.dir == "internal/policy" && s.name == "input_test.go":
			ast.Inspect(s.ast, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit:
					rowOf(rows, n.Elts)
				case *ast.CallExpr:
					rowOf(rows, n.Args)
				}
				return true
			})
		case !s.test && released(s.dir) && !under(s.dir, "examples") && !slices.Contains(strings.Split(s.dir, "/"), "internal"):
			fields = append(fields, optionsOf(s)...)
		}
	}
	for _, field := range fields {
		_, isNever := never[field]
		switch row := rows[field]; {
		case row && isNever:
			t.Errorf("%s has a row of bad input, and is in the list of those of which no value is bad", field)
		case !row && !isNever:
			t.Errorf("%s has no row of bad input in input_test.go, and is not in the list of those of which no value is bad", field)
		}
	}
	for field := range never {
		if !slices.Contains(fields, field) {
			t.Errorf("there is no %s", field)
		}
	}
	if len(fields) < 80 {
		t.Error("there are", len(fields), "options")
	}
}

// rowOf enters the row of an attempt: a call, the word that its error has, and a function. The row
// is for the option that the word names, of each literal in the function.
func rowOf(rows map[string]bool, row []ast.Expr) {
	if len(row) != 3 {
		return
	}
	lit, ok := row[1].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return
	}
	word, _ := strconv.Unquote(lit.Value) // the parser has checked it
	ast.Inspect(row[2], func(n ast.Node) bool {
		options, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		of, ok := options.Type.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		for _, elt := range options.Elts {
			pair, ok := elt.(*ast.KeyValueExpr)
			if pkg, isPackage := of.X.(*ast.Ident); ok && isPackage {
				if key, ok := pair.Key.(*ast.Ident); ok && key.Name == word {
					rows[pkg.Name+"."+of.Sel.Name+"."+word] = true
				}
			}
		}
		return true
	})
}

// optionsOf returns the fields of the structs in a file that are called Options.
func optionsOf(s source) (fields []string) {
	for _, decl := range s.ast.Decls {
		types, ok := decl.(*ast.GenDecl)
		if !ok || types.Tok != token.TYPE {
			continue
		}
		for _, spec := range types.Specs {
			of, _ := spec.(*ast.TypeSpec)
			options, ok := of.Type.(*ast.StructType)
			if !ok || !of.Name.IsExported() || !strings.HasSuffix(of.Name.Name, "Options") {
				continue
			}
			for _, field := range options.Fields.List {
				for _, name := range field.Names {
					fields = append(fields, path.Base(s.dir)+"."+of.Name.Name+"."+name.Name)
				}
			}
		}
	}
	return fields
}
