package naming

import (
	"fmt"
	"strings"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
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

// nodeOf returns the path of the node that stands for a name, or why there cannot be one.
func nodeOf(s *session.Session, path, name string) (string, error) {
	if s == nil {
		return "", fmt.Errorf("naming: %w: session is nil", session.ErrInvalidArgument)
	}
	if err := client.CheckPath(s, path); err != nil {
		return "", fmt.Errorf("naming: path: %w", err)
	}
	if name == "" {
		return "", fmt.Errorf("naming: %w: name: it is empty", session.ErrInvalidArgument)
	}
	node := znode.Join(path, encode(name))
	if err := client.CheckPath(s, node); err != nil {
		return "", fmt.Errorf("naming: name %q: %w", name, err)
	}
	if _, closed := s.State().(session.Closed); closed {
		return "", fmt.Errorf("naming: %w", session.ErrClosed)
	}
	return node, nil
}
