package znode

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestJoinAndSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringMatching(`[a-zé]{1,4}`), 1, 4).Draw(t, "names")
		path := "/" + strings.Join(names, "/")
		dir, name := Split(path)
		if name != names[len(names)-1] || Join(dir, name) != path {
			t.Fatalf("Split(%q) = %q, %q", path, dir, name)
		}
	})
}
