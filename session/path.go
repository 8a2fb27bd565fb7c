package session

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// ValidatePath reports why path cannot be the path of a node, by ZooKeeper's own
// rules, wrapping [ErrInvalidPath]. It does no I/O.
func ValidatePath(path string) error {
	if why := invalid(path); why != "" {
		return fmt.Errorf("%w %q: %s", ErrInvalidPath, abbreviated(path), why)
	}
	return nil
}

// invalid returns why path cannot be the path of a node; nothing if it can.
func invalid(path string) (why string) {
	switch {
	case path == "":
		return "it is empty"
	case path[0] != '/':
		return "it does not begin with /"
	case path == "/":
		return ""
	case path[len(path)-1] == '/':
		return "it ends with /"
	case !utf8.ValidString(path):
		return "it is not UTF-8"
	}
	for rest, more := path[1:], true; more; {
		var name string
		switch name, rest, more = strings.Cut(rest, "/"); name {
		case "":
			return "it has an empty name in it"
		case ".", "..":
			return "relative names are not allowed"
		}
	}
	for _, r := range path {
		switch {
		case r == 0:
			return "it has a NUL in it"
		case r <= 0x1f, r >= 0x7f && r <= 0x9f, r >= 0xd800 && r <= 0xf8ff, r >= 0xfff0 && r <= 0xffff:
			return fmt.Sprintf("the character %U is not allowed", r)
		}
	}
	return ""
}

// longestRecipePath leaves room for names, data and ACLs in every request of a recipe.
const longestRecipePath = 32 << 10

// CheckPath reports why path cannot be the path of a recipe, wrapping [ErrInvalidPath]. It
// refuses more than [ValidatePath]: paths of more than 32 KiB, and ZooKeeper's own nodes,
// which are /zookeeper and all below it on the server. It does no I/O.
func (s *Session) CheckPath(path string) error {
	if err := ValidatePath(path); err != nil {
		return err
	}
	full := s.absolute(path)
	switch {
	case len(full) > longestRecipePath:
		return fmt.Errorf("%w %q: it has %d bytes, the limit is %d", ErrInvalidPath, abbreviated(path), len(full), longestRecipePath)
	case full == "/zookeeper" || strings.HasPrefix(full, "/zookeeper/"):
		return fmt.Errorf("%w %q: /zookeeper belongs to the servers", ErrInvalidPath, path)
	}
	return nil
}

// abbreviated returns a path as errors show it.
func abbreviated(path string) string {
	const shown = 256
	if len(path) <= shown {
		return path
	}
	return strings.ToValidUTF8(path[:shown/2], "") + "…" + strings.ToValidUTF8(path[len(path)-shown/2:], "")
}

// Join returns the path of the child of dir with the given name.
func Join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// Split returns the parent of the node at path and its name there.
func Split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/", path[i+1:]
	}
	return path[:i], path[i+1:]
}

// absolute returns the path on the server.
func (s *Session) absolute(path string) string {
	switch {
	case s.opts.Chroot == "":
		return path
	case path == "/":
		return s.opts.Chroot
	}
	return s.opts.Chroot + path
}

// absoluteNew returns the path on the server of a node that is to be created. The name
// of a sequential one may be nothing but the number.
func (s *Session) absoluteNew(path string, mode CreateMode) string {
	if path == "/" && mode.IsSequential() {
		return s.opts.Chroot + "/"
	}
	return s.absolute(path)
}

// relative returns the path as the users of the session know it.
func (s *Session) relative(path string) string {
	rest := strings.TrimPrefix(path, s.opts.Chroot)
	if rest == "" {
		return "/"
	}
	return rest
}
