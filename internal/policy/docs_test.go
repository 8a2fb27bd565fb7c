package policy

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// documents are pages whose names of files and of code must exist. Records of decisions tell of
// their time, and are left as they are.
func documents(t *testing.T) (pages []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/guides/*.md", "bench/*.md"} {
		found := check.Have(filepath.Glob(filepath.Join(root, pattern)))(t)
		pages = append(pages, found...)
	}
	return pages
}

var (
	link   = regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
	quoted = regexp.MustCompile("`([^`\n]+)`")
	inTree = regexp.MustCompile(`^(actors|bench|docs|examples|internal|metrics|primitives|session|watch)(/[\w.-]+)*$`)
	inCode = regexp.MustCompile(`^[A-Za-z]\w*(\.[A-Za-z]\w*)*$`)
)

func TestDocumentsNameWhatExists(t *testing.T) {
	declared := make(map[string]bool)
	for _, s := range sources(t) {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				declared[id.Name] = true
			}
			return true
		})
		declared[s.ast.Name.Name] = true
	}
	exists := func(elem ...string) bool {
		_, err := os.Stat(filepath.Join(elem...))
		return err == nil
	}
	for _, page := range documents(t) {
		text := check.Have(os.ReadFile(page))(t)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if target := m[1]; !strings.Contains(target, "://") && !exists(filepath.Dir(page), target) {
				t.Errorf("%s links to %s, which does not exist", page, target)
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
			switch name := m[1]; {
			case inTree.MatchString(name) && strings.Contains(name, "/"):
				if !exists(root, name) {
					t.Errorf("%s names %s, which does not exist", page, name)
				}
			case !strings.HasPrefix(page, filepath.Join(root, "docs")) || !inCode.MatchString(name):
			default:
				if last := name[strings.LastIndexByte(name, '.')+1:]; !declared[last] {
					t.Errorf("%s names %s, which does not exist", page, name)
				}
			}
		}
	}
}
