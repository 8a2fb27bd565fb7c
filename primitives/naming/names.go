package naming

import (
	"fmt"
	"strings"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// encode returns the name of the node that stands for a name.
func encode(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return strings.NewReplacer("%", "%25", "/", "%2F").Replace(name)
}

// decode returns the name for which a node stands.
func decode(node string) (name string, ok bool) {
	name = strings.NewReplacer("%25", "%", "%2F", "/").Replace(node)
	if node == "%2E" || node == "%2E%2E" {
		name = strings.ReplaceAll(node, "%2E", ".")
	}
	return name, encode(name) == node
}

// nodeOf returns the path of the node that stands for a name, or the reason why there cannot be a
// node.
func nodeOf(s *session.Session, path, name string) (node string, err error) {
	err = recipe.Check(s, "naming", path, func(valid bool) (errs []error) {
		node = znode.Join(path, encode(name))
		if name == "" {
			errs = append(errs, fmt.Errorf("naming: %w: name: it is empty", session.ErrInvalidArgument))
		} else if err := client.CheckPath(s, node); valid && err != nil {
			errs = append(errs, fmt.Errorf("naming: name %q: %w", name, err))
		}
		return errs
	})
	return node, err
}
