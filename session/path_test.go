package session

import (
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

func TestValidatePath(t *testing.T) {
	for _, good := range []string{"/", "/a", "/a/b", "/a.b/..c/...", "/ä/漢", "/_c_x-lock-0000000001", "/a b"} {
		check.OK(t, ValidatePath(good), good, "is refused")
	}
	for _, bad := range []string{
		"", "a", "a/b", "/a/", "//", "/a//b", "/a/../b", "/..", "/.", "/a/./b", "/a\x00b", "/a\x01", "/a\x1f", "/a\x7f",
		"/a\u009f", "/a\uf000", "/a\ufff0", "/a\xff",
		"/\U00010000", "/a\U0001F402", "/\U0010FFFF/a",
	} {
		check.Is(t, ValidatePath(bad), ErrInvalidPath, bad, "is accepted")
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
		check.Equal(t, c.absolute(row.relative), row.absolute, "below", row.chroot, row.relative, "is")
		check.Equal(t, c.relative(row.absolute), row.relative, "below", row.chroot, row.absolute, "is shown as")
	}
}
