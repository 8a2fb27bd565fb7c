package nodes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

func parse(name string) (int32, bool) {
	c, ok := (&Grammar{Separated: true, Marks: []Mark{{Text: "lock-"}}}).Parse(name)
	return c.Number, ok
}

func TestParse(t *testing.T) {
	for name, want := range map[string]int32{
		"lock-0000000000": 0,
		"_c_3f0a1c5e-8f5b-4a26-9d4f-7a8d2f6c1b00-lock-0000000001": 1,
		"_c_3f0a1c5e8f5b4a269d4f7a8d2f6c1b00-lock-0000000017":     17,
		"3f0a1c5e8f5b4a269d4f7a8d2f6c1b00-lock-0000000003":        3,
		"a-lock-b-lock-0000000004":                                4,
		"lock-2147483647":                                         math.MaxInt32,
		"lock--2147483648":                                        math.MinInt32,
		"x-lock--1000000000":                                      -1000000000,
		"x-lock--999999999":                                       -999999999,
		"x-lock--000000001":                                       -1,
	} {
		if got, ok := parse(name); !ok || got != want {
			t.Errorf("parse(%q) = %d, %v, want %d", name, got, ok, want)
		}
	}
	for _, name := range []string{
		"", "config", "_c_", "_c_x", "lock", "lock-", "lock-x", "lock--", "nested", "ключ", "lock-００００００００００",
		"lock-1", "lock-000000001", "lock-00000000011", "lock-2147483648", "lock-9999999999", "lock--2147483649",
		"lock-+000000001", "lock--000000000", "lock--0000000001", "lock--00000001", "lock-0000000001x", "lock-0x00000001",
		"block-0000000001", "__lock__0000000001", "lock-0000000001/nested", "lock-0000000001-", "lock-_000000001",
	} {
		if n, ok := parse(name); ok {
			t.Errorf("%q is taken for contender %d", name, n)
		}
	}
}

// The server's own format is read back, whatever the number.
func TestParseWhatTheServerPrints(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		n := int32(r.Uint32()) >> r.IntN(32)
		got, ok := parse(fmt.Sprintf("lock-%010d", n))
		check.Require(t, ok && got == n, "%d is read as %d, %v", n, got, ok)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("lock-0000000001")
	f.Add("_c_x-lock--2147483648")
	f.Fuzz(func(t *testing.T, name string) {
		n, ok := parse(name)
		check.False(t, ok && !strings.HasSuffix(name, fmt.Sprintf("lock-%010d", n)), "%q is taken for contender %d", name, n)
	})
}
