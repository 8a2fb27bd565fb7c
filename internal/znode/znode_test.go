package znode

import (
	"math"
	"strings"
	"testing"
	"time"

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

// TestSessionID: the first and the last are of servers with myid 3 and 200.
func TestSessionID(t *testing.T) {
	for id, want := range map[int64]string{
		0x300000711f540000:  "0x300000711f540000",
		0:                   "0x0",
		-1:                  "0xffffffffffffffff",
		math.MinInt64:       "0x8000000000000000",
		-0x37ffff8ee0ac0000: "0xc80000711f540000",
	} {
		if got := SessionID(id); got != want {
			t.Errorf("SessionID(%d) = %s, not %s", id, got, want)
		}
	}
}

// TestSpread: the parts of GUIDs are within the time, and all over it.
func TestSpread(t *testing.T) {
	const all, many = time.Minute, 1000
	var tenths [10]int
	for range many {
		part := Spread(NewGUID(), all)
		if part < 0 || part >= all {
			t.Fatalf("part %v of %v", part, all)
		}
		tenths[10*part/all]++
	}
	for i, n := range tenths {
		if n < many/30 || n > many/5 {
			t.Errorf("%d of %d parts are in tenth %d", n, many, i)
		}
	}
}
