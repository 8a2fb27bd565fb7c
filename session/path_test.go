package session

import (
	"errors"
	"testing"
)

func TestValidatePath(t *testing.T) {
	for _, good := range []string{"/", "/a", "/a/b", "/a.b/..c/...", "/ä/漢", "/_c_x-lock-0000000001", "/a b"} {
		if err := ValidatePath(good); err != nil {
			t.Errorf("%q is refused: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "a", "a/b", "/a/", "//", "/a//b", "/a/../b", "/..", "/.", "/a/./b", "/a\x00b", "/a\x01", "/a\x1f", "/a\x7f",
		"/a\u009f", "/a\uf000", "/a\ufff0", "/a\xff",
	} {
		if err := ValidatePath(bad); !errors.Is(err, ErrInvalidPath) {
			t.Errorf("%q is accepted: %v", bad, err)
		}
	}
}

func TestChroot(t *testing.T) {
	for _, row := range []struct{ chroot, relative, absolute string }{
		{"", "/", "/"},
		{"", "/a", "/a"},
		{"/apps", "/", "/apps"},
		{"/apps", "/a/b", "/apps/a/b"},
	} {
		c := chroot(row.chroot)
		if got := c.absolute(row.relative); got != row.absolute {
			t.Errorf("below %q, %q is %q", row.chroot, row.relative, got)
		}
		if got := c.relative(row.absolute); got != row.relative {
			t.Errorf("below %q, %q is shown as %q", row.chroot, row.absolute, got)
		}
	}
}
