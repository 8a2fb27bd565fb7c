package session

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// ValidatePath reports why path cannot be the path of a node, by ZooKeeper's own
// rules, wrapping [ErrInvalidPath]. It does no I/O.
func ValidatePath(path string) error {
	if why := flawOf(path); why != "" {
		return fmt.Errorf("%w %q: %s", ErrInvalidPath, abbreviated(path), why)
	}
	return nil
}

// flawOf returns why path cannot be the path of a node; nothing if it can.
func flawOf(path string) (why string) {
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
		case r > 0xffff: // two surrogates to the servers, which are Java
			return fmt.Sprintf("the character %U is not allowed, as none beyond U+FFFF", r)
		}
	}
	return ""
}
